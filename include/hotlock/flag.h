// SPDX-License-Identifier: MIT
// flag.h - a queue in front of a flag: what mcsflag and qspin share.
//
// The lock is a byte, set by a compare-exchange and cleared by a plain store. Who finds it set
// joins a queue; only the first waiter, the front, competes for the byte, and whoever wins
// leaves the queue at once and names the next front. The releaser looks at nobody.
//
//   held    0 free, 1 held
//   closed  1: an awake front is competing, newcomers must queue; open from the moment a front
//           leaves to the next one's first look
//   tail    the last waiter: an index into the pool (qspin) or beside the flag (mcsflag)
//
// So the order is first come, first served while the front is awake. A front that has spun for
// HL_SPIN_NS naps, the door open to newcomers (closed every HL_ROUNDS-th time): nothing wakes it,
// since the unlock is a plain store. Nobody waits for a thread that does not run.
#ifndef HOTLOCK_FLAG_H
#define HOTLOCK_FLAG_H

#include "queue.h"

typedef union {
    hl_atomic_u32_t word;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    struct { hl_atomic_u16_t tail, gate; } half;
    struct { HL_ATOMIC(uint8_t) tail_[2], closed, held; } byte;
#else
    struct { hl_atomic_u16_t gate, tail; } half;
    struct { HL_ATOMIC(uint8_t) held, closed, tail_[2]; } byte;
#endif
} hl_flag_t;
#define HL_FLAG_HELD   0x001u
#define HL_FLAG_CLOSED 0x100u

// The flag and its tail, wide (an address) or narrow (in the flag's word).
typedef struct {
    hl_flag_t *flag;
    hl_atomic_node_t *wide;
} hl_flag_queue_t;

// Takes it if free (and open): the acquire pairs with the release in unlock. Byte by byte, for
// some processors (AMD's Zen 3) wait some 15 cycles where a wider access meets the unlock's store
// of a byte. A door that closes between the two is noticed by the next newcomer.
HL_INLINE bool hl_flag_take_free(hl_flag_t *f) {
    return hl_cas_acq(&f->byte.held, 0, (uint8_t)HL_FLAG_HELD);
}

HL_INLINE bool hl_flag_take(hl_flag_t *f) {
    return !hl_load(&f->byte.closed) && hl_flag_take_free(f);
}

// The fast path: nobody holds it, nobody queues, so far as the flag's word has a tail, and no front
// has closed the door. One exchange of the word where one of a byte would be that and more.
HL_INLINE bool hl_flag_take_idle(hl_flag_t *f, bool tail_in_word) {
    if (HL_BYTES_EMULATED) return hl_cas_acq(&f->word, 0u, HL_FLAG_HELD);
    // where nobody queues, no front has closed the door
    return tail_in_word ? !hl_load(&f->half.tail) && hl_flag_take_free(f) : hl_flag_take(f);
}

HL_INLINE bool hl_flag_look_and_take(hl_flag_t *f) {
    return !hl_load(&f->byte.held) && hl_flag_take(f);
}

HL_INLINE bool hl_flag_has_queue(hl_flag_queue_t q) {
    return q.wide ? hl_load(q.wide) != NULL : hl_load(&q.flag->half.tail) != 0;
}

HL_INLINE hl_tail_t hl_flag_namer(hl_flag_queue_t q) {  // how this lock names nodes
    hl_tail_t t = {(hl_atomic_uptr_t *)(void *)q.wide, &q.flag->half.tail, NULL};
    return t;
}

// Joins the queue. True: as its front. The release publishes the fresh node, the acquire makes the
// last waiter's visible before it is linked.
HL_INLINE bool hl_flag_join(hl_flag_queue_t q, hl_node_t *me) {
    hl_node_t *last;
    if (q.wide) {
        last = hl_xchg_acqrel(q.wide, me);
    } else {
        uint16_t name = hl_xchg_acqrel(&q.flag->half.tail, (uint16_t)hl_name(hl_flag_namer(q), me));
        last = name ? hl_named(hl_flag_namer(q), name) : NULL;
    }
    if (!last) return true;
    if (hl_link(&last->next, me)) return false;
    hl_node_free(last);
    return true;
}

HL_INLINE bool hl_flag_empty(hl_flag_queue_t q, hl_node_t *last) {
    if (q.wide) return hl_cas(q.wide, last, (hl_node_t *)NULL);
    return hl_cas(&q.flag->half.tail, (uint16_t)hl_name(hl_flag_namer(q), last), 0);
}

