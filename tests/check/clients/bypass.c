// SPDX-License-Identifier: MIT
// bypass.c - a sleeping first waiter is overtaken a bounded number of times: nmcs, nmcs4 and mcs.
//
// main() holds the lock until the other thread is in its queue. Then it frees it, and takes it
// again and again, by trylock, past a waiter that sleeps: each time that one has been woken, has
// competed and lost and has gone back to sleep. That goes well HL_ROUNDS times at most, for then
// the waiter sleeps with the door closed.
//
//   -DLOCK=nmcs -DHL_ROUNDS=2
#include <assert.h>
#include <pthread.h>

#ifndef LOCK
#define LOCK nmcs
#endif
#include "ours.h"

static OF(_t) lock;
static bool served;

static void *sleeper(void *unused) {
    (void)unused;
    NODE_DECL
    OF(_lock)(&lock N);
    served = true;
    OF(_unlock)(&lock N);
    return NULL;
}

int main(void) {
    pthread_t thread;
    int overtaken = 0;
    NODE_DECL
    hl_wait_set(HL_WAIT_PARK);
    OF(_lock)(&lock N);
    uintptr_t alone = TAIL;
    pthread_create(&thread, NULL, sleeper, NULL);
    for (int i = 0; i < 2 * HL_ROUNDS; i++) {
        // Held by us, until the other is in the queue; and once it is heir, until it has lost and
        // sleeps.
        while (i ? !(TAIL & HL_ASLEEP) : TAIL == alone) hl_pause();
        OF(_unlock)(&lock N);
        if (!OF(_trylock)(&lock N)) break;
        if (served) {
            OF(_unlock)(&lock N);
            break;
        }
        assert(++overtaken <= HL_ROUNDS);
    }
    pthread_join(thread, NULL);
    assert(served);
    return 0;
}
