/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's ticket lock. */
#include <ck_spinlock.h>
#define LOCK ck_ticket
#define LOCK_T ck_spinlock_ticket_t
#define LOCK_ATOMICS 2
#define LOCK_SHARED 1
#define LOCK_SETUP(l, threads) ck_spinlock_ticket_init(l)
#define LOCK_ENTER(l, me) ck_spinlock_ticket_lock(l)
#define LOCK_LEAVE(l, me) ck_spinlock_ticket_unlock(l)
