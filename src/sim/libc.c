// SPDX-License-Identifier: MIT
// libc.c - what stands in for the C library's time, sleep, scheduling and exit in a simulated
// program, and for the kernel's futexes.
#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

// Declared by nobody: the program's object calls them under these names (redirect.syms).
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

int vm_getcpu(unsigned *cpu, unsigned *node);
int vm_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set);
int vm_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);

// ------------------------------------------------------------------------- memory: the real one
void *vm_malloc(size_t n) { return malloc(n); }
void *vm_calloc(size_t n, size_t size) { return calloc(n, size); }
void *vm_realloc(void *p, size_t n) { return realloc(p, n); }
void vm_free(void *p) { free(p); }
void *vm_aligned_alloc(size_t align, size_t n) { return aligned_alloc(align, n); }
int vm_posix_memalign(void **p, size_t align, size_t n) { return posix_memalign(p, align, n); }

// ------------------------------------------------------------------------- endings
void vm_exit(int status) {
    if (!self) exit(status);
    report_exit(status);
}
void vm_abort(void) { report_end("crashed", "the program called abort()"); }
void vm_assert_fail(const char *expression, const char *file, unsigned line, const char *function) {
    char text[512];
    snprintf(text, sizeof text, "%s:%u: assertion failed in %s(): %s", file, line, function,
             expression);
    report_end("crashed", text);
}

// ------------------------------------------------------------------------- time
static ps_t ps_of(const struct timespec *t) {
    return ((uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec) * 1000;
}

static struct timespec timespec_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

// When an absolute time on the program's clocks comes.
static ps_t until_clock(const struct timespec *t) {
    ps_t at = ps_of(t), zero = (ps_t)CLOCK_BEGIN_NS * 1000;
    return at > zero ? at - zero : 0;
}

int vm_clock_gettime(clockid_t clock, struct timespec *t) {
    if (!self) return clock_gettime(clock, t);
    uint64_t ns = engine_clock(clock == CLOCK_THREAD_CPUTIME_ID ? (vm_site_t){0} : VM_SITE());
    if (clock == CLOCK_THREAD_CPUTIME_ID)
        ns = (self->ran + self->cpu->now - self->cpu->run_since) / 1000;
    *t = timespec_of(ns);
    return 0;
}

int vm_gettimeofday(struct timeval *t, void *zone) {
    struct timespec s;
    (void)zone;
    if (!self) return gettimeofday(t, NULL);
    vm_clock_gettime(CLOCK_REALTIME, &s);
    *t = (struct timeval){s.tv_sec, s.tv_nsec / 1000};
    return 0;
}

time_t vm_time(time_t *t) {
    struct timespec s;
    if (!self) return time(t);
    vm_clock_gettime(CLOCK_REALTIME, &s);
    if (t) *t = s.tv_sec;
    return s.tv_sec;
}

static void sleep_until(ps_t at) {
    engine_passes(machine.syscall);
    if (at > self->cpu->now) sched_sleep(at);
}

int vm_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
                       struct timespec *left) {
    if (!self) return clock_nanosleep(clock, flags, t, left);
    sleep_until(flags & TIMER_ABSTIME ? until_clock(t) : self->cpu->now + ps_of(t));
    return 0;
}
int vm_nanosleep(const struct timespec *t, struct timespec *left) {
    return vm_clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
}
int vm_usleep(useconds_t us) {
    struct timespec t = timespec_of((uint64_t)us * 1000);
    return vm_nanosleep(&t, NULL);
}
unsigned vm_sleep(unsigned s) {
    struct timespec t = {s, 0};
    vm_nanosleep(&t, NULL);
    return 0;
}

int vm_sched_yield(void) {
    if (!self) return sched_yield();
    engine_acts();
    sched_yield_cpu();
    return 0;
}

void hl_vm_pause(void) {
    if (self) engine_pause((vm_site_t){0});
}

unsigned hl_vm_choose(unsigned n) { return self ? (unsigned)(draw(&self->cpu->random) % n) : 0; }

// ------------------------------------------------------------------------- the machine
long vm_sysconf(int name) {
    if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return cpu_count;
    return sysconf(name);
}

// One process is simulated. Nobody could switch the threads of another.
static int no_second_process(const char *what) {
    if (self) report_end("unusable", what);
    errno = ENOSYS;
    return -1;
}
pid_t vm_fork(void) {
    return no_second_process("the program calls fork(), but one process is simulated; use threads");
}
pid_t vm_vfork(void) {
    return no_second_process(
        "the program calls vfork(), but one process is simulated; use threads");
}

pid_t vm_gettid(void) { return self ? self->id + 1 : gettid(); }

