// SPDX-License-Identifier: MIT
// atomic.h - the one layer between the locks and the machine: atomic accesses and linkage.
//
// A shared field is an HL_ATOMIC(type): it can only be reached through the operations below, so
// a plain access does not compile by accident. The order is in the operation's name: none
// (relaxed), _acq, _rel, _acqrel. Compare-exchange takes the expected value by value, is
// strong, and is relaxed when it fails.
//
// GCC's and Clang's __atomic builtins follow the C11 memory model and, unlike <stdatomic.h>,
// also work in C++17. In the Linux kernel this file is the only one that changes.
#ifndef HOTLOCK_ATOMIC_H
#define HOTLOCK_ATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOTLOCK_VERSION_MAJOR 0
#define HOTLOCK_VERSION_MINOR 1

// ------------------------------------------------------------------------- atomic accesses
#define HL_ATOMIC(type) struct { type v; }

#define hl_load(p)          __atomic_load_n(&(p)->v, __ATOMIC_RELAXED)
#define hl_load_acq(p)      __atomic_load_n(&(p)->v, __ATOMIC_ACQUIRE)
#define hl_store(p, x)      __atomic_store_n(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_store_rel(p, x)  __atomic_store_n(&(p)->v, (x), __ATOMIC_RELEASE)

#define hl_xchg_acq(p, x)    __atomic_exchange_n(&(p)->v, (x), __ATOMIC_ACQUIRE)
#define hl_xchg_rel(p, x)    __atomic_exchange_n(&(p)->v, (x), __ATOMIC_RELEASE)
#define hl_xchg_acqrel(p, x) __atomic_exchange_n(&(p)->v, (x), __ATOMIC_ACQ_REL)

#define hl_fetch_add(p, x)     __atomic_fetch_add(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_fetch_or(p, x)      __atomic_fetch_or(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_fetch_and(p, x)     __atomic_fetch_and(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_fetch_and_rel(p, x) __atomic_fetch_and(&(p)->v, (x), __ATOMIC_RELEASE)

// True when *p held `old` and now holds `new_`.
#define hl_cas(p, old, new_)        hl_cas_order_(p, old, new_, __ATOMIC_RELAXED)
#define hl_cas_acq(p, old, new_)    hl_cas_order_(p, old, new_, __ATOMIC_ACQUIRE)
#define hl_cas_rel(p, old, new_)    hl_cas_order_(p, old, new_, __ATOMIC_RELEASE)
#define hl_cas_acqrel(p, old, new_) hl_cas_order_(p, old, new_, __ATOMIC_ACQ_REL)
#define hl_cas_order_(p, old, new_, order)                                                      \
    (__extension__({                                                                            \
        __typeof__((p)->v) hl_old_ = (old);                                                     \
        __atomic_compare_exchange_n(&(p)->v, &hl_old_, (new_), false, order, __ATOMIC_RELAXED); \
    }))

#define hl_likely(x)   __builtin_expect(!!(x), 1)
#define hl_unlikely(x) __builtin_expect(!!(x), 0)
#define hl_prefetch_write(p) __builtin_prefetch((p), 1)

// What two threads should not share by accident; the caller may know better.
#ifndef HL_CACHELINE
#define HL_CACHELINE 64
#endif
#define HL_ALIGNED __attribute__((aligned(HL_CACHELINE)))

// ------------------------------------------------------------------------- linkage
// Each header declares its operations first and defines them below, per operation inline or as a
// call into libhotlock. src/lib/ compiles the same text with HL_LIBRARY for the calls to reach.
#ifndef HL_INLINE_LOCK
#define HL_INLINE_LOCK 1
#endif
#ifndef HL_INLINE_TRYLOCK
#define HL_INLINE_TRYLOCK 1
#endif
#ifndef HL_INLINE_UNLOCK
#define HL_INLINE_UNLOCK 1
#endif

#define HL_EXPORT __attribute__((visibility("default")))
#if defined(__cplusplus)
#define HL_CALL extern "C"
#else
#define HL_CALL extern
#endif

#if defined(HL_LIBRARY)
#define HL_BODY_LOCK    1
#define HL_BODY_TRYLOCK 1
#define HL_BODY_UNLOCK  1
#define HL_API_LOCK     HL_CALL HL_EXPORT
#define HL_API_TRYLOCK  HL_CALL HL_EXPORT
#define HL_API_UNLOCK   HL_CALL HL_EXPORT
#else
#define HL_BODY_LOCK    HL_INLINE_LOCK
#define HL_BODY_TRYLOCK HL_INLINE_TRYLOCK
#define HL_BODY_UNLOCK  HL_INLINE_UNLOCK
#if HL_INLINE_LOCK
#define HL_API_LOCK static inline
#else
#define HL_API_LOCK HL_CALL
#endif
#if HL_INLINE_TRYLOCK
#define HL_API_TRYLOCK static inline
#else
#define HL_API_TRYLOCK HL_CALL
#endif
#if HL_INLINE_UNLOCK
#define HL_API_UNLOCK static inline
#else
#define HL_API_UNLOCK HL_CALL
#endif
#endif

#define HL_MUST_USE __attribute__((warn_unused_result))
// A slow path: never inlined, in a section of its own so that a profile shows it by name.
#define HL_SLOW static __attribute__((noinline, unused, section(".text.hotlock")))
// A piece of a slow path, or a fast path that must not become a call.
#define HL_INLINE static inline __attribute__((always_inline, unused))

// A variable shared by all of a program's copies of a header, without a library to hold it.
#if defined(__cplusplus)
#define HL_GLOBAL(type, name) extern "C" { inline HL_EXPORT type name; }
#else
#define HL_GLOBAL(type, name) HL_EXPORT __attribute__((common)) type name
#endif

#endif
