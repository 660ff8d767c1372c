/* SPDX-License-Identifier: MIT */
/* Descriptor: queued spinlock in four bytes, as in Linux. */
#include <hotlock/qspin.h>
#define LOCK qspin
#define LOCK_T hl_qspin_t
#define LOCK_ATOMICS 1
#define LOCK_ENTER(l, me) hl_qspin_lock(l)
#define LOCK_LEAVE(l, me) hl_qspin_unlock(l)
