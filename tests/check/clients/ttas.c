// SPDX-License-Identifier: MIT
// ttas.c - test-and-test-and-set: 4, 36, 576 executions for 2, 3, 4 threads.
// check: -t 2 => verified 4
// check: -t 3 => verified 36
// check: -t 4 => verified 576
// check: -t 3 --model sc => verified 36
// check: -t 3 -D LOCK=memory_order_relaxed => race
#include <pthread.h>
#include <stdatomic.h>

#ifndef THREADS
#define THREADS 2
#endif
#ifndef LOCK
#define LOCK memory_order_acquire
#endif

static atomic_int held;
static int first, second;

static void *work(void *unused) {
    do {
        while (atomic_load_explicit(&held, memory_order_relaxed)) {}
    } while (atomic_exchange_explicit(&held, 1, LOCK));
    first++;
    second++;
    atomic_store_explicit(&held, 0, memory_order_release);
    return unused;
}

int main(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return first != THREADS || second != THREADS;
}
