// SPDX-License-Identifier: MIT
// park.h - spin for a calibrated time, then sleep in the kernel: the default under the preload.
//
// The three states of Drepper's second mutex ("Futexes Are Tricky", 2004), with two changes.
// The word is two bytes wide in use, so that an unlock that sees no sleeper is a plain store of
// one of them, not an atomic. And a newcomer may take the lock past sleepers (barging), so the
// lock never waits for a thread that has to be woken first.
//
//   held     0 free, 1 held
//   asleep   1: somebody may sleep on the word; the unlocker clears it and wakes one
//   shared   1: sleepers may be other processes' (HL_PARK_SHARED_INIT)
//
// The price of the plain store: a waiter that sets `asleep` between the unlocker's look and
// its store is not woken by that unlock. Nobody can pass the lock on without seeing `asleep` then,
// so this matters only if the lock falls idle at once; the sleeper finds it free by its own
// timer, which runs out after a quarter of the time it has waited (50 us at least, 100 ms at
// most).
//
// Cost: one atomic to lock, a plain store to unlock; 4 bytes. Unfair, but a woken thread
// competes at once. Shared memory: with HL_PARK_SHARED_INIT.
#ifndef HOTLOCK_PARK_H
#define HOTLOCK_PARK_H

#include "wait.h"

#ifndef HL_PARK_WAIT
#define HL_PARK_WAIT HL_WAIT_PARK
#endif
// How long to spin before sleeping, in nanoseconds: a short section's length, not a time slice.
#ifndef HL_PARK_SPIN_NS
#define HL_PARK_SPIN_NS 2000
#endif

typedef union {
    HL_ATOMIC(uint32_t) word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    struct { HL_ATOMIC(uint8_t) unused, shared, asleep, held; } byte;
#else
    struct { HL_ATOMIC(uint8_t) held, asleep, shared, unused; } byte;
#endif
} HL_CAPABILITY hl_park_t;
#define HL_PARK_HELD   0x1u
#define HL_PARK_ASLEEP 0x100u
#define HL_PARK_SHARED 0x10000u
#define HL_PARK_INIT        {{0}}
#define HL_PARK_SHARED_INIT {{HL_PARK_SHARED}}

HL_API(PARK, LOCK) void hl_park_lock(hl_park_t *l) HL_ACQUIRES(*l);
HL_API(PARK, LOCK) HL_MUST_USE bool hl_park_lock_until(hl_park_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(PARK, TRYLOCK) HL_MUST_USE bool hl_park_trylock(hl_park_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(PARK, UNLOCK) void hl_park_unlock(hl_park_t *l) HL_RELEASES(*l);
HL_API(PARK, UNLOCK) bool hl_park_is_locked(const hl_park_t *l);

HL_INLINE int hl_park_futex(uint32_t word) {
    return word & HL_PARK_SHARED ? HL_FUTEX_SHARED : HL_FUTEX_PRIVATE;
}

#if HL_BODY(PARK, LOCK)
// Read until the lock looks free, then exchange; gives up after the policy's spin time.
HL_INLINE bool hl_park_spin(hl_park_t *l, hl_wait_policy_t policy, uint64_t deadline_ns) {
    uint64_t begin = hl_ticks(), spin = hl_ns_to_ticks(HL_PARK_SPIN_NS);
    for (;;) {
        if (!hl_load(&l->byte.held) && !hl_xchg_acq(&l->byte.held, 1)) return true;
        hl_pause();
        if (hl_ticks() - begin < spin) continue;
        if (policy == HL_WAIT_PARK || hl_past(deadline_ns)) return false;
        if (policy == HL_WAIT_YIELD) hl_yield();
    }
}

HL_SLOW bool hl_park_lock_slow(hl_park_t *l, uint64_t deadline_ns) {
    if (hl_park_spin(l, hl_wait_get(HL_PARK_WAIT), deadline_ns)) return true;
    uint64_t begin = hl_now_ns();
    for (;;) {
        // Take the lock or announce a sleeper, in one step; a thread that has slept keeps
        // `asleep` set when it gets the lock, for it cannot know whether it was the last.
        uint32_t was = hl_load(&l->word);
        uint32_t new_ = was | HL_PARK_HELD | HL_PARK_ASLEEP;
        if (!hl_cas_acq(&l->word, was, new_)) continue;  // pairs with both releases in unlock
        if (!(was & HL_PARK_HELD)) return true;
        uint64_t now = hl_now_ns();
        if (now >= deadline_ns) return false;
        uint64_t timer = (now - begin) / 4;  // the missed wake-up: see the head of this file
        timer = now + (timer < 50000 ? 50000 : timer > 100000000 ? 100000000 : timer);
        hl_futex_wait(&l->word, new_, timer < deadline_ns ? timer : deadline_ns,
                      hl_park_futex(new_));
    }
}

HL_API(PARK, LOCK) void hl_park_lock(hl_park_t *l) {
    if (hl_unlikely(hl_xchg_acq(&l->byte.held, 1))) hl_park_lock_slow(l, HL_NO_DEADLINE);
}

HL_API(PARK, LOCK) bool hl_park_lock_until(hl_park_t *l, uint64_t deadline_ns) {
    return !hl_xchg_acq(&l->byte.held, 1) ||
           (!hl_past(deadline_ns) && hl_park_lock_slow(l, deadline_ns));
}
#endif

#if HL_BODY(PARK, TRYLOCK)
HL_API(PARK, TRYLOCK) bool hl_park_trylock(hl_park_t *l) {
    return !hl_load(&l->byte.held) && !hl_xchg_acq(&l->byte.held, 1);
}
#endif

#if HL_BODY(PARK, UNLOCK)
HL_SLOW void hl_park_unlock_slow(hl_park_t *l) {
    uint32_t was = hl_load(&l->word);
    while (!hl_cas_rel(&l->word, was, was & HL_PARK_SHARED)) was = hl_load(&l->word);
    hl_futex_wake(&l->word, hl_park_futex(was));  // a name by now: see hl_futex_wake()
}

HL_API(PARK, UNLOCK) void hl_park_unlock(hl_park_t *l) {
    if (hl_unlikely(hl_load(&l->byte.asleep))) hl_park_unlock_slow(l);
    else hl_store_rel(&l->byte.held, 0);  // pairs with the exchanges above
}

HL_API(PARK, UNLOCK) bool hl_park_is_locked(const hl_park_t *l) { return hl_load(&l->byte.held); }
#endif

#endif
