// SPDX-License-Identifier: MIT
// step.h - a signal after every instruction of a piece of code, by the processor's trap flag; the
// handler takes locks. A profiler's timer that strikes anywhere, without the luck it needs.
// It takes none before the code is inside the library that has pthread_mutex_trylock(): the first
// call of all must be the one that is interrupted.
#ifndef HOTLOCK_TESTS_STEP_H
#define HOTLOCK_TESTS_STEP_H

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

static volatile long step_count, step_failures;
static uintptr_t step_from, step_to;  // the code of that library

static int step_find(struct dl_phdr_info *info, size_t size, void *function) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr, at = (uintptr_t)function;
        if (p->p_type != PT_LOAD || at < begin || at >= begin + p->p_memsz) continue;
        step_from = begin;
        step_to = begin + p->p_memsz;
    }
    return 0;
}

static volatile long step_skip, step_strikes = 1L << 62;  // so many without a lock; then so many

static void step_take_locks(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    int bad = 0;
    bad += pthread_mutex_lock(&mutex) != 0;
    bad += pthread_mutex_trylock(&mutex) != EBUSY;
    bad += pthread_mutex_lock(&recursive) != 0;
    bad += pthread_mutex_lock(&recursive) != 0;
    bad += pthread_rwlock_rdlock(&rw) != 0;
    bad += pthread_cond_signal(&cond) != 0;
    bad += pthread_rwlock_unlock(&rw) != 0;
    bad += pthread_mutex_unlock(&recursive) != 0;
    bad += pthread_mutex_unlock(&recursive) != 0;
    bad += pthread_mutex_unlock(&mutex) != 0;
    step_failures += bad;
}

static void (*step_strike)(void) = step_take_locks;

static void step_handler(int unused, siginfo_t *info, void *context) {
    int saved = errno;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    // The processor's own trap comes all the same; a timer's signal would wait.
    if (sigismember(&((ucontext_t *)context)->uc_sigmask, SIGPROF)) return;
    (void)unused, (void)info;
    if (!step_count && (at < step_from || at >= step_to)) return;
    if (step_count++ < step_skip) return;
    bool last = step_count == step_skip + step_strikes;
    step_strike();
    if (last) registers[REG_EFL] &= ~0x100;  // enough
    errno = saved;
}

// Between the two, SIGTRAP after each instruction of this thread.
static inline void step_begin(void) {
    struct sigaction action = {.sa_sigaction = step_handler, .sa_flags = SA_SIGINFO};
    dl_iterate_phdr(step_find, dlsym(RTLD_DEFAULT, "pthread_mutex_trylock"));
    sigaction(SIGTRAP, &action, NULL);
    __asm__ volatile("sub $128, %%rsp\n\tpushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\t"
                     "add $128, %%rsp" ::: "memory", "cc");
}

static inline void step_end(void) {
    __asm__ volatile("sub $128, %%rsp\n\tpushfq\n\tandl $~0x100, (%%rsp)\n\tpopfq\n\t"
                     "add $128, %%rsp" ::: "memory", "cc");
}

#endif
