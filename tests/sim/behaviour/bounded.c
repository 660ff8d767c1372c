// SPDX-License-Identifier: MIT
// bounded.c - waits that end by themselves: a bounded spin, a deadline, a timed lock; then one that
// ends because another thread writes, to a plain volatile as older code does.
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static atomic_int never, flag;
static volatile int old_flag;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *release(void *arg) {
    struct timespec t = {0, 300000};
    nanosleep(&t, NULL);
    atomic_store(&flag, 1);
    nanosleep(&t, NULL);
    old_flag = 1;
    return arg;
}

int main(void) {
    pthread_t t;
    int turns = 0;
    while (turns < 1000 && !atomic_load_explicit(&never, memory_order_relaxed)) turns++;
    int64_t begin = now();
    while (!atomic_load(&never) && now() - begin < 50000) {}
    int64_t waited = now() - begin;
    struct timespec deadline;
    pthread_mutex_lock(&held);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_nsec += 200000;
    int64_t before = now();
    int error = pthread_mutex_timedlock(&held, &deadline);
    int64_t timed = now() - before;
    begin = now();
    pthread_create(&t, NULL, release, NULL);
    while (!atomic_load_explicit(&flag, memory_order_acquire)) {}
    int64_t woken = now() - begin;
    while (!old_flag) {}
    int64_t again = now() - begin;
    pthread_join(t, NULL);
    printf("turns %d waited %ld timed %d %ld woken %ld again %ld\n", turns, (long)waited,
           error != 0, (long)timed, (long)woken, (long)again);
    return 0;
}
