// SPDX-License-Identifier: MIT
// slice.h - waiting in slices of time, between which a waiter looks whether the lock is free: one
// that sleeps until the thread ahead has had its turn would sleep on if a signal has suspended
// that thread. Each slice is twice as long as the one before, so that those who wait long for a lock
// that is held cost nothing.
#ifndef HOTLOCK_PRELOAD_SLICE_H
#define HOTLOCK_PRELOAD_SLICE_H

#include "hotlock/wait.h"

#ifndef HLP_SLICE_LEAST_NS
#define HLP_SLICE_LEAST_NS 10000000u
#define HLP_SLICE_MOST_NS  1000000000u
#endif

typedef struct {
    uint64_t ns, deadline_ns;  // HL_NO_DEADLINE: none
} hlp_slice_t;

// When the next slice ends, by CLOCK_MONOTONIC; never after the deadline.
static inline uint64_t hlp_next_slice(hlp_slice_t *s) {
    uint64_t end = hl_now_ns() + s->ns;
    if (s->ns < HLP_SLICE_MOST_NS) s->ns *= 2;
    return end < s->deadline_ns ? end : s->deadline_ns;
}

#endif
