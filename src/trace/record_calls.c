// SPDX-License-Identifier: MIT
// record_calls.c - the functions a recorded program calls instead of libc's: mutex, condition
// variable, spinlock. Each tries the lock first, to learn whether it would wait.
//
// What a caller sees is what the function behind us returns. A lock that was tried and is busy is
// asked for again in the caller's own way, so deadlock checks, time-outs and dead owners work.
#include <dlfcn.h>

#include "record_hold.h"

rec_next_t rec_next_found;
rec_flag_t rec_next_ready;

void rec_next_find(void) {
#define X(name, args) \
    __atomic_store_n((void **)&rec_next_found.name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);
    REC_NEXT(X)
#undef X
    hl_store_rel(&rec_next_ready, true);
}

// The caller's call instruction; only meaningful in the exported function itself.
#define CALLER __builtin_return_address(0)

static inline bool is_taken(int result) { return result == 0 || result == EOWNERDEAD; }

// ------------------------------------------------------------------------- mutex
static record_kind_t kind_of(const pthread_mutex_t *m) {
    switch (m->__data.__kind & 3) {
    case PTHREAD_MUTEX_RECURSIVE_NP: return RECORD_RECURSIVE;
    case PTHREAD_MUTEX_ERRORCHECK_NP: return RECORD_ERRORCHECK;
    case PTHREAD_MUTEX_ADAPTIVE_NP: return RECORD_ADAPTIVE;
    default: return RECORD_MUTEX;
    }
}

// Robust and priority-protected mutexes: trying them is not the same as locking them, so whether
// they are free is told from libc's own word, and a wait that begins right after is missed.
#define KIND_NOT_TRIED (0x10 | 0x40)

static int try_mutex(pthread_mutex_t *m, bool *tried) {
    *tried = !(m->__data.__kind & KIND_NOT_TRIED);
    if (*tried) return rec_next()->pthread_mutex_trylock(m);
    return __atomic_load_n(&m->__data.__lock, __ATOMIC_RELAXED) ? EBUSY : 0;
}

static inline void taken(record_slot_t *s, uint64_t now) {
    if (hl_unlikely(rec_taken_again(s))) s->depth++;
    else rec_taken(s, now);
}

// The rest of a lock call that found the lock busy; CALL asks for it in the caller's way.
#define WAIT_FOR(slot, caller, call)                                     \
    (__extension__({                                                     \
        rec_wait_t wait_ = rec_wait_begin(slot, caller);                 \
        int result_ = (call);                                            \
        bool got_ = is_taken(result_);                                   \
        uint64_t now_ = rec_wait_end(slot, &wait_, got_, false);         \
        if (got_) taken(slot, now_);                                     \
        result_;                                                         \
    }))

#define LOCK(m, caller, call)                                            \
    do {                                                                 \
        record_slot_t *slot_ = rec_find(m, kind_of(m));                  \
        if (hl_unlikely(!slot_)) {                                       \
            rec_lost();                                                  \
            return (call);                                               \
        }                                                                \
        bool real_;                                                      \
        uint64_t begin_ = rec_call_begin();                              \
        int tried_ = try_mutex(m, &real_);                               \
        if (hl_likely(is_taken(tried_))) {                               \
            if (hl_unlikely(!real_)) tried_ = (call);                    \
            if (hl_unlikely(begin_)) begin_ = rec_call_end(slot_, begin_, true); \
            if (is_taken(tried_)) taken(slot_, begin_);                  \
            return tried_;                                               \
        }                                                                \
        if (tried_ != EBUSY) return (call);                              \
        return WAIT_FOR(slot_, caller, call);                            \
    } while (0)

REC_EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    LOCK(m, CALLER, rec_next()->pthread_mutex_lock(m));
}

REC_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *at) {
    LOCK(m, CALLER, rec_next()->pthread_mutex_timedlock(m, at));
}

REC_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
                                       const struct timespec *at) {
    if (!rec_valid_clock(clock)) return rec_next()->pthread_mutex_clocklock(m, clock, at);
    LOCK(m, CALLER, rec_next()->pthread_mutex_clocklock(m, clock, at));
}

REC_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m) {
    record_slot_t *s = rec_find(m, kind_of(m));
    int result = rec_next()->pthread_mutex_trylock(m);
    if (s && is_taken(result)) taken(s, 0);
    return result;
}

