/* SPDX-License-Identifier: MIT */
/* hotlock locks: the locks there are, what they cost and how fair they are. */
#include <stdlib.h>

#include <hotlock/hotlock.h>

#include "commands.h"
#include "output.h"

static const table_column_t columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"bytes", "bytes", TABLE_RIGHT, TABLE_BOTH},
    {"node_bytes", "node", TABLE_RIGHT, TABLE_BOTH},
    {"fairness", "fairness", TABLE_LEFT, TABLE_BOTH},
    {"shared", "shared", TABLE_LEFT, TABLE_BOTH},
    {"summary", "what it is", TABLE_LEFT, TABLE_BOTH},
    {"source", "source", TABLE_LEFT, TABLE_PROGRAMS},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static cli_word_t none;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = state->input;
    state->child_inputs[1] = &none;
    return 0;
}

static const struct argp_child children[] = {
    {&output_argp, 0, NULL, 0}, {&cli_word_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .parser = parse,
    .doc = "Lists the locks: bytes of the lock, bytes of a waiter's node, fairness, and whether it "
           "works in memory shared between processes.",
    .children = children,
};

static table_t *fill(void)
{
    table_t *t = table_new(columns, sizeof columns / sizeof *columns);
    for (int k = 0; k < HL_KINDS; k++) {
        const hl_kind_info_t *info = hl_kind_info((hl_kind_t)k);
        table_text(t, "%s", info->name);
        table_int(t, (long long)info->bytes);
        table_int(t, (long long)info->node_bytes);
        table_text(t, "%s", info->fairness);
        table_cell(t, json_boolean(info->shared), info->shared ? "yes" : "no");
        table_text(t, "%s", info->summary);
        table_text(t, "%s", info->source);
    }
    return t;
}

int cmd_locks(int argc, char **argv)
{
    output_t output = {0};
    char *text;
    size_t size;
    cli_parse(&argp, argc, argv, false, &output);
    output_check(&output);
    table_t *t = fill();
    FILE *f = open_memstream(&text, &size);
    if (output.format == TABLE_JSON)
        output_json(json_pack("{s:s, s:o}", "schema", "hotlock-locks/1", "locks", table_rows(t)),
                    f);
    else
        table_print(t, output.format, f);
    fclose(f);
    bool good = output_write(output.file, text, size);
    free(text);
    table_free(t);
    return good ? CLI_OK : CLI_NO_RESULT;
}
