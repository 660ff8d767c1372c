// SPDX-License-Identifier: MIT
// locks.h - pthread's locks as glibc builds them over futexes; included by src/vm/pthread.c.
//
// What they cost comes from their own accesses and system calls, so they are written as glibc's
// work: a word with 0 free, 1 held, 2 held with sleepers (U. Drepper, "Futexes are tricky", 2004).
// With a lock of ours chosen, plain mutexes use that instead.
#include <hotlock/hotlock.h>

#include "../sim/sim.h"

#define XCHG(p, x, order) __atomic_exchange_n(p, x, order)

long vm_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout,
              uint32_t mask);

static long futex_wait(uint32_t *word, uint32_t value, const struct timespec *deadline) {
    return vm_futex(word, FUTEX_WAIT_BITSET, value, deadline, FUTEX_BITSET_MATCH_ANY);
}
static void futex_wake(uint32_t *word, uint32_t n) {
    vm_futex(word, FUTEX_WAKE, n, NULL, FUTEX_BITSET_MATCH_ANY);
}

static bool word_lock_until(uint32_t *word, const struct timespec *deadline) {
    if (cas(word, 0, 1, __ATOMIC_ACQUIRE)) return true;
    while (XCHG(word, 2, __ATOMIC_ACQUIRE) != 0)
        if (futex_wait(word, 2, deadline) != 0 && errno == ETIMEDOUT) return false;
    return true;
}
static void word_unlock(uint32_t *word) {
    if (XCHG(word, 0, __ATOMIC_RELEASE) > 1) futex_wake(word, 1);
}

// ------------------------------------------------------------------------- mutexes
typedef union {
    struct { uint32_t word, depth, owner, users; int kind; };
    struct { hl_lock_t lock; uint32_t whose; } ours;
} mutex_t;
#define MUTEX(m) ((mutex_t *)(m))

enum { WHOSE_OURS = 1, WHOSE_GLIBC };

// Decided at first use, by the kind glibc's initialisers left; it costs nothing.
__attribute__((no_sanitize("thread"), noinline)) static bool is_ours(mutex_t *m) {
    if (settings.lock < 0) return false;
    if (!m->ours.whose) {
        int kind = m->kind & 3;
        bool plain = kind == PTHREAD_MUTEX_NORMAL || kind == PTHREAD_MUTEX_ADAPTIVE_NP;
        m->ours.whose = plain ? WHOSE_OURS : WHOSE_GLIBC;
        if (plain) m->ours.lock.kind = (hl_kind_t)settings.lock;
    }
    return m->ours.whose == WHOSE_OURS;
}

static int kind_of(const mutex_t *m) { return m->kind & 3; }

int vm_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr) {
    int kind = PTHREAD_MUTEX_DEFAULT;
    if (attr) pthread_mutexattr_gettype(attr, &kind);
    memset(m, 0, sizeof *m);
    MUTEX(m)->kind = kind;
    return 0;
}
int vm_pthread_mutex_destroy(pthread_mutex_t *m) { return (void)m, 0; }

// glibc writes down the owner, in the same line.
static void owned(mutex_t *m) {
    m->owner = (uint32_t)engine_self() + 1;
    m->users++;
}

// For the kinds that look at who locks: EDEADLK, or one level deeper; -1: go on and wait.
static int relock(mutex_t *m) {
    if (kind_of(m) == PTHREAD_MUTEX_NORMAL || kind_of(m) == PTHREAD_MUTEX_ADAPTIVE_NP) return -1;
    if (m->owner != (uint32_t)engine_self() + 1) return -1;
    if (kind_of(m) == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
    m->depth++;
    return 0;
}

static uint64_t ns_of(const struct timespec *t) {
    return t ? (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec : HL_NO_DEADLINE;
}

static int mutex_lock_until(mutex_t *m, const struct timespec *deadline) {
    if (is_ours(m)) {
        if (deadline) return hl_lock_until(&m->ours.lock, ns_of(deadline)) ? 0 : ETIMEDOUT;
        hl_lock(&m->ours.lock);
        return 0;
    }
    int again = relock(m);
    if (again >= 0) return again;
    if (!word_lock_until(&m->word, deadline)) return ETIMEDOUT;
    owned(m);
    return 0;
}

int vm_pthread_mutex_lock(pthread_mutex_t *m) {
    ps_t asked = report_asks();
    int error = mutex_lock_until(MUTEX(m), NULL);
    report_got(asked);
    return error;
}
int vm_pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *deadline) {
    return mutex_lock_until(MUTEX(m), deadline);
}
int vm_pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
                               const struct timespec *deadline) {
    (void)clock;
    return mutex_lock_until(MUTEX(m), deadline);
}
int vm_pthread_mutex_trylock(pthread_mutex_t *m) {
    if (is_ours(MUTEX(m))) return hl_trylock(&MUTEX(m)->ours.lock) ? 0 : EBUSY;
    int again = relock(MUTEX(m));
    if (again >= 0) return again ? EBUSY : 0;
    if (!cas(&MUTEX(m)->word, 0, 1, __ATOMIC_ACQUIRE)) return EBUSY;
    owned(MUTEX(m));
    return 0;
}
int vm_pthread_mutex_unlock(pthread_mutex_t *p) {
    mutex_t *m = MUTEX(p);
    if (is_ours(m)) {
        hl_unlock(&m->ours.lock);
        return 0;
    }
    bool looks = kind_of(m) == PTHREAD_MUTEX_RECURSIVE || kind_of(m) == PTHREAD_MUTEX_ERRORCHECK;
    if (looks && m->owner != (uint32_t)engine_self() + 1) return EPERM;
    if (m->depth) {
        m->depth--;
        return 0;
    }
    m->owner = 0;
    m->users--;
    word_unlock(&m->word);
    return 0;
}

