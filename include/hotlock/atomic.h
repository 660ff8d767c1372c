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
// Aligned to its size, which the ABI of i386 does not see to for eight bytes.
#define HL_ATOMIC(type) struct { type v __attribute__((aligned(sizeof(type)))); }

#define hl_load(p)          __atomic_load_n(&(p)->v, __ATOMIC_RELAXED)
#define hl_load_acq(p)      __atomic_load_n(&(p)->v, __ATOMIC_ACQUIRE)
#define hl_store(p, x)      __atomic_store_n(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_store_rel(p, x)  __atomic_store_n(&(p)->v, (x), __ATOMIC_RELEASE)

#define hl_xchg_acq(p, x)    hl_xchg_order_(p, x, __ATOMIC_ACQUIRE)
#define hl_xchg_rel(p, x)    hl_xchg_order_(p, x, __ATOMIC_RELEASE)
#define hl_xchg_acqrel(p, x) hl_xchg_order_(p, x, __ATOMIC_ACQ_REL)

#define hl_fetch_add(p, x)     hl_add_order_(p, x, __ATOMIC_RELAXED)
#define hl_fetch_or(p, x)      __atomic_fetch_or(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_fetch_and(p, x)     __atomic_fetch_and(&(p)->v, (x), __ATOMIC_RELAXED)
#define hl_fetch_and_rel(p, x) __atomic_fetch_and(&(p)->v, (x), __ATOMIC_RELEASE)

// True when *p held `old` and now holds `new_`.
#define hl_cas(p, old, new_)        hl_cas_order_(p, old, new_, __ATOMIC_RELAXED)
#define hl_cas_acq(p, old, new_)    hl_cas_order_(p, old, new_, __ATOMIC_ACQUIRE)
#define hl_cas_rel(p, old, new_)    hl_cas_order_(p, old, new_, __ATOMIC_RELEASE)
#define hl_cas_acqrel(p, old, new_) hl_cas_order_(p, old, new_, __ATOMIC_ACQ_REL)

// RISC-V exchanges four and eight bytes. GCC before 14 makes a call into libatomic of anything
// smaller; here the word around it is exchanged in place.
#ifndef HL_WORDS_ONLY
#if defined(__riscv) && !defined(__clang__) && __GNUC__ < 14
#define HL_WORDS_ONLY 1
#else
#define HL_WORDS_ONLY 0
#endif
#endif

// Where an exchange of a byte is a loop over the word around it, on whatever compiler: a lock whose
// fast path may as well exchange its whole word does so there (flag.h).
#ifndef HL_BYTES_EMULATED
#if defined(__riscv) || defined(__s390__) || defined(__sparc__) || defined(__mips__)
#define HL_BYTES_EMULATED 1
#else
#define HL_BYTES_EMULATED 0
#endif
#endif

#if HL_WORDS_ONLY
#include "small.h"
#else
#define hl_xchg_order_(p, x, order) __atomic_exchange_n(&(p)->v, (x), order)
#define hl_add_order_(p, x, order)  __atomic_fetch_add(&(p)->v, (x), order)
#define hl_cas_order_(p, old, new_, order)                                                      \
    (__extension__({                                                                            \
        __typeof__((p)->v) hl_old_ = (old);                                                     \
        __atomic_compare_exchange_n(&(p)->v, &hl_old_, (new_), false, order, __ATOMIC_RELAXED); \
    }))
#endif

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
// call into libhotlock: -DHL_INLINE_UNLOCK=0 for every lock, and -DHL_NMCS_INLINE_UNLOCK=0, or =1,
// for one of them, which comes before it. lock_until() and run() go with lock(), is_locked() with
// unlock(); ANY is the lock of hotlock.h. src/lib/ compiles the same text with HL_LIBRARY for the
// calls to reach.
#ifndef HL_INLINE_LOCK
#define HL_INLINE_LOCK 1
#endif
#ifndef HL_INLINE_TRYLOCK
#define HL_INLINE_TRYLOCK 1
#endif
#ifndef HL_INLINE_UNLOCK
#define HL_INLINE_UNLOCK 1
#endif

