// SPDX-License-Identifier: MIT
// rw.c - the reader-writer lock: writers alone, readers see what they wrote, all end.
//
//   -DWAYS=WR        what each thread does: W write, R read, U write by a deadline, V read by a
//                    deadline, T try to write, X try to, whoever is at the gate, t try to read, P read past
//                    a waiting writer, Q the same after a while
//   -DROW            the lock begins with a row, as after many collisions of readers
//   -DCOLD                  nobody has measured the clock's rate before the threads do
//   -DPOLICY=HL_WAIT_PARK
//   -DLAST_FREES     the lock stands in memory that the last user frees
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#ifndef HL_RW_ROWS
#define HL_RW_ROWS 2
#endif
#ifndef HL_RW_SLOTS
#define HL_RW_SLOTS 2
#endif
#ifndef HL_RW_COLLISIONS
#define HL_RW_COLLISIONS 1
#endif
#include "hotlock/rw.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#ifndef THREADS
#define THREADS 2
#endif
#ifndef WAYS
#define WAYS WR
#endif
static const char ways[] = STRING(WAYS);
_Static_assert(sizeof ways - 1 == THREADS, "a way for each thread");

static hl_rw_t *lock;
static int first, second, written;
#ifdef LAST_FREES
static int users = THREADS;  // one reader at most may be among them
#endif

static bool writes(char way) { return way == 'W' || way == 'U' || way == 'T' || way == 'X'; }

static bool enter(char way) {
    switch (way) {
    case 'W': hl_rw_lock(lock); return true;
    case 'R': hl_rw_read_lock(lock); return true;
    case 'U': return hl_rw_lock_until(lock, hl_now_ns() + 1000000);
    case 'V': return hl_rw_read_lock_until(lock, hl_now_ns() + 1000000);
    case 'T': return hl_rw_trylock(lock);
    case 'X': return hl_rw_pass(lock);
    case 't': return hl_rw_read_trylock(lock);
    case 'Q': return hl_rw_read_lock_patient(lock, 1000000, HL_NO_DEADLINE);
    default: return hl_rw_read_lock_patient(lock, 0, HL_NO_DEADLINE);
    }
}

static void *work(void *arg) {
    char way = ways[(long)arg];
    int left = 1;
    if (enter(way)) {
        if (writes(way)) {
            first++;
            written++;
            second++;
        } else {
            assert(first == second);
        }
#ifdef LAST_FREES
        left = --users;
#endif
        if (writes(way)) hl_rw_unlock(lock);
        else hl_rw_read_unlock(lock);
    }
    if (!left) free(lock);
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    lock = calloc(1, sizeof *lock);
#ifdef POLICY
    hl_wait_set(POLICY);
#endif
#ifndef COLD
    (void)hl_ns_to_ticks(1);  // measured here once, not by each thread: a thousandth of the executions
#endif
#ifdef ROW
    hl_rw_collide(lock);
    assert(hl_load(&lock->state) & HL_RW_ROW);
#endif
    for (long i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert(first == written && second == written);
#ifndef LAST_FREES
    // Whoever comes later gets in, either way: nothing of the others is left.
    assert(hl_rw_trylock(lock));
    hl_rw_unlock(lock);
    assert(hl_rw_read_trylock(lock));
    hl_rw_read_unlock(lock);
#endif
    return 0;
}
