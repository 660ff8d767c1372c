/* SPDX-License-Identifier: MIT */
/* Descriptor: ticket, first come first served. */
#include <hotlock/ticket.h>
#define LOCK ticket
#define LOCK_T hl_ticket_t
#define LOCK_ATOMICS 1
#define LOCK_SHARED 1
#define LOCK_ENTER(l, me) hl_ticket_lock(l)
#define LOCK_LEAVE(l, me) hl_ticket_unlock(l)
