// SPDX-License-Identifier: MIT
// cond_cases.c - condition variables: nothing lost, nothing twice, nothing touched afterwards.
//
// A lost wake-up shows as a hang: every wait here that has no deadline is certain to be signalled.
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "scenario.h"

// ------------------------------------------------------------------------- producers, consumers
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t filled, emptied;
    int held, room;
    long to_make, to_take, taken;
    bool signal_outside, timed, broadcast;
} store_t;

enum { MAKERS = 4, TAKERS = 5, GOODS = 20000 };

static void await(store_t *s, pthread_cond_t *c, int i) {
    if (!s->timed || i % 2) {
        pthread_cond_wait(c, &s->mutex);
        return;
    }
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 0);
    pthread_cond_clockwait(c, &s->mutex, CLOCK_MONOTONIC, &soon);
}

static void tell(store_t *s, pthread_cond_t *c) {
    if (s->broadcast) pthread_cond_broadcast(c);
    else pthread_cond_signal(c);
}

static void leave(store_t *s, pthread_cond_t *c) {
    if (!s->signal_outside) tell(s, c);
    pthread_mutex_unlock(&s->mutex);
    if (s->signal_outside) tell(s, c);
}

static void *make(void *arg) {
    store_t *s = arg;
    for (int i = 0;; i++) {
        pthread_mutex_lock(&s->mutex);
        while (s->to_make && s->held == s->room) await(s, &s->emptied, i);
        bool done = s->to_make == 0;
        if (!done) {
            s->to_make--;
            s->held++;
        }
        leave(s, done ? &s->emptied : &s->filled);
        if (done) return NULL;
    }
}

static void *take(void *arg) {
    store_t *s = arg;
    for (int i = 0;; i++) {
        pthread_mutex_lock(&s->mutex);
        while (s->to_take && !s->held) await(s, &s->filled, i);
        bool done = s->to_take == 0;
        if (!done) {
            s->to_take--;
            s->held--;
            s->taken++;
        }
        if (s->to_take == 0) tell(s, &s->filled);  // wakes the next taker, which will leave too
        leave(s, done ? &s->filled : &s->emptied);
        if (done) return NULL;
    }
}

static void trade(store_t *s, const pthread_mutexattr_t *attr) {
    pthread_t t[MAKERS + TAKERS];
    pthread_mutex_init(&s->mutex, attr);
    pthread_cond_init(&s->filled, NULL);
    pthread_cond_init(&s->emptied, NULL);
    s->to_make = s->to_take = GOODS;
    for (int i = 0; i < MAKERS + TAKERS; i++) t[i] = start(i < MAKERS ? make : take, s);
    for (int i = 0; i < MAKERS + TAKERS; i++) pthread_join(t[i], NULL);
    say("taken=%ld left=%d", s->taken, s->held);
    say_result("destroy", pthread_cond_destroy(&s->filled));
    say_result("destroy", pthread_cond_destroy(&s->emptied));
    say_result("destroy", pthread_mutex_destroy(&s->mutex));
}

static void trade_as(store_t s) { trade(&s, NULL); }
SCENARIO(trade_inside) { trade_as((store_t){.room = 3}); }
SCENARIO(trade_outside) { trade_as((store_t){.room = 3, .signal_outside = true}); }
SCENARIO(trade_timed) { trade_as((store_t){.room = 1, .timed = true}); }
SCENARIO(trade_broadcast) { trade_as((store_t){.room = 2, .broadcast = true}); }
SCENARIO(trade_recursive_mutex) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    store_t s = {.room = 3};
    trade(&s, &a);
}

// ------------------------------------------------------------------------- tokens, one signal each
// Every token is signalled exactly once; if a signal were lost to a waiter that timed out or was
// cancelled at the same moment, a taker would sleep beside its token for ever.
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    long tokens, taken;
    bool stop;
} tokens_t;

static void *take_tokens(void *arg) {
    tokens_t *k = arg;
    for (;;) {
        pthread_mutex_lock(&k->mutex);
        while (!k->tokens && !k->stop) pthread_cond_wait(&k->cond, &k->mutex);
        bool stop = !k->tokens;
        if (!stop) {
            k->tokens--;
            k->taken++;
        }
        pthread_mutex_unlock(&k->mutex);
        if (stop) return NULL;
    }
}

static void *give_up_soon(void *arg) {  // takes no token; its time-outs race the signals
    tokens_t *k = arg;
    pthread_mutex_lock(&k->mutex);
    while (!k->stop) {
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 30000;
        if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
        // Woken by a signal that was meant for a taker: pass it on, as POSIX asks.
        if (pthread_cond_timedwait(&k->cond, &k->mutex, &soon) == 0) pthread_cond_signal(&k->cond);
    }
    pthread_mutex_unlock(&k->mutex);
    return NULL;
}

