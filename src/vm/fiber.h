// SPDX-License-Identifier: MIT
// fiber.h - virtual CPUs: each a parked real thread that lends its stack and thread pointer.
#ifndef HL_VM_FIBER_H
#define HL_VM_FIBER_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *sp;                 // where it will go on
    uintptr_t tp;             // thread pointer: thread-local variables, errno, stdio's lock owner
    char *base;               // the stack grows down from here
    char *low;                // lowest usable address; a guard page lies below
} fiber_t;

// Parks a real thread on [stack, stack + size) and fills in the fiber it lends.
void fiber_make(fiber_t *f, void *stack, size_t size);
// The caller's own thread, to switch back to.
void fiber_host(fiber_t *f);
// The next switch to f calls entry() on an empty stack, with fresh thread-local variables.
void fiber_reset(fiber_t *f, void (*entry)(void));
void fiber_switch(fiber_t *from, const fiber_t *to);

#endif
