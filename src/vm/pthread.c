// SPDX-License-Identifier: MIT
// pthread.c - threads, mutexes, condition variables, futexes of a checked program.
//
// This file is compiled like the program itself, instrumented: a mutex is an atomic word, a wait
// a loop on it, and the engine needs to know nothing about either. State lives inside the pthread
// object, whose all-zero initial value is kept. Errors POSIX leaves undefined are reported.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "vm.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define LOAD(p)        __atomic_load_n(p, __ATOMIC_RELAXED)
#define LOAD_ACQ(p)    __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE(p, x)    __atomic_store_n(p, x, __ATOMIC_RELAXED)
#define STORE_REL(p, x) __atomic_store_n(p, x, __ATOMIC_RELEASE)

static bool cas(uint32_t *p, uint32_t old, uint32_t new_, int order) {
    return __atomic_compare_exchange_n(p, &old, new_, false, order, __ATOMIC_RELAXED);
}

#define MISUSE(text) engine_fail(VM_MISUSE, text, VM_HERE())

int vm_clock_gettime(clockid_t clock, struct timespec *t);

#ifdef VM_LOCKS   // the simulator has CPUs, and threads that may be bound to some
void sim_next_thread(const pthread_attr_t *attr);
#define VM_NEXT_THREAD(attr) sim_next_thread(attr)
#else
#define VM_NEXT_THREAD(attr) ((void)(attr))
#endif

// ------------------------------------------------------------------------- threads
enum { KEYS = 16 };
static _Thread_local const void *key_value[KEYS];
static void (*key_destructor[KEYS])(void *);
static uint32_t keys_used;

static _Thread_local bool has_values;

static void run_destructors(void) {
    for (int k = 0; has_values && k < KEYS; k++) {
        void *value = (void *)key_value[k];
        if (!value || !key_destructor[k]) continue;
        key_value[k] = NULL;
        key_destructor[k](value);
    }
}

void *vm_thread_body(void *(*fn)(void *), void *arg) {
    void *result = fn(arg);
    run_destructors();
    return result;
}

int vm_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
    VM_NEXT_THREAD(attr);
    *thread = (pthread_t)engine_create(fn, arg, VM_HERE()) + 1;
    return 0;
}

int vm_pthread_join(pthread_t thread, void **result) {
    void *r = engine_join((int)thread - 1, VM_HERE());
    if (result) *result = r;
    return 0;
}
int vm_pthread_detach(pthread_t thread) { return (void)thread, 0; }
pthread_t vm_pthread_self(void) { return (pthread_t)engine_self() + 1; }
int vm_pthread_equal(pthread_t a, pthread_t b) { return a == b; }
_Noreturn void vm_pthread_exit(void *result) {
    run_destructors();
    engine_exit(result);
}

int vm_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    uint32_t k = __atomic_fetch_add(&keys_used, 1, __ATOMIC_RELAXED);
    if (k >= KEYS) return EAGAIN;
    key_destructor[k] = destructor;
    *key = k;
    return 0;
}
int vm_pthread_key_delete(pthread_key_t key) { return key_destructor[key] = NULL, 0; }
void *vm_pthread_getspecific(pthread_key_t key) { return (void *)key_value[key]; }
int vm_pthread_setspecific(pthread_key_t key, const void *value) {
    key_value[key] = value;
    has_values = true;
    return 0;
}

#ifdef VM_LOCKS
#include VM_LOCKS  // how the simulator's locks wait; what follows is the checker's way
#else
// ------------------------------------------------------------------------- spinning on a word
static bool past(const struct timespec *deadline) {
    struct timespec now;
    vm_clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

// owner: 0 free, else 1 + thread. One exchange that fails is an iteration that changes nothing.
static void word_lock(uint32_t *owner) {
    while (!cas(owner, 0, (uint32_t)engine_self() + 1, __ATOMIC_ACQUIRE)) {}
}
static bool word_trylock(uint32_t *owner) {
    return cas(owner, 0, (uint32_t)engine_self() + 1, __ATOMIC_ACQUIRE);
}
static bool word_lock_until(uint32_t *owner, const struct timespec *deadline) {
    while (!word_trylock(owner))
        if (past(deadline)) return false;
    return true;
}
static bool word_mine(const uint32_t *owner) {
    return LOAD(owner) == (uint32_t)engine_self() + 1;
}

// ------------------------------------------------------------------------- mutexes
// glibc keeps the kind at a fixed place, which its static initialisers fill in.
typedef struct {
    uint32_t owner;
    uint32_t depth;
    uint32_t unused[2];
    int kind;
} mutex_t;
#define MUTEX(m) ((mutex_t *)(m))

static int kind_of(const mutex_t *m) { return m->kind & 3; }

int vm_pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr) {
    int kind = PTHREAD_MUTEX_DEFAULT;
    if (attr) pthread_mutexattr_gettype(attr, &kind);
    STORE(&MUTEX(m)->owner, 0);
    MUTEX(m)->depth = 0;
    MUTEX(m)->kind = kind;
    return 0;
}

