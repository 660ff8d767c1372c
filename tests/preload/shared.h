// SPDX-License-Identifier: MIT
// shared.h - what several files of scenarios need: a counter behind locks, threads that wait, the
// cases of a timed call.
#ifndef HOTLOCK_TESTS_SHARED_H
#define HOTLOCK_TESTS_SHARED_H

#include <semaphore.h>
#include <sys/types.h>

#include "scenario.h"

// Operations with the signature of in_thread().
int lock_mutex(void *mutex);
int unlock_mutex(void *mutex);
int try_it(void *mutex);  // trylock; unlocks again what it got

// ------------------------------------------------------------------------- a counter
enum { THREADS = 6, ROUNDS = 20000 };
typedef struct {
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    long counter;
} shared_t;

void *count_mixed(void *shared);         // ROUNDS times, every way to lock, on one mutex
void all_count(body_t body, void *arg);  // THREADS threads of it

// ------------------------------------------------------------------------- a thread that waits
typedef struct {
    int (*lock)(void *), (*unlock)(void *);
    void *object;
    sem_t ready;
    pid_t tid;
    pthread_t thread;
} waiter_t;

// A thread that locks, then unlocks, the object; about to lock when this returns.
void waiter_begin(waiter_t *w, int (*lock)(void *), int (*unlock)(void *), void *object);
// The same, and returns once it waits (let_it_wait). For a mutex.
void waiter_wait(waiter_t *w, pthread_mutex_t *mutex);
void waiters_wait(waiter_t *w, int count, pthread_mutex_t *mutex);
void waiters_join(waiter_t *w, int count);

// How a child ended: its exit code, or 100 and its signal.
int finish_child(pid_t child);

// ------------------------------------------------------------------------- timed calls
typedef struct {
    const char *name;
    clockid_t clock;
    struct timespec at;
} timed_case_t;
enum { TIMED_CASES = 10 };
void timed_cases(timed_case_t cases[TIMED_CASES]);  // past, soon, and not valid, by several clocks

#endif
