// SPDX-License-Identifier: MIT
// record_hold.h - the accounts of one lock: what is written when it is taken and when it is freed.
//
// All of this runs in the thread that holds the lock, so plain adds do.
#ifndef HOTLOCK_RECORD_HOLD_H
#define HOTLOCK_RECORD_HOLD_H

#include "record_internal.h"

// ------------------------------------------------------------------------- was the holder running?
// The kernel clears a thread's restartable-sequence pointer when it takes the processor away and
// the thread is not inside that sequence (rseq(2)). So a holder points it at a sequence that no
// thread ever runs, and finds it gone if it was not running all the while: two moves, no call.
#if defined(__x86_64__) || defined(__aarch64__)
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
extern const struct rec_sequence rec_sequence __attribute__((visibility("hidden")));

static inline uint64_t *rec_sequence_word(void) {
    if (!&__rseq_size || !__rseq_size) return NULL;
    return (uint64_t *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset + 8);
}

// Who holds one lock and takes another points it there again: that it was gone is counted, for the
// first.
static inline void rec_mark_running(void) {
    uint64_t *word = rec_sequence_word();
    if (!word) return;
    if (hl_unlikely(!__atomic_load_n(word, __ATOMIC_RELAXED))) rec_me.losses++;
    __atomic_store_n(word, (uint64_t)(uintptr_t)&rec_sequence, __ATOMIC_RELAXED);
}
#else
static inline uint64_t *rec_sequence_word(void) { return NULL; }
static inline void rec_mark_running(void) {}
#endif

// Since the last mark.
static inline bool rec_kept_running(void) {
    uint64_t *word = rec_sequence_word();
    return !word || __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
}

static inline bool rec_held_running(const record_slot_t *s) {
    return rec_kept_running() && s->losses == rec_me.losses;
}

// ------------------------------------------------------------------------- inside the lock's calls
// What a lock costs beside its waits: the way to its word and back, and waking others. One call in
// thirty-two is timed, drawn by each thread for itself; and every unlock that somebody waits for.
enum { CALLS_PER_SAMPLE = 32 };

static inline uint32_t rec_draw_call(void) {
    return 1 + rec_random() % (2 * CALLS_PER_SAMPLE - 1);
}

// Ticks, or 0: this call is not timed.
static inline uint64_t rec_call_begin(void) {
    if (hl_likely(--rec_me.calls_left)) return 0;
    rec_me.calls_left = rec_draw_call();
    rec_mark_running();
    return hl_ticks();
}

// The clock as it is now. A call that was drawn stands for as many as are drawn from; one during
// which the thread lost its processor says nothing of the lock, and is left out.
uint64_t rec_call_end(record_slot_t *s, uint64_t begin, bool drawn);

// ------------------------------------------------------------------------- taken
static inline void rec_time_hold(record_slot_t *s, uint64_t now, bool due) {
    uint64_t crowd = hl_load(&s->crowd);
    s->acquired = now ? now : hl_ticks();
    s->piled_up = crowd ? record_piled_up(crowd, s->acquired) : 0;
    s->weight = 0;
    if (!due) return;
    // Of a lock that is taken more often than every 32 microseconds one hold in eight is timed, by
    // a thread that would look at the clock more often than every 16. This one stands for as many
    // as the last draw skipped on average.
    s->weight = s->stride ? s->stride : 1;
    bool often = rec_ns(s->acquired - s->last_timed) < 32000u * s->weight;
    s->stride = often && rec_ns(s->acquired - rec_me.last_timed) < 16000 ? 8 : 1;
    s->last_timed = rec_me.last_timed = s->acquired;
    s->countdown = s->stride == 1 ? 1 : 1 + rec_random() % 15;
}

// `now`: ticks, or 0 if nobody has looked at the clock yet.
static inline void rec_taken(record_slot_t *s, uint64_t now) {
    if (hl_unlikely(!rec_me.number)) rec_take_number();
    s->acquisitions++;
    if (s->owner != rec_me.number) {
        s->owner_changes += s->owner != 0;
        s->owner = rec_me.number;
    }
    s->depth = 1;
    rec_mark_running();
    s->losses = rec_me.losses;
    if (hl_unlikely(s->freed)) {
        if (!now) now = hl_ticks();
        uint64_t ns = now > s->freed ? rec_ns(now - s->freed) : 0;
        s->freed = 0;
        s->handoffs++;
        s->handoff += ns;
        if (ns > s->handoff_worst) s->handoff_worst = ns;
        s->handoff_hist[profile_bucket(ns)]++;
    }
    bool due = --s->countdown == 0;
    if (hl_unlikely(due || hl_load(&s->crowd))) rec_time_hold(s, now, due);
}

static inline bool rec_taken_again(const record_slot_t *s) {
    return s->kind == RECORD_RECURSIVE && s->owner == rec_me.number && s->depth;
}

// ------------------------------------------------------------------------- freed
typedef struct {
    uint64_t waiting;  // ns that others waited during this hold
    uint64_t count;    // how many still wait
    uint64_t freed;    // ticks at which the unlock that somebody waits for began, else 0
} rec_blame_t;

// Before the lock is really freed. What it returns is charged to a stack after that.
static inline rec_blame_t rec_freed(record_slot_t *s) {
    rec_blame_t blame = {0, 0, 0};
    uint64_t crowd = hl_load(&s->crowd);
    s->depth = 0;
    if (hl_likely(!crowd && !s->acquired)) return blame;
    uint64_t now = hl_ticks();
    if (s->acquired) {
        uint64_t ns = now > s->acquired ? rec_ns(now - s->acquired) : 0;
        if (s->weight) {
            s->hold += ns * s->weight;
            s->hold_weight += s->weight;
            s->holds++;
            s->hold_hist[profile_bucket(ns)] += s->weight;
            if (rec_held_running(s)) {
                s->undisturbed += ns * s->weight;
                s->undisturbed_weight += s->weight;
            }
        }
        if (ns > s->hold_worst) s->hold_worst = ns;
    }
    if (crowd) {
        uint64_t sum = record_piled_up(crowd, now);
        uint64_t before = s->acquired ? s->piled_up : 0;
        blame.waiting = sum > before ? rec_ns(sum - before) : 0;
        blame.count = crowd & RECORD_WAITERS;
        s->waiters_sum += blame.count;
        if (blame.count > s->waiters_most) s->waiters_most = blame.count;
        if (!rec_held_running(s)) {
            s->preempted += blame.count;
            s->preempted_wait += blame.waiting;
        }
        s->freed = blame.freed = now;
    }
    s->acquired = 0;
    return blame;
}

// The unlock itself, between these accounts and those that nobody waits for.
#define REC_UNLOCK(s, blame, call)                                               \
    (__extension__({                                                             \
        uint64_t begin_ = (blame).freed ? (blame).freed : rec_call_begin();      \
        int result_ = (call);                                                    \
        if (hl_unlikely(begin_)) rec_call_end(s, begin_, !(blame).freed);        \
        result_;                                                                 \
    }))

// ------------------------------------------------------------------------- waited
typedef struct {
    record_stack_t *stack;
    uint64_t begin, cpu;
    uint64_t arrival;
    bool clocked;
} rec_wait_t;

static inline uint64_t rec_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

rec_wait_t rec_wait_begin(record_slot_t *s, void *return_address);
// Ticks at the end. taken: with the lock, so that its slot is ours to write.
uint64_t rec_wait_end(record_slot_t *s, rec_wait_t *w, bool taken, bool shared);
void rec_flush(void);

#endif
