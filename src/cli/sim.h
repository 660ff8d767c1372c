/* SPDX-License-Identifier: MIT */
/* The parts of `hotlock sim`: what to simulate, what came of it, how it is shown. */
#ifndef HOTLOCK_SIM_CLI_H
#define HOTLOCK_SIM_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "machine.h"
#include "metric.h"
#include "output.h"
#include "progress.h"
#include "stats.h"

enum { SIM_DISTANCES = 5, SIM_EXIT_STUCK = 3 };
extern const char *const sim_distances[SIM_DISTANCES]; /* for programs: "smt", "l3"... */

/* What one seed of one lock and number of threads gave. Times in ns of simulated time. */
typedef struct {
    double rate;          /* per second: sections, or the metric */
    double sections;
    double p50, p99, p999, worst, jain, factor;
    double moves[SIM_DISTANCES];
    double spin;          /* share of the CPUs' time */
    double accesses, skipped, host_s, simulated_ns;
    double preempted, wakes, peak_kib;
} sim_seed_t;

typedef struct {
    unsigned long pc;     /* until it has a name */
    char *file;           /* and line; "?" if unknown */
    int line;
    char *function;
    double moves[SIM_DISTANCES], ns; /* per section */
} sim_line_t;

typedef struct {
    const char *lock;
    long threads;
    sim_seed_t *seeds;
    size_t count;
    sim_line_t *lines;    /* the hottest first */
    size_t line_count;
    char *fault;          /* why there is no result */
    bool stuck, refused;  /* because of a deadlock or a crash; of what cannot be simulated */
    bool left;            /* the run was interrupted before it had one */
    pid_t process;        /* that runs it now */
} sim_cell_t;

typedef struct {
    const char *program;  /* as given */
    char *path;           /* built to be simulated */
    bool workload;        /* takes --lock, --threads, --seconds, --json */
    char unit[32];        /* what it counts */
    char **arguments;     /* for the program, NULL-ended */
    place_machine_t *machine;
    const char *place;
    char **locks;
    size_t lock_count;
    long *threads;
    size_t thread_count;
    long seeds;
    double jitter, time_ms, limit; /* time_ms: 0: by the number of threads */
    const char *metric_text;
    metric_t metric;
    sim_cell_t *cells;    /* [lock][thread] */
    bool partial, show_lines;
    bool each_seed;       /* one row per seed, for programs */
    int stuck, refused;   /* cells that ended so */
} sim_t;

/* Simulates cells, all seeds of each, side by side; the progress may be NULL. */
void sim_cells(sim_t *s, sim_cell_t *cells, size_t count, progress_t *progress);
/* A workload that was built for the simulator with hotlock; NULL if NAME is none. Free it. */
char *sim_workload(const char *name);
void sim_run(sim_t *s);
/* One seed of the first lock and the most threads, with the program's words behind COMMAND's; its
 * exit code. */
int sim_debug(sim_t *s, const char *command);
sim_cell_t *sim_at(const sim_t *s, size_t lock, size_t thread);
void sim_cell_free(sim_cell_t *c);

/* Adds what moved cache lines to the cell's lines; gives them names, per section; frees them. */
void sim_note_lines(sim_cell_t *c, const json_t *report);
void sim_name_lines(const sim_t *s, sim_cell_t *c);
void sim_drop_lines(sim_cell_t *c);
/* Where every thread of a report is, one line each; free it. */
char *sim_stacks(const char *program, const json_t *report);

/* Median over the seeds of the double at OFFSET in sim_seed_t. */
double sim_median(const sim_cell_t *c, size_t offset);
#define SIM_MEDIAN(cell, field) sim_median(cell, offsetof(sim_seed_t, field))
/* (most - least) / median of the rate, in percent; 0 with one seed. */
double sim_spread(const sim_cell_t *c);

void sim_print(const sim_t *s, table_format_t format, FILE *out);
bool sim_plot(const sim_t *s, const char *file);
/* Published results of the mails that began hotlock, beside simulated ones; an exit code. */
int sim_reproduce(const sim_t *defaults, const output_t *output);

/* "SIMULATED, not measured: ..." in one paragraph; free it. */
char *sim_conditions(const sim_t *s);

#endif
