// SPDX-License-Identifier: MIT
// count.h - counters of named locks, always on, readable from outside while the program runs.
//
//   static hl_park_t lock;
//   static hl_count_t *count;                    // once: count = hl_lock_name(&lock, "db mutex");
//
//   hl_counted_lock(hl_park, &lock, count);      // as hl_park_lock(&lock), and counted
//   ...
//   hl_park_unlock(&lock);                       // unlocking is not counted and costs what it did
//
// Uncontended, counting is one plain add, in a line of the lock's own counters: whoever adds holds
// the lock. A lock that has to be waited for is timed as well. Locks that are not named cost
// nothing. Works with every lock but mcs, whose lock() takes a node; with hl_lock_t the prefix is
// hl.
//
// The counters lie in memory that has a file: nameless and 0600 (a memfd), open in the program, so
// `hotlock top --counters PID` can map it and read; the program is never stopped, and nothing is
// left when it ends. With HOTLOCK_COUNTERS=DIRECTORY the file is DIRECTORY/PID.count instead.
// hl_lock_name() is in libhotlock.
#ifndef HOTLOCK_COUNT_H
#define HOTLOCK_COUNT_H

#include "wait.h"

#define HL_COUNT_MAGIC   0x31746e756f636c68u // "hlcount1"
#define HL_COUNT_LOCKS   1024                // named locks; what comes after shares the last
#define HL_COUNT_BUCKETS 40                  // bucket i: waits of 2^i to 2^(i+1) ns
#define HL_COUNT_NAME    64

typedef struct {
    uint64_t acquisitions;
    uint64_t contended, wait_ns, wait_worst_ns;
    uint64_t wait_hist[HL_COUNT_BUCKETS];
    uint64_t address;
    char name[HL_COUNT_NAME];
} HL_ALIGNED hl_count_t;

// The whole file.
typedef struct {
    uint64_t magic;
    uint32_t pid;
    HL_ATOMIC(uint32_t) used;
    HL_ALIGNED hl_count_t lock[HL_COUNT_LOCKS];
} hl_counts_t;

// Names a lock and gives its counters, never NULL; the same for the same lock and name again. Not
// for signal handlers. With no memory to be had the counters work and nobody else can see them.
HL_CALL HL_EXPORT hl_count_t *hl_lock_name(const void *lock, const char *name);

// By the thread that has just got the lock, having begun to wait at these ticks.
HL_SLOW void hl_count_waited(hl_count_t *c, uint64_t begin) {
    uint64_t now = hl_ticks(), rate = hl_load(&hl_wait_state.rate);
    if (!rate) rate = hl_measure_rate();
    uint64_t ns = now > begin ? (now - begin) * 1024 / rate : 0;
    unsigned bucket = ns ? 63u - (unsigned)__builtin_clzll(ns) : 0;
    c->contended++;
    c->wait_ns += ns;
    if (ns > c->wait_worst_ns) c->wait_worst_ns = ns;
    c->wait_hist[bucket < HL_COUNT_BUCKETS ? bucket : HL_COUNT_BUCKETS - 1]++;
}

#define hl_counted_lock(prefix, l, counters)           \
    do {                                              \
        hl_count_t *hl_count_ = (counters);           \
        if (hl_unlikely(!prefix##_trylock(l))) {       \
            uint64_t hl_begin_ = hl_ticks();          \
            prefix##_lock(l);                         \
            hl_count_waited(hl_count_, hl_begin_);    \
        }                                             \
        hl_count_->acquisitions++;                    \
    } while (0)

// True, and counted, if it was free.
#define hl_counted_trylock(prefix, l, counters) \
    (prefix##_trylock(l) ? ((counters)->acquisitions++, true) : false)

#endif
