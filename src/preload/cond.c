// SPDX-License-Identifier: MIT
// cond.c - pthread_cond_*: a queue of waiting threads, first come, first woken.
//
// Each waiter brings a record on its own stack with a semaphore to sleep on. libc's semaphore
// is a futex that is also a cancellation point and knows both clocks, which is exactly what a
// condition wait needs and what code outside libc cannot build from a bare futex.
//
//   guard    protects the queue, for a few instructions; never held across a system call
//   users    threads inside a wait on this object; destroy waits until it is zero
//   first, last   the queue of those not yet woken
//   generation    see preload.h
//   clock    0 CLOCK_REALTIME, 2 CLOCK_MONOTONIC
//
// Invariants. A waiter is queued before it releases the mutex, so a signal sent after that finds
// it: no wake-up is lost between release and sleep, and a late waiter cannot steal one. Whoever
// takes a waiter out of the queue for waking posts its semaphore exactly once, and the waiter does
// not return before that post, so its record outlives every use. A waiter that is timed out or
// cancelled but already taken out was woken: it returns 0, or hands its wake-up to the next.
// A waiter's last use of the object is the decrement of `users`, before it locks the mutex again,
// so the object may be destroyed and freed right after a broadcast, mutex held or not.
//
// A process-shared condition variable is libc's. libc sets bit 0 of its flag word then: at byte 36
// up to glibc 2.40, at byte 28 since 2.41. Our layout keeps bit 0 of both words clear.
#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "hotlock/park.h"
#include "preload.h"

typedef struct waiter {
    sem_t woken;
    struct waiter *next, *prev;
    bool queued;
} waiter_t;

typedef struct {
    hl_park_t guard;
    HL_ATOMIC(uint32_t) users;
    HL_ATOMIC(waiter_t *) first;
    waiter_t *last;
    HL_ATOMIC(uint32_t) generation;
    HL_ATOMIC(uint32_t) clock;
    uint32_t spare;
    HL_ATOMIC(uint32_t) no_clock;
    uint64_t spare2;
} cond_t;

_Static_assert(sizeof(cond_t) == sizeof(pthread_cond_t), "the condition variable does not fit");
_Static_assert(offsetof(cond_t, clock) == 28, "libc's flags since glibc 2.41");
_Static_assert(offsetof(cond_t, no_clock) == 36, "libc's flags up to glibc 2.40");

#define LIBC_SHARED      0x1u
#define CLOCK_IS_MONOTONIC 0x2u
#define USERS_DESTROYING 0x80000000u

static cond_t *ours(pthread_cond_t *c) { return (cond_t *)(void *)c; }

static bool is_ours(pthread_cond_t *c) {
    hlp_choose();
    cond_t *o = ours(c);
    return !hlp_libc_locks && !((hl_load(&o->clock) | hl_load(&o->no_clock)) & LIBC_SHARED);
}

// ------------------------------------------------------------------------- the queue
// In a forked child: whoever was waiting or held the guard stayed behind in the parent.
static void refresh(cond_t *o) {
    hlp_refresh_begin();
    if (hl_load(&o->generation) != hlp_fast.generation) {
        o->guard = (hl_park_t)HL_PARK_INIT;
        hl_store(&o->users, 0);
        hl_store(&o->first, NULL);
        o->last = NULL;
        hl_store_rel(&o->generation, hlp_fast.generation);
    }
    hlp_refresh_end();
}

static void enter(cond_t *o) {
    if (hl_unlikely(hl_load_acq(&o->generation) != hlp_fast.generation)) refresh(o);
    hl_park_lock(&o->guard);
}

static void leave(cond_t *o) { hl_park_unlock(&o->guard); }

static void append(cond_t *o, waiter_t *w) {
    sem_init(&w->woken, 0, 0);
    w->queued = true;
    w->next = NULL;
    enter(o);
    w->prev = o->last;
    if (w->prev) w->prev->next = w;
    else hl_store(&o->first, w);
    o->last = w;
    hl_fetch_add(&o->users, 1);
    leave(o);
}

static void take_out(cond_t *o, waiter_t *w) {
    if (w->prev) w->prev->next = w->next;
    else hl_store(&o->first, w->next);
    if (w->next) w->next->prev = w->prev;
    else o->last = w->prev;
    w->queued = false;
}

// ------------------------------------------------------------------------- wait
// Gives up waiting. False: somebody has already taken us out to wake us, and now has done so.
static bool withdraw(cond_t *o, waiter_t *w) {
    enter(o);
    bool queued = w->queued;
    if (queued) take_out(o, w);
    leave(o);
    while (!queued && sem_wait(&w->woken) != 0) continue;  // interrupted: the post will come
    return queued;
}

