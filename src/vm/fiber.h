// SPDX-License-Identifier: MIT
// fiber.h - virtual CPUs: each a parked real thread that lends its stack and thread pointer.
//
// Where a program cannot set its thread pointer (no FSGSBASE, a kernel before Linux 5.9), with
// -Dfibers=threads, or with HOTLOCK_FIBERS=threads in the environment, the real threads run
// themselves, one at a time, and hand over by a futex: portable, and some hundred times slower.
#ifndef HL_VM_FIBER_H
#define HL_VM_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    void *sp;                 // where it will go on
    uintptr_t tp;             // thread pointer: thread-local variables, errno, stdio's lock owner
    char *base;               // the stack grows down from here
    char *low;                // lowest usable address; a guard page lies below
    struct turn *turn;        // when threads hand over
    uint32_t lent;            // a futex: the real thread has filled this in
} fiber_t;
extern bool fiber_by_threads;

// Parks a real thread on [stack, stack + size) and fills in the fiber it lends.
void fiber_make(fiber_t *f, void *stack, size_t size);
// The caller's own thread, to switch back to.
void fiber_host(fiber_t *f);
// The next switch to f calls entry() on an empty stack, with fresh thread-local variables.
void fiber_reset(fiber_t *f, void (*entry)(void));
void fiber_swap_(void **save, void *to, uintptr_t tp);
_Noreturn void fiber_begin_(void *base, void (*entry)(void));
void fiber_hand_over_(fiber_t *from, const fiber_t *to);
// Calls save() in the state that a switch to *save would go on from.
void fiber_keep_(void **save_sp, void (*save)(void));
// The program's thread-local variables of f, and f's copy of a library's that is the caller's `mine`.
void *fiber_locals(const fiber_t *f, size_t *size);
void *fiber_theirs(const fiber_t *f, void *mine);
static inline void fiber_switch(fiber_t *from, const fiber_t *to) {
    if (__builtin_expect(fiber_by_threads, 0)) fiber_hand_over_(from, to);
    else fiber_swap_(&from->sp, to->sp, to->tp);
}

#endif
