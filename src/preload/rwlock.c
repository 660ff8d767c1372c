// SPDX-License-Identifier: MIT
// rwlock.c - pthread_rwlock_*: the lock of rw.h, whatever the lock of the mutexes.
//
//   bytes 0-15 the lock, 16-19 who holds it for writing, 28-31 libc: process-shared,
//   48-51 libc: the kind (whom to prefer), 52-55 fork generation
//
// A process-shared one, and one of a kind that we do not know, is libc's.
//
// Kinds. PREFER_WRITER_NONRECURSIVE is the lock as it is: readers stand aside for a waiting writer.
// The other two are one kind, in libc as here, and promise that a thread may take a read lock
// again while a writer waits for its first. So a thread that holds any read lock goes in past a
// waiting writer; one that holds none cannot be such a thread and stands aside, but not for long:
// the writer may wait for a reader that waits for this very thread, or that does not run. What a
// thread holds is a count in thread-local storage, which a read lock unlocked by another thread
// makes wrong; then a thread stands aside for that moment, or does not, and nothing worse happens.
#include <errno.h>
#include <string.h>

#include "hotlock/rw.h"
#include "preload.h"
#include "slice.h"

// How long a reader that holds no other read lock stands aside for a waiting writer.
#define PATIENCE_NS 100000u

typedef struct {
    hl_rw_t lock;
    HL_ATOMIC(uint32_t) writer;
    uint32_t spare[2];
    HL_ATOMIC(uint32_t) shared;
    uint64_t spare2[2];
    union {
        HL_ATOMIC(uint64_t) owner;  // hlp_owner_t, read in one piece by the fast path
        struct {
            HL_ATOMIC(uint32_t) kind;
            HL_ATOMIC(uint32_t) generation;
        };
    };
} rwlock_t;

_Static_assert(sizeof(rwlock_t) == sizeof(pthread_rwlock_t), "the lock does not fit");
_Static_assert(offsetof(pthread_rwlock_t, __data.__shared) == offsetof(rwlock_t, shared),
               "libc keeps the process-shared mark elsewhere");
_Static_assert(offsetof(pthread_rwlock_t, __data.__flags) == offsetof(rwlock_t, kind),
               "libc keeps the kind elsewhere");

hlp_owner_t hlp_rw_fast = {.kind = HLP_KIND_NONE};  // until the choice is made

static __thread uint32_t read_locks __attribute__((tls_model("initial-exec")));

static rwlock_t *ours(pthread_rwlock_t *rw) { return (rwlock_t *)(void *)rw; }

static void refresh(rwlock_t *o) {
    hlp_refresh_begin();
    if (hl_load(&o->generation) != hlp_fast.generation) {
        hl_rw_forget_waiters(&o->lock);
        hl_store_rel(&o->generation, hlp_fast.generation);
    }
    hlp_refresh_end();
}

// Of this generation, and ours: kinds 0 to 2, of which libc gives no others.
HL_INLINE bool is_fast(pthread_rwlock_t *rw) {
    rwlock_t *o = ours(rw);
    return hl_likely((hl_load(&o->owner) & ~((hlp_owner_t){.kind = 3}).both) == hlp_rw_fast.both &&
                     !hl_load(&o->shared));
}

static bool is_ours(pthread_rwlock_t *rw) {
    hlp_choose();
    rwlock_t *o = ours(rw);
    if (hlp_libc_rwlocks || hl_load(&o->shared) ||
        hl_load(&o->kind) > PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)
        return false;
    if (hl_unlikely(hl_load_acq(&o->generation) != hlp_fast.generation)) refresh(o);
    return true;
}

static bool is_mine(const rwlock_t *o) {
    return hl_rw_is_write_locked(&o->lock) && hl_load(&o->writer) == hlp_self();
}

