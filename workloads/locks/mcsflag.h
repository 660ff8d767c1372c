/* SPDX-License-Identifier: MIT */
/* Descriptor: MCS queue beside a flag. */
#include <hotlock/mcsflag.h>
#define LOCK mcsflag
#define LOCK_T hl_mcsflag_t
#define LOCK_ATOMICS 1
#define LOCK_ENTER(l, me) hl_mcsflag_lock(l)
#define LOCK_LEAVE(l, me) hl_mcsflag_unlock(l)
