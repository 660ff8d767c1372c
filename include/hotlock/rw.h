// SPDX-License-Identifier: MIT
// rw.h - a phase-fair reader-writer lock whose readers spread out when they collide.
//
// Readers are counted in the lock's own word, with one compare-exchange each. When readers have
// collided on it HL_RW_COLLISIONS times since the last writer, one of them gives the lock a row: a
// counter per processor, each in a cache line of its own, from a static pool. From then on a reader
// touches its own processor's counter and only reads the lock's word. The next writer takes the
// row back. (Counters per processor: Hsieh and Weihl, IPPS 1992; kernel's big-reader lock, 2000.)
//
//   state   bits  0-31  readers      who hold, as far as they are not counted in the row
//           bits 32-47  waiting      readers who wait to be let in
//           bits 48-57  row          name of the row, 0: none
//           bit  58     WRITER       held for writing; then readers == 0 and row == 0
//           bit  59     GATE         a writer waits: readers stand aside
//           bit  60     ASLEEP       that writer sleeps, and wants to be woken
//           bit  61     PHASE        changes each time waiting readers are let in
//           bit  62     OVERDUE      that writer has waited longer than a patient reader would
//           bit  63     SPENT        nobody comes in by the row any more
//   writers     a park lock: the writer that holds it is the one behind the gate
//   collisions  lost compare-exchanges of readers since the last writer
//   invited     (HL_SUSPENDABLE) readers whom an unlock has let in and who have not come yet
//
// Phase-fair (Brandenburg and Anderson, ECRTS 2009): an unlock for writing lets in every reader
// that waits, in the same step in which it gives the lock up, and the next writer waits for them.
// So a reader waits for one writer at most, and a writer, once at the gate, for the readers inside.
// A writer whose deadline passes opens the gate; those who waited let themselves in, and the next
// writer gives those who run the time to. Writers among each other compete as in park.h, without an
// order.
//
// Invariant of the row: readers + sum of the row's counters == readers inside, for whoever has
// closed the gate; a single counter means nothing, for a reader may leave through another than it
// came in by. Entering is an increment, then a look at the gate; closing is the gate, then a look
// at the counters; all four sequentially consistent, so one of the two sees the other (Dekker).
// A reader that sees the gate takes back its increment where it made it. One that goes in past the
// gate is counted in the state, by a step that the writer's looks are ordered with as well: the
// writer may see it leave, and must not then have missed that it came.
//
// A writer that is not at the gate may take the lock as well, if it is free: hl_rw_pass(). Then the
// state must not look the same again after others were inside. Without a row it says who is inside,
// and may. With one: its counters only fall once the row is closed, a row that was closed is SPENT
// for good, and a row that is pinned is given to no lock again. So nobody can have come in.
//
// HL_SUSPENDABLE (queue.h): a reader that waits is not let in, for it may not be running. It is
// invited: it may go in past the gate, and the writer there gives it HL_PATIENCE_NS to.
//
// Cost: one atomic to lock and one to unlock, either way; 16 bytes. A row costs a writer 16 reads.
// Not recursive for readers: a second read lock may stand at a gate whose writer waits for the
// first. hl_rw_read_lock_patient() stands aside for a bounded time only, and no longer for a writer
// that an earlier one has lost patience with: those inside may not be running. Not for memory
// shared by processes. Nothing of the lock is touched after it is freed: what a leaving reader
// looks at is the row, which is static, and a futex is a name.
#ifndef HOTLOCK_RW_H
#define HOTLOCK_RW_H

#include <limits.h>

#include "park.h"

#ifndef HL_SUSPENDABLE
#define HL_SUSPENDABLE 0
#endif
#ifndef HL_RW_WAIT
#define HL_RW_WAIT HL_WAIT_PARK
#endif
#ifndef HL_RW_ROWS
#define HL_RW_ROWS 256  // at most 1024; row 0 is never used
#endif
#ifndef HL_RW_SLOTS
#define HL_RW_SLOTS 16  // a power of two
#endif
// So many lost compare-exchanges between two writers are worth a row.
#ifndef HL_RW_COLLISIONS
#define HL_RW_COLLISIONS 16
#endif

