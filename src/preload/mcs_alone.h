// SPDX-License-Identifier: MIT
// mcs_alone.h - mcs behind functions that have no node argument, as the preload has it: the
// holder's node comes from the pool and its name stands beside the lock. A lock that is free and has
// no queue is taken as trylock does, without a node; so is, with the pool empty (4 094 locks waited
// for at once), any lock that is free.
#ifndef HOTLOCK_PRELOAD_MCS_ALONE_H
#define HOTLOCK_PRELOAD_MCS_ALONE_H

#include "hotlock/mcs.h"

typedef struct {
    hl_mcs_t lock;
    hl_node_t *node;
} hl_mcs_alone_t;
static hl_node_t hl_mcs_no_node = {.state = {HL_BARGED}};

HL_INLINE bool hl_mcs_alone_trylock(hl_mcs_alone_t *l) {
    bool got = hl_tail_take(hl_mcs_queue(&l->lock).tail, hl_load(&l->lock.tail));
    if (got) l->node = &hl_mcs_no_node;
    return got;
}

HL_SLOW bool hl_mcs_alone_lock_slow(hl_mcs_alone_t *l, uint64_t deadline_ns) {
    bool queued, got;
    if (hl_past(deadline_ns)) return hl_mcs_alone_trylock(l);
    hl_node_t *n = hl_node_claim(NULL, &queued);
    if (n) {
        got = hl_mcs_lock_until(&l->lock, n, deadline_ns);
        if (got) l->node = n;
        else hl_node_free(n);
        return got;
    }
    hl_poll_t poll = hl_poll_begin(HL_WAIT_YIELD, deadline_ns);
    while (!(got = hl_mcs_alone_trylock(l)) && hl_poll(&poll)) continue;
    return got;
}

HL_INLINE bool hl_mcs_alone_lock_until(hl_mcs_alone_t *l, uint64_t deadline_ns) {
    if (hl_unlikely(!hl_cas_acq(&l->lock.tail, 0, HL_HELD)))
        return hl_mcs_alone_lock_slow(l, deadline_ns);
    l->node = &hl_mcs_no_node;
    return true;
}

HL_INLINE bool hl_mcs_alone_pass(hl_mcs_alone_t *l) {
    bool got = hl_barge(hl_mcs_queue(&l->lock).tail, HL_NO_DEADLINE);
    if (got) l->node = &hl_mcs_no_node;
    return got;
}

HL_INLINE bool hl_mcs_alone_take_reserved(hl_mcs_alone_t *l) {
    bool got = hl_tail_take_reserved(hl_mcs_queue(&l->lock).tail);
    if (got) l->node = &hl_mcs_no_node;
    return got;
}

HL_SLOW void hl_mcs_alone_unlock_slow(hl_mcs_alone_t *l, hl_node_t *n) {
    if (hl_mcs_leave(&l->lock, n) && n != &hl_mcs_no_node) hl_node_free(n);
}

HL_INLINE void hl_mcs_alone_unlock(hl_mcs_alone_t *l) {
    hl_node_t *n = l->node;
    if (hl_unlikely(n != &hl_mcs_no_node || !hl_cas_rel(&l->lock.tail, HL_HELD, 0)))
        hl_mcs_alone_unlock_slow(l, n);
}

HL_INLINE bool hl_mcs_alone_is_locked(const hl_mcs_alone_t *l) {
    return hl_mcs_is_locked(&l->lock);
}

#endif
