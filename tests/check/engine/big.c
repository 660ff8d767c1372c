// SPDX-License-Identifier: MIT
// big.c - a program with thousands of events, for random and pct searches. LATE: in the end one
// thread no longer locks. A relaxed ORDER: only weak memory shows that.
// check: --search random --samples 8 => sampled 8
// check: --search random --samples 100000 --time-limit 0.2 => the time limit of
// check: --search pct --samples 20 => sampled 18
// check: --search random --samples 8 --model tso => sampled 8
// check: --search random --samples 8 -D ORDER=memory_order_seq_cst => sampled 8
// check: -D LATE --search random --samples 8 => race
// check: -D LATE --search pct --samples 8 => race
// check: -D ORDER=memory_order_relaxed --search random --samples 8 => race
// check: --search random --samples 5 --bound 250 => sampled 0
// check: --search random --bound 4001 => bad input
// check: --bound 251 => bad input
// check: --loops 250 => bound
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef ORDER
#define ORDER memory_order_release
#endif
#ifdef LATE
#define LATE_AT 330
#else
#define LATE_AT ROUNDS
#endif
enum { ROUNDS = 400 };

static atomic_bool word;
static int counter;

static void *work(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        bool locks = !arg || i < LATE_AT;
        while (locks && atomic_exchange_explicit(&word, true, memory_order_acquire)) continue;
        counter++;
        if (locks) atomic_store_explicit(&word, false, ORDER);
    }
    return NULL;
}

int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, work, i ? NULL : &counter);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    assert(counter == 3 * ROUNDS);
    return 0;
}