typedef struct {
    HL_ATOMIC(uint64_t) state;
    hl_park_t writers;
    HL_ATOMIC(uint16_t) collisions;
    HL_ATOMIC(uint16_t) invited;
} hl_rw_t;
#define HL_RW_INIT {{0}, HL_PARK_INIT, {0}, {0}}

#define HL_RW_READERS     0xffffffffu
#define HL_RW_WAITING_ONE (1ull << 32)
#define HL_RW_WAITING     (0xffffull << 32)
#define HL_RW_ROW_SHIFT   48
#define HL_RW_ROW         (0x3ffull << HL_RW_ROW_SHIFT)
#define HL_RW_WRITER      (1ull << 58)
#define HL_RW_GATE        (1ull << 59)
#define HL_RW_ASLEEP      (1ull << 60)
#define HL_RW_PHASE       (1ull << 61)
#define HL_RW_OVERDUE     (1ull << 62)
#define HL_RW_SPENT       (1ull << 63)
#define HL_RW_CLOSED      (HL_RW_WRITER | HL_RW_GATE)

static inline void hl_rw_lock(hl_rw_t *l);  // for writing
HL_MUST_USE static inline bool hl_rw_trylock(hl_rw_t *l);
HL_MUST_USE static inline bool hl_rw_lock_until(hl_rw_t *l, uint64_t deadline_ns);
static inline void hl_rw_unlock(hl_rw_t *l);
static inline void hl_rw_read_lock(hl_rw_t *l);
HL_MUST_USE static inline bool hl_rw_read_trylock(hl_rw_t *l);
HL_MUST_USE static inline bool hl_rw_read_lock_until(hl_rw_t *l, uint64_t deadline_ns);
static inline void hl_rw_read_unlock(hl_rw_t *l);
// Stands aside for a waiting writer for so long, then goes in past it.
HL_MUST_USE static inline bool hl_rw_read_lock_patient(hl_rw_t *l, uint64_t patience_ns,
                                                       uint64_t deadline_ns);
static inline bool hl_rw_is_write_locked(const hl_rw_t *l);  // a hint

// ------------------------------------------------------------------------- rows
#define HL_RW_SC(op, p, ...) __atomic_##op(&(p)->v, ##__VA_ARGS__, __ATOMIC_SEQ_CST)
#define HL_RW_CAS_SC(p, old, new_) hl_cas_order_(p, old, new_, __ATOMIC_SEQ_CST)
#define hl_fetch_add_acq(p, x)     hl_add_order_(p, x, __ATOMIC_ACQUIRE)
#define hl_fetch_add_rel(p, x)     hl_add_order_(p, x, __ATOMIC_RELEASE)

typedef struct { HL_ATOMIC(uint32_t) readers; } HL_ALIGNED hl_rw_slot_t;
typedef struct {
    HL_ATOMIC(uint32_t) claimed;  // 1: by a lock; and HL_RW_PIN for each who has pinned it
    HL_ATOMIC(uint32_t) gate;  // 1: a writer sleeps here until readers leave, 2: it was woken
    hl_rw_slot_t slot[HL_RW_SLOTS];
} hl_rw_row_t;
typedef struct {
    hl_rw_row_t at[HL_RW_ROWS];
    HL_ATOMIC(bool) used;
} hl_rw_rows_t;
HL_GLOBAL(hl_rw_rows_t, hl_rw_rows);
#define HL_RW_PIN 2u

HL_INLINE hl_rw_row_t *hl_rw_row(uint64_t state) {
    return &hl_rw_rows.at[(state & HL_RW_ROW) >> HL_RW_ROW_SHIFT];
}

