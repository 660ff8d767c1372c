// SPDX-License-Identifier: MIT
// ali.h - a combining lock: the owner runs the waiters' critical sections.
//
// hl_ali_run(l, fn, arg) runs fn(arg) under the lock. Who finds the lock held leaves a request,
// and the owner runs it: the data stay in one processor's cache, and only the requests travel.
// (Ma Ling, "alispinlock", linux-kernel, December 2015 to April 2016; flat combining: Hendler,
// Incze, Shavit and Tzafrir, SPAA 2010; CC-Synch: Fatourou and Kallimanis, PPoPP 2012.)
// What the original lacked: ordinary sections on the same lock, a bound on what one owner does for
// others, asynchronous requests that are neither lost nor keep an owner for ever, acquire and
// release where it relied on x86.
//
//   held      1: the lock is owned. Cleared by a plain store while no request waits.
//   quiet     all requests are of sleepers in hl_ali_lock(), and one has been roused: an owner
//             need not look at them again. With it, the lock is freed by compare-exchange.
//   attended  a waiter watches the word itself: see below
//   async     hl_ali_submit() has been used: owners release by compare-exchange
//   requests  the newest waiting request, linked to the older ones; all since the last owner took
//             them. A requester joins by one exchange and links itself afterwards. An owner takes
//             the whole stack by another, looks through it once, and serves in the order
//             of arrival.
//
// Invariant: requests are in the stack, or on their way through one owner's hands, and an owner
// lets go of the lock only after it has put back what it did not serve. The plain store may
// overlook a request pushed at that very moment: the first such requester watches the word
// as well as its own request, and takes the lock if it finds it free. The exchanges overwrite the
// flags. Losing `quiet` and `attended` is harmless: an owner looks again, a second waiter watches.
// `async` is set again by whoever overwrote it.
//
// A request is run by whichever thread owns the lock: docs/locks/ali.md has the rules for sections.
//
// Cost: one atomic and a plain store when nobody waits; 8 bytes, and a 64-byte request on the
// waiter's stack. Order of arrival among the awake. Not for memory shared by processes.
#ifndef HOTLOCK_ALI_H
#define HOTLOCK_ALI_H

#include "queue.h"

#ifndef HL_ALI_WAIT
#define HL_ALI_WAIT HL_WAIT_PARK
#endif
// How many requests an owner runs for others before it hands the lock on.
#ifndef HL_ALI_CAP
#define HL_ALI_CAP 64
#endif
// How long a requester waits before it gives its processor away: a request and its answer between
// two processors.
#ifndef HL_ALI_ALONE_NS
#define HL_ALI_ALONE_NS 150
#endif
// A clock, and how long by it an owner goes on serving. None: the cap is enough. A kernel has one, for
// an owner that serves with interrupts off.
#ifndef HL_ALI_CLOCK
#define HL_ALI_CLOCK() UINT64_C(0)
#define HL_ALI_MOST UINT64_C(0)
#endif
// Around each call of a section: the debug build puts its checks here.
#ifdef HL_DEBUG
#include "ali_debug.h"
#endif
#ifndef HL_ALI_CALL
#define HL_ALI_CALL(l, fn, arg, foreign) ((void)(l), (void)(foreign), (fn)(arg))
#endif

typedef union {
    HL_ATOMIC(uint64_t) word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    struct { hl_atomic_u32_t high; hl_atomic_u16_t low; HL_ATOMIC(uint8_t) flags, held; } byte;
#else
    struct { HL_ATOMIC(uint8_t) held, flags; hl_atomic_u16_t low; hl_atomic_u32_t high; } byte;
#endif
} HL_CAPABILITY hl_ali_t;
#define HL_ALI_INIT {{0}}

// An asynchronous request: the caller's, untouched from submit to done.
typedef hl_pool_node_t hl_ali_req_t;

