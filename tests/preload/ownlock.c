// SPDX-License-Identifier: MIT
// ownlock.c - a program with a pthread_mutex_lock() of its own that counts and passes on, as
// ClickHouse and profilers have: the preload is then the next one, for the program and for its libraries.
#include <dlfcn.h>
#include <errno.h>

#include "scenario.h"

static _Atomic long counted;

int pthread_mutex_lock(pthread_mutex_t *m) {
    static int (*next)(pthread_mutex_t *);
    if (!next) next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    counted++;
    return next(m);
}

static int try_it(void *m) {
    int error = pthread_mutex_trylock(m);
    if (!error) pthread_mutex_unlock(m);
    return error;
}

SCENARIO(program_wraps_lock) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, r = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    for (int i = 0; i < 3; i++) {
        say_result("lock", pthread_mutex_lock(&m));
        say_result("try", in_thread(try_it, &m));
        say_result("unlock", pthread_mutex_unlock(&m));
        say_result("lock", pthread_mutex_lock(&r));
    }
    say_result("try", in_thread(try_it, &r));
    expect(counted >= 6, "counted");
}