#if !defined(_GNU_SOURCE) && !HL_TSAN
HL_CALL int sched_getcpu(void);
#endif

// Any number will do; threads that run at the same time should have different ones.
HL_INLINE unsigned hl_rw_my_slot(void) {
#if HL_TSAN
    return (unsigned)((uintptr_t)__builtin_frame_address(0) >> 14) % HL_RW_SLOTS;
#else
    return (unsigned)sched_getcpu() % HL_RW_SLOTS;
#endif
}

HL_SLOW void hl_rw_knock(hl_rw_row_t *row) {
    if (hl_cas(&row->gate, 1u, 2u)) hl_futex_wake(&row->gate, HL_FUTEX_PRIVATE);
}

// The subtraction is the release that the writer's look at the counters pairs with.
HL_INLINE void hl_rw_row_leave(hl_rw_row_t *row, hl_rw_slot_t *slot) {
    HL_RW_SC(fetch_sub, &slot->readers, 1u);
    if (hl_unlikely(HL_RW_SC(load_n, &row->gate))) hl_rw_knock(row);
}

HL_INLINE bool hl_rw_row_enter(hl_rw_t *l, uint64_t seen) {
    hl_rw_row_t *row = hl_rw_row(seen);
    hl_rw_slot_t *slot = &row->slot[hl_rw_my_slot()];
    HL_RW_SC(fetch_add, &slot->readers, 1u);
    uint64_t now = HL_RW_SC(load_n, &l->state);  // pairs with the gate, and with unlock
    if (hl_likely(!((now ^ seen) & HL_RW_ROW) && !(now & (HL_RW_CLOSED | HL_RW_SPENT))))
        return true;
    hl_rw_row_leave(row, slot);
    return false;
}

// A reader has lost a compare-exchange. The count may lose some, which costs nothing but time.
// A row passes from lock to lock as a lock does: its counters are as the last owner left them.
HL_SLOW void hl_rw_collide(hl_rw_t *l) {
    uint16_t n = (uint16_t)(hl_load(&l->collisions) + 1);
    hl_store(&l->collisions, n);
    if (n < HL_RW_COLLISIONS) return;
    hl_store(&l->collisions, 0);
    uint32_t at = (uint32_t)((uintptr_t)l >> 4) * 2654435761u >> 16;
    hl_store(&hl_rw_rows.used, true);
    for (int tries = 0; tries < 8; tries++, at++) {
        uint64_t name = 1 + at % (HL_RW_ROWS - 1);
        hl_rw_row_t *row = &hl_rw_rows.at[name];
        if (hl_load(&row->claimed) || !hl_cas_acq(&row->claimed, 0u, 1u)) continue;
        for (;;) {
            uint64_t s = hl_load(&l->state);
            if (s & (HL_RW_CLOSED | HL_RW_ROW)) break;
            // The release: whoever finds the row finds its counters as its last owner left them.
            if (hl_cas_rel(&l->state, s, s | name << HL_RW_ROW_SHIFT)) return;
        }
        hl_store_rel(&row->claimed, 0u);  // pairs with the claim above
        return;
    }
}

// Readers inside, for the writer that has closed the gate.
HL_INLINE uint32_t hl_rw_inside(uint64_t s) {
    uint32_t n = (uint32_t)(s & HL_RW_READERS);
    if (!(s & HL_RW_ROW)) return n;
    hl_rw_row_t *row = hl_rw_row(s);
    for (int i = 0; i < HL_RW_SLOTS; i++) n += HL_RW_SC(load_n, &row->slot[i].readers);
    return n;
}

// Gives the row of a lock back whose state was `s`. Its counters need not be zero, but their sum.
HL_INLINE void hl_rw_row_retire(uint64_t s) {
    hl_rw_row_t *row = hl_rw_row(s);
    uint32_t readers = (uint32_t)(s & HL_RW_READERS);
    if (readers) (void)hl_fetch_add(&row->slot[0].readers, readers);
    (void)hl_fetch_add_rel(&row->claimed, -1u);  // pairs with the claim in hl_rw_collide()
}

