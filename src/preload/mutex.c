// SPDX-License-Identifier: MIT
// mutex.c - pthread_mutex_*: normal, adaptive, recursive and error-checking mutexes are ours, every
// other kind is libc's.
//
// What a caller can see is libc's: the same results in the same order of checks (a time is
// looked at only if the call has to wait), a destroyed mutex answers EINVAL, one that is locked
// or has a thread in a condition wait cannot be destroyed.
#include <errno.h>
#include <string.h>

#include "hotlock/wait.h"
#include "preload.h"
#include "select.h"

hlp_owner_t hlp_fast;
__thread uint32_t hlp_thread;

// Never 0, and no number twice before four billion threads have held such a mutex.
uint32_t hlp_new_thread(void) {
    static HL_ATOMIC(uint32_t) last;
    do hlp_thread = hl_fetch_add(&last, 1u) + 1;
    while (!hlp_thread);
    return hlp_thread;
}

// ------------------------------------------------------------------------- whose mutex is it
static bool is_known(int32_t kind) { return !(kind & ~(HLP_KIND_ELISION | HLP_KIND_TYPE)); }

bool hlp_is_ours(pthread_mutex_t *m) {
    hlp_choose();
    hlp_owner_t owner = hlp_owner(hlp_mutex(m));
    if (hlp_libc_locks || !is_known(owner.kind)) return false;
    if (owner.generation != hlp_fast.generation) hlp_mutex_refresh(hlp_mutex(m));
    return true;
}

// In a forked child: a locked mutex stays locked, its waiters stayed behind in the parent.
void hlp_mutex_refresh(hlp_mutex_t *m) {
    hlp_refresh_begin();
    hlp_owner_t owner = hlp_owner(m);
    if (owner.generation != hlp_fast.generation) {
        bool locked = hlp_op(is_locked)(m);
        if (hlp_selecting) hlp_two_refresh(m);
        memset(m->lock, 0, sizeof m->lock);
        if (locked) hlp_op(trylock)((pthread_mutex_t *)(void *)m);
        hl_store(&m->in_condition, (uint16_t)0);
        owner.generation = hlp_fast.generation;
        hl_store_rel(&m->owner, owner.both);
    }
    hlp_refresh_end();
}

// ------------------------------------------------------------------------- init and destroy
static int mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr, const void *caller) {
    hlp_choose();
    if (attr || hlp_libc_locks) {
        int error = hlp_libc()->pthread_mutex_init(m, attr);
        if (error || !hlp_is_ours(m)) return error;
    } else {
        memset(m, 0, sizeof *m);
    }
    hlp_owner_t owner = hlp_owner(hlp_mutex(m));
    owner.generation = hlp_fast.generation;
    hl_store(&hlp_mutex(m)->owner, owner.both);
    if (hl_unlikely(hlp_selecting)) hlp_two_init(m, caller);
    return 0;
}

int hlp_mutex_destroy(pthread_mutex_t *m) {
    if (!hlp_is_ours(m)) return hlp_libc()->pthread_mutex_destroy(m);
    hlp_mutex_t *o = hlp_mutex(m);
    if (hlp_op(is_locked)(o) || hl_load(&o->in_condition)) return EBUSY;
    hl_store(&o->owner, ((hlp_owner_t){.kind = HLP_KIND_DESTROYED}).both);
    return 0;
}

// ------------------------------------------------------------------------- with a holder
static bool is_mine(const hlp_mutex_t *m) {
    return hlp_has_holder(m) && hl_load(&m->holder) == hlp_self();
}

bool hlp_may_unlock(pthread_mutex_t *m) {
    return !hlp_has_holder(hlp_mutex(m)) || is_mine(hlp_mutex(m));
}

// The holder comes again: once more, or the error of its kind.
static int again(hlp_mutex_t *m, int error) {
    if ((hlp_owner(m).kind & HLP_KIND_TYPE) == PTHREAD_MUTEX_ERRORCHECK) return error;
    if (m->count == UINT32_MAX) return EAGAIN;
    m->count++;
    return 0;
}

// What lock() returns when the lock below has answered.
static int held(hlp_mutex_t *m, int error) {
    if (error || !hlp_has_holder(m)) return error;
    hl_store(&m->holder, hlp_self());
    m->count = 1;
    return 0;
}

// ------------------------------------------------------------------------- lock and unlock
static int lock_ours(pthread_mutex_t *m, const void *caller) {
    if (is_mine(hlp_mutex(m))) return again(hlp_mutex(m), EDEADLK);
    return held(hlp_mutex(m), hl_unlikely(hlp_selecting) ? hlp_two_lock_from(m, caller)
                                                         : hlp_op(lock)(m));
}

static int trylock_ours(pthread_mutex_t *m) {
    if (is_mine(hlp_mutex(m))) return again(hlp_mutex(m), EBUSY);
    return held(hlp_mutex(m), hlp_op(trylock)(m));
}

static int unlock_ours(pthread_mutex_t *m) {
    hlp_mutex_t *o = hlp_mutex(m);
    if (hlp_has_holder(o)) {
        if (hl_load(&o->holder) != hlp_self()) return EPERM;
        if (--o->count) return 0;
        hl_store(&o->holder, 0u);
    }
    return hlp_op(unlock)(m);
}

