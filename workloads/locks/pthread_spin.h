/* SPDX-License-Identifier: MIT */
/* Descriptor: libc's spinlock. */
#include <pthread.h>
#define LOCK pthread_spin
#define LOCK_T pthread_spinlock_t
#define LOCK_ATOMICS 1
#define LOCK_SHARED 1
#define LOCK_SETUP(l, threads) pthread_spin_init(l, PTHREAD_PROCESS_SHARED)
#define LOCK_ENTER(l, me) pthread_spin_lock(l)
#define LOCK_LEAVE(l, me) pthread_spin_unlock(l)
