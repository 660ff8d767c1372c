// SPDX-License-Identifier: MIT
// shim.h - as much of a kernel as the three files under the lock headers need, in a program: threads
// are processors, signals their interrupts, and a processor's data are a copy of a section.
#ifndef SHIM_H
#define SHIM_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t u64;
#define U64_MAX UINT64_MAX
#define SMP_CACHE_BYTES 64

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __maybe_unused __attribute__((unused))
#define __must_check __attribute__((warn_unused_result))
#define __aligned(n) __attribute__((aligned(n)))
#define __section(name) __attribute__((section(name)))
#define noinline __attribute__((noinline))
#define notrace
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define container_of(p, type, member) \
    ((type *)(void *)((char *)(uintptr_t)(p) - offsetof(type, member)))
#define prefetchw(p) __builtin_prefetch((p), 1)
#define cpu_relax() ((void)sched_yield())  // there may be fewer processors than threads

#define READ_ONCE(x) __atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define smp_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define xchg(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define xchg_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define xchg_release(p, v) __atomic_exchange_n((p), (v), __ATOMIC_RELEASE)
#define shim_cas(p, old, v, order) \
    __atomic_compare_exchange_n((p), (old), (v), false, order, __ATOMIC_RELAXED)
#define try_cmpxchg(p, old, v) shim_cas(p, old, v, __ATOMIC_SEQ_CST)
#define try_cmpxchg_acquire(p, old, v) shim_cas(p, old, v, __ATOMIC_ACQUIRE)
#define try_cmpxchg_release(p, old, v) shim_cas(p, old, v, __ATOMIC_RELEASE)
#define try_cmpxchg_relaxed(p, old, v) shim_cas(p, old, v, __ATOMIC_RELAXED)

#define SHIM_CPUS 16
extern _Thread_local int shim_cpu;
extern char *shim_copy[SHIM_CPUS];  // of the section below
extern char __start_percpu_shim[];
#define DEFINE_PER_CPU(type, name) type name __section("percpu_shim")
#define DEFINE_PER_CPU_ALIGNED(type, name) type name __section("percpu_shim") __aligned(64)
#define per_cpu_ptr(p, cpu) \
    ((__typeof__(p))(void *)(shim_copy[cpu] + ((char *)(p) - __start_percpu_shim)))
#define per_cpu(x, cpu) (*per_cpu_ptr(&(x), cpu))
#define this_cpu_ptr(p) per_cpu_ptr(p, shim_cpu)
#define this_cpu_inc_return(x) (++*(volatile __typeof__(x) *)this_cpu_ptr(&(x)))
#define this_cpu_dec(x) ((void)--*(volatile __typeof__(x) *)this_cpu_ptr(&(x)))
#define this_cpu_add(x, n) ((void)(*(volatile __typeof__(x) *)this_cpu_ptr(&(x)) += (n)))
#define smp_processor_id() shim_cpu

#endif
