// SPDX-License-Identifier: MIT
// kinds.c - the locks a process can choose from, and the stubs that stand in until it has.
#include <errno.h>

#include "hotlock/mcsflag.h"
#include "hotlock/nmcs4.h"
#include "hotlock/park.h"
#include "hotlock/qspin.h"
#include "hotlock/tas.h"
#include "hotlock/ticket.h"
#include "preload.h"

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

#define LOCK        park
#define SPIN        park
#define SPIN_SHARED HL_PARK_SHARED
#define SPIN_MARK   0
#include "kind.h"

#define LOCK        tas
#define SPIN        tas
#define SPIN_SHARED 0u
#define SPIN_MARK   0
#include "kind.h"

#define LOCK        ticket
#define SPIN        ticket
#define SPIN_SHARED 0u
#define SPIN_MARK   0
#include "kind.h"

#define LOCK        nmcs
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#include "kind.h"

#define LOCK        nmcs4
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#include "kind.h"

#define LOCK        mcsflag
#define SPIN        nmcs4
#define SPIN_SHARED NMCS4_MARK
#define SPIN_MARK   NMCS4_MARK
#include "kind.h"

#define LOCK        qspin
#define SPIN        qspin
#define SPIN_SHARED QSPIN_MARK
#define SPIN_MARK   QSPIN_MARK
#include "kind.h"

const hlp_ops_t *const hlp_kinds[] = {&park_ops,  &tas_ops,     &ticket_ops, &nmcs_ops,
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