static void give(tokens_t *k, bool outside) {
    pthread_mutex_lock(&k->mutex);
    k->tokens++;
    if (!outside) pthread_cond_signal(&k->cond);
    pthread_mutex_unlock(&k->mutex);
    if (outside) pthread_cond_signal(&k->cond);
}

// Waits until the takers, signalled once per token, have taken them all.
static void until_taken(tokens_t *k) {
    for (bool all = false; !all; sched_yield()) {
        pthread_mutex_lock(&k->mutex);
        all = !k->tokens;
        pthread_mutex_unlock(&k->mutex);
    }
}

static void stop_all(tokens_t *k) {
    pthread_mutex_lock(&k->mutex);
    k->stop = true;
    pthread_cond_broadcast(&k->cond);
    pthread_mutex_unlock(&k->mutex);
}

SCENARIO(signals_race_timeouts) {
    tokens_t k = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false};
    pthread_t t[5];
    for (int i = 0; i < 5; i++) t[i] = start(i < 2 ? take_tokens : give_up_soon, &k);
    for (int i = 0; i < 4000; i++) {
        give(&k, i % 2);
        if (i % 8 == 0) until_taken(&k);
    }
    until_taken(&k);
    stop_all(&k);
    for (int i = 0; i < 5; i++) pthread_join(t[i], NULL);
    say("taken=%ld", k.taken);
}

// The first in the queue is cancelled just as it is signalled; the second waits for the token. If
// the first dies of the cancellation, its wake-up belongs to the second.
typedef struct {
    tokens_t tokens;
    int waiting;
} pair_t;

static void pair_cleanup(void *arg) { pthread_mutex_unlock(&((pair_t *)arg)->tokens.mutex); }
static void *first_in_line(void *arg) {
    pair_t *p = arg;
    pthread_mutex_lock(&p->tokens.mutex);
    p->waiting++;
    pthread_cleanup_push(pair_cleanup, p);
    pthread_cond_wait(&p->tokens.cond, &p->tokens.mutex);
    pthread_cond_signal(&p->tokens.cond);  // woken before it was cancelled: passes it on
    pthread_cleanup_pop(1);
    return NULL;
}
static void *second_in_line(void *arg) {
    pair_t *p = arg;
    pthread_mutex_lock(&p->tokens.mutex);
    p->waiting++;
    while (!p->tokens.tokens) pthread_cond_wait(&p->tokens.cond, &p->tokens.mutex);
    p->tokens.taken++;
    pthread_mutex_unlock(&p->tokens.mutex);
    return NULL;
}
static pthread_t start_waiter(pair_t *p, body_t body) {
    int before = p->waiting;
    pthread_t t = start(body, p);
    for (bool waits = false; !waits; sched_yield()) {
        pthread_mutex_lock(&p->tokens.mutex);
        waits = p->waiting > before;
        pthread_mutex_unlock(&p->tokens.mutex);
    }
    return t;
}

SCENARIO(signals_race_cancels) {
    long taken = 0;
    for (int i = 0; i < 600; i++) {
        pair_t p = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false}, 0};
        pthread_t first = start_waiter(&p, first_in_line);
        pthread_t second = start_waiter(&p, second_in_line);
        if (i % 3 == 0) pthread_cancel(first);
        give(&p.tokens, i % 2);
        if (i % 3) pthread_cancel(first);
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        taken += p.tokens.taken;
    }
    say("taken=%ld", taken);
}

SCENARIO(signal_storm) {
    tokens_t k = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false};
    pthread_t t[12];
    for (int i = 0; i < 12; i++) t[i] = start(take_tokens, &k);
    for (int i = 0; i < 30000; i++) give(&k, i % 2);
    until_taken(&k);
    stop_all(&k);
    for (int i = 0; i < 12; i++) pthread_join(t[i], NULL);
    say("taken=%ld", k.taken);
}

