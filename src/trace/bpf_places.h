// SPDX-License-Identifier: MIT
/*
 * What bpf_gather.c collects and bpf_fill.c writes to a profile.
 */
#ifndef HOTLOCK_TRACE_BPF_PLACES_H
#define HOTLOCK_TRACE_BPF_PLACES_H

#include "bpf_beside.h"
#include "bpf_gather.h"
#include "bpf_spin.h"

#define PLACES 16384            // addresses and loops, a power of two
#define PENDING 4096            // waits of the sample that are not over, a power of two
#define STACKS_MOST 20000       // distinct stacks of all locks
#define NAME_TRIES 8
#define QUEUE_BYTES (32u << 20) // snapshots waiting to be unwound

typedef struct {
    profile_role_t role;
    uint32_t depth;
    uint64_t hash;
    uint64_t *pc;
    double count, ns;
} stack_t_; // not stack_t: that is the C library's

typedef struct {
    uint64_t key;     // a futex's address, or the loop's if it waits for no known address
    uint64_t address; // what a user knows it by; 0: a loop
    const char *kind;
    char *name;       // of one in allocated memory; NULL: not known
    unsigned tried;   // to name it
    bool lock, of_library, known, searched;
    uint64_t ticks;   // spinning for it
    uint64_t looks, held, idle;
    futex_sums_t sums;
    stack_t_ *stacks;
    size_t stack_count, stack_room;
} place_t;

typedef struct {
    uint64_t id, key;
    uint32_t waiter_depth, holder_depth;
    uint64_t waiter[PROFILE_DEPTH], holder[PROFILE_DEPTH];
} pending_t;

typedef struct {
    record_t *record;
    size_t bytes;
} queued_t;

struct gather {
    pid_t pid;
    const char *symbols;
    profile_t maps; // only the maps of it
    Dwfl *dwfl;
    unwinder_t *unwinder;
    spin_finder_t *spins;
    beside_t *beside;
    place_t *places;
    size_t place_count;
    pending_t *pending;
    queued_t *queue;
    size_t queued, queue_room, queue_bytes;
    size_t stack_count;
    uint64_t ticks, spinning, in_kernel;
    uint64_t dropped_stacks, dropped_places, dropped_samples;
};

// The place of this key; NULL: there is none, or no room for another.
place_t *place_of(gather_t *g, uint64_t key, bool make);

#endif
