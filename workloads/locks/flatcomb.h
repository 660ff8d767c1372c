/* SPDX-License-Identifier: MIT */
/* Descriptor: flat combining, a list of requests under one lock; it runs functions only. */
#include "../peers/flatcomb.h"
#define LOCK flatcomb
#define LOCK_T struct flatcomb
#define LOCK_ME_T struct flatcomb_record *
#define LOCK_NODE_BYTES sizeof(struct flatcomb_record)
#define LOCK_ATOMICS 1
#define LOCK_SETUP(l, threads) flatcomb_init(l, threads)
#define LOCK_ME_SETUP(me) (*(me) = lines_new(sizeof(struct flatcomb_record)))
#define LOCK_RUN(l, me, fn, arg) flatcomb_run(l, *(me), fn, arg)
