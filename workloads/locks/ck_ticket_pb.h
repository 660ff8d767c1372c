/* SPDX-License-Identifier: MIT */
/* Descriptor: Concurrency Kit's ticket lock with proportional back-off. */
#include <ck_spinlock.h>
#define LOCK ck_ticket_pb
#define LOCK_T ck_spinlock_ticket_t
#define LOCK_ATOMICS 2
#define LOCK_SHARED 1
#define LOCK_SETUP(l, threads) ck_spinlock_ticket_init(l)
#define LOCK_ENTER(l, me) ck_spinlock_ticket_lock_pb(l, 0)
#define LOCK_LEAVE(l, me) ck_spinlock_ticket_unlock(l)
