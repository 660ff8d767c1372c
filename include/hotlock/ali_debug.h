// SPDX-License-Identifier: MIT
// ali_debug.h - the debug build of ali: -DHL_DEBUG, linked with libhotlock-debug.
//
// ali.h includes this file before its code, so that every section is called through
// hl_debug_call(), and ali_watch.h after it, so that the program's own lock operations are seen.
// The rules that are watched, and what cannot be seen, are in docs/locks/ali.md. One line on
// stderr for each place that breaks a rule; HOTLOCK_DEBUG=report|abort|off.
#ifndef HOTLOCK_ALI_DEBUG_H
#define HOTLOCK_ALI_DEBUG_H

#ifdef HL_DEBUG
#include "atomic.h"

#if !(HL_INLINE_LOCK && HL_INLINE_TRYLOCK && HL_INLINE_UNLOCK)
#error "HL_DEBUG watches inline operations only: leave HL_INLINE_LOCK, _TRYLOCK and _UNLOCK at 1"
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Runs fn(arg), a section of the ali lock `l`, and checks what it leaves behind. foreign: on behalf
// of another thread.
void hl_debug_call(void *l, void (*fn)(void *), void *arg, bool foreign);

// This thread is about to call `op`, which may wait for the lock `l`.
void hl_debug_wait(const volatile void *l, const char *op);
// The same for an ali lock: as its owner, this thread may run any section of it.
void hl_debug_request(const volatile void *l, const char *op);
// `op` does not wait for the ali lock `l`, but may run sections of it.
void hl_debug_serve(const volatile void *l, const char *op);
// The operation is over: the lock is held; it is held if `got`, which is returned; or it is not.
void hl_debug_held(const volatile void *l);
HL_MUST_USE bool hl_debug_got(const volatile void *l, bool got);
void hl_debug_served(void);
// This thread is about to call `op`, which releases the lock `l`.
void hl_debug_release(const volatile void *l, const char *op);

// How many violations have been reported so far: for tests.
unsigned hl_debug_violations(void);

#ifdef __cplusplus
}
#endif

#define HL_ALI_CALL(l, fn, arg, foreign) hl_debug_call((l), (fn), (arg), (foreign))

#endif
#endif
