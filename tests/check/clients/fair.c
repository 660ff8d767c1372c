// SPDX-License-Identifier: MIT
// fair.c - phase fairness: a reader that waits gets in after one writer at most, a writer that
// waits after the readers inside and those let in at once. The lock of rw.h, or the preload's.
//
// main() holds the lock until it has seen, by the lock's own word, who waits: a writer that has
// closed the gate, a reader that is counted. Then it frees the lock and comes back. Every waiting
// reader has seen one writer, neither none nor two; and if main() comes back to read, it has seen
// all.
//
//   -DHELD='W' -DWAITS=RW -DTHEN='R'   main() writes (W) or reads (R); one after the other come who
//                                      wait; main() writes or reads again
//   -DROW                              the lock has a row
//   -DPOLICY=HL_WAIT_PARK
//   -DPRELOAD                          the preload's lock; -DKIND=2: readers never pass a writer
#include <assert.h>
#include <pthread.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#ifndef POLICY
#define POLICY HL_WAIT_SPIN
#endif
#ifndef HELD
#define HELD 'W'
#endif
#ifndef THEN
#define THEN 'R'
#endif
#ifndef WAITS
#define WAITS RW
#endif

#ifdef PRELOAD
#include "preload_rw.h"
static pthread_rwlock_t lock;
#define STATE         hl_load(&ours(&lock)->lock.state)
#define read_lock()   pthread_rwlock_rdlock(&lock)
#define read_unlock() pthread_rwlock_unlock(&lock)
#define lock_()       pthread_rwlock_wrlock(&lock)
#define unlock_()     pthread_rwlock_unlock(&lock)
#define give_row()    hl_rw_collide(&ours(&lock)->lock)
#define SELF(n)       (hlp_thread = (n))
#else
#define HL_RW_ROWS       2
#define HL_RW_SLOTS      2
#define HL_RW_COLLISIONS 1
#include "hotlock/rw.h"
static hl_rw_t lock;
#define STATE         hl_load(&lock.state)
#define read_lock()   hl_rw_read_lock(&lock)
#define read_unlock() hl_rw_read_unlock(&lock)
#define lock_()       hl_rw_lock(&lock)
#define unlock_()     hl_rw_unlock(&lock)
#define give_row()    hl_rw_collide(&lock)
#define SELF(n)       ((void)(n))
#endif

static const char waits[] = STRING(WAITS);
enum { WAIT = sizeof waits - 1 };
static int written;

static int writers(void) {
    int n = HELD == 'W';
    for (int i = 0; i < WAIT; i++) n += waits[i] == 'W';
    return n;
}

static void enter(char way) {
    if (way == 'W') lock_(), written++;
    else read_lock();
}

static void leave(char way) {
    if (way == 'W') unlock_();
    else read_unlock();
}

static void *work(void *arg) {
    char way = waits[(long)arg];
    SELF(2 + (uint32_t)(long)arg);
    enter(way);
    if (way == 'R') assert(written == 1);
    leave(way);
    return NULL;
}

static void await(char way) {
    while (way == 'W' ? !(STATE & HL_RW_GATE) : !(STATE & HL_RW_WAITING)) hl_pause();
}

int main(void) {
    pthread_t thread[WAIT];
    hl_wait_set(POLICY);
    (void)hl_ns_to_ticks(1);
#ifdef PRELOAD
    be_of_kind(&lock);
#endif
    SELF(1);
#ifdef ROW
    give_row();
#endif
    enter(HELD);
    for (long i = 0; i < WAIT; i++) {
        pthread_create(&thread[i], NULL, work, (void *)i);
        await(waits[i]);
    }
    leave(HELD);
    enter(THEN);
    if (THEN == 'R') assert(written == writers());
    leave(THEN);
    for (int i = 0; i < WAIT; i++) pthread_join(thread[i], NULL);
    return 0;
}