// ------------------------------------------------------------------------- condition variables
// A count that every signal moves on; waiters sleep while it stands still.
typedef struct { uint32_t count, waiters; } cond_t;

int vm_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr) {
    (void)attr;
    memset(c, 0, sizeof *c);
    return 0;
}
int vm_pthread_cond_destroy(pthread_cond_t *c) { return (void)c, 0; }

static int cond_wait(pthread_cond_t *p, pthread_mutex_t *m, const struct timespec *deadline) {
    cond_t *c = (cond_t *)p;
    __atomic_fetch_add(&c->waiters, 1, __ATOMIC_RELAXED);
    uint32_t seen = LOAD_ACQ(&c->count);
    vm_pthread_mutex_unlock(m);
    bool late = futex_wait(&c->count, seen, deadline) != 0 && errno == ETIMEDOUT;
    __atomic_fetch_sub(&c->waiters, 1, __ATOMIC_RELAXED);
    vm_pthread_mutex_lock(m);
    return late ? ETIMEDOUT : 0;
}

int vm_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) { return cond_wait(c, m, NULL); }
int vm_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
    return cond_wait(c, m, t);
}
int vm_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                              const struct timespec *t) {
    (void)clock;
    return cond_wait(c, m, t);
}

static int cond_wake(pthread_cond_t *p, uint32_t n) {
    cond_t *c = (cond_t *)p;
    if (!LOAD(&c->waiters)) return 0;
    __atomic_fetch_add(&c->count, 1, __ATOMIC_RELEASE);
    futex_wake(&c->count, n);
    return 0;
}
int vm_pthread_cond_signal(pthread_cond_t *c) { return cond_wake(c, 1); }
int vm_pthread_cond_broadcast(pthread_cond_t *c) { return cond_wake(c, INT32_MAX); }

// ------------------------------------------------------------------------- spin locks
// Written as glibc's: exchange, then read until it looks free.
int vm_pthread_spin_init(pthread_spinlock_t *l, int shared) {
    (void)shared;
    STORE((uint32_t *)l, 0);
    return 0;
}
int vm_pthread_spin_destroy(pthread_spinlock_t *l) { return (void)l, 0; }
int vm_pthread_spin_trylock(pthread_spinlock_t *l) {
    return XCHG((uint32_t *)l, 1, __ATOMIC_ACQUIRE) ? EBUSY : 0;
}
int vm_pthread_spin_lock(pthread_spinlock_t *l) {
    ps_t asked = report_asks();
    while (vm_pthread_spin_trylock(l) != 0)
        while (LOAD((uint32_t *)l)) hl_vm_pause();
    report_got(asked);
    return 0;
}
int vm_pthread_spin_unlock(pthread_spinlock_t *l) {
    STORE_REL((uint32_t *)l, 0);
    return 0;
}

// ------------------------------------------------------------------------- readers and writers
// readers: how many hold it, all ones a writer; sleepers wait for `turn` to move on.
typedef struct { uint32_t readers, turn, sleepers; } rwlock_t;
#define WRITER UINT32_MAX

int vm_pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr) {
    (void)attr;
    memset(l, 0, sizeof *l);
    return 0;
}
int vm_pthread_rwlock_destroy(pthread_rwlock_t *l) { return (void)l, 0; }
int vm_pthread_rwlock_tryrdlock(pthread_rwlock_t *p) {
    rwlock_t *l = (rwlock_t *)p;
    for (;;) {
        uint32_t n = LOAD(&l->readers);
        if (n == WRITER) return EBUSY;
        if (cas(&l->readers, n, n + 1, __ATOMIC_ACQUIRE)) return 0;
    }
}
int vm_pthread_rwlock_trywrlock(pthread_rwlock_t *p) {
    return cas(&((rwlock_t *)p)->readers, 0, WRITER, __ATOMIC_ACQUIRE) ? 0 : EBUSY;
}

