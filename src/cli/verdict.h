/* SPDX-License-Identifier: MIT */
/*
 * What a trial shows, in figures and in words.
 *
 * A lock with any run that went wrong is never ranked. A difference matters if its interval stays
 * clear of 1 by more than 2 %; because the best of several locks is partly the luckiest, that is
 * asked of an interval widened for their number (Bonferroni), while 95 % intervals are shown.
 */
#ifndef HOTLOCK_VERDICT_H
#define HOTLOCK_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "stats.h"
#include "trial.h"

#define VERDICT_MARGIN 0.02

typedef struct {
    size_t index;           /* in trial_t.contestants */
    long good;              /* runs that count */
    bool ranked;
    stats_estimate_t value; /* median of what is measured, 95 % interval */
    stats_estimate_t ratio; /* to libc's, 95 % interval */
    stats_estimate_t wide;  /* the same, widened for the number of locks */
    double wall, cpu;       /* medians, seconds */
} standing_t;

typedef enum {
    VERDICT_BEST,      /* one lock is better than libc */
    VERDICT_SAME,      /* no difference that matters */
    VERDICT_NO_HELP,   /* no lock can help: all do as libc does, within the margin */
    VERDICT_WORSE,     /* every alternative is worse */
    VERDICT_UNDECIDED  /* too few runs, or nothing to compare */
} verdict_kind_t;

typedef struct {
    standing_t *standings; /* libc, then ranked locks from best to worst, then the others */
    size_t count;
    verdict_kind_t kind;
    const standing_t *best; /* if VERDICT_BEST */
    char *text;             /* one sentence or two */
} verdict_t;

verdict_t verdict_of(const trial_t *t);
void verdict_free(verdict_t *v);

const char *verdict_kind_name(verdict_kind_t kind);

/* "crashed 2 (SIGSEGV), other exit code 1 (3, not 0)"; "" if nothing was wrong. Free it. */
char *verdict_faults(const trial_t *t, const contestant_t *c);

#endif
