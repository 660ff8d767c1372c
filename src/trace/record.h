// SPDX-License-Identifier: MIT
// record.h - the file in which a recorded program counts, and `hotlock top` reads at any moment.
//
// The recorder (libhotlock-record.so) maps one such file per process, 0600, in the directory that
// HOTLOCK_RECORD names. The reader maps it too: nothing is sent, nothing is lost when the program
// is killed, and a reader never stops the program. In order: head, index, slots, stacks.
//
// A slot belongs to one lock and is written by the lock's holder while it holds it, so plain adds
// do, in a cache line that only the lock's users touch. Waiters write one word, `crowd`:
//
//   crowd = (sum of the waiters' arrival ticks) * 65536 + number of waiters      (modulo 2^64)
//
// From it everyone can tell, in one read at time t, how much waiting has piled up so far:
// waiters * t - sum. The difference between a holder's unlock and its lock is the waiting that
// this hold caused, whoever waited and however many came in between.
#ifndef HOTLOCK_RECORD_H
#define HOTLOCK_RECORD_H

#include <stdint.h>

#include "hotlock/atomic.h"
#include "profile.h"

#define RECORD_ENV     "HOTLOCK_RECORD"
#define RECORD_LIBRARY "libhotlock-record.so"
#define RECORD_MAGIC   0x33636572746f6c68u // "hlotrec3"
#define RECORD_INDEX   (1u << 17)          // entries; a power of two, at least twice the slots
#define RECORD_SLOTS   (1u << 16)          // the most locks; fewer if the file system is small
#define RECORD_STACKS  (1u << 13)          // a power of two
#define RECORD_PCS     32
#define RECORD_MAPS    256
#define RECORD_PATH    232
#define RECORD_INSIDE  (UINT64_C(1) << 48)

typedef enum {
    RECORD_MUTEX, RECORD_RECURSIVE, RECORD_ERRORCHECK, RECORD_ADAPTIVE, RECORD_SPIN, RECORD_RWLOCK,
    RECORD_KINDS
} record_kind_t;

typedef struct {
    uint64_t start, end, offset;
    uint64_t executable;
    char path[RECORD_PATH];
} record_map_t;

typedef struct {
    uint64_t magic;
    uint32_t pid, slots;                    // slots: how many this file has room for
    uint64_t ticks0, ns0;                   // one moment on both clocks: hl_ticks(), hl_now_ns()
    uint64_t ticks1, ns1;                   // the same at the end; 0: it did not come to that
    uint64_t mult;                          // ns = ticks * mult >> 32, as used inside
    uint64_t clock;                         // ticks that two looks at the clock lie apart at least
    HL_ATOMIC(uint32_t) used;               // slots ever taken
    HL_ATOMIC(uint32_t) threads;            // that took a lock
    HL_ATOMIC(uint32_t) inserting;          // one thread at a time: slots, stacks and maps
    HL_ATOMIC(uint32_t) free_slot;          // first slot to use again, or 0
    HL_ATOMIC(uint32_t) maps_used;
    HL_ATOMIC(uint32_t) stacks_used;
    HL_ATOMIC(uint64_t) lost_acquisitions;  // of locks that found no slot
    HL_ATOMIC(uint64_t) lost_wait;          // ns
    HL_ATOMIC(uint64_t) lost_stacks;        // waits and holds without a stack
    HL_ATOMIC(uint64_t) gone_locks;         // destroyed, never waited for: slots free again
    HL_ATOMIC(uint64_t) gone_acquisitions;
    record_map_t map[RECORD_MAPS];
} record_head_t;

typedef struct {
    HL_ATOMIC(uint64_t) address;            // 0: free; 1: was used
    uint64_t slot;                          // good once address is there
} record_entry_t;

typedef struct {
    // One cache line: all that an uncontended lock and unlock touch.
    HL_ATOMIC(uint64_t) address;
    uint64_t acquisitions;                  // and, times RECORD_INSIDE, the readers inside
    uint64_t acquired;                      // ticks of the hold that is timed; 0: it is not
    HL_ATOMIC(uint64_t) crowd;
    uint64_t freed;                         // ticks, if freed while somebody waited; else 0
    uint64_t owner_changes;
    uint32_t owner;                         // thread number
    uint16_t depth;                         // of a recursive mutex
    uint16_t kind;                          // record_kind_t
    uint32_t countdown;                     // holds until the next one is timed
    uint16_t weight;                        // how many holds a timed one stands for; 0: this one is
                                            // timed only because somebody waited
    uint16_t losses;                        // of the processor, by its owner before it had this
    // What a slow path touches.
    uint64_t contended, writes, reads_contended; // of a reader-writer lock
    uint64_t wait, wait_worst;              // ns, as all below
    uint64_t clocked_wait, clocked_cpu;     // of the waits whose CPU time was read too
    uint64_t hold, hold_worst, holds, hold_weight;
    uint64_t undisturbed, undisturbed_weight; // of the holds whose thread kept its processor
    uint64_t handoff, handoff_worst, handoffs;
    uint64_t waiters_sum, waiters_most;
    uint64_t preempted, preempted_wait;
    HL_ATOMIC(uint64_t) calls, calls_most;  // inside the lock's own functions, but for waits: by
                                            // all, and by the one thread that was there most
    uint64_t piled_up;                      // ticks waited so far when this hold began
    uint64_t last_timed;                    // ticks
    uint64_t stride;                        // one hold in so many is timed now
    HL_ATOMIC(uint64_t) gave_up, gave_up_wait; // timed locks that ran out of time
    uint64_t sleeps, slept, slept_worst;    // on condition variables with this mutex
    uint64_t init_stack;                    // index + 1; 0: not known
    uint64_t next_free;
    uint32_t wait_hist[PROFILE_BUCKETS], hold_hist[PROFILE_BUCKETS], handoff_hist[PROFILE_BUCKETS];
    uint32_t sleep_hist[PROFILE_BUCKETS];
} HL_ALIGNED record_slot_t;

typedef struct {
    HL_ATOMIC(uint64_t) hash;               // 0: free
    uint32_t slot;
    uint16_t role;                          // profile_role_t
    uint16_t depth;
    HL_ATOMIC(uint64_t) count, ns;
    uint64_t pc[RECORD_PCS];
} record_stack_t;

// ------------------------------------------------------------------------- where things are
static inline size_t record_index_at(void) { return (sizeof(record_head_t) + 4095) & ~4095ul; }
static inline size_t record_stacks_at(void) {
    return record_index_at() + RECORD_INDEX * sizeof(record_entry_t);
}
static inline size_t record_slots_at(void) {
    return record_stacks_at() + RECORD_STACKS * sizeof(record_stack_t);
}
static inline size_t record_size(uint32_t slots) {
    return record_slots_at() + slots * sizeof(record_slot_t);
}

static inline uint64_t record_acquisitions(const record_slot_t *s) {
    return s->acquisitions & (RECORD_INSIDE - 1);
}

// ------------------------------------------------------------------------- crowd
#define RECORD_WAITERS 0xffffu

static inline uint64_t record_arrival(uint64_t ticks) { return (ticks << 16) + 1; }

// Ticks waited so far by those in `crowd`, at `ticks`; never negative, however clocks differ.
static inline uint64_t record_piled_up(uint64_t crowd, uint64_t ticks) {
    uint64_t waiters = crowd & RECORD_WAITERS;
    int64_t sum = (int64_t)((waiters * ticks - (crowd >> 16)) << 16) >> 16;
    return sum > 0 ? (uint64_t)sum : 0;
}

#endif