// After the lock is free: who was made to wait is put down to the stack that freed it.
static inline void blame(record_slot_t *s, rec_blame_t b, void *caller) {
    if (hl_unlikely(b.count)) rec_charge(rec_stack(s, STACK_HOLDER, caller), b.count, b.waiting);
    if (hl_unlikely(rec_me.pending_ns)) rec_flush();
}

REC_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m) {
    record_slot_t *s = rec_find(m, kind_of(m));
    if (hl_unlikely(!s)) return rec_next()->pthread_mutex_unlock(m);
    if (hl_unlikely(s->depth > 1)) {
        s->depth--;
        return rec_next()->pthread_mutex_unlock(m);
    }
    rec_blame_t b = rec_freed(s);
    int result = REC_UNLOCK(s, b, rec_next()->pthread_mutex_unlock(m));
    blame(s, b, CALLER);
    return result;
}

// The first lock call comes from the thread that made the lock, in most programs; where it was
// made is the best name a lock in the heap has.
static void note_init(void *lock, record_kind_t kind, void *caller) {
    record_slot_t *s = rec_find(lock, kind);
    if (!s) return;
    record_stack_t *stack = rec_stack(s, STACK_INIT, caller);
    s->kind = (uint16_t)kind;
    s->depth = 0;
    s->init_stack = stack ? (uint64_t)(stack - rec_stacks()) + 1 : 0;
    rec_charge(stack, 1, 0);
}

REC_EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr) {
    int result = rec_next()->pthread_mutex_init(m, attr);
    if (result == 0) note_init(m, kind_of(m), CALLER);
    return result;
}

REC_EXPORT int pthread_mutex_destroy(pthread_mutex_t *m) {
    rec_forget(m);
    return rec_next()->pthread_mutex_destroy(m);
}

// ------------------------------------------------------------------------- condition variable
// A wait frees the mutex and takes it again; how long it waits for the mutex after it was woken
// cannot be told from outside, so that is not in the mutex's waits. How long the call lasted is kept
// apart, with its stack: a mutex and a condition variable together may be a lock of the program's
// own, as Python's is, and only the names of the functions that wait tell (made.c).
typedef struct {
    record_slot_t *slot;
    record_stack_t *stack;
    uint64_t begin;
} rec_sleep_t;

// Both run with the mutex held: plain adds do.
static rec_sleep_t before_cond(pthread_mutex_t *m, void *caller) {
    rec_sleep_t z = {.slot = rec_find(m, kind_of(m))};
    if (!z.slot) return z;
    rec_blame_t b = rec_freed(z.slot);
    blame(z.slot, b, caller);
    z.stack = rec_stack(z.slot, STACK_SLEEPER, caller);
    z.begin = hl_ticks();
    return z;
}

static void after_cond(const rec_sleep_t *z, bool waited) {
    record_slot_t *s = z->slot;
    if (!s || !waited) return;
    uint64_t now = hl_ticks(), ns = now > z->begin ? rec_ns(now - z->begin) : 0;
    rec_taken(s, now);
    s->sleeps++;
    s->slept += ns;
    s->sleep_hist[profile_bucket(ns)]++;
    if (ns > s->slept_worst) s->slept_worst = ns;
    rec_charge(z->stack, 1, ns);
}

#define COND_WAIT(m, caller, call)                                             \
    do {                                                                       \
        rec_sleep_t sleep_ = before_cond(m, caller);                           \
        int result_ = (call);                                                  \
        after_cond(&sleep_, result_ != EPERM && result_ != EINVAL);            \
        return result_;                                                        \
    } while (0)

REC_EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    COND_WAIT(m, CALLER, rec_next()->pthread_cond_wait(c, m));
}

REC_EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                      const struct timespec *at) {
    COND_WAIT(m, CALLER, rec_next()->pthread_cond_timedwait(c, m, at));
}

REC_EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                      const struct timespec *at) {
    COND_WAIT(m, CALLER, rec_next()->pthread_cond_clockwait(c, m, clock, at));
}

// ------------------------------------------------------------------------- C11
// libc's mtx_t is its pthread_mutex_t under another name; so are the calls, but for the results.
static int c11(int result) {
    return result == 0           ? thrd_success
           : result == EBUSY     ? thrd_busy
           : result == ETIMEDOUT ? thrd_timedout
           : result == ENOMEM    ? thrd_nomem
                                 : thrd_error;
}

