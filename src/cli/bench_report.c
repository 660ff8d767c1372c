/* SPDX-License-Identifier: MIT */
/* The result of `hotlock bench` as text, CSV, Markdown or JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "bench.h"
#include "cli.h"

/* ---- cells of the table ---- */

static const table_column_t columns[] = {
    {"workload", "workload", TABLE_LEFT, TABLE_PROGRAMS},
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"threads", "threads", TABLE_RIGHT, TABLE_PROGRAMS},
    {"rounds", "rounds", TABLE_RIGHT, TABLE_PROGRAMS},
    {"ops_per_s", "million/s", TABLE_RIGHT, TABLE_BOTH},
    {"", "95 % interval", TABLE_RIGHT, TABLE_PEOPLE},
    {"ops_per_s_lo", "lo", TABLE_RIGHT, TABLE_PROGRAMS},
    {"ops_per_s_hi", "hi", TABLE_RIGHT, TABLE_PROGRAMS},
    {"ratio", "to mutex", TABLE_RIGHT, TABLE_BOTH},
    {"", "95 % interval", TABLE_RIGHT, TABLE_PEOPLE},
    {"ratio_lo", "lo", TABLE_RIGHT, TABLE_PROGRAMS},
    {"ratio_hi", "hi", TABLE_RIGHT, TABLE_PROGRAMS},
    {"jain", "Jain", TABLE_RIGHT, TABLE_BOTH},
    {"jain_windows", "/100 ms", TABLE_RIGHT, TABLE_BOTH},
    {"ticks_per_pair", "ticks", TABLE_RIGHT, TABLE_BOTH},
    {"atomics_per_pair", "RMWs", TABLE_RIGHT, TABLE_BOTH},
    {"lock_bytes", "bytes", TABLE_RIGHT, TABLE_PROGRAMS},
    {"node_bytes", "node bytes", TABLE_RIGHT, TABLE_PROGRAMS},
    {"seconds", "seconds", TABLE_RIGHT, TABLE_PROGRAMS},
    {"faults", "not ranked because", TABLE_LEFT, TABLE_PROGRAMS},
    {"partial", "partial", TABLE_LEFT, TABLE_PROGRAMS},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* The second table people see: waiting, and what it costs the machine. */
static const table_column_t wait_columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"wait_p50_ns", "p50 wait", TABLE_RIGHT, TABLE_BOTH},
    {"wait_p99_ns", "p99", TABLE_RIGHT, TABLE_BOTH},
    {"wait_p999_ns", "p99.9", TABLE_RIGHT, TABLE_BOTH},
    {"wait_max_ns", "worst", TABLE_RIGHT, TABLE_BOTH},
    {"gap_ns", "longest gap", TABLE_RIGHT, TABLE_BOTH},
    {"cpu", "CPUs", TABLE_RIGHT, TABLE_BOTH},
    {"futex_calls_per_s", "futex/s", TABLE_RIGHT, TABLE_BOTH},
    {"context_switches_per_s", "switches/s", TABLE_RIGHT, TABLE_BOTH},
};
enum { WAIT_COLUMNS = sizeof wait_columns / sizeof *wait_columns };
static const figure_t wait_figures[] = {FIGURE_P50, FIGURE_P99, FIGURE_P999, FIGURE_WORST,
                                        FIGURE_GAP, FIGURE_CPU, FIGURE_FUTEX, FIGURE_SWITCHES};

json_t *bench_json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* People read millions; a rate of a few thousand needs more decimals than one of 100 million. */
static int rate_decimals(double million)
{
    return million >= 100 ? 1 : million >= 1 ? 2 : million >= 0.1 ? 3 : 4;
}

static void add_rate(table_t *t, double value, int decimals)
{
    if (isfinite(value))
        table_cell(t, json_real(value), "%.*f", decimals, value / 1e6);
    else
        table_none(t);
}

static void add_interval(table_t *t, const stats_estimate_t *e, double unit, int decimals)
{
    if (isfinite(e->lo))
        table_text(t, "%.*f to %.*f", decimals, e->lo / unit, decimals, e->hi / unit);
    else
        table_none(t);
}

static void add_time(table_t *t, double ns)
{
    if (!isfinite(ns))
        table_none(t);
    else if (ns < 1e3)
        table_cell(t, json_real(ns), "%.0f ns", ns);
    else if (ns < 1e6)
        table_cell(t, json_real(ns), "%.1f us", ns / 1e3);
    else
        table_cell(t, json_real(ns), "%.1f ms", ns / 1e6);
}

