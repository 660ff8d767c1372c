// SPDX-License-Identifier: MIT
// load.h - threads that call one function over and over, each call timed; how fast, and the longest.
#ifndef HOTLOCK_TESTS_LOAD_H
#define HOTLOCK_TESTS_LOAD_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void (*load_op_t)(int thread, int round);
typedef struct {
    load_op_t op;
    int me, rounds;
    uint64_t worst;
    pthread_t id;
} load_worker_t;

static uint64_t load_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *load_work(void *arg) {
    load_worker_t *w = (load_worker_t *)arg;
    for (int i = 0; i < w->rounds; i++) {
        uint64_t begin = load_now();
        w->op(w->me, i);
        uint64_t took = load_now() - begin;
        if (took > w->worst) w->worst = took;
    }
    return NULL;
}

// Prints "ops/s: N" and "worst ms: N".
static void load_run(int threads, int rounds, load_op_t op) {
    load_worker_t *w = (load_worker_t *)calloc((size_t)threads, sizeof *w);
    uint64_t begin = load_now(), worst = 0;
    for (int i = 0; i < threads; i++) {
        w[i].op = op;
        w[i].me = i;
        w[i].rounds = rounds;
        if (pthread_create(&w[i].id, NULL, load_work, &w[i])) exit(3);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].id, NULL);
        if (w[i].worst > worst) worst = w[i].worst;
    }
    double seconds = (double)(load_now() - begin) / 1e9;
    printf("ops/s: %.0f\nworst ms: %.3f\n", threads * rounds / seconds, (double)worst / 1e6);
    free(w);
}

#endif
