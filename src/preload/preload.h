// SPDX-License-Identifier: MIT
// preload.h - what the files of libhotlock-preload.so share.
//
// The preload puts its state inside the pthread objects, in bytes that libc uses only for objects
// of the same kind. Two fields say whose an object is, and libc's static initialisers set them:
//
//   pthread_mutex_t      bytes 0-15 the lock, 16-19 libc's kind, 20-23 fork generation,
//                        24-25 threads in a condition wait with it; recursive and error-checking:
//                        28-31 how often locked, 32-35 by whom; where locks are chosen for single
//                        mutexes: 26 which lock, 36-39 the one before it (select.c)
//   pthread_spinlock_t   the lock, all 4 bytes
//   pthread_cond_t       see cond.c
//   pthread_rwlock_t     see rwlock.c
//
// A mutex is ours when its kind is normal, default, adaptive, recursive or error-checking and
// nothing more; any other (robust, inheriting, protected, process-shared) goes to libc untouched.
// Nothing is allocated, nothing is kept outside the objects, and nothing depends on a constructor:
// everything starts in a state in which the first call sorts itself out.
//
// fork: the child has only the thread that forked, so waiters queued in a lock are ghosts there.
// Each child counts hlp_generation up; an object last used by an older generation is cleaned of
// them before its first use (hlp_mutex_refresh). Static objects carry generation 0.
#ifndef HOTLOCK_PRELOAD_H
#define HOTLOCK_PRELOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "hotlock/atomic.h"

#if __SIZEOF_POINTER__ != 8
#error "the preload knows the 64-bit layouts of the pthread objects only"
#endif

// ------------------------------------------------------------------------- a mutex of ours
typedef union {
    struct { int32_t kind; uint32_t generation; };
    uint64_t both;
} hlp_owner_t;

typedef struct {
    uint64_t lock[2];
    HL_ATOMIC(uint64_t) owner;         // hlp_owner_t, read in one piece by the fast path
    HL_ATOMIC(uint16_t) in_condition;  // written by the lock's holder only
    HL_ATOMIC(uint8_t) moved;          // select.c; 0: no
    uint8_t spare;
    uint32_t count;                    // recursive and error-checking: the holder's alone
    HL_ATOMIC(uint32_t) holder;        // and who that is: hlp_self(), 0 for nobody
    uint32_t front;                    // select.c
} hlp_mutex_t;

_Static_assert(offsetof(pthread_mutex_t, __data.__kind) == offsetof(hlp_mutex_t, owner),
               "libc keeps the kind elsewhere");
_Static_assert(sizeof(hlp_mutex_t) <= sizeof(pthread_mutex_t), "the mutex does not fit");

// Bits of libc's kind: how a plain mutex was asked for makes no difference to us.
#define HLP_KIND_TYPE      0x003  // 0 normal, 1 recursive, 2 errorcheck, 3 adaptive
#define HLP_KIND_ELISION   0x300  // elision asked for, or (a "normal" attribute) forbidden
#define HLP_KIND_DESTROYED (-1)   // what libc leaves behind: any later use gives EINVAL
#define HLP_KIND_NONE      (-2)   // no mutex has it; in hlp_fast: none is fast

// ------------------------------------------------------------------------- which lock
// The operations of the lock this process uses. They begin as stubs that choose and go on.
typedef struct {
    const char *name;
    int (*lock)(pthread_mutex_t *);
    int (*trylock)(pthread_mutex_t *);
    int (*unlock)(pthread_mutex_t *);
    bool (*lock_until)(hlp_mutex_t *, uint64_t deadline_ns);
    bool (*is_locked)(const hlp_mutex_t *);
    int (*spin_init)(pthread_spinlock_t *, int shared);
    int (*spin_destroy)(pthread_spinlock_t *);
    int (*spin_lock)(pthread_spinlock_t *);
    int (*spin_trylock)(pthread_spinlock_t *);
    int (*spin_unlock)(pthread_spinlock_t *);
} hlp_ops_t;

extern hlp_ops_t hlp_ops;                   // of this process
extern const hlp_ops_t *const hlp_kinds[];  // every lock, the default first; ends with NULL
// An operation of the chosen lock; the pointer may change from a stub under our eyes.
#define hlp_op(name) __atomic_load_n(&hlp_ops.name, __ATOMIC_RELAXED)

extern hlp_owner_t hlp_fast;  // what `owner` of a usual plain mutex looks like now
extern hlp_owner_t hlp_rw_fast;  // the same of a reader-writer lock, its kind as if it were 0
extern bool hlp_libc_locks;   // nothing is ours: asked for, or HOTLOCK could not be understood
extern bool hlp_libc_rwlocks; // reader-writer locks are not ours

