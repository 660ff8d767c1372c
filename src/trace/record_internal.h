// SPDX-License-Identifier: MIT
// record_internal.h - what the files of libhotlock-record.so share.
//
// The recorder stands before the lock functions of libc, or of libhotlock-preload.so, and hands
// every call on. A lock that is free costs two looks at its slot; only one hold in about eight is
// timed (every one, while they are rare), and one call in thirty-two; waits are always timed, and
// stacks are taken by a thread before it waits or after it unlocked, never while it holds the lock.
//
// Nothing here allocates, takes a lock of the program, or needs a constructor to have run.
#ifndef HOTLOCK_RECORD_INTERNAL_H
#define HOTLOCK_RECORD_INTERNAL_H

#include <fcntl.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "hotlock/wait.h"
#include "record.h"

// ------------------------------------------------------------------------- what lies behind us
#define REC_NEXT(X)                                                                              \
    X(pthread_mutex_init, (pthread_mutex_t *, const pthread_mutexattr_t *))                      \
    X(pthread_mutex_destroy, (pthread_mutex_t *))                                                \
    X(pthread_mutex_lock, (pthread_mutex_t *))                                                   \
    X(pthread_mutex_trylock, (pthread_mutex_t *))                                                \
    X(pthread_mutex_timedlock, (pthread_mutex_t *, const struct timespec *))                     \
    X(pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *))          \
    X(pthread_mutex_unlock, (pthread_mutex_t *))                                                 \
    X(pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *))                                  \
    X(pthread_cond_timedwait,                                                                    \
      (pthread_cond_t *, pthread_mutex_t *, const struct timespec *))                            \
    X(pthread_cond_clockwait,                                                                    \
      (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))                 \
    X(pthread_spin_init, (pthread_spinlock_t *, int))                                            \
    X(pthread_spin_destroy, (pthread_spinlock_t *))                                              \
    X(pthread_spin_lock, (pthread_spinlock_t *))                                                 \
    X(pthread_spin_trylock, (pthread_spinlock_t *))                                              \
    X(pthread_spin_unlock, (pthread_spinlock_t *))                                               \
    X(pthread_rwlock_init, (pthread_rwlock_t *, const pthread_rwlockattr_t *))                   \
    X(pthread_rwlock_destroy, (pthread_rwlock_t *))                                              \
    X(pthread_rwlock_rdlock, (pthread_rwlock_t *))                                               \
    X(pthread_rwlock_tryrdlock, (pthread_rwlock_t *))                                            \
    X(pthread_rwlock_timedrdlock, (pthread_rwlock_t *, const struct timespec *))                 \
    X(pthread_rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))      \
    X(pthread_rwlock_wrlock, (pthread_rwlock_t *))                                               \
    X(pthread_rwlock_trywrlock, (pthread_rwlock_t *))                                            \
    X(pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *))                 \
    X(pthread_rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const struct timespec *))      \
    X(pthread_rwlock_unlock, (pthread_rwlock_t *))                                               \
    X(mtx_lock, (mtx_t *))                                                                       \
    X(mtx_trylock, (mtx_t *))                                                                    \
    X(mtx_timedlock, (mtx_t *, const struct timespec *))                                         \
    X(mtx_unlock, (mtx_t *))                                                                     \
    X(cnd_wait, (cnd_t *, mtx_t *))                                                              \
    X(cnd_timedwait, (cnd_t *, mtx_t *, const struct timespec *))

typedef struct {
#define X(name, args) int(*name) args;
    REC_NEXT(X)
#undef X
} rec_next_t;
extern rec_next_t rec_next_found;
typedef HL_ATOMIC(bool) rec_flag_t;
extern rec_flag_t rec_next_ready;
void rec_next_find(void);

static inline const rec_next_t *rec_next(void) {
    if (hl_unlikely(!hl_load_acq(&rec_next_ready))) rec_next_find();
    return &rec_next_found;
}

// ------------------------------------------------------------------------- one thread
#define REC_RECENT 16 // slots a thread finds at once
#define REC_CACHED 64 // stacks a thread knows by their call site and stack pointer

typedef struct {
    uint64_t key;
    record_stack_t *stack;
    uint32_t left;  // uses until it is taken again
} rec_cached_t;