HL_API(ALI, LOCK) void hl_ali_run(hl_ali_t *l, void (*fn)(void *), void *arg) HL_EXCLUDES(*l);
HL_API(ALI, LOCK) void hl_ali_lock(hl_ali_t *l) HL_ACQUIRES(*l);
HL_API(ALI, LOCK) HL_MUST_USE bool hl_ali_lock_until(hl_ali_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(ALI, TRYLOCK) HL_MUST_USE bool hl_ali_trylock(hl_ali_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(ALI, UNLOCK) void hl_ali_unlock(hl_ali_t *l) HL_RELEASES(*l);
HL_API(ALI, UNLOCK) bool hl_ali_is_locked(const hl_ali_t *l);

// Leaves the request and returns; runs it at once if the lock is free. It is run at the latest by
// the next operation on the lock, hl_ali_done() and hl_ali_wait() included.
HL_API(ALI, LOCK) void hl_ali_submit(hl_ali_t *l, hl_ali_req_t *r, void (*fn)(void *), void *arg);
// True: fn(arg) has run, and what it wrote is visible. May run waiting requests itself.
HL_API(ALI, LOCK) HL_MUST_USE bool hl_ali_done(hl_ali_t *l, hl_ali_req_t *r);
HL_API(ALI, LOCK) void hl_ali_wait(hl_ali_t *l, hl_ali_req_t *r);

#define HL_ALI_HELD     UINT64_C(1)
#define HL_ALI_QUIET    UINT64_C(2)
#define HL_ALI_ATTENDED UINT64_C(0x100)
#define HL_ALI_ASYNC    UINT64_C(0x200)
#define HL_ALI_FLAGS    UINT64_C(0x3ff)

// States of a request beside WAITING, SLEEPING, GRANTED, OUT and GONE (queue.h). DONE: it has been
// run, nothing of it is touched any more. WOKEN: it slept, and is about to run. PENDING: submitted,
// and no thread waits for it.
#define HL_ALI_DONE    HL_BARGED
#define HL_ALI_WOKEN   HL_HEIR
#define HL_ALI_PENDING HL_STATES

// Requests are aligned to 64 bytes: their address, shifted by four, leaves ten bits for flags.
HL_INLINE uint64_t hl_ali_name(const hl_ali_req_t *r) { return (uint64_t)(uintptr_t)r << 4; }
HL_INLINE hl_ali_req_t *hl_ali_top(uint64_t word) {
    return (hl_ali_req_t *)(uintptr_t)((int64_t)(word & ~HL_ALI_FLAGS) >> 4);
}

// ------------------------------------------------------------------------- the stack of requests
// Newest first. A link of NULL is still to come, so the oldest has a mark of its own.
#define HL_ALI_END ((hl_node_t *)(uintptr_t)1)

HL_INLINE void hl_ali_link(hl_ali_req_t *r, hl_ali_req_t *older) {
    hl_store(&r->node.next, older ? &older->node : HL_ALI_END);
}

// The request that came before `r`, for the owner.
HL_INLINE hl_ali_req_t *hl_ali_older(hl_ali_req_t *r) {
    hl_node_t *n = hl_await(&r->node.next, false);
    return n == HL_ALI_END ? NULL : (hl_ali_req_t *)(void *)n;
}

HL_INLINE hl_ali_req_t *hl_ali_oldest(hl_ali_req_t *stack) {
    for (hl_ali_req_t *older; (older = hl_ali_older(stack)) != NULL;) stack = older;
    return stack;
}

// Takes `r` out of `stack`, below `newer`; NULL: it is the newest.
HL_INLINE void hl_ali_unlink(hl_ali_req_t **stack, hl_ali_req_t *newer, hl_ali_req_t *r) {
    hl_ali_req_t *older = hl_ali_older(r);
    if (newer) hl_ali_link(newer, older);
    else *stack = older;
}

// Takes the lock if it is free, requests or not: pairs with every release.
HL_INLINE bool hl_ali_trytake(hl_ali_t *l) {
    uint64_t seen = hl_load(&l->word);
    return !(seen & HL_ALI_HELD) && hl_cas_acq(&l->word, seen, seen | HL_ALI_HELD);
}

// Frees a lock that nobody waits for, so far as its owner knows. A request pushed meanwhile stays
// whole, and stays ordered before the acquire of whoever takes the lock next: the store replaces
// only its own byte. C11 has no such mixed accesses and the sanitizer assumes the worst, so for
// the sanitizer it is an atomic on the word.
HL_INLINE void hl_ali_clear(hl_ali_t *l) {
#if HL_TSAN
    if (!hl_vm_pause) {
        (void)hl_fetch_and_rel(&l->word, ~HL_ALI_HELD);
        return;
    }
#endif
    hl_store_rel(&l->byte.held, 0);
}

// The fast path looks at the byte alone: requests that wait are served when we leave. The acquire
// pairs with every release.
HL_INLINE bool hl_ali_take_byte(hl_ali_t *l) {
    return hl_cas_acq(&l->byte.held, 0, (uint8_t)HL_ALI_HELD);
}

// For the owner: nobody waits, so far as it can see. Beside the byte that was just written, not
// across it: see hl_flag_take().
HL_INLINE bool hl_ali_nobody(const hl_ali_t *l) {
    return !(hl_load(&l->byte.high) | hl_load(&l->byte.low) | hl_load(&l->byte.flags)) &&
           hl_load(&l->byte.held) == HL_ALI_HELD;
}

// Takes all waiting requests. The acquire pairs with the releases that push. *async remembers the
// flag that is overwritten.
HL_INLINE hl_ali_req_t *hl_ali_take(hl_ali_t *l, uint64_t *async) {
    uint64_t seen = hl_xchg_acq(&l->word, HL_ALI_HELD);
    *async |= seen & HL_ALI_ASYNC;
    return hl_ali_top(seen);
}

// Puts `stack` back below whatever has arrived since, and sets `flags` in the word: HELD to keep
// the lock, QUIET only if nothing has arrived. An empty stack sets ASYNC again, if it must be.
HL_INLINE void hl_ali_put_back(hl_ali_t *l, hl_ali_req_t *stack, uint64_t *async, uint64_t flags) {
    if (!stack && *async) (void)hl_fetch_or(&l->word, *async);
    while (stack) {
        uint64_t seen = hl_load(&l->word);
        if (hl_ali_top(seen)) {
            hl_ali_req_t *newer = hl_ali_take(l, async);
            hl_ali_link(hl_ali_oldest(newer), stack);
            stack = newer;
            flags &= ~HL_ALI_QUIET;
        } else if (hl_cas_rel(&l->word, seen,
                              hl_ali_name(stack) | (seen & HL_ALI_ASYNC) | *async | flags)) {
            return;
        }
    }
}

// ------------------------------------------------------------------------- the owner
// What an owner carries: requests it took, sleepers it passed over, which are older than those, and
// sleepers to wake once it has let go of the lock, for a wake-up may cost it its processor. The
// batch is the oldest of the requests taken; looking through the stack leaves their lines as they
// are, shared with the waiters that read them.
typedef struct {
    hl_ali_req_t *stack, *kept;
    hl_ali_req_t *batch[HL_ALI_CAP], *above; // a ring, newest first, and who came after them
    unsigned at, left;                       // where the ring ends, and how many are in it
    unsigned served, wakes;
    uint64_t async;
    hl_node_t *wake[HL_ALI_CAP];
} hl_ali_owner_t;

HL_INLINE void hl_ali_gather(hl_ali_owner_t *o) {
    unsigned n = 0;
    o->above = NULL;
    for (hl_ali_req_t *r = o->stack; r; r = hl_ali_older(r), n++) {
        if (n >= HL_ALI_CAP) o->above = o->batch[n % HL_ALI_CAP];
        o->batch[n % HL_ALI_CAP] = r;
    }
    o->at = n;
    o->left = n < HL_ALI_CAP ? n : HL_ALI_CAP;
}

// The oldest of the batch.
HL_INLINE hl_ali_req_t *hl_ali_first(const hl_ali_owner_t *o) {
    return o->batch[(o->at - 1) % HL_ALI_CAP];
}

// Takes it out. The link of who came next is left dangling, and is mended when the batch ends here
// or in hl_ali_rest().
HL_INLINE hl_ali_req_t *hl_ali_pop(hl_ali_owner_t *o) {
    hl_ali_req_t *r = hl_ali_first(o);
    o->at--;
    if (--o->left) return r;
    if (o->above) hl_ali_link(o->above, NULL);
    else o->stack = NULL;
    return r;
}

// All that is left, as one stack with the kept at the end.
HL_INLINE hl_ali_req_t *hl_ali_rest(hl_ali_owner_t *o) {
    hl_ali_req_t *all = o->stack ? o->stack : o->kept;
    if (o->left) hl_ali_link(hl_ali_first(o), o->kept);
    else if (o->stack && o->kept) hl_ali_link(hl_ali_oldest(all), o->kept);
    o->stack = o->kept = NULL;
    o->left = 0;
    return all;
}

HL_INLINE void hl_ali_wake_all(hl_ali_owner_t *o) {
    while (o->wakes) hl_node_wake(o->wake[--o->wakes]);  // only names by now
}

HL_INLINE void hl_ali_wake_later(hl_ali_owner_t *o, hl_ali_req_t *r) {
    if (o->wakes == HL_ALI_CAP) hl_ali_wake_all(o);
    o->wake[o->wakes++] = &r->node;
}

HL_INLINE void hl_ali_complete(hl_ali_owner_t *o, hl_ali_req_t *r) {
    // pairs with the acquire in hl_ali_watch(); after it the request may be gone
    if (hl_xchg_rel(&r->node.state, HL_ALI_DONE) == HL_SLEEPING) hl_ali_wake_later(o, r);
}

// A sleeper is to compete for the lock, or one that is away; it counts as awake again when it runs.
HL_INLINE bool hl_ali_rouse(hl_ali_owner_t *o, hl_ali_req_t *r) {
    if (hl_cas(&r->node.state, HL_AWAY, HL_ALI_WOKEN)) return true;
    if (!hl_cas(&r->node.state, HL_SLEEPING, HL_ALI_WOKEN)) return false;
    hl_ali_wake_later(o, r);
    return true;
}

// Gives the lock to `r`, which is in no list any more. False: it has timed out (relaxed: its thread
// has touched nothing but the state since the request was pushed).
HL_INLINE bool hl_ali_grant(hl_ali_req_t *r) {
    for (;;) {
        uintptr_t s = hl_load(&r->node.state);
        bool gone = hl_is_gone(s);
        if (!hl_cas_rel(&r->node.state, s, gone ? HL_OUT : HL_GRANTED)) continue;
        if (gone) hl_node_free(&r->node);
        else if (s == HL_SLEEPING) hl_node_wake(&r->node);
        return !gone;
    }
}

// Drops the requests of hl_ali_lock_until() that have timed out.
HL_INLINE hl_ali_req_t *hl_ali_drop_gone(hl_ali_req_t *stack) {
    hl_ali_req_t *newer = NULL, *older;
    for (hl_ali_req_t *r = stack; r; r = older) {
        older = hl_ali_older(r);
        uintptr_t s = hl_load(&r->node.state);
        if (hl_is_gone(s) && hl_cas(&r->node.state, s, HL_OUT)) {
            hl_ali_unlink(&stack, newer, r);
            hl_node_free(&r->node);
        } else {
            newer = r;
        }
    }
    return stack;
}

// Makes the newest requester the owner of the lock and of the whole stack, its own request among
// the others: nothing has to be looked through.
HL_INLINE bool hl_ali_elect(hl_ali_req_t *stack) {
    // pairs with the acquire in hl_ali_watch()
    return stack->fn && hl_cas_rel(&stack->node.state, HL_WAITING, HL_ELECT);
}

// The owner stops with requests left: it elects the newest if that is awake, else hands the lock to
// the oldest requester that is, or rouses one and frees the lock. False: all or the one it chose
// had timed out, the lock is ours.
HL_INLINE bool hl_ali_pass_on(hl_ali_t *l, hl_ali_owner_t *o) {
    hl_ali_req_t *stack = hl_ali_rest(o);
    hl_ali_put_back(l, NULL, &o->async, 0);
    if (hl_ali_elect(stack)) return true;
    stack = hl_ali_drop_gone(stack);
    if (!stack) return false;
    hl_ali_req_t *awake = NULL, *above = NULL, *sleeper = NULL, *newer = NULL;
    for (hl_ali_req_t *r = stack; r; newer = r, r = hl_ali_older(r)) {
        uintptr_t s = hl_load(&r->node.state);
        if (s == HL_WAITING) awake = r, above = newer;
        // A sleeper in hl_ali_lock() finds a free lock by its timer.
        if ((s == HL_SLEEPING && r->fn) || s == HL_AWAY) sleeper = r;
    }
    if (awake) {
        hl_ali_unlink(&stack, above, awake);
        hl_ali_put_back(l, stack, &o->async, HL_ALI_HELD);
        return hl_ali_grant(awake);
    }
    if (sleeper) (void)hl_ali_rouse(o, sleeper);
    hl_ali_put_back(l, stack, &o->async, 0);
    return true;
}

// Comes to a request of hl_ali_lock(). True: the lock is that thread's. False: it has timed out, or
// sleeps and is kept for later; the first such is roused, and is handed the lock asleep after
// HL_ROUNDS times.
HL_INLINE bool hl_ali_meet(hl_ali_t *l, hl_ali_owner_t *o, hl_ali_req_t *r) {
    uintptr_t s = hl_load(&r->node.state), roused = (uintptr_t)r->arg;
    if (s == HL_ALI_WOKEN || (s == HL_SLEEPING && (o->kept || roused < HL_ROUNDS))) {
        if (s == HL_SLEEPING && !o->kept && hl_ali_rouse(o, r)) r->arg = (void *)(roused + 1);
        hl_ali_link(r, o->kept);
        o->kept = r;
        return false;
    }
    hl_ali_put_back(l, hl_ali_rest(o), &o->async, HL_ALI_HELD);
    return hl_ali_grant(r);
}

// Nothing is in the owner's hands: it takes what waits, or lets go of the lock: true.
HL_INLINE bool hl_ali_finish(hl_ali_t *l, hl_ali_owner_t *o) {
    uint64_t seen = hl_load(&l->word);
    if (seen & HL_ALI_QUIET) return hl_cas_rel(&l->word, seen, seen & ~HL_ALI_HELD);
    if (hl_ali_top(seen)) {
        o->stack = hl_ali_take(l, &o->async);
        return false;
    }
    if (o->kept) {
        hl_ali_put_back(l, hl_ali_rest(o), &o->async, HL_ALI_QUIET);
        return true;
    }
    if (seen != HL_ALI_HELD || o->async)
        return hl_cas_rel(&l->word, seen, (seen & ~HL_ALI_HELD) | o->async);
    hl_ali_clear(l);
    return true;
}

// One step of an owner on its way out; true: the lock is free or another's.
HL_INLINE bool hl_ali_step(hl_ali_t *l, hl_ali_owner_t *o, bool rather_hand_on) {
    if (!o->stack) return hl_ali_finish(l, o);
    if (rather_hand_on || o->served == HL_ALI_CAP) return hl_ali_pass_on(l, o);
    if (!o->left) hl_ali_gather(o);
    hl_ali_req_t *r = hl_ali_pop(o);
    if (o->left) hl_prefetch_write(hl_ali_first(o)->arg);
    if (!r->fn) return hl_ali_meet(l, o, r);
    HL_ALI_CALL(l, r->fn, r->arg, true);
    o->served++;
    hl_ali_complete(o, r);
    return false;
}

// The owner leaves: it serves `stack` and who waits, up to HL_ALI_CAP requests, and the lock is
// free or another's. After an ordinary section it rather hands the lock on, if the first to look at
// is awake.
HL_SLOW void hl_ali_serve(hl_ali_t *l, hl_ali_req_t *stack, bool ordinary) {
    hl_ali_owner_t o;
    o.stack = stack;
    o.kept = o.above = NULL;
    o.at = o.left = o.served = o.wakes = 0;
    o.async = 0;
    uint64_t begin = HL_ALI_CLOCK();
    bool rather = false;
    while (!hl_ali_step(l, &o, rather))
        rather = (ordinary && !o.served && o.stack &&
                  hl_load(&o.stack->node.state) == HL_WAITING) ||
                 HL_ALI_CLOCK() - begin > HL_ALI_MOST;
    hl_ali_wake_all(&o);
}

// ------------------------------------------------------------------------- the requester
typedef enum { HL_ALI_IS_DONE, HL_ALI_IS_OURS, HL_ALI_IS_HEAD, HL_ALI_TOOK,
               HL_ALI_LATE } hl_ali_how_t;

// A watcher is about to sleep or to leave: an owner must look at the requests again.
HL_INLINE void hl_ali_unquiet(hl_ali_t *l) {
    if (hl_load(&l->word) & HL_ALI_QUIET) (void)hl_fetch_and(&l->word, ~HL_ALI_QUIET);
}

// Whoever owns the lock can run a request, so its thread need not be running: it gives its
// processor away early, and the next thread there adds a request. It is AWAY meanwhile, lest it be
// handed the lock. A thread in hl_ali_lock() spins as long as in any other lock.
HL_INLINE void hl_ali_give_away(hl_ali_req_t *r, bool *watch) {
    bool away = r->fn && hl_cas(&r->node.state, HL_WAITING, HL_AWAY);
    hl_yield();
    if (!away || hl_cas(&r->node.state, HL_AWAY, HL_WAITING)) return;
    if (hl_cas(&r->node.state, HL_ALI_WOKEN, HL_WAITING)) *watch = true;
}

// Waits for a request; `watch`: for the lock as well. LATE: the deadline passed, the request is
// left behind as GONE.
HL_SLOW hl_ali_how_t hl_ali_watch(hl_ali_t *l, hl_ali_req_t *r, bool watch, uint64_t deadline_ns) {
    hl_wait_policy_t policy = hl_wait_get(HL_ALI_WAIT);
    bool yields = policy == HL_WAIT_YIELD || (policy == HL_WAIT_PARK && r->fn);
    uint64_t begin_ns = 0, since = hl_ticks();
    uint64_t spin = hl_ns_to_ticks(HL_SPIN_NS);
    uint64_t alone = r->fn ? hl_ns_to_ticks(HL_ALI_ALONE_NS) : spin;
    for (;;) {
        uintptr_t s = hl_load_acq(&r->node.state);
        if (s == HL_ALI_DONE) return HL_ALI_IS_DONE;
        if (s == HL_GRANTED) return HL_ALI_IS_OURS;
        if (s == HL_ELECT) return HL_ALI_IS_HEAD;
        if (watch && hl_ali_trytake(l)) return HL_ALI_TOOK;
        if (hl_past(deadline_ns)) {
            if (!hl_cas(&r->node.state, s, (uintptr_t)l)) continue;
            hl_ali_unquiet(l);
            return HL_ALI_LATE;
        }
        hl_pause();
        uint64_t waited = hl_ticks() - since;
        if (waited < alone) continue;
        if (yields) hl_ali_give_away(r, &watch);
        if (waited < spin || policy != HL_WAIT_PARK) continue;
        if (!hl_cas(&r->node.state, HL_WAITING, HL_SLEEPING)) continue;
        hl_ali_unquiet(l);
        uint64_t now = hl_now_ns(), until = deadline_ns;
        if (!begin_ns) begin_ns = now;
        if (watch) until = now + hl_nap_ns(now - begin_ns, deadline_ns);
        hl_futex_wait(hl_low_half(&r->node.state), HL_SLEEPING, until, HL_FUTEX_PRIVATE);
        if (!hl_cas(&r->node.state, HL_SLEEPING, HL_WAITING))
            (void)hl_cas(&r->node.state, HL_ALI_WOKEN, HL_WAITING);
        since = hl_ticks();
        watch = true;  // an owner that roused us may have freed the lock
    }
}

// Pushes the request. True: the lock was free and is now ours, with the request in its stack.
// *watch says whether it is this requester that must watch the word.
HL_INLINE bool hl_ali_join(hl_ali_t *l, hl_ali_req_t *r, uint64_t flags, bool *watch) {
    // acquire pairs with every release of the lock, release with hl_ali_take()
    uint64_t seen = hl_xchg_acqrel(&l->word, hl_ali_name(r) | HL_ALI_HELD | flags);
    hl_ali_link(r, hl_ali_top(seen));
    if (seen & HL_ALI_ASYNC & ~flags) (void)hl_fetch_or(&l->word, HL_ALI_ASYNC);
    *watch = (flags & ~seen & HL_ALI_ATTENDED) != 0;
    return !(seen & HL_ALI_HELD);
}

// The lock is ours: takes the request back if it is the only one.
HL_INLINE bool hl_ali_retract(hl_ali_t *l, hl_ali_req_t *r, uint64_t flags) {
    uint64_t word = HL_ALI_HELD | (flags & HL_ALI_ASYNC);
    return hl_load(&r->node.next) == HL_ALI_END &&
           hl_cas(&l->word, hl_ali_name(r) | HL_ALI_HELD | flags, word);
}

// The requester of hl_ali_run(), or of a submitted request it has come to wait for.
HL_INLINE void hl_ali_await(hl_ali_t *l, hl_ali_req_t *r, bool watch) {
    for (;;) {
        switch (hl_ali_watch(l, r, watch, HL_NO_DEADLINE)) {
        case HL_ALI_IS_OURS:
            HL_ALI_CALL(l, r->fn, r->arg, false);
            hl_store_rel(&r->node.state, HL_ALI_DONE);  // pairs with a third thread's hl_ali_done()
            hl_ali_serve(l, NULL, false);
            return;
        case HL_ALI_IS_HEAD:
            hl_store(&r->node.state, HL_WAITING);  // an owner's word, and we are the owner
            hl_ali_serve(l, r, false);
            continue;
        case HL_ALI_TOOK:
            hl_ali_serve(l, NULL, false);  // our request among the others
            continue;
        default: return;
        }
    }
}

HL_INLINE void hl_ali_ready(hl_ali_req_t *r, uintptr_t state, void (*fn)(void *), void *arg) {
    hl_node_ready(&r->node, state);
    r->fn = fn;
    r->arg = arg;
}

#if HL_BODY(ALI, LOCK)
HL_SLOW void hl_ali_run_slow(hl_ali_t *l, void (*fn)(void *), void *arg) {
    hl_ali_req_t me;
    bool watch;
    hl_ali_ready(&me, HL_WAITING, fn, arg);
    bool ours = hl_ali_join(l, &me, HL_ALI_ATTENDED, &watch);
    if (ours && hl_ali_retract(l, &me, HL_ALI_ATTENDED)) {
        HL_ALI_CALL(l, fn, arg, false);
        hl_ali_serve(l, NULL, false);
        return;
    }
    if (ours) hl_ali_serve(l, NULL, false);  // our request among the others
    hl_ali_await(l, &me, ours || watch);
}

HL_API(ALI, LOCK) void hl_ali_run(hl_ali_t *l, void (*fn)(void *), void *arg) {
    if (hl_unlikely(!hl_ali_take_byte(l))) {
        hl_ali_run_slow(l, fn, arg);
        return;
    }
    HL_ALI_CALL(l, fn, arg, false);
    if (hl_likely(hl_ali_nobody(l))) hl_ali_clear(l);
    else hl_ali_serve(l, NULL, false);
}

// A thread that took the lock while its request was in the stack: takes it out.
HL_INLINE void hl_ali_withdraw(hl_ali_t *l, hl_ali_req_t *me) {
    uint64_t async = 0;
    hl_ali_req_t *stack = hl_ali_take(l, &async), *newer = NULL;
    for (hl_ali_req_t *r = stack; r != me; r = hl_ali_older(r)) newer = r;
    hl_ali_unlink(&stack, newer, me);
    hl_ali_put_back(l, stack, &async, HL_ALI_HELD);
}

// Joins for an ordinary section. True: the lock is ours and the request out of the stack again.
HL_INLINE bool hl_ali_join_or_take(hl_ali_t *l, hl_ali_req_t *me) {
    bool watch;
    if (!hl_ali_join(l, me, 0, &watch)) return false;
    if (!hl_ali_retract(l, me, 0)) hl_ali_withdraw(l, me);
    return true;
}

HL_SLOW void hl_ali_lock_slow(hl_ali_t *l) {
    hl_ali_req_t me;
    hl_ali_ready(&me, HL_WAITING, NULL, NULL);
    if (hl_ali_join_or_take(l, &me)) return;
    if (hl_ali_watch(l, &me, true, HL_NO_DEADLINE) == HL_ALI_TOOK) hl_ali_withdraw(l, &me);
}

HL_SLOW bool hl_ali_lock_until_slow(hl_ali_t *l, uint64_t deadline_ns) {
    hl_poll_t poll = hl_poll_begin(HL_WAIT_PARK, deadline_ns);
    bool queued;
    hl_ali_req_t *me;
    do {
        if (hl_ali_trytake(l)) return true;
        if (hl_past(deadline_ns)) return false;
        me = (hl_ali_req_t *)(void *)hl_node_claim(l, &queued);
    } while (!me && hl_poll(&poll));
    if (!me) return false;
    if (!queued) hl_ali_ready(me, HL_WAITING, NULL, NULL);
    hl_ali_how_t how = HL_ALI_IS_OURS;
    if (queued || !hl_ali_join_or_take(l, me))
        how = hl_ali_watch(l, me, true, deadline_ns);
    if (how == HL_ALI_LATE) {
        if (!hl_ali_trytake(l)) return false;  // the owner finds the request and frees it
        // Free after all, and perhaps no owner comes this way for long: the request back again,
        // unless somebody else has it by now.
        if (!hl_cas(&me->node.state, (uintptr_t)l, HL_WAITING)) return true;
        how = HL_ALI_TOOK;
    }
    if (how == HL_ALI_TOOK) hl_ali_withdraw(l, me);
    hl_node_free(&me->node);
    return true;
}

HL_API(ALI, LOCK) void hl_ali_lock(hl_ali_t *l) {
    if (hl_unlikely(!hl_ali_take_byte(l))) hl_ali_lock_slow(l);
}

HL_API(ALI, LOCK) bool hl_ali_lock_until(hl_ali_t *l, uint64_t deadline_ns) {
    return hl_ali_take_byte(l) || hl_ali_lock_until_slow(l, deadline_ns);
}

HL_API(ALI, LOCK) void hl_ali_submit(hl_ali_t *l, hl_ali_req_t *r, void (*fn)(void *), void *arg) {
    bool watch;
    hl_ali_ready(r, HL_ALI_PENDING, fn, arg);
    // The first to set ASYNC may be overlooked by the present owner. It does not wait for that: the
    // owner may be its own thread, and hl_ali_done() and hl_ali_wait() serve a lock left free.
    if (!hl_ali_join(l, r, HL_ALI_ASYNC, &watch)) return;
    if (hl_ali_retract(l, r, HL_ALI_ASYNC)) {
        HL_ALI_CALL(l, fn, arg, false);
        hl_store_rel(&r->node.state, HL_ALI_DONE);  // pairs with hl_ali_done()
    }
    hl_ali_serve(l, NULL, false);
}

HL_API(ALI, LOCK) bool hl_ali_done(hl_ali_t *l, hl_ali_req_t *r) {
    if (hl_load_acq(&r->node.state) == HL_ALI_DONE) return true;
    if (hl_ali_trytake(l)) hl_ali_serve(l, NULL, false);
    return hl_load_acq(&r->node.state) == HL_ALI_DONE;
}

HL_API(ALI, LOCK) void hl_ali_wait(hl_ali_t *l, hl_ali_req_t *r) {
    (void)hl_cas(&r->node.state, HL_ALI_PENDING, HL_WAITING);
    hl_ali_await(l, r, true);
}
#endif

#if HL_BODY(ALI, TRYLOCK)
HL_API(ALI, TRYLOCK) bool hl_ali_trylock(hl_ali_t *l) {
    return hl_ali_trytake(l);
}
#endif

#if HL_BODY(ALI, UNLOCK)
HL_API(ALI, UNLOCK) void hl_ali_unlock(hl_ali_t *l) {
    if (hl_likely(hl_ali_nobody(l))) hl_ali_clear(l);
    else hl_ali_serve(l, NULL, true);
}

HL_API(ALI, UNLOCK) bool hl_ali_is_locked(const hl_ali_t *l) {
    return hl_load(&l->byte.held) & HL_ALI_HELD;
}
#endif

#ifdef HL_DEBUG  // last: it sees the program's calls, not those above
#include "ali_watch.h"
#endif

#endif
