// SPDX-License-Identifier: MIT
// wait.h - how a thread waits: time, pause, yield, park; and the policy that chooses.
//
// A waiter spins for HL_SPIN_NS, then does what its policy says: go on spinning, give the
// processor away, or sleep in the kernel until woken. Every time is in nanoseconds and is
// converted to ticks of the processor's counter, measured at first use: a pause lasts 10 cycles
// on one processor and 140 on the next, so a count of pauses means nothing.
//
// Under -fsanitize=thread (the sanitizer, or our virtual machine) the clock is clock_gettime()
// and nothing else, and a pause calls hl_vm_pause() if the program has one.
#ifndef HOTLOCK_WAIT_H
#define HOTLOCK_WAIT_H

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if __has_include(<linux/futex.h>)
#include <linux/futex.h>
#else  // musl without the kernel's headers
#define FUTEX_WAKE             1
#define FUTEX_WAIT_BITSET      9
#define FUTEX_WAKE_BITSET      10
#define FUTEX_PRIVATE_FLAG     128
#define FUTEX_BITSET_MATCH_ANY 0xffffffffu
#endif
// A strict -std=c11 hides what ISO C does not have.
#ifndef CLOCK_MONOTONIC
#define CLOCK_MONOTONIC 1
int clock_gettime(int, struct timespec *);
#endif
#if defined(__STRICT_ANSI__) && !defined(__cplusplus) && !defined(_GNU_SOURCE)
long syscall(long, ...);
#endif

#include "atomic.h"

#if defined(__SANITIZE_THREAD__)
#define HL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HL_TSAN 1
#endif
#endif
#ifndef HL_TSAN
#define HL_TSAN 0
#endif

// How long a waiter spins before it yields or sleeps: about half of what waking a thread costs.
#ifndef HL_SPIN_NS
#define HL_SPIN_NS 10000
#endif
// How long a running first waiter may be overtaken before it closes the door to newcomers.
#ifndef HL_BYPASS_NS
#define HL_BYPASS_NS 5000
#endif
// How long a newcomer leaves a free lock to a first waiter that has closed the door and does not
// come: it may be stopped by a signal or a debugger. Longer than a wake-up takes.
#ifndef HL_PATIENCE_NS
#define HL_PATIENCE_NS 100000
#endif
// A first waiter that lost this many rounds is owed the lock: the door stays closed as it sleeps.
#ifndef HL_ROUNDS
#define HL_ROUNDS 4
#endif

#define HL_NO_DEADLINE UINT64_MAX

typedef enum { HL_WAIT_DEFAULT, HL_WAIT_SPIN, HL_WAIT_YIELD, HL_WAIT_PARK } hl_wait_policy_t;

typedef struct {
    HL_ATOMIC(uint32_t) policy;      // HL_WAIT_DEFAULT: each lock's own
    HL_ATOMIC(uint32_t) rate;        // ticks per 1024 ns; 0: not yet measured
    HL_ATOMIC(uint64_t) futex_calls; // for reports
} hl_wait_state_t;
HL_GLOBAL(hl_wait_state_t, hl_wait_state);

// Overrides the policy of every lock in the program; HL_WAIT_DEFAULT gives each its own back.
static inline void hl_wait_set(hl_wait_policy_t policy) {
    hl_store(&hl_wait_state.policy, (uint32_t)policy);
}

HL_INLINE hl_wait_policy_t hl_wait_get(hl_wait_policy_t own) {
    uint32_t forced = hl_load(&hl_wait_state.policy);
    return forced ? (hl_wait_policy_t)forced : own;
}

// ------------------------------------------------------------------------- time
// CLOCK_MONOTONIC in nanoseconds: the clock of every deadline.
static inline uint64_t hl_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

HL_INLINE uint64_t hl_ticks(void) {
#if HL_TSAN
    return hl_now_ns();
#elif defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return hl_now_ns();
#endif
}

// One reading of both clocks, tight enough that an interruption in between shows.
HL_INLINE uint64_t hl_clock_pair(uint64_t *ticks) {
    for (int tries = 0;; tries++) {
        uint64_t before = hl_ticks();
        uint64_t ns = hl_now_ns();
        *ticks = hl_ticks();
        if (*ticks - before < 4000 || tries == 8) return ns;
    }
}

HL_SLOW uint32_t hl_measure_rate(void) {
    uint32_t rate = 1024;
#if !HL_TSAN && (defined(__x86_64__) || defined(__i386__))
    uint64_t t0, t1, n0 = hl_clock_pair(&t0), n1;
    do n1 = hl_clock_pair(&t1);
    while (n1 - n0 < 20000);
    rate = (uint32_t)((t1 - t0) * 1024 / (n1 - n0));
    if (rate < 128) rate = 128;
    if (rate > 16384) rate = 16384;
#elif !HL_TSAN && defined(__aarch64__)
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    rate = (uint32_t)(hz * 1024 / 1000000000u);
    if (!rate) rate = 1;
#endif
    hl_store(&hl_wait_state.rate, rate);  // threads that race here store nearly the same
    return rate;
}

HL_INLINE uint64_t hl_ns_to_ticks(uint64_t ns) {
    uint32_t rate = hl_load(&hl_wait_state.rate);
    if (hl_unlikely(!rate)) rate = hl_measure_rate();
    return ns * rate / 1024;
}