// Pins the row of a lock, whose state it leaves in *s; NULL: it has none. The acquire pairs with
// the release above: the state is then no older than the row's last return.
HL_INLINE hl_rw_row_t *hl_rw_pin(hl_rw_t *l, uint64_t *s) {
    for (;;) {
        uint64_t seen = hl_load(&l->state);
        if (!(seen & HL_RW_ROW)) return NULL;
        hl_rw_row_t *row = hl_rw_row(seen);
        (void)hl_fetch_add_acq(&row->claimed, HL_RW_PIN);
        *s = HL_RW_SC(load_n, &l->state);
        if (!((*s ^ seen) & HL_RW_ROW)) return row;
        (void)hl_fetch_add(&row->claimed, -HL_RW_PIN);
    }
}
HL_INLINE void hl_rw_unpin(hl_rw_row_t *row) { (void)hl_fetch_add(&row->claimed, -HL_RW_PIN); }

// ------------------------------------------------------------------------- sleeping
// Readers and the writer at the gate sleep on the upper half of the state, which changes with
// everything they wait for, and are told apart by a mask.
enum { HL_RW_READER_SLEEPS = 1, HL_RW_WRITER_SLEEPS = 2 };

HL_INLINE void *hl_rw_upper(hl_rw_t *l) {
    return (char *)&l->state + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 0 : 4);
}

HL_SLOW void hl_rw_sleep(hl_rw_t *l, uint64_t seen, uint64_t deadline_ns, uint32_t who) {
    int saved = errno;
    struct timespec t = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    hl_count_futex();
    syscall(SYS_futex, hl_rw_upper(l), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
            (uint32_t)(seen >> 32), deadline_ns == HL_NO_DEADLINE ? NULL : &t, NULL, who);
    errno = saved;
}

// After the state was given up: the address is a name by now.
HL_SLOW void hl_rw_wake(hl_rw_t *l, uint32_t who) {
    int saved = errno;
    hl_count_futex();
    syscall(SYS_futex, hl_rw_upper(l), FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG,
            who == HL_RW_WRITER_SLEEPS ? 1 : INT_MAX, NULL, NULL, who);
    errno = saved;
}

// One round of spinning; false once HL_SPIN_NS are over.
HL_INLINE bool hl_rw_spin(uint64_t *begin) {
    uint64_t now = hl_ticks();
    hl_pause();
    if (!*begin) *begin = now;
    return now - *begin < hl_ns_to_ticks(HL_SPIN_NS);
}

// One round of waiting; false when it is time to sleep.
HL_INLINE bool hl_rw_stay_awake(uint64_t *begin) {
    if (hl_rw_spin(begin)) return true;
    hl_wait_policy_t policy = hl_wait_get(HL_RW_WAIT);
    if (policy == HL_WAIT_YIELD) hl_yield();
    return policy != HL_WAIT_PARK;
}

// ------------------------------------------------------------------------- readers
// Past a waiting writer, without waiting any longer?
HL_INLINE bool hl_rw_may_pass(uint64_t s, uint64_t patience_ns) {
    return !(s & HL_RW_WRITER) &&
           (!patience_ns || (patience_ns != HL_NO_DEADLINE && (s & HL_RW_OVERDUE)));
}

// Goes in; false: somebody came between. By the row if that is open, else counted in the state.
HL_INLINE bool hl_rw_enter(hl_rw_t *l, uint64_t s) {
    if ((s & HL_RW_ROW) && !(s & (HL_RW_CLOSED | HL_RW_SPENT))) return hl_rw_row_enter(l, s);
    return HL_RW_CAS_SC(&l->state, s, s + 1);  // pairs with unlock
}

// An invited reader has come. The count may lose some, as one that comes too late makes it wrong.
HL_INLINE void hl_rw_came(hl_rw_t *l) {
    uint16_t n = hl_load(&l->invited);
    if (n) (void)hl_cas(&l->invited, n, (uint16_t)(n - 1));
}

