// SPDX-License-Identifier: MIT
// hotlock.h - every lock, and the lock that is chosen at run time.
//
// hl_lock_t is any of the locks behind one interface. All-zero memory is an unlocked `park` lock.
// Costs a predictable switch per operation; 24 bytes.
#ifndef HOTLOCK_HOTLOCK_H
#define HOTLOCK_HOTLOCK_H

#include <string.h>

#include "ali.h"
#include "mcs.h"
#include "mcsflag.h"
#include "nmcs.h"
#include "nmcs4.h"
#include "park.h"
#include "qspin.h"
#include "tas.h"
#include "ticket.h"

typedef enum {
    HL_PARK, HL_TAS, HL_TICKET, HL_MCS, HL_NMCS, HL_NMCS4, HL_MCSFLAG, HL_QSPIN, HL_ALI, HL_KINDS
} hl_kind_t;

typedef struct {
    union {
        hl_park_t park;
        hl_tas_t tas;
        hl_ticket_t ticket;
        struct { hl_mcs_t lock; hl_node_t *node; } mcs;  // node: the holder's, from the pool
        hl_nmcs_t nmcs;
        hl_nmcs4_t nmcs4;
        hl_mcsflag_t mcsflag;
        hl_qspin_t qspin;
        hl_ali_t ali;
    } as;
    hl_kind_t kind;
} HL_CAPABILITY hl_lock_t;

// What there is to know about a kind. `node_bytes`: what a waiter needs beside the lock.
typedef struct {
    const char *name;
    unsigned bytes, node_bytes;
    unsigned lock_atomics, unlock_atomics;  // read-modify-writes when nobody else is there
    bool shared;  // works in memory shared by processes
    const char *fairness, *summary, *source;
} hl_kind_info_t;

static inline const hl_kind_info_t *hl_kind_info(hl_kind_t kind) {
    static const hl_kind_info_t info[HL_KINDS] = {
        {"park", sizeof(hl_park_t), 0, 1, 0, true, "none",
         "spin a calibrated time, then sleep", "Drepper 2004"},
        {"tas", sizeof(hl_tas_t), 0, 1, 0, true, "none",
         "test-and-test-and-set with back-off", "Anderson 1990"},
        {"ticket", sizeof(hl_ticket_t), 0, 1, 0, true, "strict order",
         "take a number, wait until it is called", "Mellor-Crummey, Scott 1991"},
        {"mcs", sizeof(hl_mcs_t), sizeof(hl_mcs_node_t), 1, 1, false, "order among awake",
         "queue, the caller brings the node", "Mellor-Crummey, Scott 1991"},
        {"nmcs", sizeof(hl_nmcs_t), sizeof(hl_node_t), 1, 1, false, "order among awake",
         "queue, the node on the waiter's stack", "K42; Stultz 2002"},
        {"nmcs4", sizeof(hl_nmcs4_t), sizeof(hl_pool_node_t), 1, 1, false, "order among awake",
         "nmcs in four bytes, nodes from a pool", "K42; Stultz 2002"},
        {"mcsflag", sizeof(hl_mcsflag_t), sizeof(hl_node_t), 1, 0, false, "order, front awake",
         "queue in front of a flag", "Stultz 2002; Hesselink, Buhr 2023"},
        {"qspin", sizeof(hl_qspin_t), sizeof(hl_pool_node_t), 1, 0, false, "order, front awake",
         "Linux's word, nodes from a pool", "Long, Zijlstra 2015"},
        {"ali", sizeof(hl_ali_t), sizeof(hl_ali_req_t), 1, 0, false, "order among awake",
         "the owner runs the waiters' sections", "Ma Ling 2015"},
    };
    return (unsigned)kind < HL_KINDS ? &info[kind] : NULL;
}

// The kind of that name, or -1.
static inline int hl_kind_by_name(const char *name) {
    for (int k = 0; k < HL_KINDS; k++)
        if (!strcmp(name, hl_kind_info((hl_kind_t)k)->name)) return k;
    return -1;
}

