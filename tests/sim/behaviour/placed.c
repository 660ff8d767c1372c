// SPDX-License-Identifier: MIT
// placed.c - threads that sleep until all of them are there; prints on how many sockets they run.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 4 };
static pthread_barrier_t barrier;
static atomic_uint sockets;

static void *tells(void *arg) {
    unsigned cpu, socket;
    usleep(5);   // asleep before the next one is made
    pthread_barrier_wait(&barrier);
    getcpu(&cpu, &socket);
    atomic_fetch_or(&sockets, 1u << socket);
    return arg;
}

int main(void) {
    pthread_t t[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&t[i], NULL, tells, NULL);
        usleep(2);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    printf("sockets %d\n", __builtin_popcount(sockets));
    return 0;
}