// Waits to be let in. *again: the lock has opened before we were counted as waiting.
HL_INLINE bool hl_rw_read_wait(hl_rw_t *l, uint64_t patience_ns, uint64_t deadline_ns,
                               bool *again) {
    uint64_t s = hl_load(&l->state), begin = 0, limit = HL_NO_DEADLINE;
    *again = !(s & HL_RW_CLOSED) || (s & HL_RW_WAITING) == HL_RW_WAITING ||
             !hl_cas(&l->state, s, s + HL_RW_WAITING_ONE);
    if (*again) return false;
    uint64_t phase = s & HL_RW_PHASE;
    bool invited = false;
    if (patience_ns != HL_NO_DEADLINE) limit = hl_now_ns() + patience_ns;
    for (;;) {
        s = hl_load_acq(&l->state);  // pairs with unlock
        invited = invited || (s & HL_RW_PHASE) != phase;
        if (invited && !HL_SUSPENDABLE) return true;
        if (!(s & HL_RW_WRITER) && (!(s & HL_RW_GATE) || invited ||
                                    hl_rw_may_pass(s, patience_ns) || hl_past(limit))) {
            uint64_t in = s - HL_RW_WAITING_ONE + 1;
            if ((s & HL_RW_GATE) && !invited) in |= HL_RW_OVERDUE;
            if (!HL_RW_CAS_SC(&l->state, s, in)) continue;
            if (invited) hl_rw_came(l);
            bool overdue = in & ~s & HL_RW_OVERDUE;
            if (overdue && in & HL_RW_WAITING) hl_rw_wake(l, HL_RW_READER_SLEEPS);
            return true;
        }
        if (hl_past(deadline_ns)) {
            if (hl_cas(&l->state, s, s - HL_RW_WAITING_ONE)) return false;
        } else if (!hl_rw_stay_awake(&begin)) {
            uint64_t until = s & HL_RW_WRITER || limit > deadline_ns ? deadline_ns : limit;
            hl_rw_sleep(l, s, until, HL_RW_READER_SLEEPS);
        }
    }
}

HL_SLOW bool hl_rw_read_slow(hl_rw_t *l, uint64_t patience_ns, uint64_t deadline_ns) {
    uint64_t begin = 0;
    bool again;
    for (;;) {
        uint64_t s = hl_load(&l->state);
        if (!(s & HL_RW_CLOSED) || hl_rw_may_pass(s, patience_ns)) {
            if (hl_rw_enter(l, s)) return true;
            if (!(s & HL_RW_ROW)) hl_rw_collide(l);
        } else if (hl_past(deadline_ns)) {
            return false;
        } else if (!hl_rw_spin(&begin)) {
            bool in = hl_rw_read_wait(l, patience_ns, deadline_ns, &again);
            if (!again) return in;
        }
    }
}

// The usual case: nobody writes or wants to, and there is no row.
HL_INLINE bool hl_rw_read_at_once(hl_rw_t *l) {
    uint64_t s = hl_load(&l->state);
    if (hl_unlikely(s & (HL_RW_CLOSED | HL_RW_ROW))) return false;
    if (hl_likely(hl_cas_acq(&l->state, s, s + 1))) return true;  // pairs with unlock
    hl_rw_collide(l);
    return false;
}

static inline bool hl_rw_read_lock_patient(hl_rw_t *l, uint64_t patience_ns,
                                           uint64_t deadline_ns) {
    return hl_rw_read_at_once(l) || hl_rw_read_slow(l, patience_ns, deadline_ns);
}

static inline bool hl_rw_read_lock_until(hl_rw_t *l, uint64_t deadline_ns) {
    return hl_rw_read_lock_patient(l, HL_NO_DEADLINE, deadline_ns);
}

