/* SPDX-License-Identifier: MIT */
/* Descriptor: MCS, with the caller's node. */
#include <hotlock/mcs.h>
#define LOCK mcs
#define LOCK_T hl_mcs_t
#define LOCK_ME_T hl_mcs_node_t
#define LOCK_ATOMICS 2
#define LOCK_ENTER(l, me) hl_mcs_lock(l, me)
#define LOCK_LEAVE(l, me) hl_mcs_unlock(l, me)
