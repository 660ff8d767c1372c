/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's test-and-set with exponential back-off. */
#include <ck_spinlock.h>
#define LOCK ck_fas_eb
#define LOCK_T ck_spinlock_fas_t
#define LOCK_ATOMICS 1
#define LOCK_SHARED 1
#define LOCK_SETUP(l, threads) ck_spinlock_fas_init(l)
#define LOCK_ENTER(l, me) ck_spinlock_fas_lock_eb(l)
#define LOCK_LEAVE(l, me) ck_spinlock_fas_unlock(l)
