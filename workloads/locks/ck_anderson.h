/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's array lock after Anderson; one slot per thread. */
#include <ck_spinlock.h>
#define LOCK ck_anderson
#define LOCK_T ck_spinlock_anderson_t
#define LOCK_ME_T ck_spinlock_anderson_thread_t *
#define LOCK_NODE_BYTES sizeof(ck_spinlock_anderson_thread_t)
#define LOCK_ATOMICS 1
#define LOCK_SETUP(l, threads) ck_spinlock_anderson_init(l, \
    lines_new((threads) * sizeof(ck_spinlock_anderson_thread_t)), threads)
#define LOCK_ENTER(l, me) ck_spinlock_anderson_lock(l, me)
#define LOCK_LEAVE(l, me) ck_spinlock_anderson_unlock(l, *(me))
