// SPDX-License-Identifier: MIT
// nmcs4.h - NMCS in four bytes: 16 bits of tail, 16 bits of first waiter.
//
// The algorithm is nmcs.h's, word for word; only the names of nodes differ: pool indices instead
// of addresses. A node is in use only while its thread waits, so 4 094 nodes serve any number of
// threads. Fits a pthread_spinlock_t, a lockref, the kernel's arch_spinlock_t.
//
//   low half   tail: who is last, and flags (queue.h)
//   high half  first: the first waiter
//
// Cost: one atomic to lock, one to unlock; 4 bytes. First come, first served among the awake.
// Not for memory shared by processes: each has its own pool.
#ifndef HOTLOCK_NMCS4_H
#define HOTLOCK_NMCS4_H

#include "nmcs.h"

typedef union {
    hl_atomic_u32_t word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    struct { hl_atomic_u16_t first, tail; } half;
#else
    struct { hl_atomic_u16_t tail, first; } half;
#endif
} HL_CAPABILITY hl_nmcs4_t;
#define HL_NMCS4_INIT {{0}}

HL_API(NMCS4, LOCK) void hl_nmcs4_lock(hl_nmcs4_t *l) HL_ACQUIRES(*l);
HL_API(NMCS4, LOCK) HL_MUST_USE bool hl_nmcs4_lock_until(hl_nmcs4_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(NMCS4, TRYLOCK) HL_MUST_USE bool hl_nmcs4_trylock(hl_nmcs4_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(NMCS4, UNLOCK) void hl_nmcs4_unlock(hl_nmcs4_t *l) HL_RELEASES(*l);
HL_API(NMCS4, UNLOCK) bool hl_nmcs4_is_locked(const hl_nmcs4_t *l);

HL_INLINE hl_queue_t hl_nmcs4_queue(hl_nmcs4_t *l) {
    hl_queue_t q = {{NULL, &l->half.tail, &l->word}, NULL, &l->half.first};
    return q;
}

#if HL_BODY(NMCS4, LOCK)
#ifdef HL_SLOW_ELSEWHERE  // a kernel has one copy for all that inline the rest
bool hl_nmcs4_lock_slow(hl_nmcs4_t *l, uint64_t deadline_ns);
#else
HL_SLOW bool hl_nmcs4_lock_slow(hl_nmcs4_t *l, uint64_t deadline_ns) {
    return hl_nmcs_lock_pooled(hl_nmcs4_queue(l), deadline_ns);
}
#endif

HL_API(NMCS4, LOCK) void hl_nmcs4_lock(hl_nmcs4_t *l) {
    if (hl_unlikely(!hl_cas_acq(&l->half.tail, 0, (uint16_t)HL_HELD)))
        hl_nmcs4_lock_slow(l, HL_NO_DEADLINE);
}

HL_API(NMCS4, LOCK) bool hl_nmcs4_lock_until(hl_nmcs4_t *l, uint64_t deadline_ns) {
    return hl_cas_acq(&l->half.tail, 0, (uint16_t)HL_HELD) || hl_nmcs4_lock_slow(l, deadline_ns);
}
#endif

#if HL_BODY(NMCS4, TRYLOCK)
HL_API(NMCS4, TRYLOCK) bool hl_nmcs4_trylock(hl_nmcs4_t *l) {
    return hl_tail_take(hl_nmcs4_queue(l).tail, hl_load(&l->half.tail));
}
#endif

#if HL_BODY(NMCS4, UNLOCK)
#ifdef HL_SLOW_ELSEWHERE
void hl_nmcs4_unlock_slow(hl_nmcs4_t *l);
#else
HL_SLOW void hl_nmcs4_unlock_slow(hl_nmcs4_t *l) { hl_nmcs_release(hl_nmcs4_queue(l)); }
#endif

HL_API(NMCS4, UNLOCK) void hl_nmcs4_unlock(hl_nmcs4_t *l) {
    if (hl_unlikely(!hl_cas_rel(&l->half.tail, (uint16_t)HL_HELD, 0))) hl_nmcs4_unlock_slow(l);
}

HL_API(NMCS4, UNLOCK) bool hl_nmcs4_is_locked(const hl_nmcs4_t *l) {
    uintptr_t seen = hl_load(&l->half.tail);
    return seen && !(seen & HL_FREE);
}
#endif

#endif