HL_INLINE bool hl_past(uint64_t deadline_ns) {
    return deadline_ns != HL_NO_DEADLINE && hl_now_ns() >= deadline_ns;
}

// ------------------------------------------------------------------------- waiting
#if HL_TSAN
#if defined(__cplusplus)
extern "C"
#endif
void hl_vm_pause(void) __attribute__((weak));
#endif

// Tells the processor that its thread only waits: it then leaves more to the other threads of its
// core, or uses less power. s390x and MIPS have nothing of the kind for programs (MIPS waits for
// its own link bit), and waiting for an event (WFE, wrs) is no use to a waiter with a clock.
HL_INLINE void hl_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");  // "yield" does nothing on most
#elif defined(__arm__) && __ARM_ARCH >= 7
    __asm__ volatile("yield" ::: "memory");
#elif defined(__riscv)
    __asm__ volatile(".insn i 0x0F, 0, x0, x0, 0x010" ::: "memory");  // pause: a fence to others
#elif defined(__powerpc64__)
    __asm__ volatile("or 1,1,1\n\tor 2,2,2" ::: "memory");  // priority low, then back to medium
#elif defined(__sparc__) && defined(__arch64__)
    __asm__ volatile("rd %%ccr, %%g0\n\trd %%ccr, %%g0\n\trd %%ccr, %%g0" ::: "memory");  // slow
#else
    __asm__ volatile("" ::: "memory");
#endif
}

HL_INLINE void hl_pause(void) {
#if HL_TSAN
    if (hl_vm_pause) {
        hl_vm_pause();
        return;
    }
#endif
    hl_relax();
}

static inline void hl_yield(void) {
    int saved = errno;
    sched_yield();
    errno = saved;
}

// Sleep for `ns`. A lock must not change errno, and must not be a cancellation point, as libc's
// function is.
static inline void hl_nap(uint64_t ns) {
    int saved = errno;
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
    errno = saved;
}

// For reports; not under the sanitizer or our virtual machine, where it would order what it counts.
HL_INLINE void hl_count_futex(void) {
    if (!HL_TSAN) (void)hl_fetch_add(&hl_wait_state.futex_calls, 1);
}

#define HL_FUTEX_PRIVATE FUTEX_PRIVATE_FLAG
#define HL_FUTEX_SHARED  0

// Sleeps while *word == expected, until a wake, a signal, or the deadline (HL_NO_DEADLINE: none).
// May return for no reason: the caller loops.
HL_SLOW void hl_futex_wait(void *word, uint32_t expected, uint64_t deadline_ns, int flags) {
    int saved = errno;
    struct timespec t = {(time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u)};
    hl_count_futex();
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET | flags, expected,
            deadline_ns == HL_NO_DEADLINE ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = saved;
}

// Wakes one sleeper. The kernel uses `word` as a name and never reads it, so it may already be
// gone: the worst case is a wake-up for no reason.
HL_SLOW void hl_futex_wake(void *word, int flags) {
    int saved = errno;
    hl_count_futex();
    syscall(SYS_futex, word, FUTEX_WAKE | flags, 1, NULL, NULL, 0);
    errno = saved;
}

// Polling: the wait of a thread that has no word of its own to sleep on. Spins for HL_SPIN_NS, then
// yields or naps (policy park), a quarter of the time waited so far, between 50 us and 1 ms.
typedef struct {
    uint64_t begin, since, spin; // ticks
    uint64_t deadline_ns;
    hl_wait_policy_t policy;
} hl_poll_t;

HL_INLINE hl_poll_t hl_poll_begin(hl_wait_policy_t own, uint64_t deadline_ns) {
    hl_poll_t p;
    p.policy = hl_wait_get(own);
    p.deadline_ns = deadline_ns;
    p.spin = hl_ns_to_ticks(HL_SPIN_NS);
    p.begin = p.since = hl_ticks();
    return p;
}

HL_INLINE uint64_t hl_nap_ns(uint64_t waited_ns, uint64_t deadline_ns) {
    uint64_t ns = waited_ns / 4;
    if (ns < 50000) ns = 50000;
    if (ns > 1000000) ns = 1000000;
    if (deadline_ns != HL_NO_DEADLINE) {
        uint64_t now = hl_now_ns();
        if (now >= deadline_ns) ns = 0;
        else if (ns > deadline_ns - now) ns = deadline_ns - now;
    }
    return ns;
}

// One round of waiting; false once the deadline has passed.
HL_INLINE bool hl_poll(hl_poll_t *p) {
    hl_pause();
    if (hl_unlikely(hl_past(p->deadline_ns))) return false;
    uint64_t now = hl_ticks();
    if (now - p->since > p->spin && p->policy != HL_WAIT_SPIN) {
        if (p->policy == HL_WAIT_YIELD) {
            hl_yield();
        } else {
            uint32_t rate = hl_load(&hl_wait_state.rate);
            hl_nap(hl_nap_ns((now - p->begin) * 1024 / rate, p->deadline_ns));
            p->since = hl_ticks();
        }
    }
    return true;
}

// The futex word of an 8-byte field: its low half.
HL_INLINE void *hl_low_half(void *field) {
    return (char *)field + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && sizeof(void *) == 8 ? 4 : 0);
}

#endif