static inline void hl_rw_read_lock(hl_rw_t *l) {
    (void)!hl_rw_read_lock_patient(l, HL_NO_DEADLINE, HL_NO_DEADLINE);
}

static inline bool hl_rw_read_trylock(hl_rw_t *l) {
    for (;;) {
        uint64_t s = hl_load(&l->state);
        if (s & HL_RW_CLOSED) return false;
        if (hl_rw_enter(l, s)) return true;
    }
}

HL_SLOW void hl_rw_read_unlock_slow(hl_rw_t *l) {
    for (;;) {
        uint64_t s = hl_load(&l->state), next = s - 1;
        if (s & HL_RW_ROW) {  // nobody takes the row away while we are inside
            hl_rw_row_t *row = hl_rw_row(s);
            hl_rw_row_leave(row, &row->slot[hl_rw_my_slot()]);
            return;
        }
        bool wake = (s & HL_RW_ASLEEP) && !(next & HL_RW_READERS);
        if (wake) next &= ~HL_RW_ASLEEP;
        if (!hl_cas_rel(&l->state, s, next)) continue;  // pairs with the writer's
        if (wake) hl_rw_wake(l, HL_RW_WRITER_SLEEPS);
        return;
    }
}

static inline void hl_rw_read_unlock(hl_rw_t *l) {
    uint64_t s = hl_load(&l->state);
    if (hl_unlikely(s & (HL_RW_ROW | HL_RW_ASLEEP)) || !hl_cas_rel(&l->state, s, s - 1))
        hl_rw_read_unlock_slow(l);
}

// ------------------------------------------------------------------------- writers
// What the state becomes when those who wait are let in, or invited.
HL_INLINE uint64_t hl_rw_let_in(hl_rw_t *l, uint64_t s) {
    uint64_t waiting = (s & HL_RW_WAITING) >> 32;
    if (!waiting) return s;
    if (!HL_SUSPENDABLE) return ((s & ~HL_RW_WAITING) + waiting) ^ HL_RW_PHASE;
    hl_store(&l->invited, (uint16_t)waiting);
    return s ^ HL_RW_PHASE;
}

// Takes the lock, if it has neither writer nor readers, and keeps these bits of the state. The
// acquire is for a reader that went in past the gate and out again since `s` was loaded: the same
// value.
HL_INLINE bool hl_rw_take(hl_rw_t *l, uint64_t s, uint64_t kept) {
    if (s & HL_RW_WRITER || hl_rw_inside(s)) return false;
    kept |= HL_RW_WAITING | HL_RW_PHASE;
    if (!hl_cas_acq(&l->state, s, (s & kept) | HL_RW_WRITER)) return false;
    if (s & HL_RW_ROW) hl_rw_row_retire(s);
    hl_store(&l->collisions, 0);
    if (HL_SUSPENDABLE) hl_store(&l->invited, 0);
    return true;
}

// Takes the lock if it is free, whoever stands at the gate: to that writer it is as if another had
// been in as it came. False: it is not free, or a reader has just looked.
HL_SLOW bool hl_rw_pass(hl_rw_t *l) {
    const uint64_t kept = HL_RW_GATE | HL_RW_ASLEEP;
    for (;;) {
        uint64_t s = hl_load(&l->state);
        if (s & HL_RW_WRITER || hl_rw_inside(s)) return false;
        if (!(s & HL_RW_ROW)) {
            if (hl_rw_take(l, s, kept)) return true;
        } else if (!(s & (HL_RW_GATE | HL_RW_SPENT))) {
            (void)HL_RW_CAS_SC(&l->state, s, s | HL_RW_SPENT);  // as the gate: then the counters
        } else {
            hl_rw_row_t *row = hl_rw_pin(l, &s);
            if (!row) continue;
            bool got = s & (HL_RW_GATE | HL_RW_SPENT) && hl_rw_take(l, s, kept);
            hl_rw_unpin(row);
            if (got) return true;
        }
    }
}

