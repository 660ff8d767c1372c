// SPDX-License-Identifier: MIT
// ops.c - one function per operation of each lock, for the test that counts their instructions.
// Compiled, never run. With ASM_CK also the same locks of Concurrency Kit.
#include <hotlock/hotlock.h>

#define OPS(lock)                                                                   \
    void op_##lock##_lock(hl_##lock##_t *l) { hl_##lock##_lock(l); }                \
    bool op_##lock##_trylock(hl_##lock##_t *l) { return hl_##lock##_trylock(l); }   \
    void op_##lock##_unlock(hl_##lock##_t *l) { hl_##lock##_unlock(l); }
OPS(tas)
OPS(ticket)
OPS(nmcs)
OPS(nmcs4)
OPS(mcsflag)
OPS(qspin)
OPS(park)
OPS(ali)

void op_mcs_lock(hl_mcs_t *l, hl_mcs_node_t *n) { hl_mcs_lock(l, n); }
bool op_mcs_trylock(hl_mcs_t *l, hl_mcs_node_t *n) { return hl_mcs_trylock(l, n); }
void op_mcs_unlock(hl_mcs_t *l, hl_mcs_node_t *n) { hl_mcs_unlock(l, n); }

// A section that is known where the call is compiled, and one that is not.
long op_counter;
static void count(void *unused) {
    (void)unused;
    op_counter++;
}
void op_ali_run(hl_ali_t *l) { hl_ali_run(l, count, NULL); }
void op_ali_run_any(hl_ali_t *l, void (*fn)(void *), void *arg) { hl_ali_run(l, fn, arg); }

#ifdef ASM_CK
#include <ck_spinlock.h>

void ck_tas_lock(ck_spinlock_fas_t *l) { ck_spinlock_fas_lock(l); }
void ck_tas_unlock(ck_spinlock_fas_t *l) { ck_spinlock_fas_unlock(l); }
bool ck_tas_trylock(ck_spinlock_fas_t *l) { return ck_spinlock_fas_trylock(l); }
void ck_cas_lock(ck_spinlock_cas_t *l) { ck_spinlock_cas_lock(l); }
void ck_cas_unlock(ck_spinlock_cas_t *l) { ck_spinlock_cas_unlock(l); }
void ck_ticket_lock_(ck_spinlock_ticket_t *l) { ck_spinlock_ticket_lock(l); }
void ck_ticket_unlock_(ck_spinlock_ticket_t *l) { ck_spinlock_ticket_unlock(l); }
void ck_mcs_lock(ck_spinlock_mcs_t *l, ck_spinlock_mcs_context_t *n) { ck_spinlock_mcs_lock(l, n); }
void ck_mcs_unlock(ck_spinlock_mcs_t *l, ck_spinlock_mcs_context_t *n) {
    ck_spinlock_mcs_unlock(l, n);
}
bool ck_mcs_trylock(ck_spinlock_mcs_t *l, ck_spinlock_mcs_context_t *n) {
    return ck_spinlock_mcs_trylock(l, n);
}
#endif