static void add_ratio(table_t *t, const stats_estimate_t *r)
{
    table_real(t, r->mid, 3);
    add_interval(t, r, 1, 2);
    table_real(t, r->lo, 4);
    table_real(t, r->hi, 4);
}

static void add_main_row(table_t *t, const bench_t *b, size_t thread, size_t lock)
{
    const bench_cell_t *c = bench_cell(b, thread, lock);
    stats_estimate_t ops = bench_estimate(c, FIGURE_OPS), ratio = bench_ratio(b, thread, lock);
    int decimals = rate_decimals(ops.mid / 1e6);
    table_text(t, "%s", b->workload);
    table_text(t, "%s", c->lock->lock);
    table_int(t, c->threads);
    table_int(t, (long long)c->rounds);
    add_rate(t, ops.mid, decimals);
    add_interval(t, &ops, 1e6, decimals);
    add_rate(t, ops.lo, decimals);
    add_rate(t, ops.hi, decimals);
    add_ratio(t, &ratio);
    table_real(t, bench_value(c, FIGURE_JAIN), 3);
    table_real(t, bench_value(c, FIGURE_JAIN_WINDOWS), 3);
    table_real(t, bench_value(c, FIGURE_TICKS), 0);
    if (c->rounds)
        table_int(t, c->atomics);
    else
        table_none(t);
    table_int(t, c->bytes);
    table_int(t, c->node_bytes);
    table_real(t, bench_value(c, FIGURE_SECONDS), 3);
    table_text(t, "%s", c->fault ? c->fault : "");
    table_cell(t, json_boolean(b->partial), "%s", b->partial ? "yes" : "no");
}

static void add_wait_row(table_t *t, const bench_cell_t *c)
{
    table_text(t, "%s", c->lock->lock);
    for (size_t i = 0; i < WAIT_COLUMNS - 1; i++) {
        double value = bench_value(c, wait_figures[i]);
        if (wait_figures[i] == FIGURE_CPU)
            table_real(t, value, 2);
        else if (wait_figures[i] >= FIGURE_FUTEX)
            table_real(t, value, 0);
        else
            add_time(t, value);
    }
}

/* ---- for people ---- */

void bench_conditions(const bench_t *b, FILE *out)
{
    double foreign = foreign_share(&b->foreign);
    fprintf(out, "%ld round%s of ", b->rounds, b->rounds == 1 ? "" : "s");
    if (b->seconds > 0)
        fprintf(out, "%g s", b->seconds);
    else
        fprintf(out, "a fixed amount of work");
    fprintf(out, ", interleaved, on %d processors", get_nprocs());
    if (isfinite(foreign))
        fprintf(out, "; others used %.0f %% of them", 100 * foreign);
    fputs(foreign > FOREIGN_MUCH ? ",\nso trust the ratios more than the figures\n" : "\n", out);
}

static void print_head(const bench_t *b, FILE *out)
{
    if (b->partial)
        fprintf(out, "PARTIAL: interrupted before the end\n");
    fprintf(out, "workload %s", b->workload);
    for (size_t i = 0; i < b->option_count; i++)
        fprintf(out, " %s", b->options[i]);
    fputc('\n', out);
    bench_conditions(b, out);
}

static void print_faults(const bench_t *b, size_t thread, FILE *out)
{
    for (size_t i = 0; i < b->lock_count; i++) {
        const bench_cell_t *c = bench_cell(b, thread, i);
        if (c->fault)
            fprintf(out, "%s is not ranked: %s\n", c->lock->lock, c->fault);
    }
}

/* If the work is fixed, people want to know how long it took; there is room for one of the two. */
static void make_columns(const bench_t *b, table_column_t *own)
{
    memcpy(own, columns, sizeof columns);
    for (size_t i = 0; i < COLUMNS && b->seconds == 0; i++) {
        if (strcmp(own[i].key, "seconds") == 0)
            own[i].readers = TABLE_BOTH;
        if (strcmp(own[i].key, "jain_windows") == 0)
            own[i].readers = TABLE_PROGRAMS;
    }
}

