// SPDX-License-Identifier: MIT
// rw.c - the reader-writer lock under load. TAP on stdout; no case depends on a time.
//
// Sections write and read plain variables, so a lock that lets a writer in beside others gives a
// torn pair here, a wrong sum, or a report in the ThreadSanitizer build. A row is given after one
// collision, or at once, so that short runs meet it.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifndef HL_RW_COLLISIONS
#define HL_RW_COLLISIONS 1
#endif
#include <hotlock/rw.h>

enum { THREADS = 6, ROUNDS = 4000 };
typedef struct {
    hl_rw_t lock;
    long first, second, writes, torn;
    int one_in;     // one section in so many writes
    bool with_row;  // somebody keeps giving it a row
} shared_t;

static int number, bad;
static void result(bool good, const char *name) {
    number++;
    bad += !good;
    printf("%sok %d - rw: %s\n", good ? "" : "not ", number, name);
    fflush(stdout);
}

static void write_lock(hl_rw_t *l, int way) {
    switch (way % 4) {
    case 0: hl_rw_lock(l); break;
    case 1: while (!hl_rw_trylock(l)) sched_yield(); break;
    case 2: while (!hl_rw_pass(l)) sched_yield(); break;
    default: while (!hl_rw_lock_until(l, hl_now_ns() + 20000)) sched_yield();
    }
}

static void read_lock(hl_rw_t *l, int way) {
    switch (way % 4) {
    case 0: hl_rw_read_lock(l); break;
    case 1: while (!hl_rw_read_trylock(l)) sched_yield(); break;
    case 2: while (!hl_rw_read_lock_until(l, hl_now_ns() + 20000)) sched_yield(); break;
    default: (void)!hl_rw_read_lock_patient(l, 1000, HL_NO_DEADLINE);
    }
}

static void *work(void *arg) {
    shared_t *s = (shared_t *)arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % s->one_in == 0) {
            write_lock(&s->lock, i / s->one_in);
            s->first++;
            if (i % 50 == 0) sched_yield();
            s->second++;
            hl_rw_unlock(&s->lock);
            continue;
        }
        read_lock(&s->lock, i);
        long first = s->first;
        if (i % 50 == 0) sched_yield();
        if (first != s->second) __atomic_fetch_add(&s->torn, 1, __ATOMIC_RELAXED);
        if (s->with_row) hl_rw_collide(&s->lock);
        hl_rw_read_unlock(&s->lock);
    }
    return NULL;
}

// Nobody is inside, and the row, if there is one, is given back clean.
static bool is_clean(hl_rw_t *l) {
    bool free_ = hl_rw_trylock(l);
    if (free_) hl_rw_unlock(l);
    free_ = free_ && !(hl_load(&l->state) & ~HL_RW_PHASE) && !hl_load(&l->writers.byte.held);
    for (int i = 1; i < HL_RW_ROWS; i++) {
        uint32_t sum = 0;
        for (int k = 0; k < HL_RW_SLOTS; k++) sum += hl_load(&hl_rw_rows.at[i].slot[k].readers);
        free_ = free_ && !sum && !hl_load(&hl_rw_rows.at[i].claimed) &&
                hl_load(&hl_rw_rows.at[i].gate) != 1;
    }
    return free_;
}

static void mix(const char *name, int one_in, bool with_row, hl_wait_policy_t policy) {
    shared_t s = {.one_in = one_in, .with_row = with_row};
    pthread_t t[THREADS];
    hl_wait_set(policy);
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, &s);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    hl_wait_set(HL_WAIT_DEFAULT);
    long writes = THREADS * ((ROUNDS + one_in - 1) / one_in);
    result(s.first == writes && s.second == writes && !s.torn && is_clean(&s.lock), name);
}

// ------------------------------------------------------------------------- one by one
static void states(void) {
    hl_rw_t l = HL_RW_INIT;
    hl_rw_lock(&l);
    bool good = hl_rw_is_write_locked(&l) && !hl_rw_trylock(&l) && !hl_rw_read_trylock(&l) &&
                !hl_rw_lock_until(&l, 0) && !hl_rw_read_lock_until(&l, hl_now_ns() + 1000);
    hl_rw_unlock(&l);
    for (int row = 0; row < 2; row++) {
        hl_rw_read_lock(&l);
        good = good && hl_rw_read_trylock(&l) && !hl_rw_trylock(&l) &&
               !hl_rw_lock_until(&l, hl_now_ns() + 1000) && !hl_rw_is_write_locked(&l);
        if (!row) hl_rw_collide(&l);
        good = good && hl_rw_read_trylock(&l);
        for (int i = 0; i < 3; i++) hl_rw_read_unlock(&l);
        good = good && hl_rw_trylock(&l);
        hl_rw_unlock(&l);
        hl_rw_collide(&l);
    }
    result(good && is_clean(&l), "who gets in when");
}