int vm_pthread_mutex_destroy(pthread_mutex_t *m) {
    if (LOAD(&MUTEX(m)->owner)) MISUSE("a locked mutex is destroyed");
    return 0;
}

// For the kinds that look at who locks: EDEADLK, or one level deeper; -1: go on and wait.
static int relock(mutex_t *m) {
    if (kind_of(m) == PTHREAD_MUTEX_NORMAL || kind_of(m) == PTHREAD_MUTEX_ADAPTIVE_NP) return -1;
    if (!word_mine(&m->owner)) return -1;
    if (kind_of(m) == PTHREAD_MUTEX_ERRORCHECK) return EDEADLK;
    m->depth++;
    return 0;
}

int vm_pthread_mutex_lock(pthread_mutex_t *m) {
    int again = relock(MUTEX(m));
    if (again >= 0) return again;
    word_lock(&MUTEX(m)->owner);
    return 0;
}
int vm_pthread_mutex_trylock(pthread_mutex_t *m) {
    int again = relock(MUTEX(m));
    if (again >= 0) return again ? EBUSY : 0;
    return word_trylock(&MUTEX(m)->owner) ? 0 : EBUSY;
}
int vm_pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *deadline) {
    int again = relock(MUTEX(m));
    if (again >= 0) return again;
    return word_lock_until(&MUTEX(m)->owner, deadline) ? 0 : ETIMEDOUT;
}
int vm_pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *deadline) {
    (void)clock;
    return vm_pthread_mutex_timedlock(m, deadline);
}
int vm_pthread_mutex_unlock(pthread_mutex_t *m) {
    if (!word_mine(&MUTEX(m)->owner)) {
        if (kind_of(MUTEX(m)) != PTHREAD_MUTEX_NORMAL) return EPERM;
        MISUSE("a mutex is unlocked by a thread that does not hold it");
    }
    if (MUTEX(m)->depth) {
        MUTEX(m)->depth--;
        return 0;
    }
    STORE_REL(&MUTEX(m)->owner, 0);
    return 0;
}

// ------------------------------------------------------------------------- sleeping
// All sleepers, in the order they fell asleep, under one lock: the kernel's hash bucket. A sleeper
// waits for its own `awake`; the waker sets it.
typedef struct { const void *on; uint32_t mask; int next; uint32_t awake; } sleeper_t;
static sleeper_t sleeper[17];  // 1 + thread
static int first_sleeper;      // 0: none
static uint32_t bucket;

static void fall_asleep(int me, const void *on, uint32_t mask) {
    sleeper[me].on = on;
    sleeper[me].mask = mask;
    sleeper[me].next = 0;
    STORE(&sleeper[me].awake, 0);
    int *link = &first_sleeper;
    while (*link) link = &sleeper[*link].next;
    *link = me;
}

static bool take_out(int me) {
    for (int *link = &first_sleeper; *link; link = &sleeper[*link].next) {
        if (*link != me) continue;
        *link = sleeper[me].next;
        return true;
    }
    return false;
}

// Wakes up to n; the order is first come, first served, as in the kernel.
static int wake(const void *on, uint32_t n, uint32_t mask) {
    uint32_t woken = 0;
    for (int *link = &first_sleeper; *link && woken < n;) {
        sleeper_t *s = &sleeper[*link];
        if (s->on != on || !(s->mask & mask)) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        STORE_REL(&s->awake, 1);
        woken++;
    }
    return (int)woken;
}

// After fall_asleep(), without the bucket's lock. False: woken for no reason. Whoever gives up must
// take itself out, and was woken after all if it no longer can.
static bool sleep_until_woken(int me, bool timed) {
    if (!engine_choose(VM_CHOICE_SPURIOUS, 2, VM_HERE())) {
        engine_doze(timed && engine_timers_fire());
        while (!LOAD_ACQ(&sleeper[me].awake)) {}
        engine_doze(false);
        return true;
    }
    word_lock(&bucket);
    bool out = take_out(me);
    STORE_REL(&bucket, 0);
    return !out;
}

