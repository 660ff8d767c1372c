/* SPDX-License-Identifier: MIT */
/* Descriptor: spin a while, then sleep in the kernel. */
#include <hotlock/park.h>
#define LOCK park
#define LOCK_T hl_park_t
#define LOCK_ATOMICS 1
#define LOCK_SHARED 1
#define LOCK_SHARE(l) hl_store(&(l)->word, HL_PARK_SHARED)
#define LOCK_ENTER(l, me) hl_park_lock(l)
#define LOCK_LEAVE(l, me) hl_park_unlock(l)