// The front leaves, with or without the lock: the next waiter that has not timed out is front.
// False: `me` is left to one that is about to link itself.
HL_INLINE bool hl_flag_leave(hl_flag_queue_t q, hl_node_t *me) {
    for (hl_node_t *out = me;;) {
        hl_node_t *next = hl_load_acq(&out->next);
        bool last = false;
        if (!next) {
            hl_store(&q.flag->byte.closed, 0);
            last = hl_flag_empty(q, out);
            if (!last && !(next = hl_await_link(&out->next))) return out != me;
        }
        if (out != me) hl_node_free(out);
        if (last) return true;
        hl_was_t was = hl_promote(next);
        if (was == HL_WAS_ASLEEP) hl_store(&q.flag->byte.closed, 0);
        if (was != HL_WAS_GONE) return true;
        out = next;
    }
}

// The front competes for the flag; false at the deadline.
HL_SLOW bool hl_flag_compete(hl_flag_t *f, hl_wait_policy_t policy, uint64_t deadline_ns) {
    uint64_t begin_ns = hl_now_ns(), since = hl_ticks(), spin = hl_ns_to_ticks(HL_SPIN_NS);
    for (unsigned lost = 0;;) {
        uint16_t gate = hl_load(&f->half.gate);
        if (!(gate & HL_FLAG_HELD)) {  // pairs with the release in unlock
            if (hl_cas_acq(&f->half.gate, gate, (uint16_t)(HL_FLAG_HELD | HL_FLAG_CLOSED)))
                return true;
            continue;
        }
        if (hl_past(deadline_ns)) return false;
        hl_pause();
        if (hl_ticks() - since < spin || policy != HL_WAIT_PARK) {
            if (!(gate & HL_FLAG_CLOSED)) hl_store(&f->byte.closed, 1);
            if (policy == HL_WAIT_YIELD && hl_ticks() - since > spin) hl_yield();
            continue;
        }
        lost = (lost + 1) % HL_ROUNDS;
        if (lost && (gate & HL_FLAG_CLOSED)) hl_store(&f->byte.closed, 0);
        hl_nap(hl_nap_ns(hl_now_ns() - begin_ns, deadline_ns));
        since = hl_ticks();
    }
}

// A newcomer that finds the front napping tries for a moment before it joins behind it. A lock
// that is free for the front alone it leaves to it, but not for ever.
HL_INLINE bool hl_flag_barge(hl_flag_queue_t q, uint64_t deadline_ns) {
    uint64_t begin = hl_ticks(), bypass = hl_ns_to_ticks(HL_BYPASS_NS);
    uint64_t patience = hl_ns_to_ticks(HL_PATIENCE_NS);
    for (;;) {
        uint16_t gate = hl_load(&q.flag->half.gate);
        bool reserved = gate == HL_FLAG_CLOSED;
        bool late = hl_ticks() - begin > (reserved ? patience : bypass);
        if (!gate || (reserved && late)) {
            if (hl_cas_acq(&q.flag->half.gate, gate, (uint16_t)(gate | HL_FLAG_HELD))) return true;
            continue;
        }
        if (!reserved && (late || gate != HL_FLAG_HELD || !hl_flag_has_queue(q))) return false;
        if (hl_past(deadline_ns)) return false;
        hl_pause();
    }
}

// lock() with node `me`, `queued` if it stands in the queue already. False at the deadline. *left
// says that the node is not the caller's any more: it stands in the queue, GONE, or see
// HL_SUSPENDABLE.
HL_INLINE bool hl_flag_wait(hl_flag_queue_t q, hl_node_t *me, bool queued, hl_wait_policy_t own,
                            uint64_t deadline_ns, bool *left) {
    hl_wait_policy_t policy = hl_wait_get(own);
    *left = false;
    if (!queued) {
        if (hl_flag_barge(q, deadline_ns)) return true;
        hl_node_ready(me, HL_WAITING);
    }
    if (queued || !hl_flag_join(q, me)) {
        *left = !hl_queue_wait(q.flag, me, policy, deadline_ns);
        if (*left) return false;
    }
    bool got = hl_flag_compete(q.flag, policy, deadline_ns);
    *left = !hl_flag_leave(q, me);
    return got;
}

// lock() with a node of the pool, or polling while none is to be had.
HL_INLINE bool hl_flag_lock_pooled(hl_flag_queue_t q, hl_wait_policy_t own, uint64_t deadline_ns) {
    hl_poll_t poll = hl_poll_begin(HL_WAIT_PARK, deadline_ns);
    bool got, queued, left;
    hl_node_t *me;
    do {
        if (hl_flag_look_and_take(q.flag)) return true;
        if (hl_past(deadline_ns)) return false;
        me = hl_node_claim_for(q.flag, deadline_ns, &queued);
    } while (!me && hl_poll(&poll));
    if (!me) return false;
    got = hl_flag_wait(q, me, queued, own, deadline_ns, &left);
    if (!left) hl_node_free(me);
    return got;
}

#endif
