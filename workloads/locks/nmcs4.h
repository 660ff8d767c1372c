/* SPDX-License-Identifier: MIT */
/* Descriptor: the K42 idea in four bytes. */
#include <hotlock/nmcs4.h>
#define LOCK nmcs4
#define LOCK_T hl_nmcs4_t
#define LOCK_ATOMICS 2
#define LOCK_ENTER(l, me) hl_nmcs4_lock(l)
#define LOCK_LEAVE(l, me) hl_nmcs4_unlock(l)