void hlp_choose(void);         // read HOTLOCK once, fill hlp_ops; any later call: nothing
void hlp_refresh_begin(void);  // one thread at a time cleans an object after a fork
void hlp_refresh_end(void);
void hlp_check(void);          // say whether every name of ours is reached

// ------------------------------------------------------------------------- libc's functions
#define HLP_LIBC(X)                                                                              \
    X(int, pthread_mutex_init, (pthread_mutex_t *, const pthread_mutexattr_t *))                 \
    X(int, pthread_mutex_destroy, (pthread_mutex_t *))                                           \
    X(int, pthread_mutex_lock, (pthread_mutex_t *))                                              \
    X(int, pthread_mutex_trylock, (pthread_mutex_t *))                                           \
    X(int, pthread_mutex_timedlock, (pthread_mutex_t *, const struct timespec *))                \
    X(int, pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *))     \
    X(int, pthread_mutex_unlock, (pthread_mutex_t *))                                            \
    X(int, pthread_cond_init, (pthread_cond_t *, const pthread_condattr_t *))                    \
    X(int, pthread_cond_destroy, (pthread_cond_t *))                                             \
    X(int, pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))                             \
    X(int, pthread_cond_timedwait,                                                               \
      (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))                            \
    X(int, pthread_cond_clockwait,                                                               \
      (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))                 \
    X(int, pthread_cond_signal, (pthread_cond_t *))                                              \
    X(int, pthread_cond_broadcast, (pthread_cond_t *))                                           \
    X(int, pthread_spin_init, (pthread_spinlock_t *, int))                                       \
    X(int, pthread_spin_destroy, (pthread_spinlock_t *))                                         \
    X(int, pthread_spin_lock, (pthread_spinlock_t *))                                            \
    X(int, pthread_spin_trylock, (pthread_spinlock_t *))                                         \
    X(int, pthread_spin_unlock, (pthread_spinlock_t *))                                          \
    X(int, pthread_rwlock_init, (pthread_rwlock_t *, const pthread_rwlockattr_t *))              \
    X(int, pthread_rwlock_destroy, (pthread_rwlock_t *))                                         \
    X(int, pthread_rwlock_rdlock, (pthread_rwlock_t *))                                          \
    X(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t *))                                       \
    X(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t *, const struct timespec *))            \
    X(int, pthread_rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const struct timespec *)) \
    X(int, pthread_rwlock_wrlock, (pthread_rwlock_t *))                                          \
    X(int, pthread_rwlock_trywrlock, (pthread_rwlock_t *))                                       \
    X(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *))            \
    X(int, pthread_rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const struct timespec *)) \
    X(int, pthread_rwlock_unlock, (pthread_rwlock_t *))                                          \
    X(void *, dlopen, (const char *, int))

typedef struct {
#define X(result, name, args) result(*name) args;
    HLP_LIBC(X)
#undef X
} hlp_libc_t;

extern hlp_libc_t hlp_libc_found;
typedef HL_ATOMIC(bool) hlp_flag_t;
extern hlp_flag_t hlp_libc_ready;
void hlp_libc_find(void);

// What lies behind us: libc, or another preloaded library that wraps it.
static inline const hlp_libc_t *hlp_libc(void) {
    if (hl_unlikely(!hl_load_acq(&hlp_libc_ready))) hlp_libc_find();
    return &hlp_libc_found;
}

// ------------------------------------------------------------------------- small and common
#define HLP_EXPORT __attribute__((visibility("default")))

static inline hlp_mutex_t *hlp_mutex(pthread_mutex_t *m) { return (hlp_mutex_t *)(void *)m; }

static inline hlp_owner_t hlp_owner(const hlp_mutex_t *m) {
    return (hlp_owner_t){.both = hl_load(&m->owner)};
}

// A mutex of ours that this generation has used, without the rarer kinds: one load, one compare.
static inline bool hlp_is_fast(pthread_mutex_t *m) {
    const hlp_owner_t spare = {.kind = HLP_KIND_ELISION};
    return hl_likely((hl_load(&hlp_mutex(m)->owner) & ~spare.both) == hlp_fast.both);
}

// A mutex of ours that knows its holder.
static inline bool hlp_has_holder(const hlp_mutex_t *m) {
    int32_t type = hlp_owner(m).kind & HLP_KIND_TYPE;
    return type == PTHREAD_MUTEX_RECURSIVE_NP || type == PTHREAD_MUTEX_ERRORCHECK_NP;
}

void hlp_mutex_refresh(hlp_mutex_t *m);
bool hlp_may_unlock(pthread_mutex_t *m);  // of a mutex of ours: not held by somebody else
bool hlp_is_ours(pthread_mutex_t *m);  // the whole question; a mutex of ours is fresh after it

