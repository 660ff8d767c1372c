// SPDX-License-Identifier: MIT
// earlylib.c - a library that takes locks in its constructor, before any preload's own has run.
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

int early_failures(void);
static int failures;
int early_failures(void) { return failures; }

static void must(int good) { failures += !good; }

__attribute__((constructor)) static void lock_early(void) {
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
