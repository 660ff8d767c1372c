// SPDX-License-Identifier: MIT
// nmcs.h - NMCS, the K42 variant of the MCS lock: a queue lock that is called like a spinlock.
//
// The queue nodes stand on the stacks of the waiting calls, so lock(l) and unlock(l) need no
// node argument, and the holder needs no node at all: before lock() returns, the new holder
// takes its node out of the queue and leaves the name of the next waiter in the lock. (Auslander,
// Edelsohn, Krieger, Rosenburg and Wisniewski for K42; brought to Linux as NMCS by Stultz,
// linux-ia64, 15 February 2002; Scott, Shared-Memory Synchronization, 2013, section 4.3.)
//
//   tail   who is last, and flags: the table in queue.h
//   first  the first waiter; belongs to the holder, or to the heir while BARGE is set. An arrival
//          that finds tail == HELD fills it in.
//
// Invariant: a waiter leaves the queue only as its first and while it owns `first`, so no node
// can be reached any more when the call that it stands in returns.
//
// Cost: one atomic to lock, one to unlock; 16 bytes. First come, first served among the awake.
// Not for memory shared by processes: a stack is private.
#ifndef HOTLOCK_NMCS_H
#define HOTLOCK_NMCS_H

#include "queue.h"

#ifndef HL_NMCS_WAIT
#define HL_NMCS_WAIT HL_WAIT_PARK
#endif

typedef struct {
    hl_atomic_uptr_t tail;
    hl_atomic_node_t first;
} HL_CAPABILITY hl_nmcs_t;
#define HL_NMCS_INIT {{0}, {0}}

