/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's test-and-set by compare-and-swap. */
#include <ck_spinlock.h>
#define LOCK ck_cas
#define LOCK_T ck_spinlock_cas_t
#define LOCK_ATOMICS 1
#define LOCK_SHARED 1
#define LOCK_SETUP(l, threads) ck_spinlock_cas_init(l)
#define LOCK_ENTER(l, me) ck_spinlock_cas_lock(l)
#define LOCK_LEAVE(l, me) ck_spinlock_cas_unlock(l)
