// SPDX-License-Identifier: MIT
/*
 * Is this thread spinning, and on which address? Told from the instructions around a sampled
 * program counter, so that loops somebody wrote by hand, inlined anywhere, are found too.
 *
 * A loop waits if it pauses; or if it is an exchange or a compare-and-swap of constants tried
 * again; or if it only loads a place it cannot change. What it waits for is the memory operand
 * of its atomic instruction, else of its comparison, worked out with the sampled registers.
 */
#ifndef HOTLOCK_TRACE_BPF_SPIN_H
#define HOTLOCK_TRACE_BPF_SPIN_H

#include "bpf_unwind.h"

typedef struct spin_finder spin_finder_t;

typedef struct {
    uint64_t loop;    // its first instruction
    uint64_t address; // what it waits for; 0: could not be told
    uint32_t frame;   // index of the frame the loop is in
} spin_t;

spin_finder_t *spin_new(Dwfl *dwfl, pid_t pid); // dwfl must outlive it
void spin_free(spin_finder_t *s);

// False: not spinning. Cheap for an address seen before. FRAMES is what unwind() gave, or NULL
// to look at the innermost frame only (enough to know whether unwinding is worth while).
bool spin_at(spin_finder_t *s, const record_t *r, const unwound_t *frames, uint32_t depth,
             spin_t *found);

// The address the kernel waits for in a function that is known to wait; 0: could not be told.
uint64_t spin_in_kernel(spin_finder_t *s, const kernel_spin_t *k);

#endif
