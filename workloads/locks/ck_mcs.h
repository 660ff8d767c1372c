/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's MCS lock. */
#include <ck_spinlock.h>
#define LOCK ck_mcs
#define LOCK_T ck_spinlock_mcs_t
#define LOCK_ME_T ck_spinlock_mcs_context_t
#define LOCK_ATOMICS 2
#define LOCK_SETUP(l, threads) ck_spinlock_mcs_init(l)
#define LOCK_ENTER(l, me) ck_spinlock_mcs_lock(l, me)
#define LOCK_LEAVE(l, me) ck_spinlock_mcs_unlock(l, me)
