/* SPDX-License-Identifier: MIT */
/* hotlock sim --reproduce: published results beside simulated ones, and why they differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "cli.h"
#include "sim.h"

#define ALI_MAIL "Ling Ma, linux-kernel, "
#define NMCS_MAIL "J. Stultz, linux-ia64, 2002-02-15"
#define AGREES 0.2 /* further apart than this needs a word */

typedef struct {
    const char *what, *source, *machine, *program;
    const char *arguments[6]; /* of the program, NULL-ended */
    long threads;
    double time_ms;
    const char *before, *after;
    double published;
    const char *fitted;  /* NULL: nothing */
    const char *why;     /* what to know if they disagree */
} row_t;

#define MODEL_JOIN                                                                                 \
    "one exchange to join, one line to look through and one to answer; what else the kernel did "  \
    "around the lock is not modelled"
#define OWN_LINES                                                                                  \
    "in our model of SLAB most lines moved are the objects' and the array caches' own, which "     \
    "travel to the owner too (see --lines)"
#define XCHG_JOIN                                                                                  \
    "a ceiling: the section writes two lines and nothing else, and nobody counts what the kernel " \
    "does around it"
#define BUS_MODEL                                                                                  \
    "the walk along the run queue takes far longer than handing the lock over, and both locks "     \
    "share it: whatever the bus is given, the ratio stays between 0.8 and 1.0 (docs/simulator.md)"

static const row_t rows[] = {
    {"alispinlock, counter, 70 threads",
     ALI_MAIL "2016-01-08",
     "e5-2699v3-2s",
     "counter",
     {NULL},
     70,
     2,
     "qspin:spin",
     "ali:spin",
     3.0,
     NULL,
     MODEL_JOIN},
    {"the same, CC-Synch in its place",
     ALI_MAIL "2016-01-08",
     "e5-2699v3-2s",
     "counter",
     {NULL},
     70,
     2,
     "qspin:spin",
     "ccsynch",
     3.0,
     NULL,
     XCHG_JOIN},
    {"slab list_lock, cycles, 72 threads",
     ALI_MAIL "2016-01-14",
     "e5-2699v3-2s",
     "slab",
     {NULL},
     72,
     4,
     "qspin:spin",
     "ali:spin",
     1.91,
     NULL,
     OWN_LINES},
    {"throughput at a lock share of 25 %",
     ALI_MAIL "2016-02-03",
     "e5-2699v3-2s",
     "counter",
     {"--think", "24400"},
     72,
     2,
     "qspin:spin",
     "ali:spin",
     1.144,
     "think time, so that a quarter of the time is spent spinning",
     MODEL_JOIN},
    {"fcntl, 72 threads (stand-in)",
     ALI_MAIL "2016-04-05",
     "e5-2699v3-2s",
     "counter",
     {"--lines", "4"},
     72,
     2,
     "qspin:spin",
     "ali:spin",
     2.79,
     NULL,
     "a stand-in of four lines for the kernel's list of record locks; and " MODEL_JOIN},
    {"the same, CC-Synch in its place",
     ALI_MAIL "2016-04-05",
     "e5-2699v3-2s",
     "counter",
     {"--lines", "4"},
     72,
     2,
     "qspin:spin",
     "ccsynch",
     2.79,
     NULL,
     XCHG_JOIN},
    {"hackbench, 10 groups, 8-way",
     NMCS_MAIL,
     "xeon-mp-2002",
     "runqueue",
     {"--groups", "10"},
     8,
     40,
     "pthread_spin",
     "nmcs:spin",
     1.06,
     NULL,
     BUS_MODEL},
    {"hackbench, 25 groups",
     NMCS_MAIL,
     "xeon-mp-2002",
     "runqueue",
     {"--groups", "25"},
     8,
     40,
     "pthread_spin",
     "nmcs:spin",
     1.55,
     NULL,
     BUS_MODEL},
    {"hackbench, 50 groups",
     NMCS_MAIL,
     "xeon-mp-2002",
     "runqueue",
     {"--groups", "50"},
     8,
     40,
     "pthread_spin",
     "nmcs:spin",
     2.23,
     NULL,
     BUS_MODEL},
    {"hackbench, 75 groups",
     NMCS_MAIL,
     "xeon-mp-2002",
     "runqueue",
     {"--groups", "75"},
     8,
     40,
     "pthread_spin",
     "nmcs:spin",
     3.08,
     NULL,
     BUS_MODEL},
    {"inlining lock and unlock, sparc64",
     "J. Axboe, linux-kernel, 2009-08-13",
     "sparc64-8",
     "calls",
     {NULL},
     8,
     2,
     "called",
     "inline",
     1.035,
     NULL,
     "half of this program's time is locking, and only its own calls are saved; the published "
     "machine "
     "ran a whole kernel"},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct {
    double simulated, least, most, spin; /* ratio; over the seeds; base's share of spinning */
    char *fault;
} outcome_t;

static outcome_t outcome_of(const row_t *r, const sim_t *defaults)
{
    sim_t s = *defaults;
    sim_cell_t cells[2] = {{.lock = r->before, .threads = r->threads},
                           {.lock = r->after, .threads = r->threads}};
    outcome_t o = {.simulated = NAN, .least = INFINITY};
    s.program = r->program;
    s.path = sim_workload(r->program);
    s.workload = true;
    s.time_ms = r->time_ms;
    s.arguments = (char **)r->arguments;
    if (!s.path)
        cli_bad("cannot find the simulated workload '%s'; install hotlock, or build all of it",
                r->program);
    s.machine = machine_load(r->machine);
    sim_cells(&s, cells, 2, NULL);
    for (int i = 0; i < 2 && !o.fault; i++)
        o.fault = cells[i].fault ? cli_printf("%s", cells[i].fault) : NULL;
    if (!o.fault) {
        o.simulated = SIM_MEDIAN(&cells[1], rate) / SIM_MEDIAN(&cells[0], rate);
        o.spin = SIM_MEDIAN(&cells[0], spin);
        for (size_t i = 0; i < cells[0].count; i++) {
            double ratio = cells[1].seeds[i].rate / cells[0].seeds[i].rate;
            o.least = fmin(o.least, ratio);
            o.most = fmax(o.most, ratio);
        }
    }
    sim_cell_free(&cells[0]);
    sim_cell_free(&cells[1]);
    machine_free(s.machine);
    free(s.path);
    return o;
}

static const table_column_t columns[] = {
    {"what", "what", TABLE_LEFT, TABLE_BOTH},
    {"published", "published", TABLE_RIGHT, TABLE_BOTH},
    {"simulated", "simulated", TABLE_RIGHT, TABLE_BOTH},
    {"seeds", "of the seeds", TABLE_RIGHT, TABLE_PEOPLE},
    {"least", "least", TABLE_RIGHT, TABLE_PROGRAMS},
    {"most", "most", TABLE_RIGHT, TABLE_PROGRAMS},
    {"error_percent", "off by %", TABLE_RIGHT, TABLE_BOTH},
    {"source", "source", TABLE_LEFT, TABLE_BOTH},
    {"program", "program", TABLE_LEFT, TABLE_PROGRAMS},
    {"machine", "machine", TABLE_LEFT, TABLE_PROGRAMS},
    {"before", "before", TABLE_LEFT, TABLE_PROGRAMS},
    {"after", "after", TABLE_LEFT, TABLE_PROGRAMS},
    {"fitted", "fitted", TABLE_LEFT, TABLE_PROGRAMS},
    {"why", "why they differ", TABLE_LEFT, TABLE_PROGRAMS},
};

static bool agrees(const row_t *r, const outcome_t *o)
{
    return fabs(o->simulated / r->published - 1) <= AGREES;
}

static table_t *fill(const outcome_t *outcomes)
{
    table_t *t = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < ROWS; i++) {
        const row_t *r = &rows[i];
        const outcome_t *o = &outcomes[i];
        table_text(t, "%s", r->what);
        table_real(t, r->published, 3);
        table_real(t, o->simulated, 3);
        if (o->fault)
            table_none(t);
        else
            table_text(t, "%.2f to %.2f", o->least, o->most);
        table_real(t, o->fault ? NAN : o->least, 3);
        table_real(t, o->fault ? NAN : o->most, 3);
        table_real(t, 100 * (o->simulated / r->published - 1), 0);
        table_text(t, "%s", r->source);
        table_text(t, "%s", r->program);
        table_text(t, "%s", r->machine);
        table_text(t, "%s", r->before);
        table_text(t, "%s", r->after);
        table_text(t, "%s", r->fitted ? r->fitted : "nothing");
        table_text(t, "%s", o->fault ? o->fault : agrees(r, o) ? "" : r->why);
    }
    return t;
}