HL_API(NMCS, LOCK) void hl_nmcs_lock(hl_nmcs_t *l) HL_ACQUIRES(*l);
HL_API(NMCS, LOCK) HL_MUST_USE bool hl_nmcs_lock_until(hl_nmcs_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(NMCS, TRYLOCK) HL_MUST_USE bool hl_nmcs_trylock(hl_nmcs_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(NMCS, UNLOCK) void hl_nmcs_unlock(hl_nmcs_t *l) HL_RELEASES(*l);
HL_API(NMCS, UNLOCK) bool hl_nmcs_is_locked(const hl_nmcs_t *l);

// ------------------------------------------------------------------------- the algorithm
// Written once for both sizes: nmcs keeps addresses, nmcs4 names (see hl_queue_t).

// An arrival that found the lock held and nobody waiting: the releaser waits for this link. What it
// publishes is published by the tail as well, since hl_nmcs_release() acquires that. No check needs
// the orders of the link; they are kept because it is a link like any other. Nor, where it is
// found LEFT, those of that: no node is freed by it, and the tail was released when the lock was
// freed, which the heir acquires.
HL_INLINE bool hl_nmcs_link_first(hl_queue_t q, hl_node_t *n) {
    if (q.first) return hl_link(q.first, n);
    uint16_t name = (uint16_t)hl_name(q.tail, n);
    if (HL_SUSPENDABLE) return hl_xchg_acqrel(q.first_name, name) == 0;
    hl_store_rel(q.first_name, name);
    return true;
}

// As hl_await_link().
HL_INLINE hl_node_t *hl_nmcs_await_first(hl_queue_t q) {
    if (q.first) return hl_await_link(q.first);
    hl_poll_t wait = hl_await_begin(HL_SUSPENDABLE);
    uint16_t name;
    while (!(name = hl_load_acq(q.first_name))) {  // see hl_nmcs_link_first()
        if (hl_poll(&wait) || !HL_SUSPENDABLE) continue;
        if (hl_cas_rel(q.first_name, 0, (uint16_t)HL_LEFT)) return NULL;
    }
    return hl_named(q.tail, name);
}

// Takes the first node out of the queue of a lock that we hold. False: it is left to one that is
// about to link itself, which is heir, and we have overtaken it.
HL_INLINE bool hl_nmcs_unlink(hl_queue_t q, hl_node_t *first) {
    hl_node_t *next = hl_load_acq(&first->next);
    if (!next) {
        hl_set_first(q, NULL);
        // The release puts the NULL before the link of the next arrival.
        if (hl_tail_cas_rel(q.tail, hl_name(q.tail, first), HL_HELD)) return true;
        next = hl_await_link(&first->next);
        if (!next) {
            hl_tail_add(q.tail, HL_BARGE);
            return false;
        }
    }
    hl_set_first(q, next);
    return true;
}

// Links the node to the one it joined behind: `seen` was the tail.
HL_INLINE void hl_nmcs_link(hl_queue_t q, uintptr_t seen, hl_node_t *me) {
    if (seen == HL_HELD ? hl_nmcs_link_first(q, me)
                        : hl_link(&hl_named(q.tail, seen)->next, me))
        return;
    if (seen != HL_HELD) hl_node_free(hl_named(q.tail, seen));
    hl_store(&me->state, HL_HEIR);
}

// True: the lock was there for the taking. False: `me` is in the queue.
HL_INLINE bool hl_nmcs_take_or_join(hl_queue_t q, hl_node_t *me, uint64_t deadline_ns) {
    if (hl_barge(q.tail, deadline_ns)) return true;
    for (;;) {
        uintptr_t seen = hl_tail_load(q.tail);
        if (hl_can_take(seen)) {
            if (hl_tail_take(q.tail, seen)) return true;
            continue;
        }
        // Not an exchange, which would lose the flags. The release publishes the fresh node; the
        // acquire makes the last waiter's node, fresh as well, visible before it is linked.
        if (!hl_tail_cas_acqrel(q.tail, seen, hl_name(q.tail, me) | (seen & HL_FLAGS))) continue;
        hl_nmcs_link(q, seen, me);
        return false;
    }
}

// The rest of lock() once `me` is in the queue. False at the deadline. *left says that the node is
// not the caller's any more: it stands in the queue, GONE, or see HL_SUSPENDABLE.
HL_INLINE bool hl_nmcs_wait(hl_queue_t q, hl_node_t *me, uint64_t deadline_ns, bool *left) {
    hl_wait_policy_t policy = hl_wait_get(HL_NMCS_WAIT);
    *left = !hl_queue_wait(q.tail.wide ? (void *)q.tail.wide : (void *)q.tail.word, me, policy,
                           deadline_ns);
    if (*left) return false;
    if (hl_load(&me->state) == HL_HEIR && !hl_heir_compete(q.tail, policy, deadline_ns)) {
        *left = !hl_abdicate(q, me);
        return false;
    }
    *left = !hl_nmcs_unlink(q, me);
    return true;
}

// lock() with a node of the pool, or polling while none is to be had.
HL_INLINE bool hl_nmcs_lock_pooled(hl_queue_t q, uint64_t deadline_ns) {
    const void *lock = q.tail.wide ? (void *)q.tail.wide : (void *)q.tail.word;
    hl_poll_t poll = hl_poll_begin(HL_WAIT_PARK, deadline_ns);
    bool got, queued, left = false;
    hl_node_t *me;
    do {
        if (hl_tail_take(q.tail, hl_tail_load(q.tail))) return true;
        if (hl_past(deadline_ns)) return false;
        me = hl_node_claim_for(lock, deadline_ns, &queued);
    } while (!me && hl_poll(&poll));
    if (!me) return false;
    if (!queued) hl_node_ready(me, HL_WAITING);
    got = (!queued && hl_nmcs_take_or_join(q, me, deadline_ns)) ||
          hl_nmcs_wait(q, me, deadline_ns, &left);
    if (!left) hl_node_free(me);
    return got;
}

HL_INLINE void hl_nmcs_release(hl_queue_t q) {
    for (;;) {
        // The acquire is for a holder that overtook the queue: an heir that gave up meanwhile, in
        // hl_abdicate(), cleared `first` before it left the tail to those who came after it.
        uintptr_t seen = hl_tail_load_acq(q.tail);
        if (seen == HL_HELD) {
            if (hl_tail_cas_rel(q.tail, seen, 0)) return;
            continue;
        }
        if (seen & HL_BARGE) {
            if (hl_tail_unbarge(q.tail, seen)) return;
            continue;
        }
        hl_node_t *first = hl_nmcs_await_first(q);
        if (!first) hl_tail_add(q.tail, HL_FREE | HL_BARGE);
        if (!first || hl_pass(q.tail, first)) return;
        if (hl_nmcs_unlink(q, first)) hl_node_free(first);
    }
}

// ------------------------------------------------------------------------- 16 bytes
HL_INLINE hl_queue_t hl_nmcs_queue(hl_nmcs_t *l) {
    if (!l) __builtin_unreachable();  // or GCC warns of the path on which &l->tail is NULL
    hl_queue_t q = {{&l->tail, NULL, NULL}, &l->first, NULL};
    return q;
}

#if HL_BODY(NMCS, LOCK)
#ifdef HL_SLOW_ELSEWHERE  // a kernel has one copy for all that inline the rest
void hl_nmcs_lock_slow(hl_nmcs_t *l);
#else
HL_SLOW void hl_nmcs_lock_slow(hl_nmcs_t *l) {
    hl_queue_t q = hl_nmcs_queue(l);
    hl_node_t me HL_ALIGNED;
    bool left;
    hl_node_ready(&me, HL_WAITING);
    if (HL_SUSPENDABLE) (void)hl_nmcs_lock_pooled(q, HL_NO_DEADLINE);
    else if (!hl_nmcs_take_or_join(q, &me, HL_NO_DEADLINE))
        (void)hl_nmcs_wait(q, &me, HL_NO_DEADLINE, &left);
}
#endif

HL_SLOW bool hl_nmcs_lock_until_slow(hl_nmcs_t *l, uint64_t deadline_ns) {
    return hl_nmcs_lock_pooled(hl_nmcs_queue(l), deadline_ns);
}

HL_API(NMCS, LOCK) void hl_nmcs_lock(hl_nmcs_t *l) {
    if (hl_unlikely(!hl_cas_acq(&l->tail, 0, HL_HELD))) hl_nmcs_lock_slow(l);
}

HL_API(NMCS, LOCK) bool hl_nmcs_lock_until(hl_nmcs_t *l, uint64_t deadline_ns) {
    return hl_cas_acq(&l->tail, 0, HL_HELD) || hl_nmcs_lock_until_slow(l, deadline_ns);
}
#endif

#if HL_BODY(NMCS, TRYLOCK)
HL_API(NMCS, TRYLOCK) bool hl_nmcs_trylock(hl_nmcs_t *l) {
    return hl_tail_take(hl_nmcs_queue(l).tail, hl_load(&l->tail));
}
#endif

#if HL_BODY(NMCS, UNLOCK)
#ifdef HL_SLOW_ELSEWHERE
void hl_nmcs_unlock_slow(hl_nmcs_t *l);
#else
HL_SLOW void hl_nmcs_unlock_slow(hl_nmcs_t *l) { hl_nmcs_release(hl_nmcs_queue(l)); }
#endif

HL_API(NMCS, UNLOCK) void hl_nmcs_unlock(hl_nmcs_t *l) {
    if (hl_unlikely(!hl_cas_rel(&l->tail, HL_HELD, 0))) hl_nmcs_unlock_slow(l);
}

HL_API(NMCS, UNLOCK) bool hl_nmcs_is_locked(const hl_nmcs_t *l) {
    uintptr_t seen = hl_load(&l->tail);
    return seen && !(seen & HL_FREE);
}
#endif

#endif
