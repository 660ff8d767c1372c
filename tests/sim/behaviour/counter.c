// SPDX-License-Identifier: MIT
// counter.c - an ordinary pthread program: THREADS threads add to one number under one mutex.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 200 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long number;
static _Thread_local long mine;

static void *work(void *arg) {
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        number++;
        pthread_mutex_unlock(&mutex);
        mine++;
    }
    return (void *)mine;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 4;
    pthread_t id[1024];
    long sum = 0;
    for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++) {
        void *r;
        pthread_join(id[i], &r);
        sum += (long)r;
    }
    printf("number %ld sum %ld\n", number, sum);
    return number != sum || sum != (long)threads * ROUNDS;
}