// A row claimed by every lock there is: the rest do without.
static void rows_run_out(void) {
    enum { MANY = HL_RW_ROWS * 4 };
    static hl_rw_t l[MANY];
    int with = 0, right = 0;
    for (int i = 0; i < MANY; i++) {
        hl_rw_collide(&l[i]);
        with += (hl_load(&l[i].state) & HL_RW_ROW) != 0;
        hl_rw_read_lock(&l[i]);
        right += !hl_rw_trylock(&l[i]);
        hl_rw_read_unlock(&l[i]);
    }
    bool good = with > 0 && with < HL_RW_ROWS && right == MANY;
    for (int i = 0; i < MANY; i++) {
        good = good && hl_rw_trylock(&l[i]);
        hl_rw_unlock(&l[i]);
    }
    result(good && is_clean(&l[0]), "more locks than rows");
}

// A waiting writer keeps newcomers out, and gets in before them; the impatient go past it.
typedef struct {
    hl_rw_t lock;
    HL_ATOMIC(int) order;
    int writer, reader;
} queue_t;
static void *write_next(void *arg) {
    queue_t *q = (queue_t *)arg;
    hl_rw_lock(&q->lock);
    q->writer = hl_load(&q->order);
    hl_store(&q->order, q->writer + 1);
    hl_rw_unlock(&q->lock);
    return NULL;
}
static void *read_next(void *arg) {
    queue_t *q = (queue_t *)arg;
    hl_rw_read_lock(&q->lock);
    q->reader = hl_load(&q->order);
    hl_rw_read_unlock(&q->lock);
    return NULL;
}
static void phases(void) {
    queue_t q = {.reader = -1};
    pthread_t w, r;
    hl_rw_read_lock(&q.lock);
    pthread_create(&w, NULL, write_next, &q);
    while (!(hl_load(&q.lock.state) & HL_RW_GATE)) sched_yield();
    bool good = !hl_rw_read_trylock(&q.lock) && hl_rw_read_lock_patient(&q.lock, 0, HL_NO_DEADLINE);
    hl_rw_read_unlock(&q.lock);
    pthread_create(&r, NULL, read_next, &q);
    while (!(hl_load(&q.lock.state) & HL_RW_WAITING)) sched_yield();
    hl_rw_read_unlock(&q.lock);
    pthread_join(w, NULL);
    pthread_join(r, NULL);
    result(good && q.writer == 0 && q.reader == 1 && is_clean(&q.lock), "phases");
}

// The memory goes away right after the last unlock.
typedef struct {
    hl_rw_t lock;
    int users;
} object_t;
enum { OBJECTS = 2000 };
static object_t *objects[OBJECTS];
static pthread_barrier_t together;
static void *drop(void *unused) {
    for (int i = 0; i < OBJECTS; i++) {
        if (i % 32 == 0) pthread_barrier_wait(&together);
        object_t *o = objects[i];
        hl_rw_read_lock(&o->lock);
        if (i % 2) hl_rw_collide(&o->lock);
        hl_rw_read_unlock(&o->lock);
        hl_rw_lock(&o->lock);
        int left = --o->users;
        hl_rw_unlock(&o->lock);
        if (!left) mprotect(o, 4096, PROT_NONE);
    }
    return unused;
}
static void last_user_takes_it_away(void) {
    pthread_t t[3];
    pthread_barrier_init(&together, NULL, 3);
    for (int i = 0; i < OBJECTS; i++) {
        objects[i] = (object_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        objects[i]->users = 3;
    }
    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, drop, NULL);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    result(true, "the last user takes the memory away");
}

int main(void) {
    alarm(100);
    printf("1..11\n");
    states();
    rows_run_out();
    phases();
    mix("writers", 1, false, HL_WAIT_DEFAULT);
    mix("half and half", 2, false, HL_WAIT_DEFAULT);
    mix("mostly readers", 100, false, HL_WAIT_DEFAULT);
    mix("mostly readers, with a row", 100, true, HL_WAIT_DEFAULT);
    mix("half and half, with a row", 2, true, HL_WAIT_DEFAULT);
    mix("with a row, yielding", 10, true, HL_WAIT_YIELD);
    mix("with a row, asleep at once", 10, true, HL_WAIT_PARK);
    last_user_takes_it_away();
    return bad > 0;
}
