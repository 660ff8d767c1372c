// SPDX-License-Identifier: MIT
// libc.c - what stands in for the C library's memory, time and exit in a checked program.
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "vm.h"

// Declared by nobody: the program's object calls them under these names (redirect.syms).
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

// ------------------------------------------------------------------------- memory
void *vm_malloc(size_t n) { return engine_self() < 0 ? malloc(n) : engine_alloc(n, 16, VM_HERE()); }

void *vm_calloc(size_t n, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return NULL;
    return engine_self() < 0 ? calloc(n, size) : engine_alloc(bytes, 16, VM_HERE());
}

void vm_free(void *p) {
    if (!p) return;
    if (engine_self() < 0) free(p);
    else engine_free(p, VM_HERE());
}

void *vm_realloc(void *p, size_t n) {
    if (engine_self() < 0) return realloc(p, n);
    void *q = engine_alloc(n, 16, VM_HERE());
    if (!p) return q;
    size_t old = engine_size(p);
    memcpy(q, p, old < n ? old : n);
    engine_free(p, VM_HERE());
    return q;
}

void *vm_aligned_alloc(size_t align, size_t n) {
    return engine_self() < 0 ? aligned_alloc(align, n) : engine_alloc(n, align, VM_HERE());
}

int vm_posix_memalign(void **p, size_t align, size_t n) {
    if (engine_self() < 0) return posix_memalign(p, align, n);
    *p = engine_alloc(n, align, VM_HERE());
    return 0;
}

// ------------------------------------------------------------------------- endings
void vm_assert_fail(const char *expression, const char *file, unsigned line, const char *function) {
    char text[256];
    (void)file;
    (void)line;
    snprintf(text, sizeof text, "assertion failed in %s(): %s", function, expression);
    engine_fail(VM_ASSERT, text, VM_HERE());
}

void vm_abort(void) { engine_fail(VM_ASSERT, "the program called abort()", VM_HERE()); }

void vm_exit(int status) {
    char text[64];
    snprintf(text, sizeof text, "the program called exit(%d)", status);
    if (status) engine_fail(VM_EXIT, text, VM_HERE());
    engine_unsupported("exit(0) before the threads have ended", VM_HERE());
}

// ------------------------------------------------------------------------- time
int vm_clock_gettime(clockid_t clock, struct timespec *t) {
    if (engine_self() < 0) return clock_gettime(clock, t);
    *t = (struct timespec){0, 0};  // what was read last time is no part of a loop's state
    uint64_t ns = engine_clock(VM_SITE());
    t->tv_sec = (time_t)(ns / 1000000000u);
    t->tv_nsec = (long)(ns % 1000000000u);
    return 0;
}

int vm_gettimeofday(struct timeval *t, void *zone) {
    (void)zone;
    if (engine_self() < 0) return gettimeofday(t, NULL);
    uint64_t ns = engine_clock(VM_SITE());
    t->tv_sec = (time_t)(ns / 1000000000u);
    t->tv_usec = (suseconds_t)(ns % 1000000000u / 1000);
    return 0;
}

time_t vm_time(time_t *t) {
    time_t now = engine_self() < 0 ? time(NULL) : (time_t)(engine_clock(VM_SITE()) / 1000000000u);
    if (t) *t = now;
    return now;
}

// Sleeping and yielding only change the schedule, and every schedule is looked at.
int vm_nanosleep(const struct timespec *t, struct timespec *left) {
    (void)t;
    if (left) *left = (struct timespec){0, 0};
    return 0;
}
int vm_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    (void)clock;
    (void)flags;
    return vm_nanosleep(t, left);
}
int vm_usleep(useconds_t us) {
    (void)us;
    return 0;
}
unsigned vm_sleep(unsigned s) {
    (void)s;
    return 0;
}
int vm_sched_yield(void) {
    if (engine_self() >= 0) engine_pause(VM_HERE());
    return 0;
}
void hl_vm_pause(void) {
    if (engine_self() >= 0) engine_pause(VM_HERE());
}
unsigned hl_vm_choose(unsigned n) {
    return engine_self() < 0 ? 0 : engine_choose(VM_CHOICE_PROGRAM, n, VM_HERE());
}

// ------------------------------------------------------------------------- system calls
long vm_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout, uint32_t mask);

long vm_syscall(long number, ...) {
    va_list ap;
    long a[6];
    va_start(ap, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(ap, long);
    va_end(ap);
    if (engine_self() < 0) return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_futex) {
        int op = (int)a[1] & FUTEX_CMD_MASK;
        bool bits = op == FUTEX_WAIT_BITSET || op == FUTEX_WAKE_BITSET;
        return vm_futex((uint32_t *)a[0], op, (uint32_t)a[2], (const struct timespec *)a[3],
                        bits ? (uint32_t)a[5] : FUTEX_BITSET_MATCH_ANY);
    }
    if (number == SYS_gettid) return engine_self() + 1;
    if (number == SYS_sched_yield || number == SYS_nanosleep || number == SYS_clock_nanosleep) return 0;
    if (number == SYS_clock_gettime) return vm_clock_gettime((clockid_t)a[0], (struct timespec *)a[1]);
    char text[64];
    snprintf(text, sizeof text, "system call %ld", number);
    engine_unsupported(text, VM_HERE());
}

long vm_sysconf(int name) { return name == _SC_NPROCESSORS_ONLN ? 4 : sysconf(name); }
