// SPDX-License-Identifier: MIT
// tas.h - test-and-test-and-set: one byte, set by an exchange, cleared by a store.
//
// The baseline. A waiter reads until the byte looks free, then tries the exchange; each failure
// doubles the pause before it looks again (Anderson, IEEE TPDS 1990), so that N waiters do not
// all exchange at once. Unfair: whoever is nearest wins, and one thread may starve.
//
//   held   0 free, 1 held
//
// Cost: one atomic to lock, a plain store to unlock; 1 byte. Works in memory shared by processes.
// More threads than processors: a waiter naps (a byte cannot be a futex), so the holder gets
// its processor back; nothing is handed to a sleeper.
#ifndef HOTLOCK_TAS_H
#define HOTLOCK_TAS_H

#include "wait.h"

#ifndef HL_TAS_WAIT
#define HL_TAS_WAIT HL_WAIT_PARK
#endif
// The first and the longest pause after a lost exchange, in nanoseconds.
#ifndef HL_TAS_BACKOFF_MIN_NS
#define HL_TAS_BACKOFF_MIN_NS 50
#endif
#ifndef HL_TAS_BACKOFF_MAX_NS
#define HL_TAS_BACKOFF_MAX_NS 2000
#endif

typedef struct { HL_ATOMIC(uint8_t) held; } HL_CAPABILITY hl_tas_t;
#define HL_TAS_INIT {{0}}

HL_API(TAS, LOCK) void hl_tas_lock(hl_tas_t *l) HL_ACQUIRES(*l);
HL_API(TAS, LOCK) HL_MUST_USE bool hl_tas_lock_until(hl_tas_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(TAS, TRYLOCK) HL_MUST_USE bool hl_tas_trylock(hl_tas_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(TAS, UNLOCK) void hl_tas_unlock(hl_tas_t *l) HL_RELEASES(*l);
HL_API(TAS, UNLOCK) bool hl_tas_is_locked(const hl_tas_t *l);

#if HL_BODY(TAS, LOCK)
HL_SLOW bool hl_tas_lock_slow(hl_tas_t *l, uint64_t deadline_ns) {
    hl_poll_t wait = hl_poll_begin(HL_TAS_WAIT, deadline_ns);
    uint64_t pause = hl_ns_to_ticks(HL_TAS_BACKOFF_MIN_NS);
    uint64_t longest = hl_ns_to_ticks(HL_TAS_BACKOFF_MAX_NS);
    for (;;) {
        for (uint64_t lost = hl_ticks(); hl_ticks() - lost < pause;) hl_pause();
        if (pause < longest) pause *= 2;
        while (hl_load(&l->held))
            if (!hl_poll(&wait)) return false;
        if (!hl_xchg_acq(&l->held, 1)) return true;  // pairs with the store in unlock
    }
}

HL_API(TAS, LOCK) void hl_tas_lock(hl_tas_t *l) {
    if (hl_unlikely(hl_xchg_acq(&l->held, 1))) hl_tas_lock_slow(l, HL_NO_DEADLINE);
}

HL_API(TAS, LOCK) bool hl_tas_lock_until(hl_tas_t *l, uint64_t deadline_ns) {
    return !hl_xchg_acq(&l->held, 1) ||
           (!hl_past(deadline_ns) && hl_tas_lock_slow(l, deadline_ns));
}
#endif

#if HL_BODY(TAS, TRYLOCK)
HL_API(TAS, TRYLOCK) bool hl_tas_trylock(hl_tas_t *l) {
    return !hl_load(&l->held) && !hl_xchg_acq(&l->held, 1);
}
#endif

#if HL_BODY(TAS, UNLOCK)
HL_API(TAS, UNLOCK) void hl_tas_unlock(hl_tas_t *l) {
    hl_store_rel(&l->held, 0);  // pairs with the exchanges above
}

HL_API(TAS, UNLOCK) bool hl_tas_is_locked(const hl_tas_t *l) { return hl_load(&l->held); }
#endif

#endif