// ------------------------------------------------------------------------- ping and pong
// One signal per turn, sent by a thread that then waits: loses a signal that falls between
// release and sleep at once.
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t turn[2];
    int whose;
    long rounds;
} table_t;
typedef struct {
    table_t *table;
    int me;
} player_t;
static void *play(void *arg) {
    player_t *p = arg;
    table_t *b = p->table;
    for (int i = 0; i < 10000; i++) {
        pthread_mutex_lock(&b->mutex);
        while (b->whose != p->me) pthread_cond_wait(&b->turn[p->me], &b->mutex);
        b->whose = !p->me;
        b->rounds++;
        if (i % 2) pthread_cond_signal(&b->turn[!p->me]);
        pthread_mutex_unlock(&b->mutex);
        if (i % 2 == 0) pthread_cond_signal(&b->turn[!p->me]);
    }
    return NULL;
}
SCENARIO(ping_pong) {
    table_t b = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_cond_init(&b.turn[0], NULL);
    pthread_cond_init(&b.turn[1], NULL);
    player_t p[2] = {{&b, 0}, {&b, 1}};
    pthread_t t = start(play, &p[0]);
    play(&p[1]);
    pthread_join(t, NULL);
    say("rounds=%ld", b.rounds);
}

// freeswitch PR 2536: a signal exactly between release and sleep. One processor; the signaller
// sleeps on the mutex, so the release inside the wait wakes it, and it comes first, for the waiter
// is nice.
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    sem_t locked, enter;
    bool go;
} narrow_t;
static void *wait_niced(void *arg) {
    narrow_t *n = arg;
    setpriority(PRIO_PROCESS, (id_t)my_tid(), 19);
    pthread_mutex_lock(&n->mutex);
    sem_post(&n->locked);
    sem_wait(&n->enter);
    while (!n->go) pthread_cond_wait(&n->cond, &n->mutex);
    pthread_mutex_unlock(&n->mutex);
    return NULL;
}
static void use_one_processor(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

typedef struct {
    narrow_t *n;
    sem_t ready;
    pid_t tid;
} signaller_t;
static void *signal_when_free(void *arg) {
    signaller_t *s = arg;
    s->tid = my_tid();
    sem_post(&s->ready);
    pthread_mutex_lock(&s->n->mutex);
    s->n->go = true;
    pthread_cond_signal(&s->n->cond);
    pthread_mutex_unlock(&s->n->mutex);
    return NULL;
}

static void narrow(int type) {
    use_one_processor();
    for (int i = 0; i < 300; i++) {
        narrow_t n = {.cond = PTHREAD_COND_INITIALIZER};
        pthread_mutexattr_t a;
        pthread_mutexattr_init(&a);
        pthread_mutexattr_settype(&a, type);
        pthread_mutex_init(&n.mutex, &a);
        sem_init(&n.locked, 0, 0);
        sem_init(&n.enter, 0, 0);
        signaller_t s = {.n = &n};
        sem_init(&s.ready, 0, 0);
        pthread_t waiter = start(wait_niced, &n);
        sem_wait(&n.locked);
        pthread_t signaller = start(signal_when_free, &s);
        sem_wait(&s.ready);
        let_it_wait(signaller, s.tid);
        sem_post(&n.enter);
        pthread_join(waiter, NULL);
        pthread_join(signaller, NULL);
    }
    say("done");
}
SCENARIO(narrow_window) { narrow(PTHREAD_MUTEX_NORMAL); }
SCENARIO(narrow_window_recursive) { narrow(PTHREAD_MUTEX_RECURSIVE); }

// A signal that comes when the first waiter's time is up, but before it has run again: either
// the first is woken (and passes it on), or the second.
static struct timespec line_ends;
static void *first_with_a_limit(void *arg) {
    pair_t *p = arg;
    setpriority(PRIO_PROCESS, (id_t)my_tid(), 19);
    pthread_mutex_lock(&p->tokens.mutex);
    line_ends = after_ms(CLOCK_MONOTONIC, 1);
    p->waiting++;
    if (pthread_cond_clockwait(&p->tokens.cond, &p->tokens.mutex, CLOCK_MONOTONIC, &line_ends) == 0)
        pthread_cond_signal(&p->tokens.cond);
    pthread_mutex_unlock(&p->tokens.mutex);
    return NULL;
}
SCENARIO(signal_at_the_deadline) {
    use_one_processor();
    long taken = 0;
    for (int i = 0; i < 300; i++) {
        pair_t p = {{PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false}, 0};
        pthread_t first = start_waiter(&p, first_with_a_limit);
        pthread_t second = start_waiter(&p, second_in_line);
        struct timespec now;
        do now = after_ms(CLOCK_MONOTONIC, 0);
        while (now.tv_sec < line_ends.tv_sec ||
               (now.tv_sec == line_ends.tv_sec && now.tv_nsec <= line_ends.tv_nsec));
        give(&p.tokens, i % 2);
        pthread_join(first, NULL);
        pthread_join(second, NULL);
        taken += p.tokens.taken;
    }
    say("taken=%ld", taken);
}
