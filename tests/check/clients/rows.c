// SPDX-License-Identifier: MIT
// rows.c - a row passes from one reader-writer lock to another: there is only one (rw.h).
//
// The first thread leaves the row of lock `a` with counters that are not zero but whose sum is: it
// reads, gives the lock the row, leaves by it, and takes it back by writing. Then `b` gets the row,
// and the first thread reads there while the second writes. Whose counters are read as they were
// before `a` had the row adds up to nobody inside.
//
//   -DKEEPS          the first thread gives `b` the row as well, else the second
//   -DFAILS          the first claims the row once more and cannot use it
//   -DTRY            the second tries to write
#include <assert.h>
#include <pthread.h>

#define HL_RW_ROWS       2
#define HL_RW_SLOTS      2
#define HL_RW_COLLISIONS 1
#include "hotlock/rw.h"

static hl_rw_t a, b;
static int first, second;
// Orders nothing but the schedule; NONE: the row of `a` was not yet seen free.
static HL_ATOMIC(int) turn;
enum { START, PASSED, GIVEN, NONE };

// As the reader that has lost a compare-exchange does.
static void give_row(hl_rw_t *l) { hl_rw_collide(l); }

static void pass_through_a(void) {
    hl_rw_read_lock(&a);
    give_row(&a);
    assert(hl_load(&a.state) & HL_RW_ROW);
    hl_rw_read_unlock(&a);
    hl_rw_lock(&a);
    hl_rw_unlock(&a);
#ifdef FAILS
    hl_rw_lock(&a);
    give_row(&a);
    hl_rw_unlock(&a);
#endif
}

static void *reader(void *unused) {
    pass_through_a();
#ifdef KEEPS
    give_row(&b);
#endif
    hl_store(&turn, PASSED);
#ifndef KEEPS
    while (hl_load(&turn) == PASSED) hl_pause();
    if (hl_load(&turn) == NONE) return unused;
#endif
    hl_rw_read_lock(&b);
    assert(first == second);
    hl_rw_read_unlock(&b);
    return unused;
}

// With a slot of its own: the counter that took what was counted in the state of `a` is the first.
static __attribute__((noinline)) void *other_slot(void *unused) {
    volatile char space[1 << 13];
    space[0] = 0;
    void *end = hl_rw_my_slot() ? reader(unused) : other_slot(unused);
    space[1] = 0;
    return end;
}

static void *writer(void *unused) {
    while (hl_load(&turn) != PASSED) hl_pause();
#ifndef KEEPS
    give_row(&b);
    bool given = hl_load(&b.state) & HL_RW_ROW;
    hl_store(&turn, given ? GIVEN : NONE);
    if (!given) return unused;
#endif
#ifdef TRY
    if (!hl_rw_trylock(&b)) return unused;
#else
    hl_rw_lock(&b);
#endif
    first++;
    second++;
    hl_rw_unlock(&b);
    return unused;
}

int main(void) {
    pthread_t thread[2];
    hl_wait_set(HL_WAIT_SPIN);
    (void)hl_ns_to_ticks(1);
    pthread_create(&thread[0], NULL, other_slot, NULL);
    pthread_create(&thread[1], NULL, writer, NULL);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert(first == second);
    assert(hl_rw_trylock(&b));
    hl_rw_unlock(&b);
    return 0;
}
