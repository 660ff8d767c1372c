// SPDX-License-Identifier: MIT
// kernel.c - a stand-in for a system call with one hot spin lock inside: will-it-scale's open1 and
// lock2. SECTIONS of the lock per call, each writing LINES shared lines and working HOLD_NS;
// outside it THINK_NS, which is set so that one thread is as fast as published.
#include "bench.h"

static stock_lock_t lock;
static struct { _Alignas(64) volatile long value; } line[16];

static void setup(int threads) { (void)threads; }

static void op(worker_t *me) {
    for (int i = 0; i < SECTIONS; i++) {
        stock_lock(&lock, me->index);
        for (int k = 0; k < LINES; k++) line[k].value++;
        delay(HOLD_NS);
        stock_unlock(&lock, me->index);
        delay((THINK_NS) / SECTIONS);
    }
}