static __attribute__((noinline)) int lock_rare(pthread_mutex_t *m, const void *caller) {
    return hlp_is_ours(m) ? lock_ours(m, caller) : hlp_libc()->pthread_mutex_lock(m);
}

static __attribute__((noinline)) int trylock_rare(pthread_mutex_t *m) {
    return hlp_is_ours(m) ? trylock_ours(m) : hlp_libc()->pthread_mutex_trylock(m);
}

static __attribute__((noinline)) int unlock_rare(pthread_mutex_t *m) {
    return hlp_is_ours(m) ? unlock_ours(m) : hlp_libc()->pthread_mutex_unlock(m);
}

HL_INLINE int mutex_lock(pthread_mutex_t *m, const void *caller) {
    return hlp_is_fast(m) ? hlp_op(lock)(m) : lock_rare(m, caller);
}

HL_INLINE int mutex_trylock(pthread_mutex_t *m) {
    return hlp_is_fast(m) ? hlp_op(trylock)(m) : trylock_rare(m);
}

HL_INLINE int mutex_unlock(pthread_mutex_t *m) {
    return hlp_is_fast(m) ? hlp_op(unlock)(m) : unlock_rare(m);
}

int hlp_mutex_lock(pthread_mutex_t *m) { return mutex_lock(m, NULL); }
int hlp_mutex_lock_from(pthread_mutex_t *m, const void *caller) { return mutex_lock(m, caller); }
int hlp_mutex_trylock(pthread_mutex_t *m) { return mutex_trylock(m); }
int hlp_mutex_unlock(pthread_mutex_t *m) { return mutex_unlock(m); }

// ------------------------------------------------------------------------- timed forms
// The time left until `at`, at most as long as the clock need not be read again.
uint64_t hlp_time_left(clockid_t clock, const struct timespec *at) {
    uint64_t most = clock == CLOCK_REALTIME ? HLP_REALTIME_SLICE_NS : INT64_MAX / 2;
    struct timespec now;
    clock_gettime(clock, &now);
    if (at->tv_sec < now.tv_sec) return 0;
    uint64_t seconds = (uint64_t)at->tv_sec - (uint64_t)now.tv_sec;
    if (seconds > most / 1000000000u + 1) return most;
    int64_t left = (int64_t)seconds * 1000000000 + at->tv_nsec - now.tv_nsec;
    return left <= 0 ? 0 : (uint64_t)left < most ? (uint64_t)left : most;
}

static int lock_by(pthread_mutex_t *m, clockid_t clock, const struct timespec *at) {
    if (is_mine(hlp_mutex(m))) return again(hlp_mutex(m), EDEADLK);
    if (hlp_op(trylock)(m) == 0) return held(hlp_mutex(m), 0);
    if (!hlp_valid_time(at)) return EINVAL;
    for (uint64_t left; (left = hlp_time_left(clock, at));)
        if (hlp_op(lock_until)(hlp_mutex(m), hl_now_ns() + left)) return held(hlp_mutex(m), 0);
    return ETIMEDOUT;
}

int hlp_mutex_timedlock(pthread_mutex_t *m, const struct timespec *at) {
    if (!hlp_is_ours(m)) return hlp_libc()->pthread_mutex_timedlock(m, at);
    return lock_by(m, CLOCK_REALTIME, at);
}

static int mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *at) {
    if (!hlp_is_ours(m)) return hlp_libc()->pthread_mutex_clocklock(m, clock, at);
    return hlp_valid_clock(clock) ? lock_by(m, clock, at) : EINVAL;
}

// ------------------------------------------------------------------------- the public names
HLP_EXPORT int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr) {
    return mutex_init(m, attr, __builtin_return_address(0));
}

HLP_EXPORT int pthread_mutex_destroy(pthread_mutex_t *m) { return hlp_mutex_destroy(m); }

HLP_EXPORT int pthread_mutex_lock(pthread_mutex_t *m) {
    return mutex_lock(m, __builtin_return_address(0));
}

HLP_EXPORT int pthread_mutex_trylock(pthread_mutex_t *m) { return mutex_trylock(m); }

HLP_EXPORT int pthread_mutex_unlock(pthread_mutex_t *m) { return mutex_unlock(m); }

HLP_EXPORT int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *at) {
    return hlp_mutex_timedlock(m, at);
}

HLP_EXPORT int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock,
                                       const struct timespec *at) {
    return mutex_clocklock(m, clock, at);
}

// Names from before glibc 2.34 that libc still exports; old C++ libraries call them.
#define OLD_NAME(old, new, parameters, ...) \
    HLP_EXPORT int old parameters { return new(__VA_ARGS__); }
OLD_NAME(__pthread_mutex_init, mutex_init,
         (pthread_mutex_t *m, const pthread_mutexattr_t *attr), m, attr, __builtin_return_address(0))
OLD_NAME(__pthread_mutex_destroy, hlp_mutex_destroy, (pthread_mutex_t *m), m)
OLD_NAME(__pthread_mutex_lock, mutex_lock, (pthread_mutex_t *m), m, __builtin_return_address(0))
OLD_NAME(__pthread_mutex_trylock, hlp_mutex_trylock, (pthread_mutex_t *m), m)
OLD_NAME(__pthread_mutex_unlock, hlp_mutex_unlock, (pthread_mutex_t *m), m)
