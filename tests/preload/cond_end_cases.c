// SPDX-License-Identifier: MIT
// cond_end_cases.c - condition variables: destroyed as the last leave; waits that are cancelled,
// that a fork leaves behind, that another process takes part in. Their wake-ups: cond_cases.c.
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "scenario.h"
#include "shared.h"

// ------------------------------------------------------------------------- broadcast, destruction
typedef struct {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
    int *waiting;
    bool *go;
    long *inside;
} herd_t;
static void *wait_in_herd(void *arg) {
    herd_t h = *(herd_t *)arg;
    pthread_mutex_lock(h.mutex);
    ++*h.waiting;
    while (!*h.go) pthread_cond_wait(h.cond, h.mutex);
    long was = ++*h.inside;  // litl 6: alone right after waking
    sched_yield();
    expect(*h.inside == was, "alone");
    --*h.waiting;
    pthread_mutex_unlock(h.mutex);
    return NULL;
}

static void await_herd(pthread_mutex_t *m, int *waiting, int want) {
    for (bool all = false; !all; sched_yield()) {
        pthread_mutex_lock(m);
        all = *waiting == want;
        pthread_mutex_unlock(m);
    }
}

// Starts `count` threads, and returns when all of them wait.
static void gather(pthread_t *t, int count, void *(*waiter)(void *), herd_t *h) {
    for (int i = 0; i < count; i++) t[i] = start(waiter, h);
    await_herd(h->mutex, h->waiting, count);
}

// The object's page is gone right after destroy: whoever still touches it crashes.
static void herd(bool destroy_inside) {
    enum { HERD = 8 };
    for (int round = 0; round < 60; round++) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t *cond = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pthread_cond_init(cond, NULL);
        int waiting = 0;
        bool go = false;
        long inside = 0;
        herd_t h = {&mutex, cond, &waiting, &go, &inside};
        pthread_t t[HERD];
        gather(t, HERD, wait_in_herd, &h);
        pthread_mutex_lock(&mutex);
        go = true;
        pthread_cond_broadcast(cond);
        if (!destroy_inside) pthread_mutex_unlock(&mutex);
        pthread_cond_destroy(cond);
        munmap(cond, 4096);
        if (destroy_inside) pthread_mutex_unlock(&mutex);
        for (int i = 0; i < HERD; i++) pthread_join(t[i], NULL);
        if (inside != HERD) say("inside=%ld", inside);
    }
    say("done");
}
SCENARIO(destroy_after_broadcast) { herd(false); }
SCENARIO(destroy_inside_section) { herd(true); }

static void *timed_leaver(void *arg) {
    herd_t h = *(herd_t *)arg;
    pthread_mutex_lock(h.mutex);
    ++*h.waiting;
    while (!*h.go) {
        struct timespec t = after_ms(CLOCK_MONOTONIC, 1);
        pthread_cond_clockwait(h.cond, h.mutex, CLOCK_MONOTONIC, &t);
    }
    pthread_mutex_unlock(h.mutex);
    return NULL;
}
SCENARIO(destroy_while_timing_out) {
    enum { HERD = 4 };
    for (int round = 0; round < 100; round++) {
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_cond_t *cond = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int waiting = 0;
        bool go = false;
        herd_t h = {&mutex, cond, &waiting, &go, NULL};
        pthread_t t[HERD];
        gather(t, HERD, timed_leaver, &h);
        struct timespec now = after_ms(CLOCK_MONOTONIC, 0);
        while (after_ms(CLOCK_MONOTONIC, 0).tv_nsec / 100000 == now.tv_nsec / 100000) continue;
        pthread_mutex_lock(&mutex);
        go = true;
        pthread_cond_broadcast(cond);
        pthread_mutex_unlock(&mutex);
        pthread_cond_destroy(cond);
        munmap(cond, 4096);
        for (int i = 0; i < HERD; i++) pthread_join(t[i], NULL);
    }
    say("done");
}

// libfaketime 419: other condition variables come and go while one is waited on.
SCENARIO(others_come_and_go) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    int waiting = 0;
    bool go = false;
    long inside = 0;
    herd_t h = {&mutex, &cond, &waiting, &go, &inside};
    pthread_t t;
    gather(&t, 1, wait_in_herd, &h);
    for (int i = 0; i < 2000; i++) {
        pthread_cond_t other;
        pthread_cond_init(&other, NULL);
        pthread_cond_signal(&other);
        pthread_cond_destroy(&other);
    }
    say_result("destroy-mutex-in-use", pthread_mutex_destroy(&mutex));
    pthread_mutex_lock(&mutex);
    go = true;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    pthread_join(t, NULL);
    say_result("destroy", pthread_cond_destroy(&cond));
    say_result("destroy-mutex", pthread_mutex_destroy(&mutex));
}

// ------------------------------------------------------------------------- cancellation
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    sem_t waiting;
    bool timed, held_in_cleanup;
} victim_t;