static void print_thread(const bench_t *b, size_t thread, table_format_t format, FILE *out)
{
    table_column_t own[COLUMNS];
    make_columns(b, own);
    table_t *main = table_new(own, COLUMNS), *wait = table_new(wait_columns, WAIT_COLUMNS);
    for (size_t i = 0; i < b->lock_count; i++) {
        add_main_row(main, b, thread, i);
        add_wait_row(wait, bench_cell(b, thread, i));
    }
    fprintf(out, format == TABLE_MARKDOWN ? "\n### %ld thread%s\n\n" : "\n%ld thread%s\n",
            b->threads[thread], b->threads[thread] == 1 ? "" : "s");
    table_print(main, format, out);
    fputc('\n', out);
    table_print(wait, format, out);
    print_faults(b, thread, out);
    table_free(main);
    table_free(wait);
}

static void print_legend(FILE *out)
{
    fputs("\nticks: of the processor's counter, on all threads together, per lock and unlock.\n"
          "RMWs: atomic read-modify-writes of a lone pair. Jain: fairness, 1 is perfect; in whole\n"
          "runs and in 100 ms. Longest gap: the longest any thread was without the lock. Worst\n"
          "wait and gap are over all rounds, the rest medians.\n", out);
}

/* ---- for programs ---- */

static table_t *all_rows(const bench_t *b)
{
    static table_column_t both[COLUMNS + WAIT_COLUMNS - 1];
    memcpy(both, columns, sizeof columns);
    memcpy(both + COLUMNS, wait_columns + 1, sizeof wait_columns - sizeof *wait_columns);
    table_t *t = table_new(both, COLUMNS + WAIT_COLUMNS - 1);
    for (size_t i = 0; i < b->thread_count; i++)
        for (size_t j = 0; j < b->lock_count; j++) {
            const bench_cell_t *c = bench_cell(b, i, j);
            add_main_row(t, b, i, j);
            for (size_t f = 0; f < WAIT_COLUMNS - 1; f++)
                table_real(t, bench_value(c, wait_figures[f]), 3);
        }
    return t;
}

json_t *bench_json_head(const bench_t *b, const char *kind)
{
    struct utsname host;
    json_t *options = json_array();
    uname(&host);
    for (size_t i = 0; i < b->option_count; i++)
        json_array_append_new(options, table_json_string(b->options[i]));
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:f, s:b, s:i, s:s, s:s, s:o}", "schema",
                     "hotlock-bench/1", "kind", kind, "workload", b->workload, "options",
                     options, "rounds", (json_int_t)b->rounds, "seconds", b->seconds, "partial",
                     b->partial, "processors", get_nprocs(), "machine", host.machine, "kernel",
                     host.release, "foreign_share", bench_json_number(foreign_share(&b->foreign)));
}

/* Every round of a cell, so that others can do their own statistics. */
static json_t *samples(const bench_cell_t *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->rounds; i++)
        json_array_append_new(list, bench_json_number(c->figure[FIGURE_OPS][i]));
    return list;
}

static void print_json(const bench_t *b, FILE *out)
{
    json_t *head = bench_json_head(b, "locks"), *row;
    table_t *t = all_rows(b);
    json_t *rows = table_rows(t);
    size_t i;
    json_array_foreach(rows, i, row)
        json_object_set_new(row, "samples", samples(&b->cells[i]));
    json_object_set_new(head, "cells", rows);
    output_json(head, out);
    table_free(t);
}

static void print_csv(const bench_t *b, FILE *out)
{
    table_t *t = all_rows(b);
    table_csv(t, out, 1);
    table_free(t);
}

/* ---- all of it ---- */

static void print(const void *what, table_format_t format, FILE *out)
{
    const bench_t *b = what;
    if (format == TABLE_JSON) {
        print_json(b, out);
        return;
    }
    if (format == TABLE_CSV) {
        print_csv(b, out);
        return;
    }
    print_head(b, out);
    for (size_t i = 0; i < b->thread_count; i++)
        print_thread(b, i, format, out);
    print_legend(out);
}

bool bench_write(const void *what, bench_print_t print_it, const output_t *output)
{
    char *text;
    size_t size;
    if (output->file)
        print_it(what, TABLE_TEXT, stdout);
    FILE *f = open_memstream(&text, &size);
    print_it(what, output->format, f);
    fclose(f);
    bool good = output_write(output->file, text, size);
    free(text);
    return good;
}

bool bench_report(const bench_t *b, const output_t *output)
{
    return bench_write(b, print, output);
}
