/* SPDX-License-Identifier: MIT */
/* The parts of `hotlock bench`: what to run, what came of it, how it is shown. */
#ifndef HOTLOCK_BENCH_H
#define HOTLOCK_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "foreign.h"
#include "output.h"
#include "progress.h"
#include "stats.h"

#define BENCH_BASE "pthread_mutex" /* what ratios are to, if it is in the run */

/* What a run reports; the names are the workloads' JSON keys (bench_figures[]). */
typedef enum {
    FIGURE_OPS,          /* per second */
    FIGURE_JAIN,         /* of all threads, over the whole run */
    FIGURE_JAIN_WINDOWS, /* mean over windows of 100 ms */
    FIGURE_TICKS,        /* threads x elapsed ticks / sections */
    FIGURE_P50, FIGURE_P99, FIGURE_P999, FIGURE_WORST, /* wait, ns */
    FIGURE_GAP,          /* longest time a thread was without the lock, ns */
    FIGURE_CPU,          /* processors used */
    FIGURE_FUTEX,        /* calls per second; NaN if not known */
    FIGURE_SWITCHES,     /* context switches per second */
    FIGURE_SECONDS,      /* how long it took */
    FIGURES
} figure_t;

typedef struct {
    const char *key;   /* in a workload's JSON */
    bool count;        /* a count, shown per second */
    bool worst;        /* over the rounds the worst is shown, else the median */
} figure_kind_t;

extern const figure_kind_t bench_figures[FIGURES];

typedef struct {
    char *lock; /* NAME or NAME:POLICY */
    bool sections, functions; /* what it can do */
} bench_lock_t;

/* All rounds of one lock with one number of threads. */
typedef struct {
    const bench_lock_t *lock;
    long threads;
    double *figure[FIGURES]; /* one per round that went well */
    size_t rounds;
    json_int_t atomics, bytes, node_bytes; /* of a lone pair; of the lock; per waiter */
    double *seconds; /* ops in each whole second, all rounds in a row */
    size_t seconds_count;
    char *fault; /* why it is not ranked: the workload's own words */
} bench_cell_t;

typedef struct {
    const char *workload;
    char *path;       /* its program */
    char *const *options; /* handed on to it, NULL-ended */
    size_t option_count;
    bench_lock_t *locks;
    size_t lock_count;
    long *threads;
    size_t thread_count;
    double seconds;
    long rounds;
    bench_cell_t *cells; /* [thread][lock] */
    foreign_t foreign;
    bool partial;
} bench_t;

/* ---- bench_run.c ---- */

/* The workload's program and all locks it knows; bad names and options are one line, exit 2. */
void bench_find(bench_t *b);
/* Those of LIST ("all", "ours", "peers", names) as b->locks. */
void bench_choose(bench_t *b, const char *list);
/* Not ours: libc's, Concurrency Kit's, or one that only runs functions. */
bool bench_is_peer(const bench_lock_t *lock);
/* Every cell, round after round. */
void bench_run(bench_t *b);
bench_cell_t *bench_cell(const bench_t *b, size_t thread, size_t lock);
void bench_free(bench_t *b);

/* Runs the workload once and gives its JSON; NULL and *fault (free it) if it failed. */
json_t *bench_once(bench_t *b, const char *const *arguments, double limit, char **fault);

stats_estimate_t bench_estimate(const bench_cell_t *c, figure_t f);
/* Throughput against that of BENCH_BASE with as many threads; NaN if that is not there. */
stats_estimate_t bench_ratio(const bench_t *b, size_t thread, size_t lock);
/* Median over the rounds, or the worst. */
double bench_value(const bench_cell_t *c, figure_t f);

/* ---- bench_report.c, bench_seconds.c, bench_pair.c ---- */

/* Print in the format asked; false if it could not be written. */
bool bench_report(const bench_t *b, const output_t *output);
bool bench_seconds_report(const bench_t *b, const output_t *output);

/* The whole of `hotlock bench pair`; an exit code. */
int bench_pair(bench_t *b, const output_t *output);

/* Writes what PRINT prints to where OUTPUT says; if that is a file, text to the terminal too. */
typedef void (*bench_print_t)(const void *what, table_format_t format, FILE *out);
bool bench_write(const void *what, bench_print_t print, const output_t *output);

/* What every JSON result of bench begins with; new reference. */
json_t *bench_json_head(const bench_t *b, const char *kind);
/* null if it is not finite; new reference. */
json_t *bench_json_number(double value);
/* "2 rounds of 0.5 s, interleaved; ..." as one line. */
void bench_conditions(const bench_t *b, FILE *out);

#endif
