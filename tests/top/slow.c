// SPDX-License-Identifier: MIT
// slow.c - a mutex whose every lock and unlock call lasts as long as the next: what a lock costs
// beside its waits is then known. Linked before libc into planted-slow.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

uint64_t slow_calls, slow_call_ns = 10000;

static int slowly(const char *name, pthread_mutex_t *m) {
    struct timespec t;
    int (*next)(pthread_mutex_t *);
    uint64_t begin, now;
    *(void **)&next = dlsym(RTLD_NEXT, name);
    clock_gettime(CLOCK_MONOTONIC, &t);
    begin = now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    while (now < begin + slow_call_ns) {
        clock_gettime(CLOCK_MONOTONIC, &t);
        now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    __atomic_fetch_add(&slow_calls, 1, __ATOMIC_RELAXED);
    return next(m);
}

int pthread_mutex_lock(pthread_mutex_t *m) { return slowly("pthread_mutex_lock", m); }
int pthread_mutex_trylock(pthread_mutex_t *m) { return slowly("pthread_mutex_trylock", m); }
int pthread_mutex_unlock(pthread_mutex_t *m) { return slowly("pthread_mutex_unlock", m); }