// The last use of the object by a wait.
static void finish(cond_t *o) {
    uint32_t users;
    do users = hl_load(&o->users);
    while (!hl_cas_rel(&o->users, users, users - 1));  // pairs with the load in destroy()
    if (users == (USERS_DESTROYING | 1)) hl_futex_wake(&o->users, HL_FUTEX_PRIVATE);
}

// Sleeps until woken; false: the time has come first. A cancellation point.
static bool sleep_until(waiter_t *w, clockid_t clock, const struct timespec *at) {
    int saved = errno, failed;
    do failed = at ? sem_clockwait(&w->woken, clock, at) : sem_wait(&w->woken);
    while (failed && errno == EINTR);
    errno = saved;
    return !failed;
}

typedef struct {
    pthread_cond_t *cond;
    pthread_mutex_t *mutex;
    bool counted;  // in the mutex, which must not be destroyed meanwhile
    waiter_t me;
} wait_t;

static void count_in_mutex(wait_t *w, int by) {
    hlp_mutex_t *m = hlp_mutex(w->mutex);
    if (w->counted) hl_store(&m->in_condition, (uint16_t)(hl_load(&m->in_condition) + by));
}

static int relock(wait_t *w) {
    int error = hlp_mutex_lock(w->mutex);
    count_in_mutex(w, -1);
    return error;
}

static void cancelled(void *arg) {
    wait_t *w = arg;
    if (!withdraw(ours(w->cond), &w->me)) hlp_cond_signal(w->cond);
    finish(ours(w->cond));
    relock(w);
}

static int wait_ours(wait_t *w, clockid_t clock, const struct timespec *at) {
    cond_t *o = ours(w->cond);
    if (w->counted && !hlp_may_unlock(w->mutex)) return EPERM;
    append(o, &w->me);
    count_in_mutex(w, 1);
    int error = hlp_mutex_unlock(w->mutex);
    if (error) {  // a mutex of libc's that is not the caller's
        if (!withdraw(o, &w->me)) hlp_cond_signal(w->cond);
        finish(o);
        return error;
    }
    volatile bool woken = false;
    pthread_cleanup_push(cancelled, w);
    woken = sleep_until(&w->me, clock, at);
    pthread_cleanup_pop(0);
    bool timed_out = !woken && withdraw(o, &w->me);
    finish(o);
    error = relock(w);
    return error ? error : timed_out ? ETIMEDOUT : 0;
}

// libc's own condition variable releases only libc's mutexes. One of ours with a process-shared
// condition variable is rare and cannot be atomic from outside, so such a wait ends early,
// without reason, every few milliseconds: POSIX allows that, and no wake-up is waited for in vain.
#define SLICE_NS 5000000

static void unlock_libc(void *mutex) { hlp_libc()->pthread_mutex_unlock(mutex); }
static void relock_ours(void *w) { relock(w); }

static int wait_slice(wait_t *w, clockid_t clock, const struct timespec *at) {
    pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
    struct timespec now, end;
    if (!hlp_may_unlock(w->mutex)) return EPERM;
    clock_gettime(clock, &now);
    long ns = now.tv_nsec + SLICE_NS;
    end = (struct timespec){now.tv_sec + ns / 1000000000, ns % 1000000000};
    bool last = at && (at->tv_sec < end.tv_sec ||
                       (at->tv_sec == end.tv_sec && at->tv_nsec <= end.tv_nsec));
    hlp_libc()->pthread_mutex_lock(&inner);
    count_in_mutex(w, 1);
    hlp_mutex_unlock(w->mutex);
    volatile int result = 0;
    pthread_cleanup_push(relock_ours, w);
    pthread_cleanup_push(unlock_libc, &inner);
    result = hlp_libc()->pthread_cond_clockwait(w->cond, &inner, clock, last ? at : &end);
    pthread_cleanup_pop(1);
    pthread_cleanup_pop(0);
    int error = relock(w);
    return error ? error : last ? result : 0;
}

static int wait_libc(pthread_cond_t *c, pthread_mutex_t *m) {
    wait_t w = {.cond = c, .mutex = m, .counted = true};
    if (hlp_is_ours(m)) return wait_slice(&w, CLOCK_MONOTONIC, NULL);
    return hlp_libc()->pthread_cond_wait(c, m);
}

static clockid_t clock_of(pthread_cond_t *c) {
    uint32_t flags = is_ours(c) ? hl_load(&ours(c)->clock) : c->__data.__wrefs;
    return flags & CLOCK_IS_MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int hlp_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    if (!is_ours(c)) return wait_libc(c, m);
    wait_t w = {.cond = c, .mutex = m, .counted = hlp_is_ours(m)};
    return wait_ours(&w, CLOCK_REALTIME, NULL);
}

