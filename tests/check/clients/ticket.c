// SPDX-License-Identifier: MIT
// ticket.c - the ticket lock: 2, 6, 24 executions for 2, 3, 4 threads.
// check: -t 2 => verified 2
// check: -t 3 => verified 6
// check: -t 4 => verified 24
// check: -t 4 --model tso => verified 24
// check: -t 4 --model sc => verified 24
// check: -t 2 -D UNLOCK=memory_order_relaxed => race
// check: -t 2 -D UNLOCK=memory_order_relaxed --model tso => verified 2
#include <pthread.h>
#include <stdatomic.h>

#ifndef THREADS
#define THREADS 2
#endif
#ifndef UNLOCK
#define UNLOCK memory_order_release
#endif

static atomic_int next, serving;
static int first, second;

static void *work(void *unused) {
    int mine = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
    while (atomic_load_explicit(&serving, memory_order_acquire) != mine) {}
    first++;
    second++;
    atomic_store_explicit(&serving, mine + 1, UNLOCK);
    return unused;
}

int main(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    return first != THREADS || second != THREADS;
}
