/* SPDX-License-Identifier: MIT */
/*
 * A count all threads add to under the lock: what --lock protects where the subject is a lock of
 * the kernel's. It must agree with the threads' own counts in the end.
 */
#ifndef WORKLOADS_TALLY_H
#define WORKLOADS_TALLY_H

#include "run.h"

enum { TALLY_MOST = 1000000 };

struct tally {
    void *lock;
    volatile uint64_t *count; /* on a line of its own, under the lock */
    unsigned every;           /* units of work between two additions */
};

static inline void tally_setup(struct tally *t, struct run *run)
{
    t->lock = lock_new(run->lock, run->threads, run->processes);
    t->count = lines_new(sizeof(*t->count));
}

static inline void tally_check(const struct tally *t, struct run *run)
{
    uint64_t done = run_total(run);
    if (*t->count != done)
        run_broken(run, "the tally is %llu after %llu %s", (unsigned long long)*t->count,
                   (unsigned long long)done, run->workload->unit);
}

#endif
