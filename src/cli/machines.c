/* SPDX-License-Identifier: MIT */
/* hotlock machines: what can be simulated, and where each number comes from. */
#include <stdlib.h>

#include "commands.h"
#include "machine.h"
#include "output.h"

typedef struct {
    output_t output;
    cli_word_t machine;
} options_t;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = &o->output;
    state->child_inputs[1] = &o->machine;
    return 0;
}

static const struct argp_child children[] = {
    {&output_argp, 0, NULL, 0}, {&cli_word_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .parser = parse,
    .args_doc = "[NAME|FILE]",
    .doc = "Lists the machines hotlock sim knows, or every number of one with its source.",
    .children = children,
};

static const table_column_t list_columns[] = {
    {"name", "name", TABLE_LEFT, TABLE_BOTH},
    {"machine", "machine", TABLE_LEFT, TABLE_BOTH},
    {"sockets", "sockets", TABLE_RIGHT, TABLE_BOTH},
    {"cores", "cores", TABLE_RIGHT, TABLE_BOTH},
    {"threads", "threads", TABLE_RIGHT, TABLE_BOTH},
    {"measured", "measured", TABLE_RIGHT, TABLE_BOTH},
    {"published", "published", TABLE_RIGHT, TABLE_BOTH},
    {"estimated", "estimated", TABLE_RIGHT, TABLE_BOTH},
    {"fitted", "fitted", TABLE_RIGHT, TABLE_BOTH},
    {"about", "about", TABLE_LEFT, TABLE_PROGRAMS},
};

static table_t *list_machines(void)
{
    table_t *t = table_new(list_columns, sizeof list_columns / sizeof *list_columns);
    char **names = machine_names();
    for (char **n = names; *n; n++) {
        place_machine_t *m = machine_load(*n);
        long kinds[KINDS] = {0};
        for (size_t i = 0; i < m->number_count; i++)
            kinds[m->numbers[i].kind] += m->numbers[i].given;
        table_text(t, "%s", *n);
        table_text(t, "%s", m->name);
        table_int(t, m->sockets);
        table_int(t, m->cores);
        table_int(t, (long long)m->cpu_count);
        for (int k = 0; k < KINDS; k++)
            table_int(t, kinds[k]);
        table_text(t, "%s", m->about ? m->about : "");
        machine_free(m);
    }
    cli_free_list(names);
    return t;
}

static const table_column_t number_columns[] = {
    {"number", "number", TABLE_LEFT, TABLE_BOTH},
    {"value", "value", TABLE_RIGHT, TABLE_BOTH},
    {"kind", "kind", TABLE_LEFT, TABLE_BOTH},
    {"source", "source", TABLE_LEFT, TABLE_BOTH},
};

static table_t *list_numbers(const place_machine_t *m)
{
    table_t *t = table_new(number_columns, sizeof number_columns / sizeof *number_columns);
    for (size_t i = 0; i < m->number_count; i++) {
        const number_t *n = &m->numbers[i];
        if (!n->given)
            continue;
        table_text(t, "%s", n->key);
        table_cell(t, json_real(n->value), "%.6g", n->value);
        table_text(t, "%s", machine_kind_names[n->kind]);
        table_text(t, "%s", n->source);
    }
    return t;
}

static void print(const place_machine_t *m, const table_t *t, table_format_t format, FILE *out)
{
    if (format == TABLE_JSON) {
        output_json(json_pack("{s:s, s:s*, s:o}", "schema", "hotlock-machines/1", "machine",
                              m ? m->name : NULL, m ? "numbers" : "machines", table_rows(t)), out);
        return;
    }
    if (m && format != TABLE_CSV)
        fprintf(out, "%s, %s\n%s\ntimes in ns\n\n", m->name, m->topology, m->about ? m->about : "");
    table_print(t, format, out);
}

int cmd_machines(int argc, char **argv)
{
    options_t o = {.machine.what = "machine"};
    char *text;
    size_t size;
    cli_parse(&argp, argc, argv, false, &o);
    output_check(&o.output);
    place_machine_t *m = o.machine.word ? machine_load(o.machine.word) : NULL;
    table_t *t = m ? list_numbers(m) : list_machines();
    FILE *f = open_memstream(&text, &size);
    print(m, t, o.output.format, f);
    fclose(f);
    bool good = output_write(o.output.file, text, size);
    free(text);
    table_free(t);
    if (m)
        machine_free(m);
    return good ? CLI_OK : CLI_NO_RESULT;
}
