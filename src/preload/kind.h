// SPDX-License-Identifier: MIT
// kind.h - one lock behind the pthread names. Included once per lock by kinds.c, with
//
//   LOCK         the lock of a mutex
//   FORM         its operations' name, if not the same
//   SPIN         the lock of a spinlock: one that fits 4 bytes
//   SPIN_SHARED  the first word of a process-shared spinlock
//   SPIN_MARK    nonzero: SPIN cannot be shared by processes; a word whose low half is this value,
//                which SPIN never stores, is a tas lock in its last byte instead
//   QUEUED, SPIN_QUEUED  1: a lock in whose queue a waiter waits for those ahead of it
//   DROPS        1: hl_FORM_drop() unlocks if nobody waits; what is not held it leaves as it is
//
// defined; it leaves a table named LOCK_ops. Unlocking what is not locked is undefined in POSIX
// and harmless in libc, where programs get away with it; a queue lock would never recover.
//
// A waiter of a queue lock sleeps until the one ahead of it has had its turn. If a signal has
// suspended that one, the lock is free and those behind sleep on. So here they wait in slices
// (slice.h), between which they look whether the lock is free (hl_FORM_pass() in kinds.c). For the
// same reason a trylock does not mind that a free lock is kept for the first waiter.
#ifndef FORM
#define FORM LOCK
#endif
#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c)  PASTE_(a, b, c)
#define MY(op)          PASTE(LOCK, _, op)
#define MUTEX(op)       PASTE(hl_, FORM, _##op)
#define SPINLOCK(op)    PASTE(hl_, SPIN, _##op)

_Static_assert(sizeof(MUTEX(t)) <= sizeof((hlp_mutex_t *)0)->lock, "too big for a mutex");
_Static_assert(sizeof(SPINLOCK(t)) <= sizeof(pthread_spinlock_t), "too big for a spinlock");

// ------------------------------------------------------------------------- mutex
#if QUEUED
static __attribute__((noinline)) bool MY(wait)(MUTEX(t) *l, uint64_t deadline_ns) {
    hlp_slice_t s = {HLP_SLICE_LEAST_NS, deadline_ns};
    while (!MUTEX(lock_until)(l, hlp_next_slice(&s)) && !MUTEX(pass)(l))
        if (hl_past(deadline_ns)) return false;
    return true;
}

static int MY(lock)(pthread_mutex_t *m) {
    MUTEX(t) *l = (MUTEX(t) *)(void *)m;
    if (hl_unlikely(!MUTEX(lock_until)(l, 0))) (void)MY(wait)(l, HL_NO_DEADLINE);
    return 0;
}

static bool MY(lock_until)(hlp_mutex_t *m, uint64_t deadline_ns) {
    return MY(wait)((MUTEX(t) *)(void *)m, deadline_ns);
}
#else
static int MY(lock)(pthread_mutex_t *m) {
    MUTEX(lock)((MUTEX(t) *)(void *)m);
    return 0;
}

static bool MY(lock_until)(hlp_mutex_t *m, uint64_t deadline_ns) {
    return MUTEX(lock_until)((MUTEX(t) *)(void *)m, deadline_ns);
}
#endif

static int MY(trylock)(pthread_mutex_t *m) {
    MUTEX(t) *l = (MUTEX(t) *)(void *)m;
    if (MUTEX(trylock)(l)) return 0;
#if QUEUED
    if (hl_unlikely(!MUTEX(is_locked)(l)) && MUTEX(take_reserved)(l)) return 0;
#endif
    return EBUSY;
}

static int MY(unlock)(pthread_mutex_t *m) {
    MUTEX(t) *l = (MUTEX(t) *)(void *)m;
#if DROPS
    if (hl_likely(MUTEX(drop)(l))) return 0;
#endif
    if (hl_likely(MUTEX(is_locked)(l))) MUTEX(unlock)(l);
    return 0;
}

static bool MY(is_locked)(const hlp_mutex_t *m) {
    return MUTEX(is_locked)((const MUTEX(t) *)(const void *)m);
}

// ------------------------------------------------------------------------- spinlock
static int MY(spin_init)(pthread_spinlock_t *s, int shared) {
    word_t *w = word(s);
    hl_store(w, shared == PTHREAD_PROCESS_SHARED ? SPIN_SHARED : 0u);
    return 0;
}

static int MY(spin_destroy)(pthread_spinlock_t *s) {
    (void)s;
    return 0;
}

#if SPIN_QUEUED
static __attribute__((noinline)) void MY(spin_wait)(SPINLOCK(t) *l) {
    hlp_slice_t s = {HLP_SLICE_LEAST_NS, HL_NO_DEADLINE};
    while (!SPINLOCK(lock_until)(l, hlp_next_slice(&s)) && !SPINLOCK(pass)(l)) continue;
}
#endif

static int MY(spin_lock)(pthread_spinlock_t *s) {
    SPINLOCK(t) *l = (SPINLOCK(t) *)(void *)s;
    if (SPIN_MARK && is_marked(s, SPIN_MARK)) hl_tas_lock(last_byte(s));
#if SPIN_QUEUED
    else if (hl_unlikely(!SPINLOCK(lock_until)(l, 0))) MY(spin_wait)(l);
#else
    else SPINLOCK(lock)(l);
#endif
    return 0;
}

static int MY(spin_trylock)(pthread_spinlock_t *s) {
    SPINLOCK(t) *l = (SPINLOCK(t) *)(void *)s;
    if (SPIN_MARK && is_marked(s, SPIN_MARK)) return hl_tas_trylock(last_byte(s)) ? 0 : EBUSY;
    if (SPINLOCK(trylock)(l)) return 0;
#if SPIN_QUEUED
    if (hl_unlikely(!SPINLOCK(is_locked)(l)) && SPINLOCK(take_reserved)(l)) return 0;
#endif
    return EBUSY;
}

static int MY(spin_unlock)(pthread_spinlock_t *s) {
    SPINLOCK(t) *l = (SPINLOCK(t) *)(void *)s;
    if (SPIN_MARK && is_marked(s, SPIN_MARK)) hl_tas_unlock(last_byte(s));
    else if (hl_likely(SPINLOCK(is_locked)(l))) SPINLOCK(unlock)(l);
    return 0;
}

#define TABLE(name_)                                                                             \
    {                                                                                            \
        .name = name_, .lock = MY(lock), .trylock = MY(trylock), .unlock = MY(unlock),           \
        .lock_until = MY(lock_until), .is_locked = MY(is_locked), .spin_init = MY(spin_init),    \
        .spin_destroy = MY(spin_destroy), .spin_lock = MY(spin_lock),                            \
        .spin_trylock = MY(spin_trylock), .spin_unlock = MY(spin_unlock)                         \
    }
#define NAME_(x) #x
#define NAME(x)  NAME_(x)
static const hlp_ops_t MY(ops) = TABLE(NAME(LOCK));

#undef PASTE_
#undef PASTE
#undef MY
#undef MUTEX
#undef SPINLOCK
#undef TABLE
#undef NAME_
#undef NAME
#undef LOCK
#undef FORM
#undef SPIN
#undef SPIN_SHARED
#undef SPIN_MARK
#undef QUEUED
#undef SPIN_QUEUED
#undef DROPS
