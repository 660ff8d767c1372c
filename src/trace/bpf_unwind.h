// SPDX-License-Identifier: MIT
/*
 * Stacks from snapshots: registers and the top of a thread's stack, unwound by the exception
 * tables every Debian binary has. No frame pointers are needed, and the thread is not stopped.
 */
#ifndef HOTLOCK_TRACE_BPF_UNWIND_H
#define HOTLOCK_TRACE_BPF_UNWIND_H

#include "bpf/records.h"
#include "symbols.h"

typedef struct unwinder unwinder_t;

unwinder_t *unwinder_new(Dwfl *dwfl, pid_t pid); // dwfl must outlive it
void unwinder_free(unwinder_t *u);

// Where a frame's callee-saved registers were, to look at the caller's variables.
typedef struct {
    uint64_t pc;
    uint64_t reg[32]; // by DWARF number
    uint32_t known;   // bit per register
} unwound_t;

// Frames innermost first; FRAMES may hold PROFILE_DEPTH. Returns how many; the first is the
// sample's own program counter, the others lie inside the call instruction.
uint32_t unwind(unwinder_t *u, const record_t *r, unwound_t *frames);

// Bytes of the snapshot's stack at this address; false if it does not hold them.
bool unwind_read(const record_t *r, uint64_t address, void *to, size_t bytes);

#endif
