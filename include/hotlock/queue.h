// SPDX-License-Identifier: MIT
// queue.h - what the queue locks share: nodes, where they come from, and how a waiter waits.
//
// Every waiter has a node and waits on that node's state only:
//
//   WAITING   in the queue, awake (spinning or yielding)
//   SLEEPING  in the queue, asleep on `state`; whoever changes the state wakes it
//   GRANTED   the lock is yours
//   HEIR      you are first, the lock is not handed to you: compete for it
//   BARGED    (mcs, holder) it overtook the queue, its node is not in it
//   OUT       taken out of the queue by a passer-by
//   ELECT     (ali) the lock is yours, and so are all requests from yours to the oldest
//   AWAY      (ali) in the queue, awake, has given its processor away for a moment
//   an address  GONE: timed out of the lock at that address; the node stays in its queue until a
//             passer-by takes it out, or another timed wait on that lock takes it over
//
// The common rule against waiting for a thread that does not run ("locks can be passed to
// interrupted spinners": Stultz, linux-ia64, February 2002): a lock is handed over only to a
// first waiter that is awake. If it sleeps, the lock becomes free to whoever runs (barging), and
// the sleeper is woken as HEIR. It then competes, closes the door to newcomers after
// HL_BYPASS_NS, and sleeps with the door closed after HL_ROUNDS lost rounds. So the order is
// first come, first served while all waiters are awake, and overtaking a sleeper is bounded.
//
// HL_SUSPENDABLE 1 is for programs that stop threads by signals, as collectors do, at whatever
// instruction. Nobody is handed the lock, for a waiter that was stopped while awake would not take
// it: every first waiter becomes HEIR and competes. And nobody waits for more than HL_SPIN_NS for
// a link: it is marked LEFT, and its writer, who finds that out when it runs again, is first. It
// costs an exchange instead of a store to link. All nodes are of the pool then, since the writer
// may come late: mcs's callers bring such, and free them when hl_mcs_leave() says so. ali and
// hl_lock_t know nothing of it.
#ifndef HOTLOCK_QUEUE_H
#define HOTLOCK_QUEUE_H

#include "wait.h"

#ifndef HL_SUSPENDABLE
#define HL_SUSPENDABLE 0
#endif

enum { HL_WAITING, HL_SLEEPING, HL_GRANTED, HL_HEIR, HL_BARGED, HL_OUT, HL_ELECT, HL_AWAY, HL_STATES };

typedef HL_ATOMIC(uintptr_t) hl_atomic_uptr_t;
typedef HL_ATOMIC(uint32_t) hl_atomic_u32_t;
typedef HL_ATOMIC(uint16_t) hl_atomic_u16_t;
typedef HL_ATOMIC(struct hl_node *) hl_atomic_node_t;

// Aligned so that the low four bits of a node's address can carry flags (see hl_tail_t).
typedef struct hl_node {
    hl_atomic_node_t next;
    hl_atomic_uptr_t state;
} __attribute__((aligned(16))) hl_node_t;

HL_INLINE bool hl_is_gone(uintptr_t state) { return state > HL_STATES; }

HL_INLINE void hl_node_ready(hl_node_t *n, uintptr_t state) {
    hl_store(&n->next, (hl_node_t *)NULL);
    hl_store(&n->state, state);
}

// ------------------------------------------------------------------------- the node pool
// For locks of four bytes, whose tail names a node by 12 bits, and for timed waiters, whose node
// may outlive their call. A node is claimed by its flag, so a thread has no identity, nothing is
// set up and nothing is given back at thread exit. When all are in use, waiters poll.
// Where the layer below has a better place for nodes (a kernel: one per processor and context), it
// names a header of its own that defines what this part does.
#ifdef HL_POOL_HEADER
#include HL_POOL_HEADER
#else
#ifndef HL_POOL_NODES
#define HL_POOL_NODES 4096  // index 0 means none, 1 means HL_HELD
#endif
#if HL_POOL_NODES < 4 || HL_POOL_NODES > 4096
#error "HL_POOL_NODES: from 4 to 4096, for a tail names a node by 12 bits"
#endif
typedef struct {
    hl_node_t node;
    void (*fn)(void *);  // ali: what to run, NULL: hand the lock over
    void *arg;
    hl_atomic_u32_t claimed;
} HL_ALIGNED hl_pool_node_t;
typedef struct { hl_pool_node_t at[HL_POOL_NODES]; } hl_pool_t;
HL_GLOBAL(hl_pool_t, hl_pool);

