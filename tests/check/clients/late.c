// SPDX-License-Identifier: MIT
// late.c - a waiter's deadline passes in the queue, and another comes: mcs, nmcs and nmcs4.
//
// main() holds the lock until a timed waiter is in its queue, frees it, and takes it again if it
// can: a waiter that is awake has timed out by then, one that sleeps has been made heir and is
// overtaken. Then another comes, or the one that gave up comes back. Everybody excludes everybody,
// and who has no deadline gets in.
//
//   -DLOCK=nmcs
//   -DAGAIN=1                 nobody else comes: who has given up tries again, without a deadline
//   -DHOLD=1                  main(), having overtaken, holds the lock until the other has
//                           joined, or the first has given up
//   -DPOLICY=HL_WAIT_PARK     or HL_WAIT_SPIN
#include <assert.h>
#include <pthread.h>

#ifndef LOCK
#define LOCK nmcs
#endif
#include "ours.h"

#ifndef AGAIN
#define AGAIN 0
#endif
#ifndef HOLD
#define HOLD 0
#endif
#ifndef POLICY
#define POLICY HL_WAIT_PARK
#endif

static OF(_t) lock;
static int sections, inside;
static HL_ATOMIC(int) gave_up;  // or the deadline passed before it was in the queue

static void section(void) {
    assert(!inside);
    inside = 1;
    sections++;
    inside = 0;
}

static void *patient(void *unused) {
    NODE_DECL
    OF(_lock)(&lock N);
    section();
    OF(_unlock)(&lock N);
    return unused;
}

static void *timed(void *unused) {
    NODE_DECL
    if (!OF(_lock_until)(&lock N, hl_now_ns() + 1000000)) {
        hl_store(&gave_up, 1);
        return AGAIN ? patient(unused) : unused;
    }
    section();
    OF(_unlock)(&lock N);
    return &sections;
}

int main(void) {
    pthread_t first, second;
    void *got;
    NODE_DECL
    hl_wait_set(POLICY);
    (void)hl_ns_to_ticks(1);
    OF(_lock)(&lock N);
    uintptr_t alone = TAIL;
    pthread_create(&first, NULL, timed, NULL);
    while (TAIL == alone && !hl_load(&gave_up)) hl_pause();
    OF(_unlock)(&lock N);
    bool again = OF(_trylock)(&lock N);
    if (again) section();
    uintptr_t queue = TAIL & ~HL_FLAGS;
    if (!AGAIN) pthread_create(&second, NULL, patient, NULL);
    while (HOLD && again && (TAIL & ~HL_FLAGS) == queue && !hl_load(&gave_up)) hl_pause();
    if (again) OF(_unlock)(&lock N);
    pthread_join(first, &got);
    if (!AGAIN) pthread_join(second, NULL);
    assert(sections == again + (!AGAIN && got) + 1);
    assert(!OF(_is_locked)(&lock));
    return 0;
}
