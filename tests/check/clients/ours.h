// SPDX-License-Identifier: MIT
// ours.h - the lock that a program is about, chosen when it is built: -DLOCK=nmcs, or the one
// defined before this is included. OF(_lock)(&lock N) locks it; N is a node's place for the one
// lock that takes a node (-DNODE), which NODE_DECL declares.
#ifndef OURS_H
#define OURS_H

#define HL_STRING_(x) #x
#define HL_STRING(x) HL_STRING_(x)
#define HL_JOIN_(a, b, c) a##b##c
#define HL_JOIN(a, b, c) HL_JOIN_(a, b, c)
#define OF(name) HL_JOIN(hl_, LOCK, name)

#ifdef ALONE  // a lock of the preload's own: mcs without a node, ticket in front of a flag
#include HL_STRING(preload/LOCK.h)
#define hl_mcs_alone_lock(l) (void)hl_mcs_alone_lock_until(l, HL_NO_DEADLINE)
#else
#include HL_STRING(hotlock/LOCK.h)
#endif

#ifdef NODE
#define N , &node
#define NODE_DECL OF(_node_t) node;
#else
#define N
#define NODE_DECL
#endif

// The tail of the locks whose tail has flags (queue.h).
#define TAIL_mcs       hl_load(&lock.tail)
#define TAIL_mcs_alone hl_load(&lock.lock.tail)
#define TAIL_nmcs      hl_load(&lock.tail)
#define TAIL_nmcs4     hl_load(&lock.half.tail)
#define TAIL           HL_JOIN(TAIL_, LOCK, )

#endif
