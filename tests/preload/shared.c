// SPDX-License-Identifier: MIT
// shared.c - what several files of scenarios need.
#include "shared.h"

#include <sched.h>
#include <string.h>
#include <sys/wait.h>

int lock_mutex(void *mutex) { return pthread_mutex_lock(mutex); }
int unlock_mutex(void *mutex) { return pthread_mutex_unlock(mutex); }

int try_it(void *mutex) {
    int error = pthread_mutex_trylock(mutex);
    if (!error) pthread_mutex_unlock(mutex);
    return error;
}

// ------------------------------------------------------------------------- a counter
void *count_mixed(void *shared) {
    shared_t *s = shared;
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec later = after_ms(CLOCK_MONOTONIC, 60000);
        switch (i % 4) {
        case 0: pthread_mutex_lock(&s->mutex); break;
        case 1: while (pthread_mutex_trylock(&s->mutex)) sched_yield(); break;
        case 2: pthread_mutex_clocklock(&s->mutex, CLOCK_MONOTONIC, &later); break;
        case 3:
            later = after_ms(CLOCK_REALTIME, 60000);
            pthread_mutex_timedlock(&s->mutex, &later);
        }
        s->counter++;
        pthread_mutex_unlock(&s->mutex);
    }
    return NULL;
}

void all_count(body_t body, void *arg) {
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) t[i] = start(body, arg);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

// ------------------------------------------------------------------------- a thread that waits
static void *wait_and_unlock(void *arg) {
    waiter_t *w = arg;
    w->tid = my_tid();
    sem_post(&w->ready);
    w->lock(w->object);
    w->unlock(w->object);
    return NULL;
}

void waiter_begin(waiter_t *w, int (*lock)(void *), int (*unlock)(void *), void *object) {
    *w = (waiter_t){.lock = lock, .unlock = unlock, .object = object};
    sem_init(&w->ready, 0, 0);
    w->thread = start(wait_and_unlock, w);
    while (sem_wait(&w->ready)) continue;
}

void waiter_wait(waiter_t *w, pthread_mutex_t *mutex) {
    waiter_begin(w, lock_mutex, unlock_mutex, mutex);
    let_it_wait(w->thread, w->tid);
}

void waiters_wait(waiter_t *w, int count, pthread_mutex_t *mutex) {
    for (int i = 0; i < count; i++) waiter_wait(&w[i], mutex);
}

void waiters_join(waiter_t *w, int count) {
    for (int i = 0; i < count; i++) pthread_join(w[i].thread, NULL);
}

int finish_child(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// ------------------------------------------------------------------------- timed calls
void timed_cases(timed_case_t cases[TIMED_CASES]) {
    const timed_case_t all[TIMED_CASES] = {
        {"past", CLOCK_REALTIME, {1, 0}},
        {"soon", CLOCK_REALTIME, after_ms(CLOCK_REALTIME, 5)},
        {"negative", CLOCK_REALTIME, {-1, 0}},
        {"nsec-1", CLOCK_REALTIME, {1, -1}},
        {"nsec1e9", CLOCK_REALTIME, {1, 1000000000}},
        {"mono-past", CLOCK_MONOTONIC, {0, 1}},
        {"mono-soon", CLOCK_MONOTONIC, after_ms(CLOCK_MONOTONIC, 5)},
        {"mono-nsec", CLOCK_MONOTONIC, {0, -5}},
        {"cpu-clock", CLOCK_PROCESS_CPUTIME_ID, {0, 1}},
        {"no-clock", 77, {0, 1}},
    };
    memcpy(cases, all, sizeof all);
}
