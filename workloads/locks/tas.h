/* SPDX-License-Identifier: MIT */
/* Descriptor: test-and-test-and-set. */
#include <hotlock/tas.h>
#define LOCK tas
#define LOCK_T hl_tas_t
#define LOCK_ATOMICS 1
#define LOCK_SHARED 1
#define LOCK_ENTER(l, me) hl_tas_lock(l)
#define LOCK_LEAVE(l, me) hl_tas_unlock(l)
