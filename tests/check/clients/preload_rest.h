// SPDX-License-Identifier: MIT
// preload_rest.h - what stands in for the rest of the preload where one file of it is checked: all
// is ours, nobody forks, mutexes are park locks.
#ifndef PRELOAD_REST_H
#define PRELOAD_REST_H

#include <stdlib.h>

#include "hotlock/park.h"
#include "preload/preload.h"

hlp_owner_t hlp_fast;
bool hlp_libc_locks, hlp_libc_rwlocks;
hlp_libc_t hlp_libc_found;
hlp_flag_t hlp_libc_ready;
__thread uint32_t hlp_thread;  // the clients give their threads numbers; main() has none
uint32_t hlp_new_thread(void) { return 1000; }
void hlp_libc_find(void) { abort(); }
void hlp_choose(void) {}
void hlp_refresh_begin(void) {}
void hlp_refresh_end(void) {}
uint64_t hlp_time_left(clockid_t clock, const struct timespec *at) {
    uint64_t now = hl_now_ns(), end = (uint64_t)at->tv_sec * 1000000000u + (uint64_t)at->tv_nsec;
    (void)clock;
    return now < end ? end - now : 0;
}

static inline hl_park_t *park_of(pthread_mutex_t *m) {
    return (hl_park_t *)(void *)hlp_mutex(m)->lock;
}
bool hlp_is_ours(pthread_mutex_t *m) { return m != NULL; }
bool hlp_may_unlock(pthread_mutex_t *m) { return hl_park_is_locked(park_of(m)); }
int hlp_mutex_lock(pthread_mutex_t *m) {
    hl_park_lock(park_of(m));
    return 0;
}
int hlp_mutex_unlock(pthread_mutex_t *m) {
    hl_park_unlock(park_of(m));
    return 0;
}

#endif
