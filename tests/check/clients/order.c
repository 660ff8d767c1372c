// SPDX-License-Identifier: MIT
// order.c - order of arrival: who has been seen to wait enters before whoever comes later.
//
// main() holds the lock. It lets a thread come only when it has seen, by the lock's own word, that
// the one before waits; then it frees the lock. They must enter as 1, 2, 3: strictly for ticket,
// and for the others while all are awake, so the policy is to spin.
//
//   -DLOCK=nmcs -DTHREADS=2     which lock, how many come
//   -DLATE=0                    main() sees the last one wait as well before it frees the lock
//   -DWAYS=LU                   how thread i enters: L lock, U lock_until, R run (ali alone)
//   -DFLAG                      mcsflag and qspin: the first thread waits when it stands in the
//                               queue and has closed the door, with which it begins to compete
#include <assert.h>
#include <pthread.h>

#ifndef LOCK
#define LOCK ticket
#endif
#include "ours.h"

#ifndef THREADS
#define THREADS 2
#endif
#ifndef LATE
#define LATE 1
#endif
#ifndef WAYS
#define WAYS L
#endif

static OF(_t) lock;
static int entered;

// What changes with each arrival.
#define NEWEST_ticket  hl_load(&lock.half.next)
#define NEWEST_mcs     hl_load(&lock.tail)
#define NEWEST_nmcs    hl_load(&lock.tail)
#define NEWEST_nmcs4   hl_load(&lock.half.tail)
#define NEWEST_mcsflag (uintptr_t)hl_load(&lock.tail)
#define NEWEST_qspin   hl_load(&lock.flag.half.tail)
#define NEWEST_ali     (uintptr_t)(hl_load(&lock.word) & ~HL_ALI_FLAGS)
#define NEWEST         HL_JOIN(NEWEST_, LOCK, )

#ifdef FLAG
#define DOOR_CLOSED hl_load(&lock.flag.byte.closed)
#else
#define DOOR_CLOSED true
#endif

static void section(void *arg) {
    int me = *(int *)arg;
    assert(entered == me - 1);  // nobody has overtaken, and nobody was overtaken
    entered = me;
}

static void enter(char way, int *me) {
    NODE_DECL
    switch (way) {
#ifdef RUN
    case 'R': OF(_run)(&lock, section, me); return;
#endif
    case 'U':
        if (!OF(_lock_until)(&lock N, hl_now_ns() + 1000000)) assert(!"no time has passed");
        break;
    default: OF(_lock)(&lock N);
    }
    section(me);
    OF(_unlock)(&lock N);
}

static void *work(void *arg) {
    static const char ways[] = HL_STRING(WAYS);
    int me = (int)(long)arg;
    enter(ways[(unsigned)(me - 1) % (sizeof ways - 1)], &me);
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    NODE_DECL
    hl_wait_set(HL_WAIT_SPIN);
    (void)hl_ns_to_ticks(1);  // measures the clock once, not each thread for itself
    OF(_lock)(&lock N);
    for (long i = 1; i <= THREADS; i++) {
        uintptr_t before = NEWEST;
        pthread_create(&thread[i - 1], NULL, work, (void *)i);
        while (i <= THREADS - LATE && (NEWEST == before || !DOOR_CLOSED)) hl_pause();
    }
    OF(_unlock)(&lock N);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert(entered == THREADS);
    return 0;
}