// 1 or 0. A lock's own choice, if there is one, makes HL_GIVEN_ two words, of which the second
// is the answer; otherwise that is the choice for all. `lock` and `op` are pasted at once, lest a
// program's own macro LOCK come in between.
#define HL_PICK_(own, all)           HL_PICK_GIVEN_(own, all)
#define HL_PICK_GIVEN_(own, all)     HL_SECOND_(HL_GIVEN_##own, all, 0)
#define HL_SECOND_(...)              HL_SECOND_OF_(__VA_ARGS__)
#define HL_SECOND_OF_(no, yes, ...)  yes
#define HL_GIVEN_0 no, 0
#define HL_GIVEN_1 no, 1

#define HL_EXPORT __attribute__((visibility("default")))
#if defined(__cplusplus)
#define HL_CALL extern "C"
#else
#define HL_CALL extern
#endif

// HL_BODY: is the operation defined here? HL_API: what stands before its declaration.
#if defined(HL_LIBRARY)
#define HL_BODY(lock, op) 1
#if defined(__cplusplus) || defined(__clang__)
#define HL_API(lock, op)  HL_CALL HL_EXPORT HL_UNANALYSED
#else  // "inline": a hint for GCC where the library is linked with -flto
#define HL_API(lock, op)  extern inline HL_EXPORT HL_UNANALYSED
#endif
#else
#define HL_BODY(lock, op) HL_PICK_(HL_##lock##_INLINE_##op, HL_INLINE_##op)
#define HL_API(lock, op)  HL_API_OF_(HL_PICK_(HL_##lock##_INLINE_##op, HL_INLINE_##op))
#endif
#define HL_API_OF_(inlined)  HL_API_OF__(inlined)
#define HL_API_OF__(inlined) HL_API_##inlined
#define HL_API_0 HL_CALL
#define HL_API_1 static inline HL_UNANALYSED

// What Clang's -Wthread-safety checks in a program: who holds which lock where.
#if defined(__clang__)
#define HL_CAPABILITY               __attribute__((capability("mutex")))
#define HL_ACQUIRES(...)            __attribute__((acquire_capability(__VA_ARGS__)))
#define HL_ACQUIRES_IF(value, ...)  __attribute__((try_acquire_capability(value, __VA_ARGS__)))
#define HL_RELEASES(...)            __attribute__((release_capability(__VA_ARGS__)))
#define HL_EXCLUDES(...)            __attribute__((locks_excluded(__VA_ARGS__)))
#define HL_UNANALYSED               __attribute__((no_thread_safety_analysis))
#else
#define HL_CAPABILITY
#define HL_ACQUIRES(...)
#define HL_ACQUIRES_IF(value, ...)
#define HL_RELEASES(...)
#define HL_EXCLUDES(...)
#define HL_UNANALYSED
#endif

#define HL_MUST_USE __attribute__((warn_unused_result))
// A slow path: never inlined, in a section of its own so that a profile shows it by name. Wait
// nodes live on its stack and an address carries flags in its low bits, so it sees to the alignment
// itself where a caller may not: i386 code of before 2008, a signal handler under QEMU's emulation.
#if defined(__i386__)
#define HL_OWN_STACK __attribute__((force_align_arg_pointer))
#else
#define HL_OWN_STACK
#endif
#define HL_SLOW static HL_OWN_STACK __attribute__((noinline, unused, section(".text.hotlock")))
// A piece of a slow path, or a fast path that must not become a call.
#define HL_INLINE static inline __attribute__((always_inline, unused))

// A variable shared by all of a program's copies of a header, without a library to hold it.
#if defined(__cplusplus)
#define HL_GLOBAL(type, name) extern "C" { inline HL_EXPORT type name; }
#else
#define HL_GLOBAL(type, name) HL_EXPORT __attribute__((common)) type name
#endif

#endif
