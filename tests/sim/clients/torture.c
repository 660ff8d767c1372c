// SPDX-License-Identifier: MIT
// torture.c - what Linux's locktorture does under a spin lock: a flag, a count, a rare delay.
//
// The kernel delays 2 us in one of 4n sections and 100 ms in one of 200 000 n (n threads). Here the
// long delay is 10 us in one of 20 n: the same mean, in a window of milliseconds.
#include "bench.h"

static _Alignas(64) stock_lock_t lock;
static _Alignas(64) volatile int held;
static struct { long failed, acquired; } stats[2048];   // 16 bytes each, as in the kernel

static void setup(int threads) { (void)threads; }

static void op(worker_t *me) {
    unsigned long n = (unsigned long)me->threads;
    stock_lock(&lock, me->index);
    if (held) stats[me->index].failed++;
    held = 1;
    stats[me->index].acquired++;
    if (chance(me) % (20 * n) == 0) delay(10000);
    if (chance(me) % (4 * n) == 0) delay(2000);
    held = 0;
    stock_unlock(&lock, me->index);
}