// ------------------------------------------------------------------------- reading
static bool is_recursive(const rwlock_t *o) {
    return hl_load(&o->kind) != PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

// Past the writer at the gate, if it leaves a free lock alone; false: it is not free.
static bool read_past(hl_rw_t *l) {
    uint64_t s = hl_load(&l->state);
    return (s & HL_RW_GATE) && !(s & HL_RW_WRITER) && !hl_rw_inside(s) && hl_rw_enter(l, s);
}

// Stands aside for writers, in slices, for a signal may have suspended the one at the gate.
static bool read_aside(hl_rw_t *l, uint64_t deadline_ns) {
    hlp_slice_t s = {HLP_SLICE_LEAST_NS, deadline_ns};
    while (!hl_rw_read_lock_until(l, hlp_next_slice(&s)) && !read_past(l))
        if (hl_past(deadline_ns)) return false;
    return true;
}

static bool read_until(rwlock_t *o, uint64_t deadline_ns) {
    uint64_t patience = read_locks ? 0 : PATIENCE_NS;
    bool got = is_recursive(o) ? hl_rw_read_lock_patient(&o->lock, patience, deadline_ns)
                               : read_aside(&o->lock, deadline_ns);
    read_locks += got;
    return got;
}

static int tryrdlock(rwlock_t *o) {
    // Past a waiting writer, as libc: only the third kind gives way.
    bool got = is_recursive(o) ? hl_rw_read_lock_patient(&o->lock, 0, 0)
                               : hl_rw_read_trylock(&o->lock) || read_past(&o->lock);
    read_locks += got;
    return got ? 0 : EBUSY;
}

static int rdlock(rwlock_t *o) {
    if (is_mine(o)) return EDEADLK;
    (void)read_until(o, HL_NO_DEADLINE);
    return 0;
}

// ------------------------------------------------------------------------- writing
// Up to the gate in slices, for a signal may have suspended the writer that stands there. True: at
// the gate, or *passed it.
static bool reach_the_gate(hl_rw_t *l, uint64_t deadline_ns, bool *passed) {
    hlp_slice_t s = {HLP_SLICE_LEAST_NS, deadline_ns};
    while (!hl_park_lock_until(&l->writers, hlp_next_slice(&s))) {
        if ((*passed = hl_rw_pass(l))) return true;
        if (hl_past(deadline_ns)) return false;
    }
    return true;
}

static __attribute__((noinline)) bool write_slow(hl_rw_t *l, uint64_t deadline_ns) {
    bool passed = false;
    if (!reach_the_gate(l, deadline_ns, &passed)) return false;
    return passed || hl_rw_lock_at_gate(l, deadline_ns);
}

static bool write_until(rwlock_t *o, uint64_t deadline_ns) {
    bool got = hl_rw_lock_fast(&o->lock) || write_slow(&o->lock, deadline_ns);
    if (got) hl_store(&o->writer, hlp_self());
    return got;
}

static int trywrlock(rwlock_t *o) {
    if (!hl_rw_pass(&o->lock)) return EBUSY;
    hl_store(&o->writer, hlp_self());
    return 0;
}

static int wrlock(rwlock_t *o) {
    if (is_mine(o)) return EDEADLK;
    (void)write_until(o, HL_NO_DEADLINE);
    return 0;
}

// ------------------------------------------------------------------------- timed forms
// libc looks at the time before anything else here, other than with a mutex.
static int lock_by(rwlock_t *o, bool (*lock_until)(rwlock_t *, uint64_t), clockid_t clock,
                   const struct timespec *at) {
    if (!hlp_valid_clock(clock) || !hlp_valid_time(at)) return EINVAL;
    if (is_mine(o)) return EDEADLK;
    for (;;) {
        uint64_t left = hlp_time_left(clock, at);
        if (lock_until(o, left ? hl_now_ns() + left : 0)) return 0;
        if (!left) return ETIMEDOUT;
    }
}

// ------------------------------------------------------------------------- unlock, init, destroy
HL_INLINE int unlock(rwlock_t *o) {
    if (hl_rw_is_write_locked(&o->lock)) {
        hl_store(&o->writer, 0u);
        hl_rw_unlock(&o->lock);
        return 0;
    }
    // Unlocking what nobody holds is undefined; as with a mutex, nothing happens, if it shows.
    if (!(hl_load(&o->lock.state) & (HL_RW_READERS | HL_RW_ROW))) return 0;
    if (read_locks) read_locks--;
    hl_rw_read_unlock(&o->lock);
    return 0;
}

static int rwlock_init(pthread_rwlock_t *rw, const pthread_rwlockattr_t *attr) {
    hlp_choose();
    if (attr || hlp_libc_rwlocks) {
        int error = hlp_libc()->pthread_rwlock_init(rw, attr);
        if (error || !is_ours(rw)) return error;
    } else {
        memset(rw, 0, sizeof *rw);
    }
    hl_store(&ours(rw)->generation, hlp_fast.generation);
    return 0;
}

// libc's checks nothing here. A row goes back to the pool.
static int rwlock_destroy(pthread_rwlock_t *rw) {
    if (!is_ours(rw)) return hlp_libc()->pthread_rwlock_destroy(rw);
    rwlock_t *o = ours(rw);
    if (hl_load(&o->lock.state) & HL_RW_ROW && hl_rw_pass(&o->lock)) hl_rw_unlock(&o->lock);
    return 0;
}

// ------------------------------------------------------------------------- the longer way
static __attribute__((noinline)) int rdlock_rare(pthread_rwlock_t *rw) {
    return is_ours(rw) ? rdlock(ours(rw)) : hlp_libc()->pthread_rwlock_rdlock(rw);
}

static __attribute__((noinline)) int wrlock_rare(pthread_rwlock_t *rw) {
    return is_ours(rw) ? wrlock(ours(rw)) : hlp_libc()->pthread_rwlock_wrlock(rw);
}

static __attribute__((noinline)) int unlock_rare(pthread_rwlock_t *rw) {
    return is_ours(rw) ? unlock(ours(rw)) : hlp_libc()->pthread_rwlock_unlock(rw);
}

// ------------------------------------------------------------------------- the public names
// Each also under the name from before glibc 2.34 that libc still exports.
#define NAMES(name, parameters, body)                      \
    HLP_EXPORT int pthread_rwlock_##name parameters body   \
    HLP_EXPORT int __pthread_rwlock_##name parameters body

NAMES(init, (pthread_rwlock_t *rw, const pthread_rwlockattr_t *attr),
      { return rwlock_init(rw, attr); })
NAMES(destroy, (pthread_rwlock_t *rw), { return rwlock_destroy(rw); })
#ifdef HLP_ROWS_AT_ONCE  // for a test: as if readers collided all the time
#define COLLIDE(rw) (is_fast(rw) ? hl_rw_collide(&ours(rw)->lock) : (void)0)
#else
#define COLLIDE(rw) ((void)0)
#endif

NAMES(rdlock, (pthread_rwlock_t *rw), {
    COLLIDE(rw);
    if (!is_fast(rw) || !hl_rw_read_at_once(&ours(rw)->lock)) return rdlock_rare(rw);
    read_locks++;
    return 0;
})
NAMES(tryrdlock, (pthread_rwlock_t *rw),
      { return is_ours(rw) ? tryrdlock(ours(rw)) : hlp_libc()->pthread_rwlock_tryrdlock(rw); })
NAMES(wrlock, (pthread_rwlock_t *rw), {
    if (!is_fast(rw) || !hl_rw_lock_fast(&ours(rw)->lock)) return wrlock_rare(rw);
    hl_store(&ours(rw)->writer, hlp_self());
    return 0;
})
NAMES(trywrlock, (pthread_rwlock_t *rw),
      { return is_ours(rw) ? trywrlock(ours(rw)) : hlp_libc()->pthread_rwlock_trywrlock(rw); })
NAMES(unlock, (pthread_rwlock_t *rw), {
    if (!is_fast(rw)) return unlock_rare(rw);
    return unlock(ours(rw));
})

HLP_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *rw, const struct timespec *at) {
    if (!is_ours(rw)) return hlp_libc()->pthread_rwlock_timedrdlock(rw, at);
    return lock_by(ours(rw), read_until, CLOCK_REALTIME, at);
}

HLP_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t *rw, clockid_t clock,
                                          const struct timespec *at) {
    if (!is_ours(rw)) return hlp_libc()->pthread_rwlock_clockrdlock(rw, clock, at);
    return lock_by(ours(rw), read_until, clock, at);
}

HLP_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *rw, const struct timespec *at) {
    if (!is_ours(rw)) return hlp_libc()->pthread_rwlock_timedwrlock(rw, at);
    return lock_by(ours(rw), write_until, CLOCK_REALTIME, at);
}

HLP_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t *rw, clockid_t clock,
                                          const struct timespec *at) {
    if (!is_ours(rw)) return hlp_libc()->pthread_rwlock_clockwrlock(rw, clock, at);
    return lock_by(ours(rw), write_until, clock, at);
}
