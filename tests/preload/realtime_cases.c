// SPDX-License-Identifier: MIT
// realtime_cases.c - threads of fixed priority on one processor: nobody may spin against a holder
// that then cannot run, and a mutex that lends its priority must still do so.
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>

#include "scenario.h"

static pthread_mutex_t mutex;
static sem_t held, release, wanted;
static pid_t waiter_tid;
static _Atomic bool done;

static void *hold(void *unused) {
    pthread_mutex_lock(&mutex);
    sem_post(&held);
    while (sem_wait(&release)) continue;
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *want(void *unused) {
    waiter_tid = my_tid();
    sem_post(&wanted);
    pthread_mutex_lock(&mutex);
    done = true;
    pthread_mutex_unlock(&mutex);
    return unused;
}

// Keeps the holder from running, unless somebody lends it a higher priority.
static void *hog(void *unused) {
    sem_post(&release);
    while (!done) continue;
    return unused;
}

static int first_processor(cpu_set_t *one) {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all)) continue;
        CPU_SET(i, one);
        return i;
    }
    return -1;
}

// A thread on the first processor; priority 0: an ordinary one.
static int start_with(pthread_t *t, body_t body, int priority) {
    pthread_attr_t a;
    cpu_set_t one;
    struct sched_param p = {.sched_priority = priority};
    first_processor(&one);
    pthread_attr_init(&a);
    pthread_attr_setaffinity_np(&a, sizeof one, &one);
    pthread_attr_setinheritsched(&a, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&a, priority ? SCHED_FIFO : SCHED_OTHER);
    pthread_attr_setschedparam(&a, &p);
    int error = pthread_create(t, &a, body, NULL);
    pthread_attr_destroy(&a);
    return error;
}

static void *nothing(void *unused) { return unused; }
static bool may_be_fixed(void) {
    pthread_t t;
    int error = start_with(&t, nothing, 1);
    if (error) say("no fixed priorities here");
    else pthread_join(t, NULL);
    return !error;
}

static void hold_and_want(pthread_t *low, pthread_t *high, int low_priority) {
    sem_init(&held, 0, 0);
    sem_init(&release, 0, 0);
    sem_init(&wanted, 0, 0);
    start_with(low, hold, low_priority);
    while (sem_wait(&held)) continue;
    start_with(high, want, 3);
    while (sem_wait(&wanted)) continue;
    let_it_wait(*high, waiter_tid);
}

// libsdl-org/SDL 7021, phoenix-rtos/libphoenix PR 515
SCENARIO(realtime_waits_for_ordinary) {
    pthread_t low, high;
    if (!may_be_fixed()) return;
    pthread_mutex_init(&mutex, NULL);
    hold_and_want(&low, &high, 0);
    sem_post(&release);
    pthread_join(low, NULL);
    pthread_join(high, NULL);
    say("done=%d", done);
}

// rr PR 2752, dvhart/librtpi 2: without the loan this never ends.
SCENARIO(realtime_inversion) {
    pthread_mutexattr_t a;
    pthread_t low, middle, high;
    if (!may_be_fixed()) return;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT);
    say_result("init", pthread_mutex_init(&mutex, &a));
    hold_and_want(&low, &high, 1);
    start_with(&middle, hog, 2);
    pthread_join(low, NULL);
    pthread_join(middle, NULL);
    pthread_join(high, NULL);
    say("done=%d", done);
}
