// SPDX-License-Identifier: MIT
// bench.h - the frame of the validation programs: threads, a warm-up, a window, a rate.
//
// A program defines op(), one unit of work of a thread. Usage: PROGRAM THREADS SECONDS. The lock is
// textbook MCS, or Linux's queued spinlock with -DQSPIN (stock.h).
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "stock.h"

typedef struct {
    _Alignas(128) atomic_ulong done;
    unsigned long random;
    int index, threads;
} worker_t;

static void op(worker_t *me);
static void setup(int threads);

static inline unsigned long chance(worker_t *me) {
    me->random = me->random * 6364136223846793005u + 1442695040888963407u;
    return me->random >> 33;
}

static inline void delay(uint64_t ns) {
    for (uint64_t end = hl_now_ns() + ns; hl_now_ns() < end;) hl_pause();
}

// Threads that all queue keep the order they came in. On a real machine interrupts mix it within a
// second; here they come in a random one, each at its own time.
enum { SCATTER_NS = 1000 };

static atomic_bool stop;
static pthread_barrier_t start;

static void *work(void *arg) {
    worker_t *me = arg;
    pthread_barrier_wait(&start);
    delay(chance(me) % ((unsigned long)me->threads * SCATTER_NS));
    for (unsigned long n = 1; !atomic_load_explicit(&stop, memory_order_relaxed); n++) {
        op(me);
        atomic_store_explicit(&me->done, n, memory_order_relaxed);
    }
    return NULL;
}

static unsigned long total(worker_t *w, int threads) {
    unsigned long sum = 0;
    for (int i = 0; i < threads; i++)
        sum += atomic_load_explicit(&w[i].done, memory_order_relaxed);
    return sum;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    int threads = atoi(argv[1]);
    uint64_t window = (uint64_t)(1e9 * atof(argv[2]));
    worker_t *w = aligned_alloc(128, sizeof *w * (size_t)threads);
    pthread_t id[2048];
    setup(threads);
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        w[i] = (worker_t){
            .random = 0x9e3779b97f4a7c15u * (unsigned long)(i + 1), .index = i, .threads = threads};
        pthread_create(&id[i], NULL, work, &w[i]);
    }
    pthread_barrier_wait(&start);
    hl_nap(window / 2);
    unsigned long before = total(w, threads);
    uint64_t begin = hl_now_ns();
    hl_nap(window);
    unsigned long done = total(w, threads) - before;
    uint64_t took = hl_now_ns() - begin;
    atomic_store(&stop, true);
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
    printf("rate: %.1f\n", 1e9 * (double)done / (double)took);
    return 0;
}

#endif
