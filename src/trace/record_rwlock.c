// SPDX-License-Identifier: MIT
// record_rwlock.c - reader-writer locks. Readers hold together, so what they count they add
// atomically, and the time one reader held is kept by the reader: of one read in eight, and one
// at a time. Waiting that several readers cause together is put down to each of them.
#include "record_hold.h"

#define CALLER __builtin_return_address(0)

static record_slot_t *find(pthread_rwlock_t *l) { return rec_find(l, RECORD_RWLOCK); }

static void *plain(pthread_rwlock_t *l) { return l; }

enum { READS_PER_SAMPLE = 8 };

static void add(uint64_t *to, uint64_t by) { (void)__atomic_fetch_add(to, by, __ATOMIC_RELAXED); }

// A writer freed it with somebody waiting, and the first to get it is a reader.
static void note_handoff(record_slot_t *s) {
    uint64_t freed = __atomic_exchange_n(&s->freed, 0, __ATOMIC_RELAXED), now = hl_ticks();
    if (!freed) return;
    uint64_t ns = now > freed ? rec_ns(now - freed) : 0;
    add(&s->handoffs, 1);
    add(&s->handoff, ns);
    if (ns > s->handoff_worst) s->handoff_worst = ns;
    (void)__atomic_fetch_add(&s->handoff_hist[profile_bucket(ns)], 1, __ATOMIC_RELAXED);
}

static void note_read(record_slot_t *s, bool waited) {
    if (hl_unlikely(!rec_me.number)) rec_take_number();
    if (hl_unlikely(__atomic_load_n(&s->freed, __ATOMIC_RELAXED))) note_handoff(s);
    add(&s->acquisitions, RECORD_INSIDE + 1);
    if (waited) add(&s->reads_contended, 1);
    if (rec_me.reading || rec_random() % READS_PER_SAMPLE) return;
    rec_me.reading = s;
    rec_me.reading_since = hl_ticks();
    rec_me.reading_piled = record_piled_up(hl_load(&s->crowd), rec_me.reading_since);
}

// Of readers the last one leaves it free. One that came in before anything was recorded never did.
static void leave(record_slot_t *s, uint64_t now) {
    uint64_t inside = __atomic_fetch_sub(&s->acquisitions, RECORD_INSIDE, __ATOMIC_RELAXED);
    inside /= RECORD_INSIDE;
    if (inside == 0) add(&s->acquisitions, RECORD_INSIDE);
    if (inside == 1 && now) __atomic_store_n(&s->freed, now, __ATOMIC_RELAXED);
}

static void note_write(record_slot_t *s, uint64_t now) {
    s->writes++;
    rec_taken(s, now);
}

static rec_blame_t end_read(record_slot_t *s) {
    rec_blame_t blame = {0, 0, 0};
    uint64_t crowd = hl_load(&s->crowd);
    if (crowd) blame.freed = hl_ticks();
    leave(s, blame.freed);
    if (rec_me.reading != s) return blame;
    uint64_t now = crowd ? blame.freed : hl_ticks(), since = rec_me.reading_since;
    uint64_t ns = now > since ? rec_ns(now - since) : 0;
    uint64_t piled = record_piled_up(crowd, now);
    rec_me.reading = NULL;
    add(&s->hold, READS_PER_SAMPLE * ns);
    add(&s->hold_weight, READS_PER_SAMPLE);
    add(&s->holds, 1);
    (void)__atomic_fetch_add(&s->hold_hist[profile_bucket(ns)], READS_PER_SAMPLE, __ATOMIC_RELAXED);
    if (ns > s->hold_worst) s->hold_worst = ns;
    blame.count = READS_PER_SAMPLE * (crowd & RECORD_WAITERS);
    if (piled > rec_me.reading_piled)
        blame.waiting = READS_PER_SAMPLE * rec_ns(piled - rec_me.reading_piled);
    return blame;
}