HL_INLINE uintptr_t hl_pool_index(const hl_node_t *n) {
    return (uintptr_t)((const hl_pool_node_t *)(const void *)n - hl_pool.at);
}
HL_INLINE hl_node_t *hl_pool_at(uintptr_t index) { return &hl_pool.at[index].node; }

// A node for a timed wait on `lock`: one that an earlier call left in its queue (*queued: awake
// again, in its old place), or a free one. Always a free one for a lock of NULL, which is for waits
// without a deadline: they leave nothing behind. NULL when none is near. The search starts at a
// place that depends on the thread's stack, so a thread finds the same node, still in its cache.
HL_INLINE hl_node_t *hl_node_claim(const void *lock, bool *queued) {
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0) >> 14;
    uint32_t at = (uint32_t)(stack * 2654435761u) >> 8;
    for (int tries = 0; tries < 256; tries++, at++) {
        hl_pool_node_t *n = &hl_pool.at[2 + at % (HL_POOL_NODES - 2)];
        *queued = false;
        // pairs with the release in hl_node_free(): the last owner's plain accesses to fn and arg
        // come before the next one's
        if (!hl_load(&n->claimed) && hl_cas_acq(&n->claimed, 0u, 1u)) return &n->node;
        *queued = true;
        // Pairs with GONE in hl_queue_wait(), and with hl_settle(). No check needs these orders:
        // whoever takes a waiter out, or hands it the lock, came to it by its link, after it was
        // made ready. They are kept, at the price of a time-out, so that a node passes from thread
        // to thread as a lock does.
        if (lock && hl_load(&n->node.state) == (uintptr_t)lock &&
            hl_cas_acqrel(&n->node.state, (uintptr_t)lock, HL_WAITING))
            return &n->node;
    }
    return NULL;
}

HL_INLINE hl_node_t *hl_node_claim_for(const void *lock, uint64_t deadline_ns, bool *queued) {
    return hl_node_claim(deadline_ns == HL_NO_DEADLINE ? NULL : lock, queued);
}

HL_INLINE void hl_node_free(hl_node_t *n) {
    hl_store_rel(&((hl_pool_node_t *)(void *)n)->claimed, 0u);
}

// In a forked child, before it waits for a lock: the nodes of waits that timed out are in no queue
// of the child's, if it starts with locks set up afresh.
static inline void hl_pool_after_fork(void) {
    for (unsigned i = 2; i < HL_POOL_NODES; i++) {
        hl_pool_node_t *n = &hl_pool.at[i];
        if (!hl_load(&n->claimed) || !hl_is_gone(hl_load(&n->node.state))) continue;
        hl_store(&n->node.state, HL_OUT);
        hl_node_free(&n->node);
    }
}
#endif

// ------------------------------------------------------------------------- waiting in the queue
// In a link whose reader has left. No node has this name: see HL_HELD.
#define HL_LEFT ((uintptr_t)16)

// Links a waiter to the node it joined behind. False: whoever looked for it there has left, so it
// is first, and the node is its to free. The orders pair with those of hl_await_link().
HL_INLINE bool hl_link(hl_atomic_node_t *link, hl_node_t *me) {
    if (HL_SUSPENDABLE) return hl_xchg_acqrel(link, me) == NULL;
    hl_store_rel(link, me);
    return true;
}

// The policy is to nap, not to yield, which would not let a writer of lower priority run.
HL_INLINE hl_poll_t hl_await_begin(bool may_leave) {
    return hl_poll_begin(HL_WAIT_PARK, may_leave ? hl_now_ns() + HL_SPIN_NS : HL_NO_DEADLINE);
}

// A link that is certain to come: its writer is between joining the queue and linking itself.
// NULL, if the reader may leave (HL_SUSPENDABLE only): it did not come in time. What the reader did
// before, as its last use of the node, is released to the writer.
HL_INLINE hl_node_t *hl_await(hl_atomic_node_t *link, bool may_leave) {
    hl_node_t *n;
    hl_poll_t wait;
    for (bool begun = false; hl_unlikely(!(n = hl_load_acq(link))); begun = true) {
        if (!begun) wait = hl_await_begin(may_leave);
        if (hl_poll(&wait) || !may_leave) continue;
        if (hl_cas_rel(link, (hl_node_t *)NULL, (hl_node_t *)HL_LEFT)) return NULL;
    }
    return n;
}
HL_INLINE hl_node_t *hl_await_link(hl_atomic_node_t *link) {
    return hl_await(link, HL_SUSPENDABLE);
}