static void victim_cleanup(void *arg) {
    victim_t *v = arg;
    v->held_in_cleanup = in_thread(try_it, &v->mutex) == EBUSY;
    pthread_mutex_unlock(&v->mutex);
}
static void *victim(void *arg) {
    victim_t *v = arg;
    struct timespec late = after_ms(CLOCK_REALTIME, 600000);
    pthread_mutex_lock(&v->mutex);
    pthread_cleanup_push(victim_cleanup, v);
    sem_post(&v->waiting);
    for (;;) {
        if (v->timed) pthread_cond_timedwait(&v->cond, &v->mutex, &late);
        else pthread_cond_wait(&v->cond, &v->mutex);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancel_waiters(bool timed, int shared, int type) {  // glusterfs 4685
    for (int i = 0; i < 40; i++) {
        victim_t v = {.timed = timed};
        pthread_condattr_t a;
        pthread_mutexattr_t ma;
        pthread_condattr_init(&a);
        pthread_condattr_setpshared(&a, shared);
        pthread_mutexattr_init(&ma);
        pthread_mutexattr_settype(&ma, type);
        pthread_mutex_init(&v.mutex, &ma);
        pthread_cond_init(&v.cond, &a);
        sem_init(&v.waiting, 0, 0);
        pthread_t t = start(victim, &v);
        sem_wait(&v.waiting);
        if (i % 2) {  // it waits: else we could not have the mutex
            pthread_mutex_lock(&v.mutex);
            pthread_mutex_unlock(&v.mutex);
        }
        pthread_cancel(t);
        void *result;
        pthread_join(t, &result);
        expect(result == PTHREAD_CANCELED, "cancelled");
        expect(v.held_in_cleanup, "held in cleanup");
        expect(pthread_mutex_lock(&v.mutex) == 0, "lock");
        expect(pthread_mutex_unlock(&v.mutex) == 0, "unlock");
        expect(pthread_cond_destroy(&v.cond) == 0, "destroy");
        expect(pthread_mutex_destroy(&v.mutex) == 0, "destroy mutex");
    }
    say("done");
}
#define SHARED  PTHREAD_PROCESS_SHARED
#define PRIVATE PTHREAD_PROCESS_PRIVATE
SCENARIO(cancel_wait) { cancel_waiters(false, PRIVATE, PTHREAD_MUTEX_NORMAL); }
SCENARIO(cancel_timedwait) { cancel_waiters(true, PRIVATE, PTHREAD_MUTEX_NORMAL); }
SCENARIO(cancel_wait_recursive) { cancel_waiters(false, PRIVATE, PTHREAD_MUTEX_RECURSIVE); }
SCENARIO(cancel_wait_shared) { cancel_waiters(false, SHARED, PTHREAD_MUTEX_NORMAL); }

static void *pending_cancel(void *arg) {
    victim_t *v = arg;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    sem_post(&v->waiting);
    pthread_mutex_lock(&v->mutex);
    pthread_cleanup_push(victim_cleanup, v);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    for (;;) pthread_cond_wait(&v->cond, &v->mutex);
    pthread_cleanup_pop(0);
    return NULL;
}
SCENARIO(cancel_was_pending) {
    victim_t v = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    sem_init(&v.waiting, 0, 0);
    pthread_mutex_lock(&v.mutex);
    pthread_t t = start(pending_cancel, &v);
    sem_wait(&v.waiting);
    pthread_cancel(t);
    pthread_mutex_unlock(&v.mutex);
    void *result;
    pthread_join(t, &result);
    say("cancelled=%d held=%d", result == PTHREAD_CANCELED, v.held_in_cleanup);
    say_result("try", pthread_mutex_trylock(&v.mutex));
}

static void *disabled_cancel(void *arg) {
    victim_t *v = arg;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    pthread_mutex_lock(&v->mutex);
    sem_post(&v->waiting);
    while (!v->timed) pthread_cond_wait(&v->cond, &v->mutex);
    pthread_mutex_unlock(&v->mutex);
    return v;
}
SCENARIO(cancel_is_disabled) {
    victim_t v = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    sem_init(&v.waiting, 0, 0);
    pthread_t t = start(disabled_cancel, &v);
    sem_wait(&v.waiting);
    pthread_cancel(t);
    pthread_mutex_lock(&v.mutex);
    v.timed = true;
    pthread_cond_signal(&v.cond);
    pthread_mutex_unlock(&v.mutex);
    void *result;
    pthread_join(t, &result);
    say("finished=%d", result == &v);
}

// ------------------------------------------------------------------------- fork, processes
static void ignore(int unused) { (void)unused; }
SCENARIO(wait_through_signals) {
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR1, &action, NULL);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    int waiting = 0;
    bool go = false;
    long inside = 0;
    herd_t h = {&mutex, &cond, &waiting, &go, &inside};
    pthread_t t;
    gather(&t, 1, wait_in_herd, &h);
    for (int i = 0; i < 200; i++) pthread_kill(t, SIGUSR1);
    pthread_mutex_lock(&mutex);
    go = true;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    pthread_join(t, NULL);
    say("inside=%ld", inside);
}

// The parent's waiters are ghosts in the child: a signal there must find its own threads only.
SCENARIO(fork_with_cond_waiters) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    int waiting = 0;
    bool go = false;
    long inside = 0;
    herd_t h = {&mutex, &cond, &waiting, &go, &inside};
    pthread_t t[3];
    gather(t, 3, wait_in_herd, &h);
    pthread_mutex_lock(&mutex);
    pid_t child = fork();
    pthread_mutex_unlock(&mutex);
    if (child == 0) {
        waiting = 0;
        pthread_t mine = start(wait_in_herd, &h);
        await_herd(&mutex, &waiting, 1);
        pthread_mutex_lock(&mutex);
        go = true;
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&mutex);
        pthread_join(mine, NULL);
        pthread_cond_init(&cond, NULL);
        _exit(pthread_cond_destroy(&cond));
    }
    int status;
    waitpid(child, &status, 0);
    say("child=%d", status);
    pthread_mutex_lock(&mutex);
    go = true;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    say("inside=%ld", inside);
}

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn;
} turns_t;
static void take_turns(turns_t *s, int me) {
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&s->mutex);
        while (s->turn % 2 != me) pthread_cond_wait(&s->cond, &s->mutex);
        s->turn++;
        pthread_cond_signal(&s->cond);
        pthread_mutex_unlock(&s->mutex);
    }
}
static turns_t *shared_turns(void) {
    turns_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t ma;
    pthread_condattr_t ca;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_condattr_init(&ca);
    pthread_condattr_setpshared(&ca, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->mutex, &ma);
    pthread_cond_init(&s->cond, &ca);
    return s;
}
SCENARIO(cond_across_processes) {
    turns_t *s = shared_turns();
    pid_t child = fork();
    take_turns(s, child == 0);
    if (child == 0) _exit(0);
    int status;
    waitpid(child, &status, 0);
    say("turns=%d status=%d", s->turn, status);
}

