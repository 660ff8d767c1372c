/* SPDX-License-Identifier: MIT */
/*
 * Flat combining (Hendler, Incze, Shavit and Tzafrir, "Flat Combining and the
 * Synchronization-Parallelism Tradeoff", SPAA 2010), written from the paper as a peer to measure
 * against.
 *
 * Each thread has a record on a list that only grows at its head. It writes its request there;
 * whoever gets the lock, the combiner, walks the list a few times and serves all it finds. A record
 * unused for many combining passes is taken off the list, and its owner puts it back with its next
 * request. The head is never taken off, so the combiner never races with those who add.
 *
 *   fn      the request; cleared when it is done
 *   active  the record is on the list; cleared by the combiner, set by the owner
 */
#ifndef WORKLOADS_FLATCOMB_H
#define WORKLOADS_FLATCOMB_H

#include <hotlock/wait.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "yield.h"

enum {
    FLATCOMB_ROUNDS = 3,  /* walks of one combiner */
    FLATCOMB_CLEAN = 128, /* passes between clean-ups */
    FLATCOMB_OLD = 100    /* passes without a request until a record is taken off */
};

typedef void (*flatcomb_fn)(void *);

struct flatcomb_record {
    _Alignas(64) _Atomic(flatcomb_fn) fn;
    void *arg;
    atomic_bool active;
    struct flatcomb_record *next; /* written by the owner before it is active, then the combiner */
    unsigned age;                 /* the pass that last served it; the combiner's */
};

struct flatcomb {
    _Alignas(64) atomic_bool held;
    unsigned pass; /* under held */
    bool yields;
    _Alignas(64) _Atomic(struct flatcomb_record *) head;
};

static inline void flatcomb_init(struct flatcomb *l, unsigned threads)
{
    l->yields = peers_yield(threads);
}

static inline void flatcomb_publish(struct flatcomb *l, struct flatcomb_record *r)
{
    atomic_store_explicit(&r->active, true, memory_order_relaxed);
    r->next = atomic_load_explicit(&l->head, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&l->head, &r->next, r, memory_order_release,
                                                  memory_order_relaxed))
        ;
}

static inline bool flatcomb_serve(struct flatcomb *l)
{
    bool any = false;
    struct flatcomb_record *r = atomic_load_explicit(&l->head, memory_order_acquire);
    for (; r; r = r->next) {
        flatcomb_fn fn = atomic_load_explicit(&r->fn, memory_order_acquire);
        if (!fn)
            continue;
        fn(r->arg);
        r->age = l->pass;
        any = true;
        atomic_store_explicit(&r->fn, NULL, memory_order_release);
    }
    return any;
}

static inline void flatcomb_clean(struct flatcomb *l)
{
    struct flatcomb_record *before = atomic_load_explicit(&l->head, memory_order_acquire);
    while (before && before->next) {
        struct flatcomb_record *r = before->next;
        if (l->pass - r->age < FLATCOMB_OLD) {
            before = r;
            continue;
        }
        before->next = r->next;
        atomic_store_explicit(&r->active, false, memory_order_release);
    }
}

static inline void flatcomb_combine(struct flatcomb *l)
{
    l->pass++;
    for (int round = 0; round < FLATCOMB_ROUNDS && flatcomb_serve(l); round++)
        ;
    if (l->pass % FLATCOMB_CLEAN == 0)
        flatcomb_clean(l);
    atomic_store_explicit(&l->held, false, memory_order_release);
}

static inline bool flatcomb_try(struct flatcomb *l)
{
    return !atomic_load_explicit(&l->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&l->held, true, memory_order_acquire);
}

static inline void flatcomb_run(struct flatcomb *l, struct flatcomb_record *me, flatcomb_fn fn,
                                void *arg)
{
    me->arg = arg;
    atomic_store_explicit(&me->fn, fn, memory_order_release);
    while (atomic_load_explicit(&me->fn, memory_order_acquire)) {
        if (!atomic_load_explicit(&me->active, memory_order_acquire))
            flatcomb_publish(l, me);
        if (flatcomb_try(l))
            flatcomb_combine(l);
        else
            peers_pause(l->yields);
    }
}

#endif
