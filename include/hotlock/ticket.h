// SPDX-License-Identifier: MIT
// ticket.h - ticket lock in four bytes: take a number, wait until it is called.
//
// Strictly first come, first served (Mellor-Crummey and Scott, ACM TOCS 1991; Linux before 2015).
// A waiter pauses in proportion to its distance from the front, so that the line is not read by
// everyone after each unlock.
//
//   low half   owner: the number being served; stored only by the holder
//   high half  next: the number the next arrival gets
//   owner == next: free
//
// Cost: one atomic to lock, a plain 16-bit store to unlock; 4 bytes; at most 65 535 waiters.
// Works in memory shared by processes.
// More threads than processors: a waiter that is not running stops everyone behind it, for
// no number can be skipped. That is the price of the strict order; waiters yield, which softens it.
// A timed waiter takes a number only when that number is already being served.
#ifndef HOTLOCK_TICKET_H
#define HOTLOCK_TICKET_H

#include "wait.h"

#ifndef HL_TICKET_WAIT
#define HL_TICKET_WAIT HL_WAIT_YIELD
#endif
// How long one holder ahead of us is expected to take, in nanoseconds.
#ifndef HL_TICKET_TURN_NS
#define HL_TICKET_TURN_NS 100
#endif

typedef union {
    HL_ATOMIC(uint32_t) word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    struct { HL_ATOMIC(uint16_t) next, owner; } half;
#else
    struct { HL_ATOMIC(uint16_t) owner, next; } half;
#endif
} HL_CAPABILITY hl_ticket_t;
#define HL_TICKET_INIT {{0}}

HL_API(TICKET, LOCK) void hl_ticket_lock(hl_ticket_t *l) HL_ACQUIRES(*l);
HL_API(TICKET, LOCK) HL_MUST_USE bool hl_ticket_lock_until(hl_ticket_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(TICKET, TRYLOCK) HL_MUST_USE bool hl_ticket_trylock(hl_ticket_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(TICKET, UNLOCK) void hl_ticket_unlock(hl_ticket_t *l) HL_RELEASES(*l);
HL_API(TICKET, UNLOCK) bool hl_ticket_is_locked(const hl_ticket_t *l);

#define HL_TICKET_ONE 0x10000u
HL_INLINE bool hl_ticket_free(uint32_t word) { return (uint16_t)word == word >> 16; }

#if HL_BODY(TICKET, LOCK)
HL_SLOW void hl_ticket_lock_slow(hl_ticket_t *l, uint16_t mine) {
    hl_poll_t wait = hl_poll_begin(HL_TICKET_WAIT, HL_NO_DEADLINE);
    uint64_t turn = hl_ns_to_ticks(HL_TICKET_TURN_NS);
    for (;;) {
        uint16_t owner = hl_load_acq(&l->half.owner);  // pairs with the store in unlock
        if (owner == mine) return;
        uint64_t ahead = (uint16_t)(mine - owner);  // wraps as the halves do
        for (uint64_t t = hl_ticks(); hl_ticks() - t < turn * (ahead - 1);) hl_pause();
        (void)hl_poll(&wait);
    }
}

HL_API(TICKET, LOCK) void hl_ticket_lock(hl_ticket_t *l) {
    // The half, not the word: an access to the word stalls on the store that unlock() has just
    // made to the other half. The acquire pairs with that store.
    uint16_t mine = hl_fetch_add(&l->half.next, 1);
    if (hl_unlikely(hl_load_acq(&l->half.owner) != mine)) hl_ticket_lock_slow(l, mine);
}
#endif

#if HL_BODY(TICKET, TRYLOCK) || HL_BODY(TICKET, LOCK)
// Both halves in one exchange: a number may be taken only while it is the one being served.
HL_INLINE bool hl_ticket_try(hl_ticket_t *l) {
    uint32_t was = hl_load(&l->word);
    return hl_ticket_free(was) && hl_cas_acq(&l->word, was, was + HL_TICKET_ONE);
}
#endif

#if HL_BODY(TICKET, LOCK)
HL_SLOW bool hl_ticket_lock_until_slow(hl_ticket_t *l, uint64_t deadline_ns) {
    hl_poll_t wait = hl_poll_begin(HL_TICKET_WAIT, deadline_ns);
    while (hl_poll(&wait))
        if (hl_ticket_try(l)) return true;
    return false;
}

HL_API(TICKET, LOCK) bool hl_ticket_lock_until(hl_ticket_t *l, uint64_t deadline_ns) {
    return hl_ticket_try(l) || hl_ticket_lock_until_slow(l, deadline_ns);
}
#endif

#if HL_BODY(TICKET, TRYLOCK)
HL_API(TICKET, TRYLOCK) bool hl_ticket_trylock(hl_ticket_t *l) { return hl_ticket_try(l); }
#endif

#if HL_BODY(TICKET, UNLOCK)
HL_API(TICKET, UNLOCK) void hl_ticket_unlock(hl_ticket_t *l) {
    uint16_t owner = hl_load(&l->half.owner);             // only the holder stores it
    hl_store_rel(&l->half.owner, (uint16_t)(owner + 1));  // pairs with the acquires above
}

HL_API(TICKET, UNLOCK) bool hl_ticket_is_locked(const hl_ticket_t *l) {
    return !hl_ticket_free(hl_load(&l->word));
}
#endif

#endif