// A timed sleep either is over at once, or lasts until somebody wakes the sleeper: for what it can
// see and do that is the same as ending some time in between, by its timer.
static bool timer_ends_it(bool timed) {
    return timed && engine_timers_fire() && !engine_choose(VM_CHOICE_SLEEP, 2, VM_HERE());
}

long vm_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout, uint32_t mask) {
    int me = engine_self() + 1;
    if (op == FUTEX_WAKE || op == FUTEX_WAKE_BITSET) {
        word_lock(&bucket);
        int n = wake(word, value, mask);
        STORE_REL(&bucket, 0);
        return n;
    }
    if (op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET)
        engine_unsupported("a futex operation other than wait and wake", VM_HERE());
    if (timer_ends_it(timeout != NULL)) {
        errno = LOAD(word) == value ? ETIMEDOUT : EAGAIN;
        return -1;
    }
    word_lock(&bucket);
    if (LOAD(word) != value) {
        STORE_REL(&bucket, 0);
        errno = EAGAIN;
        return -1;
    }
    fall_asleep(me, word, mask);
    STORE_REL(&bucket, 0);
    if (sleep_until_woken(me, timeout != NULL)) return 0;
    errno = EINTR;
    return -1;
}

// ------------------------------------------------------------------------- condition variables
int vm_pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr) {
    return (void)c, (void)attr, 0;
}
int vm_pthread_cond_destroy(pthread_cond_t *c) { return (void)c, 0; }

static int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, bool timed) {
    int me = engine_self() + 1;
    if (!word_mine(&MUTEX(m)->owner)) MISUSE("a condition is waited for without its mutex");
    if (timer_ends_it(timed)) {
        vm_pthread_mutex_unlock(m);
        vm_pthread_mutex_lock(m);
        return ETIMEDOUT;
    }
    word_lock(&bucket);
    fall_asleep(me, c, 1);
    STORE_REL(&bucket, 0);
    vm_pthread_mutex_unlock(m);
    sleep_until_woken(me, timed);
    vm_pthread_mutex_lock(m);
    return 0;
}

int vm_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) { return cond_wait(c, m, false); }
int vm_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
    return cond_wait(c, m, t != NULL);
}
int vm_pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                              const struct timespec *t) {
    (void)clock;
    return cond_wait(c, m, t != NULL);
}

static int cond_wake(pthread_cond_t *c, uint32_t n) {
    word_lock(&bucket);
    wake(c, n, 1);
    STORE_REL(&bucket, 0);
    return 0;
}
int vm_pthread_cond_signal(pthread_cond_t *c) { return cond_wake(c, 1); }
int vm_pthread_cond_broadcast(pthread_cond_t *c) { return cond_wake(c, UINT32_MAX); }

// ------------------------------------------------------------------------- spin locks
int vm_pthread_spin_init(pthread_spinlock_t *l, int shared) {
    (void)shared;
    STORE((uint32_t *)l, 0);
    return 0;
}
int vm_pthread_spin_destroy(pthread_spinlock_t *l) { return (void)l, 0; }
int vm_pthread_spin_lock(pthread_spinlock_t *l) {
    word_lock((uint32_t *)l);
    return 0;
}
int vm_pthread_spin_trylock(pthread_spinlock_t *l) { return word_trylock((uint32_t *)l) ? 0 : EBUSY; }
int vm_pthread_spin_unlock(pthread_spinlock_t *l) {
    if (!word_mine((uint32_t *)l)) MISUSE("a spin lock is unlocked by a thread that does not hold it");
    STORE_REL((uint32_t *)l, 0);
    return 0;
}

// ------------------------------------------------------------------------- readers and writers
// The word counts readers; all ones is a writer.
#define RW(l) ((uint32_t *)(l))
#define WRITER UINT32_MAX

int vm_pthread_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *attr) {
    (void)attr;
    STORE(RW(l), 0);
    return 0;
}
int vm_pthread_rwlock_destroy(pthread_rwlock_t *l) { return (void)l, 0; }
int vm_pthread_rwlock_tryrdlock(pthread_rwlock_t *l) {
    for (;;) {
        uint32_t n = LOAD(RW(l));
        if (n == WRITER) return EBUSY;
        if (cas(RW(l), n, n + 1, __ATOMIC_ACQUIRE)) return 0;
    }
}
int vm_pthread_rwlock_rdlock(pthread_rwlock_t *l) {
    while (vm_pthread_rwlock_tryrdlock(l)) {}
    return 0;
}
int vm_pthread_rwlock_trywrlock(pthread_rwlock_t *l) {
    return cas(RW(l), 0, WRITER, __ATOMIC_ACQUIRE) ? 0 : EBUSY;
}
int vm_pthread_rwlock_wrlock(pthread_rwlock_t *l) {
    while (!cas(RW(l), 0, WRITER, __ATOMIC_ACQUIRE)) {}
    return 0;
}
int vm_pthread_rwlock_unlock(pthread_rwlock_t *l) {
    uint32_t n = LOAD(RW(l));
    if (n == 0) MISUSE("a read-write lock is unlocked that nobody holds");
    if (n == WRITER) STORE_REL(RW(l), 0);
    else __atomic_fetch_sub(RW(l), 1, __ATOMIC_RELEASE);
    return 0;
}

