/* SPDX-License-Identifier: MIT */
/*
 * Two queue locks as they were published, written from the papers to measure against: what do ours
 * cost more for not waiting on a thread that does not run?
 *
 * plain_mcs  Mellor-Crummey and Scott, "Algorithms for Scalable Synchronization on Shared-Memory
 *            Multiprocessors", ACM TOCS, 1991: a waiter spins on its own node, strictly in turn.
 * plain_k42  the form of K42 (Stultz, linux-ia64, February 2002): the lock is itself the holder's
 *            node, so the caller needs none once it has the lock.
 *
 * plain_k42's tail: NULL free; the lock's own address held, nobody waits; else the last waiter.
 */
#ifndef WORKLOADS_PLAIN_H
#define WORKLOADS_PLAIN_H

#include <hotlock/wait.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct plain_node {
    _Alignas(16) _Atomic(struct plain_node *) next;
    _Atomic(struct plain_node *) tail; /* of a waiter: NULL once it is its turn */
};

struct plain_mcs {
    _Atomic(struct plain_node *) tail;
};

/* The link of a node behind which somebody is known to queue. */
static inline struct plain_node *plain_await(struct plain_node *n)
{
    struct plain_node *next;
    while (!(next = atomic_load_explicit(&n->next, memory_order_acquire)))
        hl_pause();
    return next;
}

static inline void plain_wait(struct plain_node *me, struct plain_node *before)
{
    atomic_store_explicit(&before->next, me, memory_order_release);
    while (atomic_load_explicit(&me->tail, memory_order_acquire))
        hl_pause();
}

static inline void plain_ready(struct plain_node *me)
{
    atomic_store_explicit(&me->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&me->tail, me, memory_order_relaxed);
}

/* True: *p held `old` and now holds `new`. Acquire to take the lock, release to give it up. */
static inline bool plain_swap(_Atomic(struct plain_node *) *p, struct plain_node *old,
                              struct plain_node *new)
{
    return atomic_compare_exchange_strong_explicit(p, &old, new, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static inline void plain_mcs_lock(struct plain_mcs *l, struct plain_node *me)
{
    plain_ready(me);
    struct plain_node *before = atomic_exchange_explicit(&l->tail, me, memory_order_acq_rel);
    if (before)
        plain_wait(me, before);
}

static inline void plain_mcs_unlock(struct plain_mcs *l, struct plain_node *me)
{
    if (!atomic_load_explicit(&me->next, memory_order_acquire) && plain_swap(&l->tail, me, NULL))
        return;
    atomic_store_explicit(&plain_await(me)->tail, NULL, memory_order_release);
}

/* Behind `before`, with a node on this function's stack; on return the queue hangs at the lock. */
static inline bool plain_k42_queue(struct plain_node *l, struct plain_node *before)
{
    struct plain_node me;
    plain_ready(&me);
    if (!plain_swap(&l->tail, before, &me))
        return false;
    plain_wait(&me, before);
    struct plain_node *next = atomic_load_explicit(&me.next, memory_order_acquire);
    atomic_store_explicit(&l->next, NULL, memory_order_relaxed);
    if (!next && plain_swap(&l->tail, &me, l))
        return true;
    atomic_store_explicit(&l->next, plain_await(&me), memory_order_relaxed);
    return true;
}

static inline void plain_k42_lock(struct plain_node *l)
{
    for (;;) {
        struct plain_node *before = atomic_load_explicit(&l->tail, memory_order_relaxed);
        if (before ? plain_k42_queue(l, before) : plain_swap(&l->tail, NULL, l))
            return;
    }
}

static inline void plain_k42_unlock(struct plain_node *l)
{
    if (!atomic_load_explicit(&l->next, memory_order_acquire) && plain_swap(&l->tail, l, NULL))
        return;
    atomic_store_explicit(&plain_await(l)->tail, NULL, memory_order_release);
}

#endif