// The mutex functions for the other files: never through the PLT, where another library may sit.
int hlp_mutex_lock(pthread_mutex_t *m);
int hlp_mutex_lock_from(pthread_mutex_t *m, const void *caller);  // the return address
int hlp_mutex_unlock(pthread_mutex_t *m);
int hlp_mutex_trylock(pthread_mutex_t *m);
int hlp_mutex_timedlock(pthread_mutex_t *m, const struct timespec *at);
int hlp_mutex_destroy(pthread_mutex_t *m);
int hlp_cond_destroy(pthread_cond_t *c);
int hlp_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int hlp_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);
int hlp_cond_signal(pthread_cond_t *c);
int hlp_cond_broadcast(pthread_cond_t *c);

// Who we are, for as long as the thread lives, and in a forked child as well: a number.
extern __thread uint32_t hlp_thread __attribute__((tls_model("initial-exec")));
uint32_t hlp_new_thread(void);
static inline uint32_t hlp_self(void) {
    return hl_likely(hlp_thread) ? hlp_thread : hlp_new_thread();
}

// The longest wait on CLOCK_REALTIME before that clock is read again: somebody may have set it.
#define HLP_REALTIME_SLICE_NS 1000000000u
uint64_t hlp_time_left(clockid_t clock, const struct timespec *at);  // 0: it has come

static inline bool hlp_valid_time(const struct timespec *t) {
    return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

static inline bool hlp_valid_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

// ------------------------------------------------------------------------- what we export
#define HLP_EXPORTED(X)                                                                          \
    X(pthread_mutex_init) X(pthread_mutex_destroy) X(pthread_mutex_lock)                         \
    X(pthread_mutex_trylock) X(pthread_mutex_timedlock) X(pthread_mutex_clocklock)               \
    X(pthread_mutex_unlock) X(__pthread_mutex_init) X(__pthread_mutex_destroy)                   \
    X(__pthread_mutex_lock) X(__pthread_mutex_trylock) X(__pthread_mutex_unlock)                 \
    X(pthread_cond_init) X(pthread_cond_destroy) X(pthread_cond_wait)                            \
    X(pthread_cond_timedwait) X(pthread_cond_clockwait) X(pthread_cond_signal)                   \
    X(pthread_cond_broadcast) X(pthread_spin_init) X(pthread_spin_destroy)                       \
    X(pthread_spin_lock) X(pthread_spin_trylock) X(pthread_spin_unlock)                          \
    X(pthread_rwlock_init) X(pthread_rwlock_destroy) X(pthread_rwlock_rdlock)                    \
    X(pthread_rwlock_tryrdlock) X(pthread_rwlock_timedrdlock) X(pthread_rwlock_clockrdlock)      \
    X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock) X(pthread_rwlock_timedwrlock)           \
    X(pthread_rwlock_clockwrlock) X(pthread_rwlock_unlock) X(__pthread_rwlock_init)              \
    X(__pthread_rwlock_destroy) X(__pthread_rwlock_rdlock) X(__pthread_rwlock_tryrdlock)         \
    X(__pthread_rwlock_wrlock) X(__pthread_rwlock_trywrlock) X(__pthread_rwlock_unlock)          \
    X(mtx_lock)                                                                                  \
    X(mtx_trylock) X(mtx_timedlock) X(mtx_unlock) X(mtx_destroy) X(cnd_wait)                     \
    X(cnd_timedwait) X(cnd_signal) X(cnd_broadcast) X(cnd_destroy)

typedef struct {
    const char *name;
    void *ours;
} hlp_name_t;
enum {
#define X(name) hlp_index_##name,
    HLP_EXPORTED(X)
#undef X
    HLP_NAMES
};
extern const hlp_name_t hlp_names[HLP_NAMES];

int __pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *attr);
int __pthread_mutex_destroy(pthread_mutex_t *m);
int __pthread_mutex_lock(pthread_mutex_t *m);
int __pthread_mutex_trylock(pthread_mutex_t *m);
int __pthread_mutex_unlock(pthread_mutex_t *m);
int __pthread_rwlock_init(pthread_rwlock_t *rw, const pthread_rwlockattr_t *attr);
int __pthread_rwlock_destroy(pthread_rwlock_t *rw);
int __pthread_rwlock_rdlock(pthread_rwlock_t *rw);
int __pthread_rwlock_tryrdlock(pthread_rwlock_t *rw);
int __pthread_rwlock_wrlock(pthread_rwlock_t *rw);
int __pthread_rwlock_trywrlock(pthread_rwlock_t *rw);
int __pthread_rwlock_unlock(pthread_rwlock_t *rw);

// ------------------------------------------------------------------------- one line on stderr
typedef struct {
    char text[1024];
    size_t used;
} hlp_line_t;

void hlp_add(hlp_line_t *l, const char *text, size_t length);  // what does not fit is cut
void hlp_say(hlp_line_t *l, const char *text);
void hlp_say_number(hlp_line_t *l, unsigned n);
void hlp_print(hlp_line_t *l);

#endif
