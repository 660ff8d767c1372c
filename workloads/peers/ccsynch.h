/* SPDX-License-Identifier: MIT */
/*
 * CC-Synch, a combining queue (Fatourou and Kallimanis, "Revisiting the Combining Synchronization
 * Technique", PPoPP 2012), written from the paper as a peer to measure against.
 *
 * The queue always ends in an empty node. A thread swaps its spare node in as the new end, writes
 * its request into the old one, and from then on owns that one instead. The thread whose node
 * stands first serves requests along the list, at most MOST of them, and passes the role on.
 *
 *   wait       cleared when the request is done, or when its owner is to serve
 *   completed  the request is done
 */
#ifndef WORKLOADS_CCSYNCH_H
#define WORKLOADS_CCSYNCH_H

#include <hotlock/wait.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "yield.h"

enum { CCSYNCH_MOST = 1024 };

struct ccsynch_node {
    _Alignas(64) _Atomic(struct ccsynch_node *) next;
    void (*fn)(void *);
    void *arg;
    bool completed;
    atomic_bool wait;
};

struct ccsynch {
    _Alignas(64) _Atomic(struct ccsynch_node *) tail;
    bool yields;
};

struct ccsynch_thread {
    struct ccsynch_node *spare;
};

static inline void ccsynch_init(struct ccsynch *l, struct ccsynch_node *first, unsigned threads)
{
    atomic_init(&l->tail, first);
    l->yields = peers_yield(threads);
}

static inline void ccsynch_serve(struct ccsynch_node *node)
{
    for (unsigned served = 0; served < CCSYNCH_MOST; served++) {
        /* Pairs with the release store of next: the request below it is complete. */
        struct ccsynch_node *next = atomic_load_explicit(&node->next, memory_order_acquire);
        if (!next)
            break;
        hl_prefetch_write(next);
        node->fn(node->arg);
        node->completed = true;
        atomic_store_explicit(&node->wait, false, memory_order_release); /* to its owner */
        node = next;
    }
    atomic_store_explicit(&node->wait, false, memory_order_release); /* serve on */
}

static inline void ccsynch_run(struct ccsynch *l, struct ccsynch_thread *me, void (*fn)(void *),
                               void *arg)
{
    struct ccsynch_node *end = me->spare;
    atomic_store_explicit(&end->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&end->wait, true, memory_order_relaxed);
    end->completed = false;
    struct ccsynch_node *mine = atomic_exchange_explicit(&l->tail, end, memory_order_acq_rel);
    mine->fn = fn;
    mine->arg = arg;
    atomic_store_explicit(&mine->next, end, memory_order_release);
    me->spare = mine;
    while (atomic_load_explicit(&mine->wait, memory_order_acquire))
        peers_pause(l->yields);
    if (!mine->completed)
        ccsynch_serve(mine);
}

#endif