static int c11_lock(pthread_mutex_t *m, void *caller) {
    LOCK(m, caller, rec_next()->pthread_mutex_lock(m));
}

static int c11_timedlock(pthread_mutex_t *m, const struct timespec *at, void *caller) {
    LOCK(m, caller, rec_next()->pthread_mutex_timedlock(m, at));
}

static pthread_mutex_t *mutex_of(mtx_t *m) { return (pthread_mutex_t *)(void *)m; }

REC_EXPORT int mtx_lock(mtx_t *m) { return c11(c11_lock(mutex_of(m), CALLER)); }

REC_EXPORT int mtx_timedlock(mtx_t *m, const struct timespec *at) {
    return c11(c11_timedlock(mutex_of(m), at, CALLER));
}

REC_EXPORT int mtx_trylock(mtx_t *m) {
    record_slot_t *s = rec_find(m, kind_of(mutex_of(m)));
    int result = rec_next()->mtx_trylock(m);
    if (s && result == thrd_success) taken(s, 0);
    return result;
}

REC_EXPORT int mtx_unlock(mtx_t *m) {
    record_slot_t *s = rec_find(m, kind_of(mutex_of(m)));
    if (!s) return rec_next()->mtx_unlock(m);
    if (s->depth > 1) {
        s->depth--;
        return rec_next()->mtx_unlock(m);
    }
    rec_blame_t b = rec_freed(s);
    int result = REC_UNLOCK(s, b, rec_next()->mtx_unlock(m));
    blame(s, b, CALLER);
    return result;
}

REC_EXPORT int cnd_wait(cnd_t *c, mtx_t *m) {
    rec_sleep_t z = before_cond(mutex_of(m), CALLER);
    int result = rec_next()->cnd_wait(c, m);
    after_cond(&z, result != thrd_error);
    return result;
}

REC_EXPORT int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *at) {
    rec_sleep_t z = before_cond(mutex_of(m), CALLER);
    int result = rec_next()->cnd_timedwait(c, m, at);
    after_cond(&z, result != thrd_error);
    return result;
}

// ------------------------------------------------------------------------- spinlock
static void *plain(pthread_spinlock_t *s) { return (void *)(uintptr_t)s; }

REC_EXPORT int pthread_spin_lock(pthread_spinlock_t *lock) {
    record_slot_t *s = rec_find(plain(lock), RECORD_SPIN);
    if (hl_unlikely(!s)) {
        rec_lost();
        return rec_next()->pthread_spin_lock(lock);
    }
    uint64_t begin = rec_call_begin();
    if (hl_likely(rec_next()->pthread_spin_trylock(lock) == 0)) {
        if (hl_unlikely(begin)) begin = rec_call_end(s, begin, true);
        rec_taken(s, begin);
        return 0;
    }
    return WAIT_FOR(s, CALLER, rec_next()->pthread_spin_lock(lock));
}

REC_EXPORT int pthread_spin_trylock(pthread_spinlock_t *lock) {
    record_slot_t *s = rec_find(plain(lock), RECORD_SPIN);
    int result = rec_next()->pthread_spin_trylock(lock);
    if (s && result == 0) rec_taken(s, 0);
    return result;
}

REC_EXPORT int pthread_spin_unlock(pthread_spinlock_t *lock) {
    record_slot_t *s = rec_find(plain(lock), RECORD_SPIN);
    if (hl_unlikely(!s)) return rec_next()->pthread_spin_unlock(lock);
    rec_blame_t b = rec_freed(s);
    int result = REC_UNLOCK(s, b, rec_next()->pthread_spin_unlock(lock));
    blame(s, b, CALLER);
    return result;
}

REC_EXPORT int pthread_spin_init(pthread_spinlock_t *lock, int shared) {
    int result = rec_next()->pthread_spin_init((pthread_spinlock_t *)plain(lock), shared);
    if (result == 0) note_init(plain(lock), RECORD_SPIN, CALLER);
    return result;
}

REC_EXPORT int pthread_spin_destroy(pthread_spinlock_t *lock) {
    rec_forget(plain(lock));
    return rec_next()->pthread_spin_destroy(lock);
}
