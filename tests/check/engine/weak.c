// SPDX-License-Identifier: MIT
// weak.c - a weak compare-exchange may fail although the values agree, so it belongs into a loop. A
// try-lock made of one gives up on a free lock; x86 never shows that.
// check: --model c11 => assert
// check: --weak-failures 0 => verified 1
// check: --model tso => verified 1
// check: -D STRONG => verified 1
// check: -D RETRY => verified 2
// check: -D RETRY --weak-failures 3 => verified 4
// check: -D RETRY --search plain => plain 2
// check: -D RETRY -D LOCKS => verified 16
// check: -D RETRY -D LOCKS --search plain => plain 82
// check: -D RETRY -D LOCKS --weak-failures 0 => verified 2
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_int word;
static int inside;

static bool take(void) {
    int free = 0;
#ifdef STRONG
    return atomic_compare_exchange_strong_explicit(&word, &free, 1, memory_order_acquire,
                                                   memory_order_relaxed);
#else
    return atomic_compare_exchange_weak_explicit(&word, &free, 1, memory_order_acquire,
                                                 memory_order_relaxed);
#endif
}

static void *work(void *unused) {
#ifdef RETRY
    while (!take()) continue;
#else
    assert(take());  // nobody else ever takes it
#endif
    inside++;
    atomic_store_explicit(&word, 0, memory_order_release);
    return unused;
}

int main(void) {
    pthread_t t[2];
    int n = 0;
    pthread_create(&t[n++], NULL, work, NULL);
#ifdef LOCKS
    pthread_create(&t[n++], NULL, work, NULL);
#endif
    while (n) pthread_join(t[--n], NULL);
    return 0;
}
