// SPDX-License-Identifier: MIT
// preload_rw.h - the preload's reader-writer lock, as it is, for the programs that are about it.
#ifndef PRELOAD_RW_H
#define PRELOAD_RW_H

#include <errno.h>
#include <pthread.h>

// The names the preload exports stay apart from the checker's own.
#define pthread_rwlock_init        preload_rwlock_init
#define pthread_rwlock_destroy     preload_rwlock_destroy
#define pthread_rwlock_rdlock      preload_rwlock_rdlock
#define pthread_rwlock_tryrdlock   preload_rwlock_tryrdlock
#define pthread_rwlock_timedrdlock preload_rwlock_timedrdlock
#define pthread_rwlock_clockrdlock preload_rwlock_clockrdlock
#define pthread_rwlock_wrlock      preload_rwlock_wrlock
#define pthread_rwlock_trywrlock   preload_rwlock_trywrlock
#define pthread_rwlock_timedwrlock preload_rwlock_timedwrlock
#define pthread_rwlock_clockwrlock preload_rwlock_clockwrlock
#define pthread_rwlock_unlock      preload_rwlock_unlock

#ifndef HL_RW_ROWS
#define HL_RW_ROWS  2
#define HL_RW_SLOTS 2
#endif
#include "preload/rwlock.c"
#include "preload_rest.h"

#ifndef KIND
#define KIND 0
#endif
static void be_of_kind(pthread_rwlock_t *rw) {
    hlp_rw_fast.kind = 0;
    hl_store(&ours(rw)->kind, KIND);
}

#endif