// Project-OSRM 3911: a process is killed while it waits; others signal all the same.
SCENARIO(shared_waiter_is_killed) {
    turns_t *s = shared_turns();
    pid_t child = fork();
    if (child == 0) {
        pthread_mutex_lock(&s->mutex);
        s->turn = 1;
        for (;;) pthread_cond_wait(&s->cond, &s->mutex);
    }
    for (int turn = 0; !turn; sched_yield()) {
        pthread_mutex_lock(&s->mutex);
        turn = s->turn;
        pthread_mutex_unlock(&s->mutex);
    }
    kill(child, SIGKILL);
    say("child=%d", finish_child(child));
    say_result("broadcast", pthread_cond_broadcast(&s->cond));
    say_result("lock", pthread_mutex_lock(&s->mutex));
}

// A process-shared condition variable with a mutex that is not: libc allows it in one process.
SCENARIO(shared_cond_private_mutex) {
    pthread_condattr_t a;
    pthread_cond_t cond;
    pthread_condattr_init(&a);
    pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&cond, &a);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int waiting = 0;
    bool go = false;
    long inside = 0;
    herd_t h = {&mutex, &cond, &waiting, &go, &inside};
    pthread_t t[3];
    gather(t, 3, wait_in_herd, &h);
    pthread_mutex_lock(&mutex);
    go = true;
    for (int i = 0; i < 3; i++) pthread_cond_signal(&cond);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    say("inside=%ld", inside);
}

// ------------------------------------------------------------------------- C11, and mixed with it
static mtx_t c11_mutex;
static cnd_t c11_cond;
static int c11_ready, c11_taken;
static int c11_take(void *unused) {
    (void)unused;
    mtx_lock(&c11_mutex);
    while (!c11_ready) cnd_wait(&c11_cond, &c11_mutex);
    c11_ready--;
    c11_taken++;
    mtx_unlock(&c11_mutex);
    return 0;
}
SCENARIO(c11_threads) {
    thrd_t t[6];
    mtx_init(&c11_mutex, mtx_plain);
    cnd_init(&c11_cond);
    for (int i = 0; i < 6; i++) thrd_create(&t[i], c11_take, NULL);
    for (int i = 0; i < 6; i++) {
        // The same object under its POSIX name.
        pthread_mutex_lock((pthread_mutex_t *)(void *)&c11_mutex);
        c11_ready++;
        cnd_signal(&c11_cond);
        pthread_mutex_unlock((pthread_mutex_t *)(void *)&c11_mutex);
    }
    for (int i = 0; i < 6; i++) thrd_join(t[i], NULL);
    say("taken=%d", c11_taken);
    cnd_destroy(&c11_cond);
    mtx_destroy(&c11_mutex);
}
