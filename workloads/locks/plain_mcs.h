/* SPDX-License-Identifier: MIT */
/* Descriptor: MCS as published. */
#include "../peers/plain.h"
#define LOCK plain_mcs
#define LOCK_T struct plain_mcs
#define LOCK_ME_T struct plain_node
#define LOCK_ATOMICS 2
#define LOCK_ENTER(l, me) plain_mcs_lock(l, me)
#define LOCK_LEAVE(l, me) plain_mcs_unlock(l, me)
