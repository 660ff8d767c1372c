// SPDX-License-Identifier: MIT
// lock.c - what one of our locks must do: exclude, publish, end; and free memory it has left.
//
//   -DLOCK=nmcs -DTHREADS=3 -DSECTIONS=1    which lock, how many threads, sections of each
//   -DWAYS=LUT                              how thread i, section j enters: L lock, U lock_until,
//                                           T trylock, R run (ali alone), Y take it if it is free,
//                                           though it be for the heir (nmcs and nmcs4, -DRESERVED);
//                                           repeated as needed
//   -DCOLD                  nobody has measured the clock's rate before the threads do
//   -DPOLICY=HL_WAIT_PARK                   the wait policy
//   -DLAST_FREES                            the lock stands in memory that the last user frees
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#ifndef LOCK
#define LOCK tas
#endif
#include "hotlock/tas.h"
#include "ours.h"

#ifndef THREADS
#define THREADS 2
#endif
#ifndef SECTIONS
#define SECTIONS 1
#endif
#ifndef WAYS
#define WAYS L
#endif

static OF(_t) *lock;
static int sections, inside;
static int done[THREADS][SECTIONS];
#ifdef LAST_FREES
static int users = THREADS;
#endif

// One section: nobody else is in, and what the last owner wrote is seen.
static void section(void *arg) {
    assert(inside == 0);
    inside = 1;
    sections++;
    (*(int *)arg)++;
    inside = 0;
}

static int enter(char way, int *mine) {
    NODE_DECL
    switch (way) {
    case 'T':
        if (!OF(_trylock)(lock N)) return 0;
        break;
    case 'U':
        if (!OF(_lock_until)(lock N, hl_now_ns() + 1000000)) return 0;
        break;
#ifdef RESERVED
    case 'Y':
        if (!hl_tail_take_reserved(OF(_queue)(lock).tail)) return 0;
        break;
#endif
#ifdef RUN
    case 'R':
        OF(_run)(lock, section, mine);
        return 1;
#endif
    default: OF(_lock)(lock N);
    }
    section(mine);
#ifdef LAST_FREES
    int left = --users;
#endif
    OF(_unlock)(lock N);
#ifdef LAST_FREES
    if (!left) free(lock);
#endif
    return 1;
}

static void *work(void *arg) {
    static const char ways[] = HL_STRING(WAYS);
    int me = (int)(long)arg, entered = 0;
    for (int i = 0; i < SECTIONS; i++) {
        int got = enter(ways[(me * SECTIONS + i) % (sizeof ways - 1)], &done[me][i]);
        entered += got;
    }
    return (void *)(long)entered;
}

int main(void) {
    pthread_t thread[THREADS];
    int entered = 0;
    lock = calloc(1, sizeof *lock);
#ifdef POLICY
    hl_wait_set(POLICY);
#endif
#ifndef COLD
    (void)hl_ns_to_ticks(1);  // here once, not by each thread: a thousandth of the executions
#endif
    for (long i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(thread[i], &result);
        entered += (int)(long)result;
    }
    assert(sections == entered);
#ifndef LAST_FREES
    assert(!OF(_is_locked)(lock));
#endif
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < SECTIONS; j++) assert(done[i][j] <= 1);
    return 0;
}
