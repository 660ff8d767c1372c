/* SPDX-License-Identifier: MIT */
/* How fast this processor turns: the fastest of several short races, so that noise drops out. */
#include "busy.h"

#include <hotlock/wait.h>

enum { RACES = 25, TURNS = 100000 };

static double turns_per_ns(void)
{
    double rate = 1e-3; /* a clock that stands still must not make it 0 */
    for (int i = 0; i < RACES; i++) {
        uint64_t begin = hl_now_ns();
        busy(TURNS);
        uint64_t took = hl_now_ns() - begin;
        if (took && TURNS / (double)took > rate)
            rate = TURNS / (double)took;
    }
    return rate;
}

uint64_t busy_turns(double ns)
{
    static double rate;
    if (rate == 0)
        rate = turns_per_ns();
    return (uint64_t)(ns * rate + 0.5);
}