// Waits until the state is GRANTED or HEIR: true. False: the deadline passed, and the node is left
// in the queue of `lock` as GONE. The acquires pair with the releases in hl_pass(), hl_promote().
HL_SLOW bool hl_queue_wait(const void *lock, hl_node_t *me, hl_wait_policy_t policy,
                           uint64_t deadline_ns) {
    uint64_t begin = hl_ticks(), spin = hl_ns_to_ticks(HL_SPIN_NS);
    for (;;) {
        uintptr_t s = hl_load_acq(&me->state);
        if (s == HL_GRANTED || s == HL_HEIR) return true;
        if (hl_past(deadline_ns)) {
            if (hl_cas_rel(&me->state, s, (uintptr_t)lock)) return false;  // see hl_node_claim()
            continue;
        }
        hl_pause();
        if (hl_ticks() - begin < spin) continue;
        if (policy == HL_WAIT_YIELD) hl_yield();
        if (policy != HL_WAIT_PARK) continue;
        if (s == HL_SLEEPING || hl_cas(&me->state, HL_WAITING, HL_SLEEPING))
            hl_futex_wait(hl_low_half(&me->state), HL_SLEEPING, deadline_ns, HL_FUTEX_PRIVATE);
    }
}

HL_INLINE void hl_node_wake(hl_node_t *n) {  // n may be gone by now: only a name
    hl_futex_wake(hl_low_half(&n->state), HL_FUTEX_PRIVATE);
}

// What a first waiter was: see hl_pass() and hl_promote().
typedef enum { HL_WAS_AWAKE, HL_WAS_ASLEEP, HL_WAS_GONE } hl_was_t;

// Changes the state of a waiter: to `awake` if it is awake, to HEIR if it sleeps (the caller wakes
// it), to OUT if it is GONE (the caller takes it out).
HL_INLINE hl_was_t hl_settle(hl_node_t *n, uintptr_t awake) {
    for (;;) {
        uintptr_t s = hl_load_acq(&n->state), new_ = awake;  // GONE: see hl_node_claim()
        hl_was_t was = HL_WAS_AWAKE;
        if (s == HL_SLEEPING) was = HL_WAS_ASLEEP, new_ = HL_HEIR;
        if (hl_is_gone(s)) was = HL_WAS_GONE, new_ = HL_OUT;
        if (hl_cas_rel(&n->state, s, new_)) return was;
    }
}

// Makes a waiter the heir, awake or woken.
HL_INLINE hl_was_t hl_promote(hl_node_t *first) {
    hl_was_t was = hl_settle(first, HL_HEIR);
    if (was == HL_WAS_ASLEEP) hl_node_wake(first);
    return was;
}

// ------------------------------------------------------------------------- a tail with flags
// The tail of mcs, nmcs and nmcs4: a node's name and four flags. The name is the address, or in
// a 16-bit tail the pool index times 16.
//
//   0                       free, nobody waits
//   HELD                    held, nobody waits
//   node                    held, waiters; node is the last
//   node | BARGE            held by a thread that overtook the queue; its first waiter is HEIR
//   node | BARGE | FREE     free, the same waiters
//   CLOSED                  with BARGE: only the heir may take the lock
//   ASLEEP                  with BARGE: the heir sleeps on this word, the releaser wakes it
#define HL_FREE   ((uintptr_t)1)
#define HL_BARGE  ((uintptr_t)2)
#define HL_CLOSED ((uintptr_t)4)
#define HL_ASLEEP ((uintptr_t)8)
#define HL_FLAGS  ((uintptr_t)15)
#define HL_HELD   ((uintptr_t)16)

// Exactly one of wide and narrow is set, and known when this is compiled.
typedef struct {
    hl_atomic_uptr_t *wide;
    hl_atomic_u16_t *narrow;
    hl_atomic_u32_t *word;  // the narrow tail is its low half: what a futex can name
} hl_tail_t;

