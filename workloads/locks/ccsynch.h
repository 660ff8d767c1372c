/* SPDX-License-Identifier: MIT */
/* Descriptor: CC-Synch, a combining queue; it runs functions only. */
#include "../peers/ccsynch.h"
#define LOCK ccsynch
#define LOCK_T struct ccsynch
#define LOCK_ME_T struct ccsynch_thread
#define LOCK_NODE_BYTES sizeof(struct ccsynch_node)
#define LOCK_ATOMICS 1
#define LOCK_SETUP(l, threads) ccsynch_init(l, lines_new(sizeof(struct ccsynch_node)), threads)
#define LOCK_ME_SETUP(me) ((me)->spare = lines_new(sizeof(struct ccsynch_node)))
#define LOCK_RUN(l, me, fn, arg) ccsynch_run(l, me, fn, arg)