typedef struct {
    record_slot_t *recent[REC_RECENT]; // of the locks this thread used last, by address
    uint64_t spent[REC_RECENT]; // ns in the calls of each since it is there
    uint32_t number;            // 0: not yet
    uint32_t random;
    uint32_t calls_left;        // until the next one that is timed
    uint64_t last_timed;        // ticks
    uint16_t losses;            // times it lost its processor and noticed
    bool busy;                  // inside the recorder: a lock taken now is not recorded
    uint32_t clock_countdown;   // waits until the next one whose CPU time is read
    record_stack_t *pending;    // where pending_ns of waiting goes once nothing is held up by it
    uint64_t pending_ns;
    record_slot_t *reading;     // the read hold that is timed
    uint64_t reading_since, reading_piled;
    rec_cached_t cached[REC_CACHED];
} rec_thread_t;

extern __thread rec_thread_t rec_me __attribute__((tls_model("initial-exec")));

// ------------------------------------------------------------------------- the file
extern record_head_t *rec_head;  // NULL: nothing is recorded
extern rec_flag_t rec_started;
void rec_start(void);

static inline record_entry_t *rec_index(void) {
    return (record_entry_t *)(void *)((char *)rec_head + record_index_at());
}
static inline record_stack_t *rec_stacks(void) {
    return (record_stack_t *)(void *)((char *)rec_head + record_stacks_at());
}
static inline record_slot_t *rec_slots(void) {
    return (record_slot_t *)(void *)((char *)rec_head + record_slots_at());
}

// Not a cancellation point, unlike libc's.
static inline int rec_open(const char *path, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

record_slot_t *rec_insert(void *lock, record_kind_t kind);
void rec_forget(void *lock); // destroyed
void rec_insert_begin(void);
void rec_insert_end(void);
void rec_take_number(void);

static inline size_t rec_hash(uint64_t address) {
    return (size_t)((address * 0x9e3779b97f4a7c15u) >> 40) & (RECORD_INDEX - 1);
}

static inline record_slot_t *rec_lookup(uint64_t address) {
    record_entry_t *index = rec_index();
    for (size_t at = rec_hash(address);; at = (at + 1) & (RECORD_INDEX - 1)) {
        uint64_t there = hl_load_acq(&index[at].address);  // pairs with the store in rec_insert()
        if (there == address) return &rec_slots()[index[at].slot];
        if (!there) return NULL;
    }
}

static inline record_slot_t **rec_recent(uint64_t address) {
    return &rec_me.recent[(address >> 3 ^ address >> 7) % REC_RECENT];
}

// There is a recent slot only once everything is up.
static inline record_slot_t *rec_find_recent(void *lock) {
    uint64_t address = (uint64_t)(uintptr_t)lock;
    record_slot_t *s = *rec_recent(address);
    return hl_likely(s && hl_load(&s->address) == address && !rec_me.busy) ? s : NULL;
}

record_slot_t *rec_find_or_insert(void *lock, record_kind_t kind);

// The slot of this lock, or NULL: nothing is recorded, or there is no room.
#define rec_find(lock, kind) (rec_find_recent(lock) ?: rec_find_or_insert(lock, kind))

// A lock call whose lock has no slot.
static inline void rec_lost(void) {
    if (rec_head && !rec_me.busy) (void)hl_fetch_add(&rec_head->lost_acquisitions, 1);
}

static inline uint64_t rec_ns(uint64_t ticks) {
    return (uint64_t)((unsigned __int128)ticks * rec_head->mult >> 32);
}

static inline uint32_t rec_random(void) {
    uint32_t x = rec_me.random;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return rec_me.random = x;
}

// ------------------------------------------------------------------------- stacks
// The stack of the call to us at this return address, of waiters or holders of this lock, or NULL.
record_stack_t *rec_stack(record_slot_t *s, unsigned role, void *return_address);
void rec_charge(record_stack_t *stack, uint64_t count, uint64_t ns);
void rec_note_maps(void);
bool rec_map_known(uint64_t pc);

// libc looks at these before the lock itself: with bad ones nothing may be tried.
static inline bool rec_valid_clock(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}
static inline bool rec_valid_time(const struct timespec *t) {
    return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

#define REC_EXPORT __attribute__((visibility("default")))

#endif