int vm_getrusage(int who, struct rusage *u) {
    int r = getrusage(who, u);
    if (!self || r != 0) return r;
    uint64_t us = 0;
    for (int i = 0; i < thread_count; i++) {
        const thread_t *t = threads[i];
        if (who == RUSAGE_THREAD && t != self) continue;
        bool on = t->state == THREAD_RUNNING;
        us += (t->ran + (on ? t->cpu->now - t->cpu->run_since : 0)) / 1000000;
    }
    u->ru_utime = (struct timeval){(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
    u->ru_stime = (struct timeval){0, 0};
    u->ru_minflt = u->ru_majflt = 0;
    u->ru_nvcsw = who == RUSAGE_THREAD ? self->slept : (long)counts.wakes;
    u->ru_nivcsw = who == RUSAGE_THREAD ? self->preempted : (long)counts.preempted;
    return 0;
}

// ------------------------------------------------------------------------- futexes
enum { BUCKETS = 1024 };
static struct { thread_t *first, **last; } bucket[BUCKETS];

static unsigned bucket_of(const void *word) {
    return (unsigned)(((uintptr_t)word >> 2) * 0x9e3779b1u >> 16) % BUCKETS;
}

static void take_out(thread_t *t) {
    unsigned b = bucket_of(t->futex);
    thread_t **link = &bucket[b].first;
    while (*link && *link != t) link = &(*link)->waiter;
    if (!*link) return;
    *link = t->waiter;
    if (bucket[b].last == &t->waiter) bucket[b].last = link;
}

static int futex_wait(uint32_t *word, uint32_t value, ps_t until, uint32_t mask) {
    engine_passes(machine.syscall);
    if (engine_kernel_load(word) != value) return EAGAIN;
    if (until <= self->cpu->now) return ETIMEDOUT;
    unsigned b = bucket_of(word);
    if (!bucket[b].first) bucket[b].last = &bucket[b].first;
    self->futex = word;
    self->futex_mask = mask;
    self->waiter = NULL;
    *bucket[b].last = self;
    bucket[b].last = &self->waiter;
    sched_sleep(until);
    if (!self->timed_out) return 0;
    take_out(self);
    return ETIMEDOUT;
}

// In the order they fell asleep.
static int futex_wake(const void *word, uint32_t most, uint32_t mask) {
    engine_passes(machine.syscall);
    engine_drain();
    unsigned b = bucket_of(word);
    uint32_t woken = 0;
    for (thread_t **link = &bucket[b].first; bucket[b].first && *link && woken < most;) {
        thread_t *t = *link;
        if (t->futex != word || !(t->futex_mask & mask) || t->state != THREAD_ASLEEP) {
            link = &t->waiter;
            continue;
        }
        *link = t->waiter;
        if (bucket[b].last == &t->waiter) bucket[b].last = link;
        self->cpu->now += machine.futex_wake;
        counts.wakes++;
        sched_wake(t, self->cpu->now);
        woken++;
    }
    return (int)woken;
}

// As the system call: the value, or -1 and errno.
long vm_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout,
              uint32_t mask) {
    ps_t until = NEVER;
    int error = 0;
    if (timeout) until = op == FUTEX_WAIT ? self->cpu->now + ps_of(timeout) : until_clock(timeout);
    switch (op) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET: error = futex_wait(word, value, until, mask); break;
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: return futex_wake(word, value, mask);
    default: engine_unsupported("a futex operation other than wait and wake", VM_HERE());
    }
    if (!error) return 0;
    errno = error;
    return -1;
}

long vm_syscall(long number, ...) {
    va_list ap;
    long a[6];
    va_start(ap, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(ap, long);
    va_end(ap);
    if (!self) return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_futex) {
        int op = (int)a[1] & FUTEX_CMD_MASK;
        bool bits = op == FUTEX_WAIT_BITSET || op == FUTEX_WAKE_BITSET;
        return vm_futex((uint32_t *)a[0], op, (uint32_t)a[2], (const struct timespec *)a[3],
                        bits ? (uint32_t)a[5] : FUTEX_BITSET_MATCH_ANY);
    }
    switch (number) {
    case SYS_sched_yield: return vm_sched_yield();
    case SYS_gettid: return vm_gettid();
    case SYS_getcpu: return vm_getcpu((unsigned *)a[0], (unsigned *)a[1]);
    case SYS_clone:
    case SYS_clone3: return no_second_process("the program calls clone() itself; use threads");
#ifdef SYS_fork
    case SYS_fork: return vm_fork();
#endif
    case SYS_sched_setaffinity:
        return vm_sched_setaffinity((pid_t)a[0], (size_t)a[1], (const cpu_set_t *)a[2]);
    case SYS_sched_getaffinity:   // unlike the library's, it returns how much it wrote
        if (vm_sched_getaffinity((pid_t)a[0], (size_t)a[1], (cpu_set_t *)a[2]) != 0) return -1;
        return (cpu_count + 63) / 64 * 8;
    case SYS_clock_gettime: return vm_clock_gettime((clockid_t)a[0], (struct timespec *)a[1]);
    case SYS_nanosleep: return vm_nanosleep((const struct timespec *)a[0], (struct timespec *)a[1]);
    case SYS_clock_nanosleep:
        return vm_clock_nanosleep((clockid_t)a[0], (int)a[1], (const struct timespec *)a[2],
                                  (struct timespec *)a[3]);
    }
    engine_passes(machine.syscall);   // anything else is asked of the real kernel
    return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
