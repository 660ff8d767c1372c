// SPDX-License-Identifier: MIT
// stock.h - the locks of the published runs, written from their descriptions, for validation only.
//
// Ours hand over to waiters that are awake, which costs accesses the measured locks did not make.
// So the simulator is held against textbook MCS (Mellor-Crummey and Scott, ACM TOCS 9(1), 1991) and
// against the word of Linux's queued spinlock: a locked byte, a pending byte, a 16-bit tail
// (W. Long and P. Zijlstra, 2015), both spinning without a limit.
#ifndef STOCK_H
#define STOCK_H

#include <hotlock/wait.h>
#include <stdatomic.h>

enum { STOCK_THREADS = 2048 };

typedef struct stock_node {
    _Alignas(64) _Atomic(struct stock_node *) next;
    atomic_int granted;
    int nested;   // Linux's: how many of a CPU's nodes are in use
} stock_node_t;

// One per thread, as the kernel has one per CPU.
static stock_node_t stock_node[STOCK_THREADS + 1];

static inline void stock_wait(stock_node_t *me, stock_node_t *before) {
    atomic_store_explicit(&before->next, me, memory_order_release);
    while (!atomic_load_explicit(&me->granted, memory_order_acquire)) hl_pause();
}

static inline stock_node_t *stock_next(stock_node_t *me) {
    stock_node_t *next;
    while (!(next = atomic_load_explicit(&me->next, memory_order_acquire))) hl_pause();
    return next;
}

static inline void stock_ready(stock_node_t *me) {
    atomic_store_explicit(&me->next, NULL, memory_order_relaxed);
    atomic_store_explicit(&me->granted, 0, memory_order_relaxed);
}

#ifdef QSPIN
typedef union {
    atomic_uint word;
    struct { atomic_uchar locked, pending; _Atomic uint16_t tail; };
    _Atomic uint16_t locked_pending;
} stock_lock_t;
enum { LOCKED = 1, PENDING = 1 << 8, TAIL_SHIFT = 16, PENDING_LOOPS = 512 };

// Takes it if it is free; else *seen is what it is.
static inline bool stock_try(stock_lock_t *l, unsigned *seen) {
    *seen = 0;
    return atomic_compare_exchange_strong_explicit(&l->word, seen, LOCKED, memory_order_acquire,
                                                   memory_order_relaxed);
}

// The first waiter needs no node: true if it got the lock that way. Whoever has just seen others
// wait does not look again, but lets one that is taking the lock have it.
static inline bool stock_pending(stock_lock_t *l, unsigned seen) {
    for (int i = 0; seen == PENDING && i < PENDING_LOOPS; i++) {
        hl_pause();
        seen = atomic_load_explicit(&l->word, memory_order_relaxed);
    }
    if (seen & ~(unsigned)LOCKED) return false;
    seen = atomic_fetch_or_explicit(&l->word, PENDING, memory_order_acquire);
    if (seen & ~(unsigned)LOCKED) {
        if (!(seen & PENDING)) atomic_store_explicit(&l->pending, 0, memory_order_relaxed);
        return false;
    }
    while (atomic_load_explicit(&l->locked, memory_order_acquire)) hl_pause();
    atomic_store_explicit(&l->locked_pending, LOCKED, memory_order_relaxed);
    return true;
}

// At the head of the queue. Who comes next is read early, if there is one yet.
static void stock_take(stock_lock_t *l, stock_node_t *me, unsigned mine) {
    stock_node_t *next = atomic_load_explicit(&me->next, memory_order_relaxed);
    unsigned seen;
    while ((seen = atomic_load_explicit(&l->word, memory_order_acquire)) & (LOCKED | PENDING))
        hl_pause();
    if ((seen & ~0xffffu) == mine &&
        atomic_compare_exchange_strong_explicit(&l->word, &seen, LOCKED, memory_order_relaxed,
                                                memory_order_relaxed))
        return;
    atomic_store_explicit(&l->locked, LOCKED, memory_order_relaxed);
    if (!next) next = stock_next(me);
    atomic_store_explicit(&next->granted, 1, memory_order_release);
}

static __attribute__((noinline)) void stock_slow(stock_lock_t *l, int index, unsigned seen) {
    stock_node_t *me = &stock_node[index + 1];
    uint16_t mine = (uint16_t)(index + 1), before;
    if (stock_pending(l, seen)) return;
    me->nested++;
    stock_ready(me);
    bool got = !atomic_load_explicit(&l->word, memory_order_relaxed) && stock_try(l, &seen);
    if (!got) {
        before = atomic_exchange_explicit(&l->tail, mine, memory_order_acq_rel);
        if (before) stock_wait(me, &stock_node[before]);
        stock_take(l, me, (unsigned)mine << TAIL_SHIFT);
    }
    me->nested--;
}

static inline void stock_lock(stock_lock_t *l, int index) {
    unsigned seen;
    if (!stock_try(l, &seen)) stock_slow(l, index, seen);
}
static inline void stock_unlock(stock_lock_t *l, int index) {
    (void)index;
    atomic_store_explicit(&l->locked, 0, memory_order_release);
}
#else
typedef struct { _Atomic(stock_node_t *) tail; } stock_lock_t;

static inline void stock_lock(stock_lock_t *l, int index) {
    stock_node_t *me = &stock_node[index];
    stock_ready(me);
    stock_node_t *before = atomic_exchange_explicit(&l->tail, me, memory_order_acq_rel);
    if (before) stock_wait(me, before);
}
static inline void stock_unlock(stock_lock_t *l, int index) {
    stock_node_t *me = &stock_node[index], *last = me;
    if (!atomic_load_explicit(&me->next, memory_order_acquire) &&
        atomic_compare_exchange_strong_explicit(&l->tail, &last, NULL, memory_order_release,
                                                memory_order_relaxed))
        return;
    atomic_store_explicit(&stock_next(me)->granted, 1, memory_order_release);
}
#endif

#endif
