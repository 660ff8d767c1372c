/* SPDX-License-Identifier: MIT */
/* Burning time without touching memory: think and hold times are given in ns, spent in turns. */
#ifndef WORKLOADS_BUSY_H
#define WORKLOADS_BUSY_H

#include <stdint.h>

static inline void busy(uint64_t turns)
{
    while (turns--)
        __asm__ __volatile__("");
}

/* Turns of busy() that take this many nanoseconds here; measured at the first call. */
uint64_t busy_turns(double ns);

#endif
