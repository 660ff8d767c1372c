/* SPDX-License-Identifier: MIT */
/* hotlock doctor: what this machine supports, and what the preload will and will not cover. */
#include "doctor.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "output.h"
#include "preload.h"
#include "program.h"

static const table_column_t columns[] = {
    {"what", "what", TABLE_LEFT, TABLE_BOTH},
    {"weight", "", TABLE_LEFT, TABLE_BOTH},
    {"state", "state", TABLE_LEFT, TABLE_BOTH},
    {"means", "means", TABLE_LEFT, TABLE_BOTH},
};

void doctor_row(doctor_t *d, doctor_weight_t weight, const char *what, const char *state,
                const char *format, ...)
{
    static const char *const marks[] = {"", "note", "NO"}, *const words[] = {"ok", "note", "bad"};
    char *means;
    va_list args;
    va_start(args, format);
    if (vasprintf(&means, format, args) < 0)
        cli_bad("out of memory");
    va_end(args);
    table_text(d->table, "%s", what);
    table_cell(d->table, json_string(words[weight]), "%s", marks[weight]);
    table_cell(d->table, table_json_string(state), "%s", state);
    table_cell(d->table, table_json_string(means), "%s", means);
    free(means);
    d->notes += weight == DOCTOR_NOTE;
    d->bad += weight == DOCTOR_BAD;
}

typedef struct {
    output_t output;
    cli_word_t program;
    const char *preload;
} options_t;

enum { KEY_PRELOAD = 0x4c00 };

static const struct argp_option options[] = {
    {"preload", KEY_PRELOAD, "FILE", 0, "The preload library, if not the one hotlock came with", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->output;
        state->child_inputs[1] = &o->program;
        return 0;
    case KEY_PRELOAD:
        o->preload = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&output_argp, 0, NULL, 0}, {&cli_word_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[PROGRAM]",
    .doc = "Says what this machine supports; with PROGRAM, which locks of it the preload will and "
           "will not replace. PROGRAM is looked at, not run.\vExit code 1: the preload can replace "
           "no lock of PROGRAM.",
    .children = children,
};

static void print(const options_t *o, doctor_t *d, const char *file, bool covered, FILE *f)
{
    if (o->output.format == TABLE_JSON) {
        json_t *all = json_pack("{s:s, s:o}", "schema", "hotlock-doctor/1", "findings",
                                table_rows(d->table));
        if (file)
            json_object_set_new(all, "program", table_json_string(file));
        if (file)
            json_object_set_new(all, "covered", json_boolean(covered));
        output_json(all, f);
        return;
    }
    if (o->output.format == TABLE_TEXT && file)
        fprintf(f, "%s\n\n", file);
    table_print(d->table, o->output.format, f);
    if (o->output.format != TABLE_TEXT)
        return;
    if (file && !covered)
        fprintf(f, "\nverdict: the preload can replace no lock of this program.\n");
    else if (file)
        fprintf(f, "\nverdict: covered; hotlock try -- %s ... says which lock serves it best.\n",
                file);
    else
        fprintf(f, "\n%zu of the above stand in the way, %zu are worth knowing.\n", d->bad,
                d->notes);
}

int cmd_doctor(int argc, char **argv)
{
    options_t o = {.program.what = "program"};
    bool covered = true;
    char *text;
    size_t size;
    cli_parse(&argp, argc, argv, false, &o);
    output_check(&o.output);
    char *file = o.program.word ? program_find(o.program.word, NULL) : NULL;
    char *preload = preload_find(o.preload);
    doctor_t d = {.table = table_new(columns, sizeof columns / sizeof *columns)};
    if (file)
        covered = doctor_program(&d, file, preload);
    else
        doctor_host(&d, preload);
    FILE *f = open_memstream(&text, &size);
    print(&o, &d, file, covered, f);
    fclose(f);
    bool good = output_write(o.output.file, text, size);
    free(text);
    table_free(d.table);
    free(preload);
    free(file);
    return good && covered ? CLI_OK : CLI_NO_RESULT;
}
