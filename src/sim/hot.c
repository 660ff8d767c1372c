// SPDX-License-Identifier: MIT
// hot.c - what every access of the program goes through, compiled as one: the hooks, the engine,
// the lines and the scheduler. The library is linked by whichever compiler builds the program, so
// it cannot leave this to link-time optimisation.
#include "line.c"
#include "sched.c"
#include "delay.c"
#include "engine.c"

#define VM_VOLATILE_READS   // engine.c knows them
#define VM_WIDE_ATOMICS     // wide.c has them
#include "../vm/tsan.c"
