/* SPDX-License-Identifier: MIT */
/* `hotlock bench pair`: what one uncontended lock and unlock costs, as a ratio to the least. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "child.h"
#include "cli.h"

#define PATIENCE 60 /* seconds beyond its time until a run is ended */

/* One lock in one form, over all rounds. */
typedef struct {
    char *lock, *form;
    json_int_t atomics, bytes; /* -1: a reference */
    double *min, *median, *ratio;
    size_t rounds;
} row_t;

typedef struct {
    const bench_t *bench;
    row_t *rows;
    size_t count;
} pairs_t;

/* ---- keeping ---- */

static bool wanted(const bench_t *b, const json_t *candidate)
{
    const char *lock = json_string_value(json_object_get(candidate, "lock"));
    if (!json_object_get(candidate, "lock_bytes"))
        return true;
    for (size_t i = 0; i < b->lock_count; i++)
        if (strcmp(b->locks[i].lock, lock) == 0)
            return true;
    return false;
}

static row_t *row_of(pairs_t *p, const json_t *candidate)
{
    const char *lock = json_string_value(json_object_get(candidate, "lock"));
    const char *form = json_string_value(json_object_get(candidate, "form"));
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->rows[i].lock, lock) == 0 && strcmp(p->rows[i].form, form) == 0)
            return &p->rows[i];
    json_t *bytes = json_object_get(candidate, "lock_bytes");
    p->rows = cli_grow(p->rows, p->count + 1, sizeof *p->rows);
    p->rows[p->count] = (row_t){
        .lock = cli_printf("%s", lock), .form = cli_printf("%s", form),
        .atomics = json_integer_value(json_object_get(candidate, "atomics_per_pair")),
        .bytes = bytes ? json_integer_value(bytes) : -1,
    };
    return &p->rows[p->count++];
}

static void push(double **list, size_t count, const json_t *candidate, const char *key)
{
    *list = cli_grow(*list, count + 1, sizeof **list);
    (*list)[count] = json_number_value(json_object_get(candidate, key));
}

static void keep(pairs_t *p, const json_t *result)
{
    size_t i;
    json_t *candidate;
    json_array_foreach(json_object_get(result, "candidates"), i, candidate) {
        if (!wanted(p->bench, candidate))
            continue;
        row_t *row = row_of(p, candidate);
        push(&row->min, row->rounds, candidate, "min_ns");
        push(&row->median, row->rounds, candidate, "median_ns");
        push(&row->ratio, row->rounds, candidate, "ratio");
        row->rounds++;
    }
}

/* ---- showing ---- */

static const table_column_t columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"form", "form", TABLE_LEFT, TABLE_BOTH},
    {"min_ns", "min ns", TABLE_RIGHT, TABLE_BOTH},
    {"median_ns", "median ns", TABLE_RIGHT, TABLE_BOTH},
    {"ratio", "to exchange+store", TABLE_RIGHT, TABLE_BOTH},
    {"", "round by round", TABLE_RIGHT, TABLE_PEOPLE},
    {"ratio_lo", "lo", TABLE_RIGHT, TABLE_PROGRAMS},
    {"ratio_hi", "hi", TABLE_RIGHT, TABLE_PROGRAMS},
    {"atomics_per_pair", "atomics", TABLE_RIGHT, TABLE_BOTH},
    {"lock_bytes", "bytes", TABLE_RIGHT, TABLE_BOTH},
    {"partial", "partial", TABLE_LEFT, TABLE_PROGRAMS},
};

static double least(const double *x, size_t n)
{
    double result = INFINITY;
    for (size_t i = 0; i < n; i++)
        result = fmin(result, x[i]);
    return result;
}

static double most(const double *x, size_t n)
{
    double result = 0;
    for (size_t i = 0; i < n; i++)
        result = fmax(result, x[i]);
    return result;
}

/* Noise only adds time, so the fastest bursts of all rounds are the best estimate. */
static void add_row(table_t *t, const row_t *r, const row_t *reference, bool partial)
{
    double fastest = least(r->min, r->rounds);
    double lo = least(r->ratio, r->rounds), hi = most(r->ratio, r->rounds);
    table_text(t, "%s", r->lock);
    table_text(t, "%s", r->form);
    table_real(t, fastest, 2);
    table_real(t, stats_median(r->median, r->rounds), 2);
    table_real(t, fastest / least(reference->min, reference->rounds), 3);
    table_text(t, "%.3f to %.3f", lo, hi);
    table_real(t, lo, 4);
    table_real(t, hi, 4);
    for (int i = 0; i < 2; i++) {
        if (r->bytes < 0)
            table_none(t);
        else
            table_int(t, i == 0 ? r->atomics : r->bytes);
    }
    table_cell(t, json_boolean(partial), "%s", partial ? "yes" : "no");
}

static const row_t *reference_of(const pairs_t *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (strcmp(p->rows[i].lock, "exchange+store") == 0)
            return &p->rows[i];
    return &p->rows[0];
}

static void print(const void *what, table_format_t format, FILE *out)
{
    const pairs_t *p = what;
    table_t *t = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < p->count; i++)
        add_row(t, &p->rows[i], reference_of(p), p->bench->partial);
    if (format == TABLE_JSON) {
        json_t *head = bench_json_head(p->bench, "pair");
        json_object_set_new(head, "locks", table_rows(t));
        output_json(head, out);
    } else if (format == TABLE_CSV) {
        table_csv(t, out, 1);
    } else {
        if (p->bench->partial)
            fprintf(out, "PARTIAL: interrupted before the end\n");
        fputs("one uncontended lock and unlock; the empty loop's time is included\n", out);
        bench_conditions(p->bench, out);
        fputc('\n', out);
        table_print(t, format, out);
    }
    table_free(t);
}

/* ---- all of it ---- */

static void free_rows(pairs_t *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->rows[i].lock);
        free(p->rows[i].form);
        free(p->rows[i].min);
        free(p->rows[i].median);
        free(p->rows[i].ratio);
    }
    free(p->rows);
}

int bench_pair(bench_t *b, const output_t *output)
{
    pairs_t p = {.bench = b};
    char *seconds = cli_printf("%.9g", b->seconds), *fault = NULL;
    progress_t progress;
    progress_begin(&progress, (size_t)b->rounds);
    child_watch_interrupts();
    const char *arguments[] = {"--json", "--seconds", seconds, NULL};
    for (long round = 0; round < b->rounds && !b->partial && !fault; round++) {
        progress_show(&progress, "round %ld", round + 1);
        json_t *json = bench_once(b, arguments, b->seconds + PATIENCE, &fault);
        if (json)
            keep(&p, json);
        json_decref(json);
        progress_step(&progress, 1);
    }
    progress_clear(&progress);
    free(seconds);
    if (fault)
        cli_note("workload pair: %s", fault);
    free(fault);
    bool written = (b->partial || p.count) && bench_write(&p, print, output);
    free_rows(&p);
    if (b->partial)
        return CLI_INTERRUPTED;
    return written ? CLI_OK : CLI_NO_RESULT;
}
