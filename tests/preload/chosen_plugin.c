// SPDX-License-Identifier: MIT
// chosen_plugin.c - a library that chosen.c loads by itself, with a lock to choose.
#include <pthread.h>

long plugin_count(void);

static pthread_mutex_t plugin_mutex = PTHREAD_MUTEX_INITIALIZER;
static long count;

long plugin_count(void) {
    pthread_mutex_lock(&plugin_mutex);
    long now = ++count;
    pthread_mutex_unlock(&plugin_mutex);
    return now;
}
