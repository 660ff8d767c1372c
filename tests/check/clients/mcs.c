// SPDX-License-Identifier: MIT
// mcs.c - the textbook queue lock (Mellor-Crummey and Scott, ACM TOCS 1991), the yardstick of
// checkers: N threads with one section each have exactly 6, 66, 1 080, 23 640 executions.
// check: -t 2 => verified 6
// check: -t 3 => verified 66
// check: -t 4 => verified 1080
// check: -t 5 => verified 23640
// check: -t 5 --model sc => verified 23640
// check: -t 5 --model tso => verified 23640
// check: -t 2 -D SECTIONS=2 => verified 78
// check: -t 2 -D SECTIONS=3 => verified 1068
// check: -t 2 -D SECTIONS=4 => verified 15126
// check: -t 3 -D SECTIONS=2 => verified 17670
// check: -t 3 -D SECTIONS=2 --model tso => verified 17670
// check: -t 3 --orders => 8 orders needed
// check: -t 2 -D HAND_OVER=memory_order_relaxed => race
// check: -t 2 -D HAND_OVER=memory_order_relaxed --model tso => verified 6
// check: -t 3 -D NO_WAIT_FOR_NEXT => crash
// check: -t 2 -D STORE_TAIL => deadlock
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#ifndef THREADS
#define THREADS 2
#endif
#ifndef SECTIONS
#define SECTIONS 1
#endif
#ifndef HAND_OVER
#define HAND_OVER memory_order_release
#endif

typedef struct node {
    _Atomic(struct node *) next;
    atomic_int locked;
} node_t;

static _Atomic(node_t *) tail;
static node_t nodes[THREADS];
static int first, second;

static void lock(node_t *n) {
    atomic_store_explicit(&n->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&n->locked, 1, memory_order_relaxed);
    node_t *before = atomic_exchange_explicit(&tail, n, memory_order_acq_rel);
    if (!before) return;
    atomic_store_explicit(&before->next, n, memory_order_release);
    while (atomic_load_explicit(&n->locked, memory_order_acquire)) {}
}

static void unlock(node_t *n) {
    node_t *after = atomic_load_explicit(&n->next, memory_order_acquire);
    if (!after) {
#ifdef STORE_TAIL  // seeded: an arrival between the load and this store is lost
        atomic_store_explicit(&tail, NULL, memory_order_release);
        return;
#endif
        node_t *me = n;
        if (atomic_compare_exchange_strong_explicit(&tail, &me, NULL, memory_order_release,
                                                    memory_order_relaxed))
            return;
#ifndef NO_WAIT_FOR_NEXT
        while (!(after = atomic_load_explicit(&n->next, memory_order_acquire))) {}
#endif
    }
    atomic_store_explicit(&after->locked, 0, HAND_OVER);
}

static void *work(void *arg) {
    node_t *n = arg;
    for (int i = 0; i < SECTIONS; i++) {
        lock(n);
        first++;
        second++;
        unlock(n);
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, &nodes[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert(first == THREADS * SECTIONS && second == THREADS * SECTIONS);
    return 0;
}
