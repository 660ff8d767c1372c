/* SPDX-License-Identifier: MIT */
/* Descriptor: combining lock; the owner runs the sections of those who wait. */
#include <hotlock/ali.h>
#define LOCK ali
#define LOCK_T hl_ali_t
#define LOCK_ATOMICS 1
#define LOCK_ENTER(l, me) hl_ali_lock(l)
#define LOCK_LEAVE(l, me) hl_ali_unlock(l)
#define LOCK_RUN(l, me, fn, arg) hl_ali_run(l, fn, arg)
