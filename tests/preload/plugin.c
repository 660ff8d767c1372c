// SPDX-License-Identifier: MIT
// plugin.c - a library that is loaded at run time and locks what the program gives it, by call and
// through a pointer in its data.
#include <pthread.h>
#include <threads.h>

int plugin_try(pthread_mutex_t *m);
int plugin_mtx_lock(mtx_t *m);
int plugin_wait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at);
int (*plugin_lock)(pthread_mutex_t *) = pthread_mutex_lock;

int plugin_try(pthread_mutex_t *m) {
    int error = pthread_mutex_trylock(m);
    if (!error) pthread_mutex_unlock(m);
    return error;
}

int plugin_mtx_lock(mtx_t *m) { return mtx_lock(m); }

int plugin_wait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *at) {
    return pthread_cond_timedwait(c, m, at);
}
