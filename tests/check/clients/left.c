// SPDX-License-Identifier: MIT
// left.c - threads that are stopped between joining a queue and linking themselves
// (HL_SUSPENDABLE): nmcs and nmcs4.
//
// `first` frees the lock while `second` is stopped, and `second` leaves the queue while `third` is:
// both find out that they are first, and `third` frees the node of `second`, which `first` claims
// as it comes back. There it must find nothing of what `second` wrote. The steps are kept by looks
// that order nothing.
//
//   -DEARLY       `first` comes back while `third` is stopped: no node is free yet
//   -DLOCK=nmcs -DHL_SUSPENDABLE=1 -DHL_POOL_NODES=4
#include <assert.h>
#include <pthread.h>

#ifndef LOCK
#define LOCK nmcs
#endif
#include "ours.h"

static OF(_t) lock;
static HL_ATOMIC(int) step;
static int sections, inside;

static void await(int what) {
    while (hl_load(&step) != what) hl_pause();
}

static void section(void) {
    assert(!inside);
    inside = 1;
    sections++;
    inside = 0;
}

// lock(), stopped for a while after the first of the two steps into the queue.
static void lock_stopped(int joined, int go_on, int linked) {
    hl_queue_t q = OF(_queue)(&lock);
    bool queued, left;
    uintptr_t seen;
    hl_node_t *me = hl_node_claim(NULL, &queued);
    hl_node_ready(me, HL_WAITING);
    do seen = hl_tail_load(q.tail);
    while (!hl_tail_cas_acqrel(q.tail, seen, hl_name(q.tail, me) | (seen & HL_FLAGS)));
    hl_store(&step, joined);
    await(go_on);
    hl_nmcs_link(q, seen, me);
    if (linked) hl_store(&step, linked);
    (void)hl_nmcs_wait(q, me, HL_NO_DEADLINE, &left);
    if (!left) hl_node_free(me);
}

static void *first(void *unused) {
    OF(_lock)(&lock);
    hl_store(&step, 1);
    await(2);
    OF(_unlock)(&lock);
    hl_store(&step, 3);
#ifdef EARLY
    while (hl_load(&step) < 5) hl_pause();
#else
    await(6);
#endif
    OF(_lock)(&lock);
    section();
    OF(_unlock)(&lock);
    return unused;
}

static void *second(void *unused) {
    await(1);
    lock_stopped(2, 4, 0);
    uintptr_t seen = TAIL;
    assert(seen & HL_BARGE);
    hl_store(&step, 5);
    while ((TAIL & ~HL_FLAGS) == (seen & ~HL_FLAGS)) hl_pause();
    section();
    OF(_unlock)(&lock);
    return unused;
}

static void *third(void *unused) {
    await(3);
    lock_stopped(4, 5, 6);
    section();
    OF(_unlock)(&lock);
    return unused;
}

int main(void) {
    void *(*work[])(void *) = {first, second, third};
    pthread_t thread[3];
    hl_wait_set(HL_WAIT_SPIN);
    (void)hl_ns_to_ticks(1);
    for (int i = 0; i < 3; i++) pthread_create(&thread[i], NULL, work[i], NULL);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert(sections == 3);
    assert(!OF(_is_locked)(&lock));
    return 0;
}
