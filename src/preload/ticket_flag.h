// SPDX-License-Identifier: MIT
// ticket_flag.h - a line of tickets in front of a flag: the ticket lock as the preload has it.
//
// In hotlock/ticket.h the number being served is the lock, so a waiter that does not run stops all
// behind it. A program that stops its threads by signals (collectors do) would stand still. Here
// the lock is a flag, set by a compare-exchange and cleared by a store; the numbers say only whose
// turn it is to set it. As long as its owner comes, the order is that of arrival. A number whose
// owner leaves a free lock alone for HL_PATIENCE_NS is passed over by those behind it; that owner
// finds out when it runs again, and takes a new number.
//
//   held    0 free, 1 held
//   turn    whose turn it is; only ever goes forward
//   next    the number the next arrival gets; turn == next: nobody waits
//
//   Invariant: exclusion rests on `held` alone. The numbers are advice: two waiters with the same
//   one (after 256 arrivals), a number that nobody has, or one passed over too early cost order or
//   time, never the lock. So one byte each is enough.
//
// Cost: one atomic to lock, a plain store to unlock; 4 bytes; nothing but its word, so it works in
// memory shared by processes. trylock and timed waits take no number: they get the lock when it is
// free as they look.
#ifndef HOTLOCK_PRELOAD_TICKET_FLAG_H
#define HOTLOCK_PRELOAD_TICKET_FLAG_H

#include "hotlock/ticket.h"

typedef union {
    HL_ATOMIC(uint32_t) word;  // for its alignment
    struct { HL_ATOMIC(uint8_t) held, turn, next, unused; } byte;
} hl_ticket_flag_t;

HL_INLINE bool hl_ticket_flag_trylock(hl_ticket_flag_t *l) {
    return !hl_load(&l->byte.held) && hl_cas_acq(&l->byte.held, 0, 1);  // pairs with unlock
}

// Read one after the other: a number is taken for passed over at worst, and another drawn.
HL_INLINE bool hl_ticket_flag_in_line(hl_ticket_flag_t *l, uint8_t turn, uint8_t mine) {
    return (uint8_t)(mine - turn) < (uint8_t)(hl_load(&l->byte.next) - turn);
}

// How long the lock has been free with the same number in turn.
typedef struct {
    uint64_t since, patience;  // ticks
    uint8_t turn;
} hl_ticket_flag_watch_t;

// Somebody else's turn: if they do not come, it is over.
HL_INLINE void hl_ticket_flag_watch(hl_ticket_flag_t *l, hl_ticket_flag_watch_t *w, uint8_t turn) {
    uint64_t now = hl_ticks();
    if (hl_load(&l->byte.held) || turn != w->turn) {
        w->turn = turn;
        w->since = now;
    } else if (now - w->since >= w->patience) {
        (void)hl_cas(&l->byte.turn, turn, (uint8_t)(turn + 1));
    }
}

// A thread of fixed priority that yields lets only its equals run, and a holder of lower priority
// never: such a thread naps.
HL_INLINE bool hl_ticket_flag_has_fixed_priority(void) {
    if (HL_TSAN) return false;
    int saved = errno, policy = sched_getscheduler(0);
    errno = saved;
    return policy > 0 && ((policy & 0xff) == SCHED_FIFO || (policy & 0xff) == SCHED_RR);
}

// hl_poll(), with the policy settled at the end of the spinning.
HL_INLINE bool hl_ticket_flag_poll(hl_poll_t *p, bool *settled) {
    if (!*settled && hl_ticks() - p->since > p->spin) {
        *settled = true;
        if (p->policy == HL_WAIT_YIELD && hl_ticket_flag_has_fixed_priority())
            p->policy = HL_WAIT_PARK;
    }
    return hl_poll(p);
}

HL_SLOW void hl_ticket_flag_lock_slow(hl_ticket_flag_t *l) {
    hl_poll_t wait = hl_poll_begin(HL_TICKET_WAIT, HL_NO_DEADLINE);
    bool settled = false;
    uint64_t one = hl_ns_to_ticks(HL_TICKET_TURN_NS);
    hl_ticket_flag_watch_t w = {hl_ticks(), hl_ns_to_ticks(HL_PATIENCE_NS), hl_load(&l->byte.turn)};
    uint8_t mine = hl_fetch_add(&l->byte.next, 1);
    for (;;) {
        uint8_t turn = hl_load(&l->byte.turn), ahead = (uint8_t)(mine - turn);
        if (turn == mine) {
            if (hl_ticket_flag_trylock(l)) break;
        } else if (!hl_ticket_flag_in_line(l, turn, mine)) {
            mine = hl_fetch_add(&l->byte.next, 1);
            continue;
        } else {
            hl_ticket_flag_watch(l, &w, turn);
            for (uint64_t t = hl_ticks(); hl_ticks() - t < one * (ahead - 1u);) hl_pause();
        }
        (void)hl_ticket_flag_poll(&wait, &settled);
    }
    (void)hl_cas(&l->byte.turn, mine, (uint8_t)(mine + 1));  // unless we were passed over meanwhile
}

// Whoever finds nobody in line takes the lock at once; one that joins in between has come later.
HL_INLINE void hl_ticket_flag_lock(hl_ticket_flag_t *l) {
    if (hl_unlikely(hl_load(&l->byte.turn) != hl_load(&l->byte.next) ||
                    !hl_cas_acq(&l->byte.held, 0, 1)))
        hl_ticket_flag_lock_slow(l);
}

HL_INLINE bool hl_ticket_flag_lock_until(hl_ticket_flag_t *l, uint64_t deadline_ns) {
    if (hl_ticket_flag_trylock(l)) return true;
    hl_poll_t wait = hl_poll_begin(HL_TICKET_WAIT, deadline_ns);
    for (bool settled = false; hl_ticket_flag_poll(&wait, &settled);)
        if (hl_ticket_flag_trylock(l)) return true;
    return false;
}

HL_INLINE void hl_ticket_flag_unlock(hl_ticket_flag_t *l) {
    hl_store_rel(&l->byte.held, 0);  // pairs with both exchanges above
}

HL_INLINE bool hl_ticket_flag_is_locked(const hl_ticket_flag_t *l) {
    return hl_load(&l->byte.held);
}

#endif
