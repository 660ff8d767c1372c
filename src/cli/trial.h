/* SPDX-License-Identifier: MIT */
/*
 * A trial: one program under libc and under each lock, again and again, interleaved.
 *
 * Round r runs every contestant once, beginning with the one after round r-1's first: A B C, B C A,
 * C A B... so that neither drift of the machine nor a place in the order favours one.
 */
#ifndef HOTLOCK_TRIAL_H
#define HOTLOCK_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "child.h"
#include "foreign.h"
#include "lockname.h"
#include "metric.h"
#include "progress.h"

typedef enum { MEASURE_WALL, MEASURE_CPU, MEASURE_METRIC, MEASURES } measure_t;

extern const char *const trial_measure_names[MEASURES]; /* for programs: "wall" */
extern const char *const trial_measure_words[MEASURES]; /* for people: "wall time" */

/* What a run did that libc's did not do. */
typedef enum {
    FAULT_CRASH,  /* killed by a signal */
    FAULT_LIMIT,  /* over the time limit */
    FAULT_FLOOD,  /* over CHILD_OUTPUT_MOST */
    FAULT_EXIT,   /* another exit code */
    FAULT_OUTPUT, /* other output, with same_output */
    FAULT_METRIC, /* the metric is missing */
    FAULTS,
    FAULT_NONE = FAULTS
} fault_t;

typedef struct {
    long runs, warmup;
    double limit; /* 0: ten times libc's first run, at least ten seconds */
    measure_t measure;
    bool higher_better, same_output;
    metric_t metric; /* if measure is MEASURE_METRIC */
} trial_plan_t;

/* One run that went as libc's did. */
typedef struct {
    bool good;
    double value, wall, cpu; /* value: what is measured */
} sample_t;

typedef struct {
    lockname_t lock;
    char *label;
    char **env;
    sample_t *samples; /* one a round, warm-up left out */
    long ran;          /* runs begun, warm-up included */
    long faults[FAULTS];
    child_result_t fault; /* how the first faulty run ended */
    bool dropped;         /* not run again after two runs over the limit */
} contestant_t;

typedef struct {
    const trial_plan_t *plan;
    char *path;          /* program file */
    char **command;
    contestant_t *contestants; /* [0] is libc */
    size_t count;
    child_result_t reference; /* libc's first run */
    bool has_reference, interrupted;
    double limit;
} trial_t;

/* Runs it all. A command that fails under libc itself is one line and exit 2. */
void trial_run(trial_t *t, foreign_t *foreign, progress_t *progress);
void trial_free(trial_t *t);

long trial_faults(const contestant_t *c); /* of all kinds */
long trial_good(const trial_t *t, const contestant_t *c);

#endif