static void explain(const outcome_t *outcomes, FILE *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        const row_t *r = &rows[i];
        if (outcomes[i].fault)
            fprintf(out, "- %s: no result: %s\n", r->what, outcomes[i].fault);
        else if (!agrees(r, &outcomes[i]))
            fprintf(out, "- %s: %s.\n", r->what, r->why);
        if (r->fitted)
            fprintf(out, "- %s: fitted: %s (simulated: %.0f %%).\n", r->what, r->fitted,
                    100 * outcomes[i].spin);
    }
}

static void print(const sim_t *s, const outcome_t *outcomes, table_format_t format, FILE *out)
{
    table_t *t = fill(outcomes);
    if (format == TABLE_JSON) {
        output_json(json_pack("{s:s, s:b, s:i, s:f, s:o}", "schema", "hotlock-sim-reproduce/1",
                              "simulated", 1, "seeds", (int)s->seeds, "jitter", s->jitter, "rows",
                              table_rows(t)), out);
    } else {
        fprintf(
            out,
            "%sSIMULATED beside published: speed-up by the new lock; %ld seeds, jitter %g %%; no "
            "number of a\n%smachine file is fitted to a row; see hotlock machines NAME.\n%s",
            format == TABLE_CSV ? "# " : "", s->seeds, 100 * s->jitter,
            format == TABLE_CSV ? "# " : "", format == TABLE_CSV ? "" : "\n");
        table_print(t, format, out);
    }
    if (format == TABLE_TEXT || format == TABLE_MARKDOWN) {
        fputc('\n', out);
        explain(outcomes, out);
    }
    table_free(t);
}

int sim_reproduce(const sim_t *defaults, const output_t *output)
{
    outcome_t outcomes[ROWS] = {{0}};
    progress_t progress;
    char *text;
    size_t size;
    progress_begin(&progress, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        progress_show(&progress, "%s", rows[i].what);
        outcomes[i] = outcome_of(&rows[i], defaults);
        progress_step(&progress, 1);
        if (child_interrupted())
            exit(CLI_INTERRUPTED);
    }
    progress_clear(&progress);
    FILE *f = open_memstream(&text, &size);
    print(defaults, outcomes, output->format, f);
    fclose(f);
    bool good = output_write(output->file, text, size);
    for (size_t i = 0; i < ROWS; i++)
        free(outcomes[i].fault);
    free(text);
    return good ? CLI_OK : CLI_NO_RESULT;
}