// Opens the gate again without having had the lock; its row is spent. Those who wait let themselves
// in: to let them in here would change the phase while readers whom the last unlock let in may not
// have seen that yet.
HL_INLINE void hl_rw_give_up(hl_rw_t *l) {
    uint64_t s, next;
    do {
        s = hl_load(&l->state);
        next = s & ~(HL_RW_GATE | HL_RW_ASLEEP | HL_RW_OVERDUE);
        if (s & HL_RW_ROW) next |= HL_RW_SPENT;
    } while (!hl_cas(&l->state, s, next));
    if (!(s & HL_RW_WRITER) && (s & HL_RW_WAITING)) hl_rw_wake(l, HL_RW_READER_SLEEPS);
}

// Before the gate is closed again: those whom it kept waiting, and who run, go in first.
HL_INLINE void hl_rw_after_you(hl_rw_t *l, uint64_t deadline_ns) {
    uint64_t begin = hl_ticks(), patience = hl_ns_to_ticks(HL_PATIENCE_NS);
    for (;;) {
        uint64_t s = hl_load(&l->state);
        if (!(s & HL_RW_WAITING) || s & HL_RW_CLOSED || hl_past(deadline_ns)) return;
        hl_pause();
        if (hl_ticks() - begin > patience) return;
    }
}

HL_INLINE void hl_rw_sleep_at_gate(hl_rw_t *l, uint64_t s, uint64_t deadline_ns) {
    if (!(s & HL_RW_ROW)) {
        // Not on a lock that was free: somebody came between, and may have left again since.
        bool busy = s & (HL_RW_WRITER | HL_RW_READERS);
        if (busy && hl_cas(&l->state, s, s | HL_RW_ASLEEP))
            hl_rw_sleep(l, s | HL_RW_ASLEEP, deadline_ns, HL_RW_WRITER_SLEEPS);
        return;
    }
    // Pinned: the gate is not another lock's while we sleep there.
    hl_rw_row_t *row = hl_rw_pin(l, &s);
    if (!row) return;
    HL_RW_SC(store_n, &row->gate, 1u);  // then look again: pairs with hl_rw_row_leave()
    uint64_t now = HL_RW_SC(load_n, &l->state);
    if (!((now ^ s) & HL_RW_ROW) && hl_rw_inside(now))
        hl_futex_wait(&row->gate, 1, deadline_ns, HL_FUTEX_PRIVATE);
    hl_store(&row->gate, 0u);
    hl_rw_unpin(row);
}

// Whether those whom an unlock has invited go first: as long as they may be on their way.
HL_INLINE bool hl_rw_after_the_invited(hl_rw_t *l, uint64_t s, uint64_t *since) {
    if (!HL_SUSPENDABLE || !(s & HL_RW_WAITING) || !hl_load(&l->invited)) return false;
    if (s & HL_RW_WRITER) *since = 0;
    else if (!*since) *since = hl_ticks();
    return !*since || hl_ticks() - *since <= hl_ns_to_ticks(HL_PATIENCE_NS);
}

// For the writer that has come to the gate: closes it, waits, and lets the next writer come.
HL_INLINE bool hl_rw_lock_at_gate(hl_rw_t *l, uint64_t deadline_ns) {
    uint64_t begin = 0, since = 0;
    bool got = false;
    hl_rw_after_you(l, deadline_ns);
    HL_RW_SC(fetch_or, &l->state, HL_RW_GATE);
    for (;;) {
        // One with the looks at the counters in the order of the gate. An acquire would do: a state
        // that has changed since makes the exchange in hl_rw_take() fail, and the counters are
        // looked at after the gate in any case.
        uint64_t s = HL_RW_SC(load_n, &l->state);
        if (!hl_rw_after_the_invited(l, s, &since) && (got = hl_rw_take(l, s, 0))) break;
        if (hl_past(deadline_ns)) break;
        if (!hl_rw_stay_awake(&begin)) hl_rw_sleep_at_gate(l, s, deadline_ns);
    }
    if (!got) hl_rw_give_up(l);
    hl_park_unlock(&l->writers);
    return got;
}

