// SPDX-License-Identifier: MIT
// plugin.c - a library that is loaded at run time and locks what the program gives it.
#include <pthread.h>

int plugin_try(pthread_mutex_t *m);
int plugin_try(pthread_mutex_t *m) {
    int error = pthread_mutex_trylock(m);
    if (!error) pthread_mutex_unlock(m);
    return error;
}
