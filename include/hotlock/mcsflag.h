// SPDX-License-Identifier: MIT
// mcsflag.h - an MCS queue in front of a flag: the method that NMCS replaced.
//
// Nesting "a bit flag inside an mcs lock" (Stultz, linux-ia64, February 2002) gives a lock with
// the ordinary interface as well: the node stands on the stack of the waiting call, the first
// waiter takes the flag and leaves the queue, and unlock() is one plain store. MCSH (Hesselink
// and Buhr, ACM TOPC 10(2), 2023) is its modern form. Here to be compared with nmcs.h.
//
//   flag   held and closed: the table in flag.h
//   tail   the last waiter's node, NULL: nobody waits
//
// Cost: one atomic to lock, a plain store to unlock; 16 bytes. First come, first served while the
// first waiter is awake. Not for memory shared by processes: a stack is private.
#ifndef HOTLOCK_MCSFLAG_H
#define HOTLOCK_MCSFLAG_H

#include "flag.h"

#ifndef HL_MCSFLAG_WAIT
#define HL_MCSFLAG_WAIT HL_WAIT_PARK
#endif

typedef struct {
    hl_flag_t flag;
    hl_atomic_node_t tail;
} HL_CAPABILITY hl_mcsflag_t;
#define HL_MCSFLAG_INIT {{{0}}, {0}}

HL_API(MCSFLAG, LOCK) void hl_mcsflag_lock(hl_mcsflag_t *l) HL_ACQUIRES(*l);
HL_API(MCSFLAG, LOCK) HL_MUST_USE bool hl_mcsflag_lock_until(hl_mcsflag_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(MCSFLAG, TRYLOCK) HL_MUST_USE bool hl_mcsflag_trylock(hl_mcsflag_t *l)
    HL_ACQUIRES_IF(true, *l);
HL_API(MCSFLAG, UNLOCK) void hl_mcsflag_unlock(hl_mcsflag_t *l) HL_RELEASES(*l);
HL_API(MCSFLAG, UNLOCK) bool hl_mcsflag_is_locked(const hl_mcsflag_t *l);

#if HL_BODY(MCSFLAG, LOCK)
HL_INLINE hl_flag_queue_t hl_mcsflag_queue(hl_mcsflag_t *l) {
    hl_flag_queue_t q = {&l->flag, &l->tail};
    return q;
}

HL_SLOW void hl_mcsflag_lock_slow(hl_mcsflag_t *l) {
    hl_node_t me HL_ALIGNED;
    bool left;
    hl_flag_queue_t q = hl_mcsflag_queue(l);
    if (HL_SUSPENDABLE) (void)hl_flag_lock_pooled(q, HL_MCSFLAG_WAIT, HL_NO_DEADLINE);
    else (void)hl_flag_wait(q, &me, false, HL_MCSFLAG_WAIT, HL_NO_DEADLINE, &left);
}

HL_SLOW bool hl_mcsflag_lock_until_slow(hl_mcsflag_t *l, uint64_t deadline_ns) {
    return hl_flag_lock_pooled(hl_mcsflag_queue(l), HL_MCSFLAG_WAIT, deadline_ns);
}

HL_API(MCSFLAG, LOCK) void hl_mcsflag_lock(hl_mcsflag_t *l) {
    if (hl_unlikely(!hl_flag_take_idle(&l->flag, false))) hl_mcsflag_lock_slow(l);
}

HL_API(MCSFLAG, LOCK) bool hl_mcsflag_lock_until(hl_mcsflag_t *l, uint64_t deadline_ns) {
    return hl_flag_take_idle(&l->flag, false) || hl_mcsflag_lock_until_slow(l, deadline_ns);
}
#endif

#if HL_BODY(MCSFLAG, TRYLOCK)
HL_API(MCSFLAG, TRYLOCK) bool hl_mcsflag_trylock(hl_mcsflag_t *l) {
    return hl_flag_look_and_take(&l->flag);
}
#endif

#if HL_BODY(MCSFLAG, UNLOCK)
HL_API(MCSFLAG, UNLOCK) void hl_mcsflag_unlock(hl_mcsflag_t *l) {
    hl_store_rel(&l->flag.byte.held, 0);  // pairs with every acquire of the flag
}

HL_API(MCSFLAG, UNLOCK) bool hl_mcsflag_is_locked(const hl_mcsflag_t *l) {
    return hl_load(&l->flag.byte.held);
}
#endif

#endif
