// SPDX-License-Identifier: MIT
/*
 * Puts together what the BPF programs send of one process: whose lock an address is, which stacks
 * waited for it and which made them wait, who spins. Works on snapshots in batches, so that
 * unwinding costs nothing while the program is being watched.
 */
#ifndef HOTLOCK_TRACE_BPF_GATHER_H
#define HOTLOCK_TRACE_BPF_GATHER_H

#include "bpf/records.h"
#include "profile.h"

typedef struct gather gather_t;

gather_t *gather_new(pid_t pid, const char *symbols); // NULL: the process is gone
void gather_free(gather_t *g);

void gather_record(gather_t *g, const void *record, size_t bytes);
void gather_work(gather_t *g); // unwinds what is waiting to be
void gather_work_some(gather_t *g, size_t most);

// Adds the exact sums of one futex address; then gather_fill() writes everything to the profile.
void gather_sums(gather_t *g, uint64_t address, const futex_sums_t *sums);
void gather_fill(gather_t *g, profile_t *p, unsigned sample_hz);
void gather_clear_sums(gather_t *g);

// Addresses worth looking at from outside, hottest first, and how to read whether they are held.
typedef enum { HELD_NOT_KNOWN, HELD_MUTEX, HELD_RWLOCK, HELD_SPIN } held_t;
typedef struct {
    uint64_t key; // names it to gather_held()
    uint64_t address;
    held_t how;
    double cost;
} hot_t;
#define GATHER_HOT 16
size_t gather_hot(gather_t *g, hot_t hot[GATHER_HOT]);
// What looking found: of LOOKS glances HELD saw it held, and IDLE free although waited for.
void gather_held(gather_t *g, uint64_t key, uint64_t looks, uint64_t held, uint64_t idle);

// Fills l->beside: what else is used in the cache line of this lock of the process.
void gather_beside(const gather_t *g, const profile_t *p, profile_lock_t *l);

// Of the timer's samples: all, spinning for a lock, in the kernel's own spinlocks.
void gather_ticks(const gather_t *g, uint64_t *all, uint64_t *spinning, uint64_t *kernel);

#endif