static inline void hl_lock_init(hl_lock_t *l, hl_kind_t kind) {
    memset(l, 0, sizeof *l);
    l->kind = kind;
}

HL_API(ANY, LOCK) void hl_lock(hl_lock_t *l) HL_ACQUIRES(*l);
HL_API(ANY, LOCK) HL_MUST_USE bool hl_lock_until(hl_lock_t *l, uint64_t deadline_ns)
    HL_ACQUIRES_IF(true, *l);
HL_API(ANY, TRYLOCK) HL_MUST_USE bool hl_trylock(hl_lock_t *l) HL_ACQUIRES_IF(true, *l);
HL_API(ANY, UNLOCK) void hl_unlock(hl_lock_t *l) HL_RELEASES(*l);
HL_API(ANY, UNLOCK) bool hl_is_locked(const hl_lock_t *l);
// Runs fn(arg) under the lock: with ali, perhaps on the owner's thread.
HL_API(ANY, LOCK) void hl_run(hl_lock_t *l, void (*fn)(void *), void *arg) HL_EXCLUDES(*l);

// A node for a holder of mcs, which may be released by another thread, anywhere.
HL_INLINE hl_node_t *hl_mcs_borrow(uint64_t deadline_ns) {
    hl_poll_t poll = hl_poll_begin(HL_WAIT_PARK, deadline_ns);
    bool queued;
    hl_node_t *n;
    while (!(n = hl_node_claim(NULL, &queued)) && hl_poll(&poll)) continue;
    return n;
}

HL_INLINE bool hl_mcs_keep(hl_lock_t *l, hl_node_t *n, bool got) {
    if (got) l->as.mcs.node = n;
    else if (n) hl_node_free(n);
    return got;
}

#if HL_BODY(ANY, LOCK)
HL_API(ANY, LOCK) void hl_lock(hl_lock_t *l) {
    switch (l->kind) {
    case HL_PARK: hl_park_lock(&l->as.park); return;
    case HL_TAS: hl_tas_lock(&l->as.tas); return;
    case HL_TICKET: hl_ticket_lock(&l->as.ticket); return;
    case HL_MCS: {
        hl_node_t *n = hl_mcs_borrow(HL_NO_DEADLINE);
        hl_mcs_lock(&l->as.mcs.lock, n);
        (void)hl_mcs_keep(l, n, true);
        return;
    }
    case HL_NMCS: hl_nmcs_lock(&l->as.nmcs); return;
    case HL_NMCS4: hl_nmcs4_lock(&l->as.nmcs4); return;
    case HL_MCSFLAG: hl_mcsflag_lock(&l->as.mcsflag); return;
    case HL_QSPIN: hl_qspin_lock(&l->as.qspin); return;
    case HL_ALI: hl_ali_lock(&l->as.ali); return;
    case HL_KINDS: break;
    }
    __builtin_trap();
}
#endif

#if HL_BODY(ANY, TRYLOCK)
HL_API(ANY, TRYLOCK) bool hl_trylock(hl_lock_t *l) {
    switch (l->kind) {
    case HL_PARK: return hl_park_trylock(&l->as.park);
    case HL_TAS: return hl_tas_trylock(&l->as.tas);
    case HL_TICKET: return hl_ticket_trylock(&l->as.ticket);
    case HL_MCS: {
        hl_node_t *n = hl_mcs_borrow(0);
        return hl_mcs_keep(l, n, n && hl_mcs_trylock(&l->as.mcs.lock, n));
    }
    case HL_NMCS: return hl_nmcs_trylock(&l->as.nmcs);
    case HL_NMCS4: return hl_nmcs4_trylock(&l->as.nmcs4);
    case HL_MCSFLAG: return hl_mcsflag_trylock(&l->as.mcsflag);
    case HL_QSPIN: return hl_qspin_trylock(&l->as.qspin);
    case HL_ALI: return hl_ali_trylock(&l->as.ali);
    case HL_KINDS: break;
    }
    __builtin_trap();
}
#endif