#define hl_tail_load(t)     ((t).wide ? hl_load((t).wide) : (uintptr_t)hl_load((t).narrow))
#define hl_tail_load_acq(t) ((t).wide ? hl_load_acq((t).wide) : (uintptr_t)hl_load_acq((t).narrow))
#define hl_tail_cas_(cas, t, old, new_) \
    ((t).wide ? cas((t).wide, (old), (new_)) \
              : cas((t).narrow, (uint16_t)(old), (uint16_t)(new_)))
#define hl_tail_cas(t, old, new_)        hl_tail_cas_(hl_cas, t, old, new_)
#define hl_tail_cas_acq(t, old, new_)    hl_tail_cas_(hl_cas_acq, t, old, new_)
#define hl_tail_cas_rel(t, old, new_)    hl_tail_cas_(hl_cas_rel, t, old, new_)
#define hl_tail_cas_acqrel(t, old, new_) hl_tail_cas_(hl_cas_acqrel, t, old, new_)

HL_INLINE uintptr_t hl_name(hl_tail_t t, hl_node_t *n) {
    return t.wide ? (uintptr_t)n : hl_pool_index(n) << 4;
}

HL_INLINE hl_node_t *hl_named(hl_tail_t t, uintptr_t name) {
    name &= ~HL_FLAGS;
    return t.wide ? (hl_node_t *)name : hl_pool_at(name >> 4);
}

HL_INLINE bool hl_can_take(uintptr_t seen) {
    return seen == 0 || (seen & (HL_FREE | HL_CLOSED)) == HL_FREE;
}

// Takes a lock that is free, or free to barge for. The acquire pairs with every release that sets
// FREE or 0; a failure says only that the tail changed.
HL_INLINE bool hl_tail_take(hl_tail_t t, uintptr_t seen) {
    return hl_can_take(seen) && hl_tail_cas_acq(t, seen, seen ? seen & ~HL_FREE : HL_HELD);
}

// The holder adds BARGE, now that its first waiter is heir; with FREE the lock is free to whoever
// runs.
HL_INLINE void hl_tail_add(hl_tail_t t, uintptr_t flags) {
    uintptr_t seen = hl_tail_load(t);
    while (!hl_tail_cas_rel(t, seen, seen | flags)) seen = hl_tail_load(t);
}

// A holder leaves with a first waiter behind it: hands it the lock if it is awake, else makes it
// heir, frees the lock and wakes it. False: it was GONE; take it out and go on to the next.
HL_INLINE bool hl_pass(hl_tail_t t, hl_node_t *first) {
    hl_was_t was = hl_settle(first, HL_SUSPENDABLE ? HL_HEIR : HL_GRANTED);
    if (was == HL_WAS_ASLEEP || (was == HL_WAS_AWAKE && HL_SUSPENDABLE))
        hl_tail_add(t, HL_FREE | HL_BARGE);
    if (was == HL_WAS_ASLEEP) hl_node_wake(first);
    return was != HL_WAS_GONE;
}

// Takes a lock that is free, if for the heir alone.
HL_INLINE bool hl_tail_take_reserved(hl_tail_t t) {
    uintptr_t seen = hl_tail_load(t);
    return (seen & HL_FREE) && hl_tail_cas_acq(t, seen, seen & ~HL_FREE);
}

// A holder that overtook the queue leaves; `seen` is the tail, with BARGE. False: it changed.
HL_INLINE bool hl_tail_unbarge(hl_tail_t t, uintptr_t seen) {
    if (!hl_tail_cas_rel(t, seen, (seen | HL_FREE) & ~HL_ASLEEP)) return false;
    if (seen & HL_ASLEEP)
        hl_futex_wake(t.wide ? hl_low_half(t.wide) : (void *)t.word, HL_FUTEX_PRIVATE);
    return true;
}

// The heir sleeps until a release clears ASLEEP; with the door closed when it is owed the lock.
HL_INLINE void hl_heir_sleep(hl_tail_t t, uintptr_t seen, bool owed, uint64_t deadline_ns) {
    uintptr_t mark = (seen & ~HL_CLOSED) | HL_ASLEEP | (owed ? HL_CLOSED : 0);
    if (!hl_tail_cas(t, seen, mark)) return;
    uint32_t word = t.wide ? (uint32_t)mark : hl_load(t.word);
    if (!t.wide && (uint16_t)word != (uint16_t)mark) return;
    hl_futex_wait(t.wide ? hl_low_half(t.wide) : (void *)t.word, word, deadline_ns,
                  HL_FUTEX_PRIVATE);
}

