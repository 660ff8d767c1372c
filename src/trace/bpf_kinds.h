// SPDX-License-Identifier: MIT
/*
 * What a futex address is, told from the functions that wait on it.
 */
#ifndef HOTLOCK_TRACE_BPF_KINDS_H
#define HOTLOCK_TRACE_BPF_KINDS_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>

#include "bpf_unwind.h"

typedef struct {
    const char *kind;  // as in profile_lock_t
    bool lock;         // false: waiting for work or for an event, no lock
    bool of_library;   // belongs to libc: named by the function that takes it
} wait_kind_t;

// KIND of a futex with this waiter; of a loop, if SPINS.
wait_kind_t kind_of_stack(Dwfl *dwfl, const unwound_t *frames, uint32_t depth, bool spins);

// The address a user knows the object by: a futex may lie inside.
uint64_t kind_base(const char *kind, uint64_t address);

// Index of the first frame outside the lock's own functions: who called lock().
uint32_t kind_caller(Dwfl *dwfl, const unwound_t *frames, uint32_t depth);

// Is this code of the C library?
bool kind_of_libc(Dwfl *dwfl, uint64_t pc);

// Is the kernel spinning or queueing for a lock of its own in this function?
bool kernel_spins(const char *function);
const char *kernel_spin_function(size_t i); // all of them; NULL ends

// What a lock without a name is, by the function that takes it ("futex bucket"); NULL: unknown.
const char *kernel_class(const char *function);

// A function of the locks or of tracing itself, and not the one that wanted the lock.
bool kernel_lock_function(const char *function);

#endif
