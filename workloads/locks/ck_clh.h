/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's CLH lock; nodes wander from thread to thread. */
#include <ck_spinlock.h>
#define LOCK ck_clh
#define LOCK_T ck_spinlock_clh_t *
#define LOCK_ME_T ck_spinlock_clh_t *
#define LOCK_NODE_BYTES sizeof(ck_spinlock_clh_t)
#define LOCK_ATOMICS 1
#define LOCK_SETUP(l, threads) ck_spinlock_clh_init(l, lines_new(sizeof(ck_spinlock_clh_t)))
#define LOCK_ME_SETUP(me) (*(me) = lines_new(sizeof(ck_spinlock_clh_t)))
#define LOCK_ENTER(l, me) ck_spinlock_clh_lock(l, *(me))
#define LOCK_LEAVE(l, me) ck_spinlock_clh_unlock(me)