// The heir competes until it has the lock, FREE and BARGE gone: true; or until the deadline, the
// lock being held: false, and it must leave the queue.
HL_SLOW bool hl_heir_compete(hl_tail_t t, hl_wait_policy_t policy, uint64_t deadline_ns) {
    uint64_t begin = hl_ticks(), spin = hl_ns_to_ticks(HL_SPIN_NS);
    uint64_t bypass = hl_ns_to_ticks(HL_BYPASS_NS);
    for (unsigned lost = 0;;) {
        uintptr_t seen = hl_tail_load(t);
        if (seen & HL_FREE) {
            if (hl_tail_cas_acq(t, seen, seen & ~HL_FLAGS)) return true;
            continue;
        }
        hl_pause();
        uint64_t spent = hl_ticks() - begin;
        if (!(seen & HL_BARGE)) {  // the releaser is about to free it
            if (spent > spin && policy != HL_WAIT_SPIN) hl_nap(HL_SPIN_NS);
            continue;
        }
        if (hl_past(deadline_ns)) return false;
        if (spent < bypass) continue;
        if (spent < bypass + spin || policy != HL_WAIT_PARK) {
            if (!(seen & HL_CLOSED)) (void)hl_tail_cas(t, seen, seen | HL_CLOSED);
            if (policy == HL_WAIT_YIELD) hl_yield();
            continue;
        }
        lost = (lost + 1) % HL_ROUNDS;
        hl_heir_sleep(t, seen, lost == 0, deadline_ns);
        begin = hl_ticks();
    }
}

// A newcomer that finds the queue being overtaken tries for a moment before it joins: the threads
// ahead of it are asleep. A lock that is free for the heir alone it leaves to it, but not for
// ever. True: it has the lock.
HL_INLINE bool hl_barge(hl_tail_t t, uint64_t deadline_ns) {
    uint64_t begin = hl_ticks(), bypass = hl_ns_to_ticks(HL_BYPASS_NS);
    uint64_t patience = hl_ns_to_ticks(HL_PATIENCE_NS);
    for (;;) {
        uintptr_t seen = hl_tail_load(t);
        bool reserved = (seen & HL_FREE) && (seen & HL_CLOSED);
        bool late = hl_ticks() - begin > (reserved ? patience : bypass);
        if (hl_can_take(seen) || (reserved && late)) {
            if (hl_tail_cas_acq(t, seen, seen ? seen & ~HL_FREE : HL_HELD)) return true;
            continue;
        }
        if (!reserved && (late || (seen & (HL_BARGE | HL_CLOSED)) != HL_BARGE)) return false;
        if (hl_past(deadline_ns)) return false;
        hl_pause();
    }
}

// ------------------------------------------------------------------------- tail and first waiter
// The words of a lock. nmcs keeps its first waiter as an address, nmcs4 as a name, mcs not at all
// (its holder's node links to it). `first` is the holder's, or the heir's while BARGE is set.
typedef struct {
    hl_tail_t tail;
    hl_atomic_node_t *first;
    hl_atomic_u16_t *first_name;
} hl_queue_t;

HL_INLINE void hl_set_first(hl_queue_t q, hl_node_t *n) {
    if (q.first) hl_store(q.first, n);
    else if (q.first_name) hl_store(q.first_name, (uint16_t)(n ? hl_name(q.tail, n) : 0));
}

// The heir's deadline passed while another holds the lock: the next waiter, if any, is heir. False:
// `me` is left to one that is about to link itself.
HL_INLINE bool hl_abdicate(hl_queue_t q, hl_node_t *me) {
    for (hl_node_t *out = me;;) {
        hl_node_t *next = hl_load_acq(&out->next);
        uintptr_t seen = hl_tail_load(q.tail);
        if (!next && (seen & ~HL_FLAGS) == hl_name(q.tail, out)) {  // nobody: no queue any more
            hl_set_first(q, NULL);
            if (!hl_tail_cas_rel(q.tail, seen, seen & HL_FREE ? 0 : HL_HELD)) continue;
        } else if (!next && !(next = hl_await_link(&out->next))) {
            return out != me;
        }
        if (out != me) hl_node_free(out);
        if (!next || hl_promote(next) != HL_WAS_GONE) return true;
        out = next;
    }
}

#endif
