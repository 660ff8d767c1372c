// SPDX-License-Identifier: MIT
// historic.c - bugs that real locks had, rebuilt from their descriptions. Each hides on x86.
//
// DPDK's MCS lock, as first shipped, linked a waiter to its predecessor without release (mended in
// 2020), and read that link in unlock without acquire (mended in 2025). Either way the "go" written
// into the waiter's node may be ordered before the "wait" that its owner wrote: it waits for ever.
// check: -D LINK=relaxed => deadlock
// check: -D LINK=relaxed --model tso => verified
// check: -D FOLLOW=relaxed => deadlock
// check: -D FOLLOW=relaxed --model tso => verified
// check: -D NEITHER => verified
//
// The original alispinlock (Ma Ling, linux-kernel, December 2015) told a requester that its section
// had been run by a plain store, and the requester watched it by plain loads: right on x86 alone,
// where stores become visible in order.
// check: -D ALI -D DONE=relaxed => race
// check: -D ALI -D DONE=relaxed --model tso => verified
// check: -D ALI -D SEEN=relaxed => race
// check: -D ALI -D SEEN=relaxed --model sc => verified
// check: -D ALI => verified
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define ORDER_(o) memory_order_##o
#define ORDER(o) ORDER_(o)
#ifndef LINK
#define LINK release
#endif
#ifndef FOLLOW
#define FOLLOW acquire
#endif
#ifndef DONE
#define DONE release
#endif
#ifndef SEEN
#define SEEN acquire
#endif

typedef struct node {
    _Atomic(struct node *) next;
    atomic_int waiting;
    int *data;
} node_t;

static _Atomic(node_t *) tail;
static node_t nodes[2];
static int sum[2];

#ifdef ALI
// One exchange joins; who finds nobody owns the lock and runs what follows it in the queue.
static void *work(void *arg) {
    node_t *me = arg, *last;
    me->data = &sum[me - nodes];
    atomic_store_explicit(&me->waiting, 1, memory_order_relaxed);
    atomic_store_explicit(&me->next, NULL, memory_order_relaxed);
    last = atomic_exchange_explicit(&tail, me, memory_order_acq_rel);
    if (last) {
        atomic_store_explicit(&last->next, me, memory_order_release);
        while (atomic_load_explicit(&me->waiting, ORDER(SEEN))) {}
        assert(*me->data == 1);
        return NULL;
    }
    for (node_t *n = me;;) {
        ++*n->data;
        node_t *end = n, *next = NULL;
        bool more = !atomic_compare_exchange_strong_explicit(&tail, &end, NULL,
                                                             memory_order_release,
                                                             memory_order_relaxed);
        while (more && !(next = atomic_load_explicit(&n->next, memory_order_acquire))) {}
        atomic_store_explicit(&n->waiting, 0, ORDER(DONE));
        if (!more) return NULL;
        n = next;
    }
}
#else
static void *work(void *arg) {
    node_t *me = arg, *end = me, *next;
    atomic_store_explicit(&me->waiting, 1, memory_order_relaxed);
    atomic_store_explicit(&me->next, NULL, memory_order_relaxed);
    node_t *last = atomic_exchange_explicit(&tail, me, memory_order_acq_rel);
    if (last) {
        atomic_store_explicit(&last->next, me, ORDER(LINK));
        while (atomic_load_explicit(&me->waiting, memory_order_acquire)) {}
    }
    sum[0]++;
    if (!(next = atomic_load_explicit(&me->next, ORDER(FOLLOW)))) {
        if (atomic_compare_exchange_strong_explicit(&tail, &end, NULL, memory_order_release,
                                                    memory_order_relaxed))
            return NULL;
        while (!(next = atomic_load_explicit(&me->next, ORDER(FOLLOW)))) {}
    }
    atomic_store_explicit(&next->waiting, 0, memory_order_release);
    return NULL;
}
#endif

int main(void) {
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, work, &nodes[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert(sum[0] + sum[1] == 2);
    return 0;
}
