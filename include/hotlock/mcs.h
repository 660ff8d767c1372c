// SPDX-License-Identifier: MIT
// mcs.h - the queue lock of Mellor-Crummey and Scott: the caller brings the node.
//
// Arrivals join at the tail, each waits on its own node, the holder's node links to the next
// (Mellor-Crummey and Scott, ACM TOCS 9(1), 1991). The reference that the other queue locks are
// measured against. It differs from the textbook where waiters may sleep: see queue.h.
//
//   tail   who is last, and flags: the table in queue.h. In the queue, the holder's node is first;
//          a holder that overtook the queue has state BARGED and its node is not in it.
//
// Cost: one atomic to lock, one to unlock; 8 bytes, and 16 a node. First come, first served among
// the awake. The node must live, untouched, until unlock() returns.
// Not for memory shared by processes.
#ifndef HOTLOCK_MCS_H
#define HOTLOCK_MCS_H

#include "queue.h"

#ifndef HL_MCS_WAIT
#define HL_MCS_WAIT HL_WAIT_PARK
#endif

typedef struct { hl_atomic_uptr_t tail; } HL_CAPABILITY hl_mcs_t;
typedef hl_node_t hl_mcs_node_t;
#define HL_MCS_INIT {{0}}

HL_API(MCS, LOCK) void hl_mcs_lock(hl_mcs_t *l, hl_mcs_node_t *me) HL_ACQUIRES(*l);
HL_API(MCS, LOCK) HL_MUST_USE bool hl_mcs_lock_until(hl_mcs_t *l, hl_mcs_node_t *me,
                                                     uint64_t deadline_ns) HL_ACQUIRES_IF(true, *l);
HL_API(MCS, TRYLOCK) HL_MUST_USE bool hl_mcs_trylock(hl_mcs_t *l, hl_mcs_node_t *me)
    HL_ACQUIRES_IF(true, *l);
HL_API(MCS, UNLOCK) void hl_mcs_unlock(hl_mcs_t *l, hl_mcs_node_t *me) HL_RELEASES(*l);
HL_API(MCS, UNLOCK) bool hl_mcs_is_locked(const hl_mcs_t *l);

HL_INLINE hl_queue_t hl_mcs_queue(hl_mcs_t *l) {
    if (!l) __builtin_unreachable();  // or the compiler keeps a way on which &l->tail is NULL
    hl_queue_t q = {{&l->tail, NULL, NULL}, NULL, NULL};
    return q;
}

#if HL_BODY(MCS, LOCK) || HL_BODY(MCS, TRYLOCK)
// The acquire pairs with the release of 0; the release publishes the fresh node to the next.
HL_INLINE bool hl_mcs_take_empty(hl_mcs_t *l, hl_mcs_node_t *me) {
    hl_node_ready(me, HL_GRANTED);
    return hl_cas_acqrel(&l->tail, 0, (uintptr_t)me);
}
#endif

#if HL_BODY(MCS, LOCK)
// True: the lock was there for the taking, past the queue. False: `me` is in the queue.
HL_INLINE bool hl_mcs_take_or_join(hl_mcs_t *l, hl_mcs_node_t *me, uint64_t deadline_ns) {
    hl_tail_t tail = hl_mcs_queue(l).tail;
    bool took = hl_barge(tail, deadline_ns);
    while (!took) {
        uintptr_t seen = hl_load(&l->tail);
        if (hl_can_take(seen)) {
            took = hl_tail_take(tail, seen);
            continue;
        }
        // The holder overtook a queue that has since gone: nobody would find us, we are heir.
        bool heir = seen == HL_HELD;
        hl_node_ready(me, heir ? HL_HEIR : HL_WAITING);
        uintptr_t flags = heir ? HL_BARGE : seen & HL_FLAGS;
        if (!hl_cas_acqrel(&l->tail, seen, (uintptr_t)me | flags)) continue;
        if (!heir && !hl_link(&hl_named(tail, seen)->next, me)) {
            hl_node_free(hl_named(tail, seen));
            hl_store(&me->state, HL_HEIR);
        }
        return false;
    }
    hl_node_ready(me, HL_BARGED);
    return true;
}

// The rest of lock() once `me` is in the queue; as hl_nmcs_wait(), but the node stays.
HL_INLINE bool hl_mcs_wait(hl_mcs_t *l, hl_mcs_node_t *me, uint64_t deadline_ns, bool *left) {
    hl_wait_policy_t policy = hl_wait_get(HL_MCS_WAIT);
    *left = !hl_queue_wait(l, me, policy, deadline_ns);
    if (*left) return false;
    hl_queue_t q = hl_mcs_queue(l);
    if (hl_load(&me->state) == HL_HEIR && !hl_heir_compete(q.tail, policy, deadline_ns)) {
        *left = !hl_abdicate(q, me);
        return false;
    }
    return true;
}