// What a read and a write lock call have in common: try, else wait in the caller's own way. READS is
// a constant. Who reads has no hold of its own in which to charge the wait to its stack.
#define RW_LOCK(l, reads, attempt, call)                                      \
    do {                                                                      \
        record_slot_t *s_ = find(l);                                          \
        if (!s_) {                                                            \
            rec_lost();                                                       \
            return (call);                                                    \
        }                                                                     \
        uint64_t now_ = 0, begin_ = rec_call_begin();                         \
        int result_ = rec_next()->attempt(l);                                 \
        bool waited_ = result_ == EBUSY;                                      \
        if (hl_unlikely(begin_ && !result_)) now_ = rec_call_end(s_, begin_, true); \
        if (waited_) {                                                        \
            rec_wait_t wait_ = rec_wait_begin(s_, CALLER);                    \
            result_ = (call);                                                 \
            now_ = rec_wait_end(s_, &wait_, result_ == 0, true);              \
            if (reads) rec_flush();                                           \
        } else if (result_ != 0) {                                            \
            return (call);                                                    \
        }                                                                     \
        if (result_ == 0 && (reads)) note_read(s_, waited_);                  \
        else if (result_ == 0) note_write(s_, now_);                          \
        return result_;                                                       \
    } while (0)
#define READ_LOCK(l, call)  RW_LOCK(l, true, pthread_rwlock_tryrdlock, call)
#define WRITE_LOCK(l, call) RW_LOCK(l, false, pthread_rwlock_trywrlock, call)

REC_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    READ_LOCK(l, rec_next()->pthread_rwlock_rdlock(l));
}
REC_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *l, const struct timespec *at) {
    if (!rec_valid_time(at)) return rec_next()->pthread_rwlock_timedrdlock(l, at);
    READ_LOCK(l, rec_next()->pthread_rwlock_timedrdlock(l, at));
}
REC_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *l, clockid_t clock,
                                          const struct timespec *at) {
    if (!rec_valid_clock(clock) || !rec_valid_time(at))
        return rec_next()->pthread_rwlock_clockrdlock(l, clock, at);
    READ_LOCK(l, rec_next()->pthread_rwlock_clockrdlock(l, clock, at));
}
REC_EXPORT int pthread_rwlock_tryrdlock(pthread_rwlock_t *l) {
    record_slot_t *s = find(l);
    int result = rec_next()->pthread_rwlock_tryrdlock(l);
    if (s && result == 0) note_read(s, false);
    return result;
}

REC_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    WRITE_LOCK(l, rec_next()->pthread_rwlock_wrlock(l));
}
REC_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *l, const struct timespec *at) {
    if (!rec_valid_time(at)) return rec_next()->pthread_rwlock_timedwrlock(l, at);
    WRITE_LOCK(l, rec_next()->pthread_rwlock_timedwrlock(l, at));
}
REC_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *l, clockid_t clock,
                                          const struct timespec *at) {
    if (!rec_valid_clock(clock) || !rec_valid_time(at))
        return rec_next()->pthread_rwlock_clockwrlock(l, clock, at);
    WRITE_LOCK(l, rec_next()->pthread_rwlock_clockwrlock(l, clock, at));
}
REC_EXPORT int pthread_rwlock_trywrlock(pthread_rwlock_t *l) {
    record_slot_t *s = find(l);
    int result = rec_next()->pthread_rwlock_trywrlock(l);
    if (s && result == 0) note_write(s, 0);
    return result;
}

// A writer is the owner and the lock's depth is 1; anyone else who unlocks is a reader.
REC_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *l) {
    record_slot_t *s = find(l);
    if (!s) return rec_next()->pthread_rwlock_unlock(l);
    bool writer = s->depth && s->owner == rec_me.number;
    rec_blame_t b = writer ? rec_freed(s) : end_read(s);
    int result = REC_UNLOCK(s, b, rec_next()->pthread_rwlock_unlock(l));
    if (b.count) rec_charge(rec_stack(s, STACK_HOLDER, CALLER), b.count, b.waiting);
    rec_flush();
    return result;
}

REC_EXPORT int pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr) {
    int result = rec_next()->pthread_rwlock_init(l, attr);
    record_slot_t *s = result == 0 ? find(l) : NULL;
    if (!s) return result;
    record_stack_t *stack = rec_stack(s, STACK_INIT, CALLER);
    s->kind = RECORD_RWLOCK;
    s->init_stack = stack ? (uint64_t)(stack - rec_stacks()) + 1 : 0;
    rec_charge(stack, 1, 0);
    return result;
}

REC_EXPORT int pthread_rwlock_destroy(pthread_rwlock_t *l) {
    rec_forget(plain(l));
    return rec_next()->pthread_rwlock_destroy(l);
}
