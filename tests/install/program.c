// SPDX-License-Identifier: MIT
// program.c - a user's program against the installed library: every lock, two threads. C and C++.
#include <hotlock/hotlock.h>

#include <pthread.h>
#include <stdio.h>

enum { ROUNDS = 1000 };

typedef struct {
    hl_tas_t tas;
    hl_ticket_t ticket;
    hl_mcs_t mcs;
    hl_nmcs_t nmcs;
    hl_nmcs4_t nmcs4;
    hl_mcsflag_t mcsflag;
    hl_qspin_t qspin;
    hl_park_t park;
    hl_ali_t ali;
    hl_lock_t any;
    long count[10], run;
} shared_t;

static shared_t shared;

static void section(void *count) { ++*(long *)count; }

static void *work(void *arg) {
    shared_t *s = (shared_t *)arg;
    for (int i = 0; i < ROUNDS; i++) {
        hl_mcs_node_t node;
        hl_tas_lock(&s->tas), s->count[0]++, hl_tas_unlock(&s->tas);
        hl_ticket_lock(&s->ticket), s->count[1]++, hl_ticket_unlock(&s->ticket);
        hl_mcs_lock(&s->mcs, &node), s->count[2]++, hl_mcs_unlock(&s->mcs, &node);
        hl_nmcs_lock(&s->nmcs), s->count[3]++, hl_nmcs_unlock(&s->nmcs);
        hl_nmcs4_lock(&s->nmcs4), s->count[4]++, hl_nmcs4_unlock(&s->nmcs4);
        hl_mcsflag_lock(&s->mcsflag), s->count[5]++, hl_mcsflag_unlock(&s->mcsflag);
        hl_qspin_lock(&s->qspin), s->count[6]++, hl_qspin_unlock(&s->qspin);
        hl_park_lock(&s->park), s->count[7]++, hl_park_unlock(&s->park);
        hl_ali_lock(&s->ali), s->count[8]++, hl_ali_unlock(&s->ali);
        hl_ali_run(&s->ali, section, &s->count[8]);
        hl_lock(&s->any), s->count[9]++, hl_unlock(&s->any);
        hl_run(&s->any, section, &s->run);
    }
    return NULL;
}

static void *give_up(void *arg) {
    return hl_park_lock_until((hl_park_t *)arg, hl_now_ns() + 5000000) ? arg : NULL;
}

int main(void) {
    pthread_t id[2];
    void *got;
    hl_lock_init(&shared.any, HL_ALI);
    for (int i = 0; i < 2; i++) pthread_create(&id[i], NULL, work, &shared);
    for (int i = 0; i < 2; i++) pthread_join(id[i], NULL);
    for (int i = 0; i < 10; i++) {
        long want = 2L * ROUNDS * (i == 8 ? 2 : 1);
        if (shared.count[i] != want) return printf("lock %d: %ld\n", i, shared.count[i]), 1;
    }
    if (shared.run != 2L * ROUNDS) return printf("hl_run: %ld\n", shared.run), 1;

    // One policy for the program, in whichever copy of the code a waiter waits.
    hl_wait_set(HL_WAIT_PARK);
    hl_park_lock(&shared.park);
    pthread_create(&id[0], NULL, give_up, &shared.park);
    pthread_join(id[0], &got);
    hl_park_unlock(&shared.park);
    if (got) return printf("a held lock was locked\n"), 1;
    if (!hl_load(&hl_wait_state.futex_calls)) return printf("two wait states\n"), 1;
    return 0;
}
