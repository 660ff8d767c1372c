/* SPDX-License-Identifier: MIT */
/* Sampling of waits: when to look at the clock, and the histogram of what it said. */
#include "waits.h"

void waits_start(struct waits *w, uint32_t seed)
{
    *w = (struct waits){ .left = 1, .random = seed * 2654435761u | 1, .last = hl_ticks() };
}

static uint32_t next_random(struct waits *w)
{
    w->random = w->random * 1664525u + 1013904223u;
    return w->random >> 16;
}

static void stretch(struct waits *w, uint64_t now)
{
    uint64_t gap = now > w->last ? now - w->last : 0;
    if (gap > w->gap)
        w->gap = gap;
    w->left = gap > WAIT_DENSE_TICKS ? 1 : 1 + (next_random(w) & 31);
    w->last = now;
}

void waits_record(struct waits *w, uint64_t asked, uint64_t got)
{
    uint64_t wait = got > asked ? got - asked : 0;
    w->bucket[wait_bucket(wait)]++;
    w->samples++;
    if (wait > w->max)
        w->max = wait;
    stretch(w, got);
}

/* The run ends: a thread that never got the lock again has been without it until now. */
void waits_stop(struct waits *w)
{
    stretch(w, hl_ticks());
}

void waits_add(struct waits *sum, const struct waits *w)
{
    for (unsigned i = 0; i < WAIT_BUCKETS; i++)
        sum->bucket[i] += w->bucket[i];
    sum->samples += w->samples;
    sum->max = w->max > sum->max ? w->max : sum->max;
    sum->gap = w->gap > sum->gap ? w->gap : sum->gap;
}

uint64_t waits_quantile(const struct waits *w, double q)
{
    uint64_t wanted = (uint64_t)(q * (double)w->samples), seen = 0;
    for (unsigned i = 0; i < WAIT_BUCKETS; i++) {
        seen += w->bucket[i];
        if (seen > wanted) {
            uint64_t top = wait_bucket_top(i);
            return top < w->max ? top : w->max;
        }
    }
    return w->max;
}
