// SPDX-License-Identifier: MIT
// vm.h - the seam of the virtual machine: an instrumented program above, an engine below.
//
// GCC and Clang turn every load, store and atomic of a program compiled with -fsanitize=thread
// into a call of a __tsan_*() function. tsan.c defines those functions, libc.c and pthread.c
// stand in for the library calls that matter (redirect.syms renames them in the program's
// object), fiber.c lends every virtual CPU a stack and a thread pointer. All of them end in one
// of the engine_*() functions below, which one of two engines defines: the model checker
// (src/check) or the simulator.
#ifndef HL_VM_H
#define HL_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    VM_LOAD, VM_STORE, VM_XCHG, VM_ADD, VM_SUB, VM_AND, VM_OR, VM_XOR, VM_NAND, VM_CAS
} vm_op_t;

// Where the program is: its next instruction, and the lowest address of the part of its stack
// that decides what it does next (the hook has pushed the callee-saved registers there).
typedef struct { uintptr_t pc, sp; } vm_site_t;

// What an atomic access reads or writes: 16 bytes in an engine that has accesses so wide.
#ifdef VM_VALUE_16
__extension__ typedef unsigned __int128 vm_value_t;
#else
typedef uint64_t vm_value_t;
#endif

// Memory orders are the compiler's own: __ATOMIC_RELAXED (0) to __ATOMIC_SEQ_CST (5).
vm_value_t engine_load(uintptr_t a, unsigned size, int order, vm_site_t at);
void engine_store(uintptr_t a, unsigned size, vm_value_t value, int order, vm_site_t at);
// Returns the old value; VM_CAS stores value only where the old one equals expected.
vm_value_t engine_rmw(uintptr_t a, unsigned size, vm_op_t op, vm_value_t value,
                      vm_value_t expected, int order, int failure, vm_site_t at);
// Does a weak compare-exchange fail here for no reason? Then *old is what it read. (An engine that is
// compiled with VM_WEAK_FAILS has it.)
bool engine_weak_fails(uintptr_t a, unsigned size, int order, int failure, vm_value_t *old,
                       vm_site_t at);
void engine_fence(int order, vm_site_t at);
void engine_plain(uintptr_t a, size_t size, bool write, vm_site_t at);
void engine_enter(vm_site_t at);   // a function's frame begins
void engine_leave(vm_site_t at);   // and ends

int engine_create(void *(*fn)(void *), void *arg, vm_site_t at);    // returns the new thread
void *engine_join(int thread, vm_site_t at);
_Noreturn void engine_exit(void *result);
int engine_self(void);              // -1 outside the program: its libraries' own start-up
void *engine_alloc(size_t size, size_t align, vm_site_t at);        // zeroed
size_t engine_size(void *p);
void engine_free(void *p, vm_site_t at);

// A choice the program cannot predict: 0 .. n-1.
typedef enum {
    VM_CHOICE_PROGRAM,
    VM_CHOICE_TIME,      // 1: every deadline has passed
    VM_CHOICE_SPURIOUS,  // 1: a sleeper wakes up for no reason
    VM_CHOICE_SLEEP,     // 1: a timed sleeper sleeps until it is woken
    VM_CHOICE_WEAK       // 1: a weak compare-exchange fails for no reason
} vm_choice_t;
unsigned engine_choose(vm_choice_t kind, unsigned n, vm_site_t at);
uint64_t engine_clock(vm_site_t at);        // nanoseconds
bool engine_timers_fire(void);              // a timed sleep may end by its timer
void engine_doze(bool timed);               // the thread sleeps, but not for ever; or no longer
void engine_pause(vm_site_t at);            // a spin loop says that it is one

typedef enum { VM_ASSERT, VM_EXIT, VM_CRASH, VM_MISUSE } vm_failure_t;
_Noreturn void engine_fail(vm_failure_t kind, const char *text, vm_site_t at);
_Noreturn void engine_unsupported(const char *what, vm_site_t at);

// The program's own main(), renamed by redirect.syms.
int vm_program_main(int argc, char **argv, char **env);

// A thread's life, in pthread.c.
void *vm_thread_body(void *(*fn)(void *), void *arg);

// The site of the hook that calls it. Forces the callee-saved registers onto the stack, just
// below the frame pointer, so that the engine sees the whole state of a waiting loop.
#if defined(__x86_64__)
#define VM_SAVED_BYTES 40
#elif defined(__aarch64__)
#define VM_SAVED_BYTES 0
#else
#error "the virtual machine knows x86-64 and aarch64"
#endif
#define VM_SITE()                                                                  \
    (__extension__({                                                               \
        __builtin_unwind_init();                                                   \
        (vm_site_t){(uintptr_t)__builtin_return_address(0),                        \
                    (uintptr_t)__builtin_frame_address(0) - VM_SAVED_BYTES};       \
    }))
// The same without the registers, for hooks that never decide that a loop is waiting.
#define VM_HERE()                                                                  \
    ((vm_site_t){(uintptr_t)__builtin_return_address(0),                           \
                 (uintptr_t)__builtin_frame_address(0)})

#endif
