// SPDX-License-Identifier: MIT
// calls.c - what inlining a lock is worth where calls are dear: threads that take locks nobody else
// wants, half of the time in lock and unlock, the rest reading a buffer of their own.
//
// Takes what the workloads take: --lock=inline|called --threads=N --seconds=S --json.
#include <hotlock/tas.h>
#include <hotlock/wait.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MOST = 1024, BUFFER = 48 };

typedef struct {
    _Alignas(128) hl_tas_t lock;
    unsigned long buffer[BUFFER], sum, done;
} mine_t;

static mine_t mine[THREADS_MOST];
static atomic_bool stop;
static int called;

static __attribute__((noinline)) void lock_called(hl_tas_t *l) { hl_tas_lock(l); }
static __attribute__((noinline)) void unlock_called(hl_tas_t *l) { hl_tas_unlock(l); }

static void *work(void *arg) {
    mine_t *me = arg;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        if (called) lock_called(&me->lock);
        else hl_tas_lock(&me->lock);
        for (int i = 0; i < BUFFER; i++) me->sum += me->buffer[i];
        if (called) unlock_called(&me->lock);
        else hl_tas_unlock(&me->lock);
        me->done++;
    }
    return NULL;
}

int main(int argc, char **argv) {
    int threads = 1;
    double seconds = 0.001;
    pthread_t id[THREADS_MOST];
    unsigned long sum = 0;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--threads=", 10)) threads = atoi(argv[i] + 10);
        if (!strncmp(argv[i], "--seconds=", 10)) seconds = atof(argv[i] + 10);
        if (!strcmp(argv[i], "--lock=called")) called = 1;
    }
    for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, work, &mine[i]);
    hl_nap((uint64_t)(1e9 * seconds));
    atomic_store(&stop, true);
    for (int i = 0; i < threads; i++) {
        pthread_join(id[i], NULL);
        sum += mine[i].done;
    }
    printf("{\"unit\":\"sections\",\"ops_per_s\":%.1f,\"sections\":%lu,\"per_thread\":[]}\n",
           (double)sum / seconds, sum);
    return 0;
}
