// SPDX-License-Identifier: MIT
// qspin.h - a four-byte queue lock in the manner of Linux's qspinlock.
//
// A byte to hold, and a 16-bit tail that names the last waiter's node (Long and Zijlstra, Linux
// 4.2, 2015). Linux keeps a node per processor and context; a user-space thread has no
// processor of its own, so nodes come from the pool, in use only while a thread waits.
//
//   low half   held and closed: the table in flag.h
//   high half  tail: the last waiter, 0: nobody waits
//
// The fast path wants a tail of 0, so it overtakes no queue that it could see; the slow path and
// trylock do, while the front naps.
//
// Cost: one atomic to lock, a plain store to unlock; 4 bytes. First come, first served while the
// first waiter is awake. Not for memory shared by processes: each has its own pool.
#ifndef HOTLOCK_QSPIN_H
#define HOTLOCK_QSPIN_H

#include "flag.h"

#ifndef HL_QSPIN_WAIT
#define HL_QSPIN_WAIT HL_WAIT_PARK
#endif

typedef struct { hl_flag_t flag; } HL_CAPABILITY hl_qspin_t;
#define HL_QSPIN_INIT {{{0}}}

HL_API(QSPIN, LOCK) void hl_qspin_lock(hl_qspin_t *l) HL_ACQUIRES(*l);
HL_API(QSPIN, LOCK) HL_MUST_USE bool hl_qspin_lock_until(hl_qspin_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(QSPIN, TRYLOCK) HL_MUST_USE bool hl_qspin_trylock(hl_qspin_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(QSPIN, UNLOCK) void hl_qspin_unlock(hl_qspin_t *l) HL_RELEASES(*l);
HL_API(QSPIN, UNLOCK) bool hl_qspin_is_locked(const hl_qspin_t *l);

#if HL_BODY(QSPIN, LOCK)
HL_SLOW bool hl_qspin_lock_slow(hl_qspin_t *l, uint64_t deadline_ns) {
    hl_flag_queue_t q = {&l->flag, NULL};
    return hl_flag_lock_pooled(q, HL_QSPIN_WAIT, deadline_ns);
}

HL_API(QSPIN, LOCK) void hl_qspin_lock(hl_qspin_t *l) {
    if (hl_unlikely(!hl_flag_take_idle(&l->flag, true))) hl_qspin_lock_slow(l, HL_NO_DEADLINE);
}

HL_API(QSPIN, LOCK) bool hl_qspin_lock_until(hl_qspin_t *l, uint64_t deadline_ns) {
    return hl_flag_take_idle(&l->flag, true) || hl_qspin_lock_slow(l, deadline_ns);
}
#endif

#if HL_BODY(QSPIN, TRYLOCK)
HL_API(QSPIN, TRYLOCK) bool hl_qspin_trylock(hl_qspin_t *l) {
    return hl_flag_look_and_take(&l->flag);
}
#endif

#if HL_BODY(QSPIN, UNLOCK)
HL_API(QSPIN, UNLOCK) void hl_qspin_unlock(hl_qspin_t *l) {
    hl_store_rel(&l->flag.byte.held, 0);  // pairs with every acquire of the flag
}

HL_API(QSPIN, UNLOCK) bool hl_qspin_is_locked(const hl_qspin_t *l) {
    return hl_load(&l->flag.byte.held);
}
#endif

#endif
