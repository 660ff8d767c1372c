// SPDX-License-Identifier: MIT
// pass.c - a writer that is not at the gate takes the lock, which has a row, while another thread closes
// and opens the gate, and comes in to read in between: the state looks the same again (rw.h).
//
//   -DAGAIN          the other thread writes in between, and the lock is given the row again
#include <assert.h>
#include <pthread.h>

#define HL_RW_ROWS       2
#define HL_RW_SLOTS      2
#define HL_RW_COLLISIONS 1
#include "hotlock/rw.h"

static hl_rw_t a;
static int first, second;

static void *passer(void *unused) {
    if (!hl_rw_pass(&a)) return unused;
    first++;
    second++;
    hl_rw_unlock(&a);
    return unused;
}

// As hl_rw_lock_at_gate().
static void close_gate(void) { HL_RW_SC(fetch_or, &a.state, HL_RW_GATE); }

static void *comer_and_goer(void *unused) {
    close_gate();
#ifdef AGAIN
    while (!hl_rw_take(&a, HL_RW_SC(load_n, &a.state), 0)) hl_pause();
    hl_rw_unlock(&a);
    hl_rw_collide(&a);
#else
    hl_rw_give_up(&a);
#endif
    if (!hl_rw_read_trylock(&a)) return unused;
    close_gate();
    assert(first == second);
    hl_rw_read_unlock(&a);
    hl_rw_give_up(&a);
    return unused;
}

int main(void) {
    pthread_t thread[2];
    hl_wait_set(HL_WAIT_SPIN);
    (void)hl_ns_to_ticks(1);
    hl_rw_collide(&a);
    pthread_create(&thread[0], NULL, passer, NULL);
    pthread_create(&thread[1], NULL, comer_and_goer, NULL);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert(first == second);
    assert(hl_rw_pass(&a));
    hl_rw_unlock(&a);
    return 0;
}
