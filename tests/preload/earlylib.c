// SPDX-License-Identifier: MIT
// earlylib.c - a library that takes locks in its constructor, before any preload's own has run.
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include "step.h"
#endif

int early_failures(void);
long early_steps(void);
static int failures;
static long steps;
int early_failures(void) { return failures; }
long early_steps(void) { return steps; }

static void must(int good) { failures += !good; }

static void lock_first(void) {
    static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
    must(pthread_mutex_lock(&plain) == 0);
}

static void lock_early(void) {
    static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
    static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec past = {1, 0};
    pthread_spinlock_t spin;
    mtx_t mtx;
    must(pthread_mutex_trylock(&plain) == 0);
    must(pthread_mutex_trylock(&plain) == EBUSY);
    must(pthread_mutex_timedlock(&plain, &past) == ETIMEDOUT);
    must(pthread_cond_timedwait(&cond, &plain, &past) == ETIMEDOUT);
    must(pthread_cond_signal(&cond) == 0);
    must(pthread_mutex_unlock(&plain) == 0);
    must(pthread_mutex_lock(&recursive) == 0);
    must(pthread_mutex_lock(&recursive) == 0);
    must(pthread_mutex_unlock(&recursive) == 0);
    must(pthread_mutex_unlock(&recursive) == 0);
    must(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE) == 0);
    must(pthread_spin_lock(&spin) == 0);
    must(pthread_spin_trylock(&spin) == EBUSY);
    must(pthread_spin_unlock(&spin) == 0);
    must(pthread_rwlock_wrlock(&rwlock) == 0);
    must(pthread_rwlock_unlock(&rwlock) == 0);
    must(mtx_init(&mtx, mtx_plain) == thrd_success);
    must(mtx_lock(&mtx) == thrd_success);
    must(mtx_trylock(&mtx) == thrd_busy);
    must(mtx_unlock(&mtx) == thrd_success);
}

#if defined(__x86_64__)
// The first call of all, and a signal after its Nth instruction, for N from 0 to the last, less
// densely towards it, each in a child of its own. One that stands still is ended by its alarm.
static void interrupt_first_calls(void) {
    for (int status = 0; !status && steps < 20000; steps += 1 + steps / 8) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            step_skip = steps;
            step_strikes = 1;
            step_begin();
            lock_first();
            step_end();
            _exit(step_failures ? 2 : step_count <= step_skip);
        }
        waitpid(child, &status, 0);
        must(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    }
}
#endif

__attribute__((constructor)) static void begin(int argc, char **argv) {
    bool interrupt = argc == 2 && strcmp(argv[1], "signal_in_the_first_call") == 0;
#if defined(__x86_64__)
    if (interrupt) interrupt_first_calls();
#endif
    if (!interrupt) lock_early();
}
