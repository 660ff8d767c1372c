/* SPDX-License-Identifier: MIT */
/*
 * How long a thread waits for the lock, and how long it goes without.
 *
 * Reading a clock costs as much as an uncontended lock, so only every 16th section on average
 * (at random, lest we fall in step with the lock) is timed. The longest gap misses nothing all the
 * same: it is the longest stretch between two time stamps, and as soon as a stretch is long the
 * next sections are stamped one by one.
 *
 * The histogram is logarithmic with 8 steps per power of two: 12 % wide, any length fits.
 */
#ifndef WORKLOADS_WAITS_H
#define WORKLOADS_WAITS_H

#include <hotlock/wait.h>

enum { WAIT_STEPS = 8, WAIT_BUCKETS = 62 * WAIT_STEPS, WAIT_DENSE_TICKS = 1 << 16 };

struct waits {
    uint32_t left;   /* sections until the next stamp */
    uint32_t random;
    uint64_t last;   /* when the thread last was seen holding the lock */
    uint64_t gap;    /* longest stretch between two stamps */
    uint64_t max;    /* longest sampled wait */
    uint64_t samples;
    uint32_t bucket[WAIT_BUCKETS];
};

static inline unsigned wait_bucket(uint64_t wait)
{
    if (wait < WAIT_STEPS)
        return (unsigned)wait;
    unsigned log = 63 - (unsigned)__builtin_clzll(wait);
    return (log - 2) * WAIT_STEPS + (unsigned)(wait >> (log - 3) & (WAIT_STEPS - 1));
}

/* The longest wait that falls into a bucket. */
static inline uint64_t wait_bucket_top(unsigned bucket)
{
    if (bucket < WAIT_STEPS)
        return bucket;
    unsigned log = bucket / WAIT_STEPS + 2;
    uint64_t step = (uint64_t)1 << (log - 3);
    return ((uint64_t)1 << log) + (bucket % WAIT_STEPS + 1) * step - 1;
}

void waits_start(struct waits *w, uint32_t seed);
void waits_record(struct waits *w, uint64_t asked, uint64_t got);
void waits_stop(struct waits *w);
void waits_add(struct waits *sum, const struct waits *w);
uint64_t waits_quantile(const struct waits *w, double q); /* in ticks */

/* Before asking for the lock: the time if this section is to be timed, else 0. */
static inline uint64_t wait_asked(struct waits *w)
{
    return --w->left ? 0 : hl_ticks();
}

/* With the lock in hand. */
static inline uint64_t wait_got(uint64_t asked)
{
    return asked ? hl_ticks() : 0;
}

/* After giving it back. */
static inline void wait_over(struct waits *w, uint64_t asked, uint64_t got)
{
    if (asked)
        waits_record(w, asked, got);
}

#endif
