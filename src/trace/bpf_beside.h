// SPDX-License-Identifier: MIT
/*
 * What else of the program is used in the cache line of a lock, from sampled instructions: the
 * addresses their memory operands have with the sampled registers.
 *
 * A sample stops at an instruction; what took the time may be it or the one before. Both count.
 * What only the lock's own sections use belongs in its line, since who gets the lock gets it too.
 * So a field counts if an atomic instruction reaches it, or a stack without any of the functions
 * that take or free the lock.
 */
#ifndef HOTLOCK_TRACE_BPF_BESIDE_H
#define HOTLOCK_TRACE_BPF_BESIDE_H

#include "bpf_unwind.h"

typedef struct beside beside_t;

beside_t *beside_new(Dwfl *dwfl, pid_t pid); // dwfl must outlive it, or be replaced; NULL: this
                                             // processor's code is not known
void beside_free(beside_t *b);
void beside_modules(beside_t *b, Dwfl *dwfl); // other ones from now on

// A sample of the program's own code. Cheap for an instruction seen before.
void beside_sample(beside_t *b, const record_t *r);

// Unwinds and names what has been seen often, while the process is there.
void beside_work(beside_t *b, unwinder_t *u);

// Fills l->beside from what was seen in the line of this lock. P has the frames of its stacks.
void beside_fill(const beside_t *b, const profile_t *p, profile_lock_t *l);

#endif
