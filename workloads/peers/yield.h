/* SPDX-License-Identifier: MIT */
/* How the combining peers wait: pause, or give the processor away when threads outnumber them. */
#ifndef WORKLOADS_YIELD_H
#define WORKLOADS_YIELD_H

#include <hotlock/wait.h>
#include <stdbool.h>
#include <sys/sysinfo.h>

static inline bool peers_yield(unsigned threads)
{
    return threads > (unsigned)get_nprocs();
}

static inline void peers_pause(bool yields)
{
    if (yields)
        sched_yield();
    else
        hl_pause();
}

#endif