HL_SLOW void hl_mcs_lock_slow(hl_mcs_t *l, hl_mcs_node_t *me) {
    bool left;
    if (!hl_mcs_take_or_join(l, me, HL_NO_DEADLINE))
        (void)hl_mcs_wait(l, me, HL_NO_DEADLINE, &left);
}

// A timed wait used a node of the pool; now that it holds the lock, the caller's takes its place.
// False: the node is left to one that is about to link itself, which is heir, overtaken by us.
HL_INLINE bool hl_mcs_replace(hl_mcs_t *l, hl_node_t *pooled, hl_mcs_node_t *me) {
    hl_node_ready(me, HL_GRANTED);
    hl_node_t *next = hl_load_acq(&pooled->next);
    if (!next && hl_cas_rel(&l->tail, (uintptr_t)pooled, (uintptr_t)me)) return true;
    if (!next) next = hl_await_link(&pooled->next);
    hl_store(&me->next, next);
    if (next) return true;
    hl_store(&me->state, HL_BARGED);
    hl_tail_add(hl_mcs_queue(l).tail, HL_BARGE);
    return false;
}

HL_SLOW bool hl_mcs_lock_until_slow(hl_mcs_t *l, hl_mcs_node_t *me, uint64_t deadline_ns) {
    hl_poll_t poll = hl_poll_begin(HL_WAIT_PARK, deadline_ns);
    hl_node_t *pooled;
    bool got = true, queued, left = false;
    do {
        if (hl_past(deadline_ns)) return false;
        pooled = hl_node_claim(l, &queued);
    } while (!pooled && hl_poll(&poll));
    if (!pooled) return false;
    if (!queued && hl_mcs_take_or_join(l, pooled, deadline_ns)) hl_node_ready(me, HL_BARGED);
    else if ((got = hl_mcs_wait(l, pooled, deadline_ns, &left)))
        left = !hl_mcs_replace(l, pooled, me);
    if (!left) hl_node_free(pooled);
    return got;
}

HL_API(MCS, LOCK) void hl_mcs_lock(hl_mcs_t *l, hl_mcs_node_t *me) {
    if (hl_unlikely(!hl_mcs_take_empty(l, me))) hl_mcs_lock_slow(l, me);
}

HL_API(MCS, LOCK) bool hl_mcs_lock_until(hl_mcs_t *l, hl_mcs_node_t *me, uint64_t deadline_ns) {
    return hl_mcs_take_empty(l, me) || hl_mcs_lock_until_slow(l, me, deadline_ns);
}
#endif

#if HL_BODY(MCS, TRYLOCK)
HL_API(MCS, TRYLOCK) bool hl_mcs_trylock(hl_mcs_t *l, hl_mcs_node_t *me) {
    if (hl_mcs_take_empty(l, me)) return true;
    hl_node_ready(me, HL_BARGED);
    return hl_tail_take(hl_mcs_queue(l).tail, hl_load(&l->tail));
}
#endif

#if HL_BODY(MCS, UNLOCK)
// A holder whose node is not in the queue: its first waiter, if any, is heir and competes.
HL_INLINE void hl_mcs_unbarge(hl_mcs_t *l) {
    for (;;) {
        uintptr_t seen = hl_load(&l->tail);
        if (seen == HL_HELD ? hl_cas_rel(&l->tail, seen, 0)
                            : hl_tail_unbarge(hl_mcs_queue(l).tail, seen))
            return;
    }
}

// unlock() but for its fast path. False: `me` is left to one that is about to link itself.
HL_INLINE bool hl_mcs_leave(hl_mcs_t *l, hl_mcs_node_t *me) {
    if (hl_load(&me->state) == HL_BARGED) {
        hl_mcs_unbarge(l);
        return true;
    }
    for (hl_node_t *out = me;;) {  // then waiters that have timed out
        hl_node_t *next = hl_load_acq(&out->next);
        bool last = !next && hl_cas_rel(&l->tail, (uintptr_t)out, 0);
        if (!next && !last && !(next = hl_await_link(&out->next))) {
            hl_tail_add(hl_mcs_queue(l).tail, HL_FREE | HL_BARGE);
            return out != me;
        }
        if (out != me) hl_node_free(out);
        if (last || hl_pass(hl_mcs_queue(l).tail, next)) return true;
        out = next;
    }
}

HL_SLOW void hl_mcs_unlock_slow(hl_mcs_t *l, hl_mcs_node_t *me) { (void)hl_mcs_leave(l, me); }

HL_API(MCS, UNLOCK) void hl_mcs_unlock(hl_mcs_t *l, hl_mcs_node_t *me) {
    if (hl_unlikely(hl_load(&me->next) || !hl_cas_rel(&l->tail, (uintptr_t)me, 0)))
        hl_mcs_unlock_slow(l, me);
}

HL_API(MCS, UNLOCK) bool hl_mcs_is_locked(const hl_mcs_t *l) {
    uintptr_t seen = hl_load(&l->tail);
    return seen && !(seen & HL_FREE);
}
#endif

#endif
