// SPDX-License-Identifier: MIT
// oracle.c - programs whose rate can be computed by hand from the latencies: all threads add to one
// word (ADD) or fail to change it (FAIL), two threads pass a word to and fro (PING), all take one simple
// ticket lock (TICKET), or each pauses (PAUSE).
#include "bench.h"

static _Alignas(64) atomic_ulong word;

static void setup(int threads) { (void)threads; }

#if defined(ADD)
static void op(worker_t *me) {
    (void)me;
    atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
}
#elif defined(FAIL)
static void op(worker_t *me) {
    unsigned long never = ~0ul;
    (void)me;
    atomic_compare_exchange_strong_explicit(&word, &never, 1, memory_order_relaxed,
                                            memory_order_relaxed);
}
#elif defined(PAUSE)
static void op(worker_t *me) {
    (void)me;
    for (int i = 0; i < PAUSE; i++) hl_pause();
}
#elif defined(PING)
static void op(worker_t *me) {
    unsigned long mine = (unsigned long)me->index;
    while ((atomic_load_explicit(&word, memory_order_acquire) & 1) != mine)
        if (atomic_load_explicit(&stop, memory_order_relaxed)) return;
    atomic_store_explicit(&word, mine + 1, memory_order_release);
}
#else
static _Alignas(64) atomic_ulong serving;
static void op(worker_t *me) {
    (void)me;
    unsigned long mine = atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
    while (atomic_load_explicit(&serving, memory_order_acquire) != mine) {}
    atomic_store_explicit(&serving, mine + 1, memory_order_release);
}
#endif
