// SPDX-License-Identifier: MIT
// kinds.c - the locks a process can choose from, and the stubs that stand in until it has.
#include <errno.h>

#include "hotlock/mcsflag.h"
#include "hotlock/nmcs4.h"
#include "hotlock/park.h"
#include "hotlock/qspin.h"
#include "hotlock/tas.h"
#include "mcs_alone.h"
#include "preload.h"
#include "slice.h"
#include "ticket_flag.h"

typedef HL_ATOMIC(uint32_t) word_t;

static word_t *word(pthread_spinlock_t *s) { return (word_t *)(void *)s; }
static bool is_marked(pthread_spinlock_t *s, uint32_t mark) {
    return (hl_load(word(s)) & 0xffff) == mark;
}
static hl_tas_t *last_byte(pthread_spinlock_t *s) {
    return (hl_tas_t *)(void *)s + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 0 : 3);
}

// A tail of flags without a name: never stored by nmcs4 (queue.h, "A tail with flags").
#define NMCS4_MARK HL_FLAGS
// Neither of qspin's two bytes here is ever more than 1 (flag.h).
#define QSPIN_MARK 0x0f0fu

// ------------------------------------------------------------------------- past the first waiter
// pass: takes a lock that is free, as a newcomer does, past a first waiter that leaves it alone.
// What the caller has left in the queue is taken out by those who pass. take_reserved: at once, for
// a trylock, which must not fail because a first waiter has closed the door and was suspended.
static bool hl_nmcs_pass(hl_nmcs_t *l) { return hl_barge(hl_nmcs_queue(l).tail, HL_NO_DEADLINE); }
static bool hl_nmcs_take_reserved(hl_nmcs_t *l) {
    return hl_tail_take_reserved(hl_nmcs_queue(l).tail);
}
static bool hl_nmcs4_pass(hl_nmcs4_t *l) {
    return hl_barge(hl_nmcs4_queue(l).tail, HL_NO_DEADLINE);
}
static bool hl_nmcs4_take_reserved(hl_nmcs4_t *l) {
    return hl_tail_take_reserved(hl_nmcs4_queue(l).tail);
}
static bool hl_mcsflag_pass(hl_mcsflag_t *l) {
    return hl_flag_barge(hl_mcsflag_queue(l), HL_NO_DEADLINE);
}
static bool hl_mcsflag_take_reserved(hl_mcsflag_t *l) { return hl_flag_take_free(&l->flag); }
static bool hl_qspin_pass(hl_qspin_t *l) {
    hl_flag_queue_t q = {&l->flag, NULL};
    return hl_flag_barge(q, HL_NO_DEADLINE);
}
static bool hl_qspin_take_reserved(hl_qspin_t *l) { return hl_flag_take_free(&l->flag); }

// Unlocks a lock that is held and has no waiters, in one step: no look before it.
static bool hl_mcs_alone_drop(hl_mcs_alone_t *l) {
    return l->node == &hl_mcs_no_node && hl_cas_rel(&l->lock.tail, HL_HELD, 0);
}
static bool hl_nmcs_drop(hl_nmcs_t *l) { return hl_cas_rel(&l->tail, HL_HELD, 0); }
static bool hl_nmcs4_drop(hl_nmcs4_t *l) {
    return hl_cas_rel(&l->half.tail, (uint16_t)HL_HELD, 0);
}

// ------------------------------------------------------------------------- the locks
#define LOCK        park
#define SPIN        park
#define SPIN_SHARED HL_PARK_SHARED
#define SPIN_MARK   0
#define QUEUED      0
#define SPIN_QUEUED 0
#define DROPS       0
#include "kind.h"

#define LOCK        tas
#define SPIN        tas
#define SPIN_SHARED 0u
#define SPIN_MARK   0
#define QUEUED      0
#define SPIN_QUEUED 0
#define DROPS       0
#include "kind.h"

#define LOCK        ticket
#define FORM        ticket_flag
#define SPIN        ticket_flag
#define SPIN_SHARED 0u
#define SPIN_MARK   0
#define QUEUED      0
#define SPIN_QUEUED 0
#define DROPS       0
#include "kind.h"

// ------------------------------------------------------------------------- the queue locks
#define LOCK        mcs
#define FORM        mcs_alone
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#define QUEUED      1
#define SPIN_QUEUED 1
#define DROPS       1
#include "kind.h"

#define LOCK        nmcs
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#define QUEUED      1
#define SPIN_QUEUED 1
#define DROPS       1
#include "kind.h"

#define LOCK        nmcs4
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#define QUEUED      1
#define SPIN_QUEUED 1
#define DROPS       1
#include "kind.h"

#define LOCK        mcsflag
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#define QUEUED      1
#define SPIN_QUEUED 1
#define DROPS       0
#include "kind.h"

#define LOCK        qspin
#define SPIN        qspin
#define SPIN_SHARED QSPIN_MARK
#define SPIN_MARK   QSPIN_MARK
#define QUEUED      1
#define SPIN_QUEUED 1
#define DROPS       0
#include "kind.h"

const hlp_ops_t *const hlp_kinds[] = {&park_ops,  &tas_ops,     &ticket_ops, &mcs_ops, &nmcs_ops,
                                      &nmcs4_ops, &mcsflag_ops, &qspin_ops,  NULL};

// ------------------------------------------------------------------------- before the choice
#define STUB(op, type, ...)                          \
    static int first_##op type {                     \
        hlp_choose();                                \
        return hlp_op(op)(__VA_ARGS__);              \
    }
STUB(lock, (pthread_mutex_t *m), m)
STUB(trylock, (pthread_mutex_t *m), m)
STUB(unlock, (pthread_mutex_t *m), m)
STUB(spin_init, (pthread_spinlock_t *s, int shared), s, shared)
STUB(spin_destroy, (pthread_spinlock_t *s), s)
STUB(spin_lock, (pthread_spinlock_t *s), s)
STUB(spin_trylock, (pthread_spinlock_t *s), s)
STUB(spin_unlock, (pthread_spinlock_t *s), s)

hlp_ops_t hlp_ops = {
    .lock = first_lock,
    .trylock = first_trylock,
    .unlock = first_unlock,
    .spin_init = first_spin_init,
    .spin_destroy = first_spin_destroy,
    .spin_lock = first_spin_lock,
    .spin_trylock = first_spin_trylock,
    .spin_unlock = first_spin_unlock,
};
