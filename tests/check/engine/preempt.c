// SPDX-License-Identifier: MIT
// preempt.c - a bug that two preemptions are needed for: the reader must come between the stores,
// and the second store between the reads.
// check: --samples 5 => --samples is about single executions; give --search
// check: --model sc => assert
// check: --model sc --search plain => assert
// check: --model sc --preemptions 0 => within 0: 2
// check: --model sc --preemptions 1 => within 1: 4
// check: --model sc --preemptions 2 => assert
// check: --model sc --preemptions 2 -D RIGHT => all 6
// check: --model sc --preemptions 9 -D RIGHT => all 6
// check: --model sc --search plain -D RIGHT => plain 6
// check: --model c11 --preemptions 0 => assert
// check: --preemptions 1 --search pct => bad input
// check: --preemptions 1 --orders => bad input
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static atomic_int busy;

static void *writer(void *unused) {
    atomic_store_explicit(&busy, 1, memory_order_relaxed);
    atomic_store_explicit(&busy, 0, memory_order_relaxed);
    return unused;
}

static void *reader(void *unused) {
    int first = atomic_load_explicit(&busy, memory_order_relaxed);
    int second = atomic_load_explicit(&busy, memory_order_relaxed);
#ifdef RIGHT
    assert(first >= 0 && second >= 0);
#else
    assert(!first || second);
#endif
    return unused;
}

int main(void) {
    pthread_t t[2];
    pthread_create(&t[0], NULL, writer, NULL);
    pthread_create(&t[1], NULL, reader, NULL);
    pthread_join(t[0], NULL);
    pthread_join(t[1], NULL);
    return 0;
}