static int cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                          const struct timespec *at) {
    bool mutex_ours = hlp_is_ours(m);
    if (!is_ours(c) && !mutex_ours) return hlp_libc()->pthread_cond_clockwait(c, m, clock, at);
    if (!hlp_valid_time(at) || !hlp_valid_clock(clock)) return EINVAL;
    wait_t w = {.cond = c, .mutex = m, .counted = mutex_ours};
    return is_ours(c) ? wait_ours(&w, clock, at) : wait_slice(&w, clock, at);
}

int hlp_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at) {
    if (!is_ours(c) && !hlp_is_ours(m)) return hlp_libc()->pthread_cond_timedwait(c, m, at);
    return cond_clockwait(c, m, clock_of(c), at);
}

// ------------------------------------------------------------------------- signal, broadcast
int hlp_cond_signal(pthread_cond_t *c) {
    if (!is_ours(c)) return hlp_libc()->pthread_cond_signal(c);
    cond_t *o = ours(c);
    if (!hl_load(&o->first)) return 0;
    enter(o);
    waiter_t *w = hl_load(&o->first);
    if (w) take_out(o, w);
    leave(o);
    if (w) sem_post(&w->woken);
    return 0;
}

// Everyone is woken, one after the other. A wake-up costs about what the woken thread's section
// does, so they reach the mutex in single file; moving them to the mutex's own queue instead
// would let one suspended waiter hold up all those behind it.
int hlp_cond_broadcast(pthread_cond_t *c) {
    if (!is_ours(c)) return hlp_libc()->pthread_cond_broadcast(c);
    cond_t *o = ours(c);
    if (!hl_load(&o->first)) return 0;
    enter(o);
    waiter_t *all = hl_load(&o->first);
    for (waiter_t *w = all; w; w = w->next) w->queued = false;
    hl_store(&o->first, NULL);
    o->last = NULL;
    leave(o);
    for (waiter_t *w = all, *next; w; w = next) {
        next = w->next;
        sem_post(&w->woken);
    }
    return 0;
}

// ------------------------------------------------------------------------- init and destroy
static int cond_init(pthread_cond_t *c, const pthread_condattr_t *attr) {
    hlp_choose();
    int shared = PTHREAD_PROCESS_PRIVATE;
    clockid_t clock = CLOCK_REALTIME;
    if (attr) pthread_condattr_getpshared(attr, &shared);
    if (attr) pthread_condattr_getclock(attr, &clock);
    if (hlp_libc_locks || shared == PTHREAD_PROCESS_SHARED)
        return hlp_libc()->pthread_cond_init(c, attr);
    cond_t *o = memset(c, 0, sizeof *c);
    hl_store(&o->clock, clock == CLOCK_MONOTONIC ? CLOCK_IS_MONOTONIC : 0);
    hl_store(&o->generation, hlp_fast.generation);
    return 0;
}

// Waits for threads that were woken or timed out and are still on their way out.
int hlp_cond_destroy(pthread_cond_t *c) {
    if (!is_ours(c)) return hlp_libc()->pthread_cond_destroy(c);
    cond_t *o = ours(c);
    if (hl_load(&o->generation) != hlp_fast.generation) refresh(o);
    hl_fetch_or(&o->users, USERS_DESTROYING);
    uint32_t users;
    while ((users = hl_load_acq(&o->users)) != USERS_DESTROYING)  // pairs with finish()
        hl_futex_wait(&o->users, users, HL_NO_DEADLINE, HL_FUTEX_PRIVATE);
    hl_store(&o->users, 0);
    return 0;
}

// ------------------------------------------------------------------------- the public names
HLP_EXPORT int pthread_cond_init(pthread_cond_t *c, const pthread_condattr_t *attr) {
    return cond_init(c, attr);
}

HLP_EXPORT int pthread_cond_destroy(pthread_cond_t *c) { return hlp_cond_destroy(c); }

HLP_EXPORT int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    return hlp_cond_wait(c, m);
}

HLP_EXPORT int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m,
                                      const struct timespec *at) {
    return hlp_cond_timedwait(c, m, at);
}

HLP_EXPORT int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                                      const struct timespec *at) {
    return cond_clockwait(c, m, clock, at);
}

HLP_EXPORT int pthread_cond_signal(pthread_cond_t *c) { return hlp_cond_signal(c); }

HLP_EXPORT int pthread_cond_broadcast(pthread_cond_t *c) { return hlp_cond_broadcast(c); }
