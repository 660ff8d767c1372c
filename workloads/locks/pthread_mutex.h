/* SPDX-License-Identifier: MIT */
/* Descriptor: libc's mutex, the lock most programs have. */
#include <pthread.h>
#define LOCK pthread_mutex
#define LOCK_T pthread_mutex_t
#define LOCK_ATOMICS 2
#define LOCK_FUTEX_HIDDEN 1
#define LOCK_SETUP(l, threads) pthread_mutex_init(l, NULL)
#define LOCK_ENTER(l, me) pthread_mutex_lock(l)
#define LOCK_LEAVE(l, me) pthread_mutex_unlock(l)