#if HL_BODY(ANY, LOCK)
HL_API(ANY, LOCK) bool hl_lock_until(hl_lock_t *l, uint64_t deadline_ns) {
    switch (l->kind) {
    case HL_PARK: return hl_park_lock_until(&l->as.park, deadline_ns);
    case HL_TAS: return hl_tas_lock_until(&l->as.tas, deadline_ns);
    case HL_TICKET: return hl_ticket_lock_until(&l->as.ticket, deadline_ns);
    case HL_MCS: {
        hl_node_t *n = hl_mcs_borrow(deadline_ns);
        return hl_mcs_keep(l, n, n && hl_mcs_lock_until(&l->as.mcs.lock, n, deadline_ns));
    }
    case HL_NMCS: return hl_nmcs_lock_until(&l->as.nmcs, deadline_ns);
    case HL_NMCS4: return hl_nmcs4_lock_until(&l->as.nmcs4, deadline_ns);
    case HL_MCSFLAG: return hl_mcsflag_lock_until(&l->as.mcsflag, deadline_ns);
    case HL_QSPIN: return hl_qspin_lock_until(&l->as.qspin, deadline_ns);
    case HL_ALI: return hl_ali_lock_until(&l->as.ali, deadline_ns);
    case HL_KINDS: break;
    }
    __builtin_trap();
}
#endif

#if HL_BODY(ANY, UNLOCK)
HL_API(ANY, UNLOCK) void hl_unlock(hl_lock_t *l) {
    switch (l->kind) {
    case HL_PARK: hl_park_unlock(&l->as.park); return;
    case HL_TAS: hl_tas_unlock(&l->as.tas); return;
    case HL_TICKET: hl_ticket_unlock(&l->as.ticket); return;
    case HL_MCS: {
        hl_node_t *n = l->as.mcs.node;  // before the release: then it is the next holder's
        hl_mcs_unlock(&l->as.mcs.lock, n);
        hl_node_free(n);
        return;
    }
    case HL_NMCS: hl_nmcs_unlock(&l->as.nmcs); return;
    case HL_NMCS4: hl_nmcs4_unlock(&l->as.nmcs4); return;
    case HL_MCSFLAG: hl_mcsflag_unlock(&l->as.mcsflag); return;
    case HL_QSPIN: hl_qspin_unlock(&l->as.qspin); return;
    case HL_ALI: hl_ali_unlock(&l->as.ali); return;
    case HL_KINDS: break;
    }
    __builtin_trap();
}
#endif

#if HL_BODY(ANY, UNLOCK)
HL_API(ANY, UNLOCK) bool hl_is_locked(const hl_lock_t *l) {
    switch (l->kind) {
    case HL_PARK: return hl_park_is_locked(&l->as.park);
    case HL_TAS: return hl_tas_is_locked(&l->as.tas);
    case HL_TICKET: return hl_ticket_is_locked(&l->as.ticket);
    case HL_MCS: return hl_mcs_is_locked(&l->as.mcs.lock);
    case HL_NMCS: return hl_nmcs_is_locked(&l->as.nmcs);
    case HL_NMCS4: return hl_nmcs4_is_locked(&l->as.nmcs4);
    case HL_MCSFLAG: return hl_mcsflag_is_locked(&l->as.mcsflag);
    case HL_QSPIN: return hl_qspin_is_locked(&l->as.qspin);
    case HL_ALI: return hl_ali_is_locked(&l->as.ali);
    case HL_KINDS: break;
    }
    __builtin_trap();
}
#endif

#if HL_BODY(ANY, LOCK)
HL_API(ANY, LOCK) void hl_run(hl_lock_t *l, void (*fn)(void *), void *arg) {
    if (l->kind == HL_ALI) {
        hl_ali_run(&l->as.ali, fn, arg);
        return;
    }
    hl_lock(l);
    fn(arg);
    hl_unlock(l);
}
#endif

#endif
