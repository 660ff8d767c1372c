/* SPDX-License-Identifier: MIT */
/* Descriptor: the K42 form of MCS: nodes on the stack of the waiter. */
#include <hotlock/nmcs.h>
#define LOCK nmcs
#define LOCK_T hl_nmcs_t
#define LOCK_ATOMICS 2
#define LOCK_ENTER(l, me) hl_nmcs_lock(l)
#define LOCK_LEAVE(l, me) hl_nmcs_unlock(l)