HL_SLOW bool hl_rw_lock_slow(hl_rw_t *l, uint64_t deadline_ns) {
    return hl_park_lock_until(&l->writers, deadline_ns) && hl_rw_lock_at_gate(l, deadline_ns);
}

HL_INLINE bool hl_rw_lock_fast(hl_rw_t *l) {
    uint64_t s = hl_load(&l->state);
    return !(s & ~HL_RW_PHASE) && hl_cas_acq(&l->state, s, s | HL_RW_WRITER);
}

static inline void hl_rw_lock(hl_rw_t *l) {
    if (hl_unlikely(!hl_rw_lock_fast(l))) (void)!hl_rw_lock_slow(l, HL_NO_DEADLINE);
}

static inline bool hl_rw_lock_until(hl_rw_t *l, uint64_t deadline_ns) {
    return hl_rw_lock_fast(l) || hl_rw_lock_slow(l, deadline_ns);
}

static inline bool hl_rw_trylock(hl_rw_t *l) {
    for (;;) {
        uint64_t s = hl_load(&l->state);
        if (s & (HL_RW_CLOSED | HL_RW_READERS) && !(s & HL_RW_ROW)) return false;
        if (s & HL_RW_CLOSED) return false;
        if (s & HL_RW_ROW) return hl_rw_pass(l);
        if (hl_cas_acq(&l->state, s, s | HL_RW_WRITER)) return true;
    }
}

HL_SLOW void hl_rw_unlock_slow(hl_rw_t *l) {
    for (;;) {
        uint64_t s = hl_load(&l->state), next = hl_rw_let_in(l, s & ~HL_RW_WRITER);
        // The last of the readers we let in wakes the next writer; if there are none, or they may
        // not come, we do.
        bool wake = (s & HL_RW_ASLEEP) && (HL_SUSPENDABLE || !(s & HL_RW_WAITING));
        if (wake) next &= ~HL_RW_ASLEEP;
        if (!hl_cas_rel(&l->state, s, next)) continue;
        if (s & HL_RW_WAITING) hl_rw_wake(l, HL_RW_READER_SLEEPS);
        if (wake) hl_rw_wake(l, HL_RW_WRITER_SLEEPS);
        return;
    }
}

static inline void hl_rw_unlock(hl_rw_t *l) {
    uint64_t s = hl_load(&l->state);
    if (hl_unlikely(s & (HL_RW_WAITING | HL_RW_ASLEEP)) ||
        !hl_cas_rel(&l->state, s, s & ~HL_RW_WRITER))
        hl_rw_unlock_slow(l);
}

static inline bool hl_rw_is_write_locked(const hl_rw_t *l) {
    return hl_load(&l->state) & HL_RW_WRITER;
}

// In a forked child, whose waiters stayed behind in the parent: who is inside stays inside.
static inline void hl_rw_forget_waiters(hl_rw_t *l) {
    hl_park_t free_ = HL_PARK_INIT;
    uint64_t kept = HL_RW_READERS | HL_RW_ROW | HL_RW_WRITER | HL_RW_PHASE | HL_RW_SPENT;
    hl_store(&l->state, hl_load(&l->state) & kept);
    l->writers = free_;
}

// In a forked child, before any lock is used: readers on their way out of a row that is free.
static inline void hl_rw_rows_after_fork(void) {
    for (int i = 1; i < HL_RW_ROWS && hl_load(&hl_rw_rows.used); i++) {
        hl_rw_row_t *row = &hl_rw_rows.at[i];
        hl_store(&row->gate, 0u);
        hl_store(&row->claimed, hl_load(&row->claimed) & 1);
        for (int k = 0; k < HL_RW_SLOTS && !hl_load(&row->claimed); k++)
            hl_store(&row->slot[k].readers, 0u);
    }
}

#endif