// ------------------------------------------------------------------------- barriers, once, semaphores
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
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    while (LOAD_ACQ(&b->round) == round) {}
    return 0;
}

int vm_pthread_once(pthread_once_t *once, void (*fn)(void)) {
    uint32_t *state = (uint32_t *)once;  // 0 not yet, 1 under way, 2 done
    if (cas(state, 0, 1, __ATOMIC_ACQUIRE)) {
        fn();
        STORE_REL(state, 2);
    }
    while (LOAD_ACQ(state) != 2) {}
    return 0;
}

int vm_sem_init(sem_t *s, int shared, unsigned value) {
    (void)shared;
    STORE((uint32_t *)s, value);
    return 0;
}
int vm_sem_destroy(sem_t *s) { return (void)s, 0; }
int vm_sem_trywait(sem_t *s) {
    for (;;) {
        uint32_t n = LOAD((uint32_t *)s);
        if (!n) return errno = EAGAIN, -1;
        if (cas((uint32_t *)s, n, n - 1, __ATOMIC_ACQUIRE)) return 0;
    }
}
int vm_sem_wait(sem_t *s) {
    for (;;) {
        uint32_t n = LOAD((uint32_t *)s);
        if (n && cas((uint32_t *)s, n, n - 1, __ATOMIC_ACQUIRE)) return 0;
    }
}
int vm_sem_post(sem_t *s) {
    __atomic_fetch_add((uint32_t *)s, 1, __ATOMIC_RELEASE);
    return 0;
}
#endif

// ------------------------------------------------------------------------- C11 threads
typedef struct { thrd_start_t fn; void *arg; } c11_start_t;
static void *c11_begin(void *p) {
    c11_start_t *s = p;
    return (void *)(intptr_t)s->fn(s->arg);
}
int vm_thrd_create(thrd_t *thread, thrd_start_t fn, void *arg) {
    c11_start_t *s = engine_alloc(sizeof *s, 16, VM_HERE());
    *s = (c11_start_t){fn, arg};
    vm_pthread_create(thread, NULL, c11_begin, s);
    return thrd_success;
}
int vm_thrd_join(thrd_t thread, int *result) {
    void *r;
    vm_pthread_join(thread, &r);
    if (result) *result = (int)(intptr_t)r;
    return thrd_success;
}
void vm_thrd_yield(void) {}
int vm_mtx_init(mtx_t *m, int type) {
    vm_pthread_mutex_init((pthread_mutex_t *)m, NULL);
    if (type & mtx_recursive) MUTEX(m)->kind = PTHREAD_MUTEX_RECURSIVE;
    return thrd_success;
}
void vm_mtx_destroy(mtx_t *m) { vm_pthread_mutex_destroy((pthread_mutex_t *)m); }
int vm_mtx_lock(mtx_t *m) { return vm_pthread_mutex_lock((pthread_mutex_t *)m), thrd_success; }
int vm_mtx_trylock(mtx_t *m) {
    return vm_pthread_mutex_trylock((pthread_mutex_t *)m) ? thrd_busy : thrd_success;
}
int vm_mtx_unlock(mtx_t *m) { return vm_pthread_mutex_unlock((pthread_mutex_t *)m), thrd_success; }
int vm_cnd_init(cnd_t *c) {
    return vm_pthread_cond_init((pthread_cond_t *)c, NULL), thrd_success;
}
void vm_cnd_destroy(cnd_t *c) { (void)c; }
int vm_cnd_wait(cnd_t *c, mtx_t *m) {
    return cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m, false), thrd_success;
}
int vm_cnd_signal(cnd_t *c) { return cond_wake((pthread_cond_t *)c, 1), thrd_success; }
int vm_cnd_broadcast(cnd_t *c) { return cond_wake((pthread_cond_t *)c, UINT32_MAX), thrd_success; }