static int rwlock_wait(pthread_rwlock_t *p, int (*try)(pthread_rwlock_t *)) {
    rwlock_t *l = (rwlock_t *)p;
    while (try(p) != 0) {
        __atomic_fetch_add(&l->sleepers, 1, __ATOMIC_SEQ_CST);
        uint32_t turn = LOAD_ACQ(&l->turn);
        if (try(p) == 0) {
            __atomic_fetch_sub(&l->sleepers, 1, __ATOMIC_RELAXED);
            return 0;
        }
        futex_wait(&l->turn, turn, NULL);
        __atomic_fetch_sub(&l->sleepers, 1, __ATOMIC_RELAXED);
    }
    return 0;
}
int vm_pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    return rwlock_wait(l, vm_pthread_rwlock_tryrdlock);
}
int vm_pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    return rwlock_wait(l, vm_pthread_rwlock_trywrlock);
}
int vm_pthread_rwlock_unlock(pthread_rwlock_t *p) {
    rwlock_t *l = (rwlock_t *)p;
    bool last = true;
    if (LOAD(&l->readers) == WRITER) __atomic_store_n(&l->readers, 0, __ATOMIC_SEQ_CST);
    else last = __atomic_fetch_sub(&l->readers, 1, __ATOMIC_SEQ_CST) == 1;
    if (!last || !LOAD(&l->sleepers)) return 0;
    __atomic_fetch_add(&l->turn, 1, __ATOMIC_RELEASE);
    futex_wake(&l->turn, INT32_MAX);
    return 0;
}

// ------------------------------------------------------------------------- barriers, once,
// semaphores
typedef struct { uint32_t arrived, round, needed; } barrier_t;

int vm_pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *attr, unsigned n) {
    (void)attr;
    if (!n) return EINVAL;
    *(barrier_t *)b = (barrier_t){0, 0, n};
    return 0;
}
int vm_pthread_barrier_destroy(pthread_barrier_t *b) { return (void)b, 0; }
int vm_pthread_barrier_wait(pthread_barrier_t *p) {
    barrier_t *b = (barrier_t *)p;
    uint32_t round = LOAD(&b->round);
    if (__atomic_add_fetch(&b->arrived, 1, __ATOMIC_ACQ_REL) == b->needed) {
        STORE(&b->arrived, 0);
        STORE_REL(&b->round, round + 1);
        futex_wake(&b->round, INT32_MAX);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    while (LOAD_ACQ(&b->round) == round) futex_wait(&b->round, round, NULL);
    return 0;
}

int vm_pthread_once(pthread_once_t *once, void (*fn)(void)) {
    uint32_t *state = (uint32_t *)once;  // 0 not yet, 1 under way, 2 done
    if (LOAD_ACQ(state) == 2) return 0;
    if (cas(state, 0, 1, __ATOMIC_ACQUIRE)) {
        fn();
        STORE_REL(state, 2);
        futex_wake(state, INT32_MAX);
    }
    while (LOAD_ACQ(state) != 2) futex_wait(state, 1, NULL);
    return 0;
}

typedef struct { uint32_t value, sleepers; } semaphore_t;

int vm_sem_init(sem_t *s, int shared, unsigned value) {
    (void)shared;
    *(semaphore_t *)s = (semaphore_t){value, 0};
    return 0;
}
int vm_sem_destroy(sem_t *s) { return (void)s, 0; }
int vm_sem_trywait(sem_t *p) {
    semaphore_t *s = (semaphore_t *)p;
    for (;;) {
        uint32_t n = LOAD(&s->value);
        if (!n) return errno = EAGAIN, -1;
        if (cas(&s->value, n, n - 1, __ATOMIC_ACQUIRE)) return 0;
    }
}
int vm_sem_wait(sem_t *p) {
    semaphore_t *s = (semaphore_t *)p;
    if (vm_sem_trywait(p) == 0) return 0;
    __atomic_fetch_add(&s->sleepers, 1, __ATOMIC_SEQ_CST);
    while (vm_sem_trywait(p) != 0) futex_wait(&s->value, 0, NULL);
    __atomic_fetch_sub(&s->sleepers, 1, __ATOMIC_RELAXED);
    return 0;
}
int vm_sem_post(sem_t *p) {
    semaphore_t *s = (semaphore_t *)p;
    __atomic_fetch_add(&s->value, 1, __ATOMIC_SEQ_CST);
    if (LOAD(&s->sleepers)) futex_wake(&s->value, 1);
    return 0;
}
