/* SPDX-License-Identifier: MIT */
/* Descriptor: K42's form of MCS as published. */
#include "../peers/plain.h"
#define LOCK plain_k42
#define LOCK_T struct plain_node
#define LOCK_ATOMICS 2
#define LOCK_NODE_BYTES sizeof(struct plain_node)
#define LOCK_ENTER(l, me) plain_k42_lock(l)
#define LOCK_LEAVE(l, me) plain_k42_unlock(l)
