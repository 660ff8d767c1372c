// SPDX-License-Identifier: MIT
// stack.c - another interposer, to be preloaded before and after ours: counts and passes on.
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#define EXPORT __attribute__((visibility("default")))
static atomic_long calls;

#define WRAP(name, parameters, ...)                                                    \
    EXPORT int name parameters {                                                       \
        static int(*_Atomic next) parameters;                                          \
        if (!next) next = (int(*) parameters)dlsym(RTLD_NEXT, #name);                  \
        calls++;                                                                       \
        return next(__VA_ARGS__);                                                      \
    }
WRAP(pthread_mutex_lock, (pthread_mutex_t *m), m)
WRAP(pthread_mutex_trylock, (pthread_mutex_t *m), m)
WRAP(pthread_mutex_unlock, (pthread_mutex_t *m), m)
WRAP(pthread_cond_wait, (pthread_cond_t *c, pthread_mutex_t *m), c, m)
WRAP(pthread_cond_signal, (pthread_cond_t *c), c)
