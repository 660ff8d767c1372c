/* SPDX-License-Identifier: MIT */
/*
 * Includes LOCK_BODY once per lock, each time with that lock's descriptor in force.
 *
 * So every loop is compiled around every lock, inlined as in a real program, and adding a lock is
 * one descriptor and one line here. The idea is that of Concurrency Kit's regression tests.
 *
 * A descriptor defines
 *   LOCK                       its name, a word
 *   LOCK_T                     the lock's type
 *   LOCK_ENTER(l, me)          lock; absent for peers that only run functions
 *   LOCK_LEAVE(l, me)          unlock
 *   LOCK_ATOMICS               atomic read-modify-writes of an uncontended pair
 * and where needed
 *   LOCK_RUN(l, me, fn, arg)   runs fn(arg) under the lock, perhaps on another thread
 *   LOCK_ME_T, LOCK_ME_SETUP   what each thread brings, and how it is made
 *   LOCK_NODE_BYTES            memory per waiting thread, if not all of LOCK_ME_T
 *   LOCK_SETUP(l, threads)     makes the lock, if zero bytes are not one
 *   LOCK_FUTEX_HIDDEN          its futex calls cannot be counted
 *   LOCK_SHARED, LOCK_SHARE(l) it works between processes, and what that takes
 */
#ifdef WORKLOAD_BUSTED
#define LOCK_DESCRIPTOR "busted.h"
#include "one.h"
#else

#define LOCK_DESCRIPTOR "tas.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ticket.h"
#include "one.h"
#define LOCK_DESCRIPTOR "mcs.h"
#include "one.h"
#define LOCK_DESCRIPTOR "nmcs.h"
#include "one.h"
#define LOCK_DESCRIPTOR "nmcs4.h"
#include "one.h"
#define LOCK_DESCRIPTOR "mcsflag.h"
#include "one.h"
#define LOCK_DESCRIPTOR "qspin.h"
#include "one.h"
#define LOCK_DESCRIPTOR "park.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ali.h"
#include "one.h"
#ifndef WORKLOAD_OURS_ONLY
#define LOCK_DESCRIPTOR "pthread_mutex.h"
#include "one.h"
#define LOCK_DESCRIPTOR "pthread_spin.h"
#include "one.h"
#define LOCK_DESCRIPTOR "plain_mcs.h"
#include "one.h"
#define LOCK_DESCRIPTOR "plain_k42.h"
#include "one.h"

#ifdef WORKLOAD_CK
#define LOCK_DESCRIPTOR "ck_fas.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_fas_eb.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_cas.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_ticket.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_ticket_pb.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_mcs.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_clh.h"
#include "one.h"
#define LOCK_DESCRIPTOR "ck_anderson.h"
#include "one.h"
#endif

#ifdef WORKLOAD_COMBINERS
#define LOCK_DESCRIPTOR "ccsynch.h"
#include "one.h"
#define LOCK_DESCRIPTOR "flatcomb.h"
#include "one.h"
#endif
#endif
#endif
#undef LOCK_BODY
