// SPDX-License-Identifier: MIT
// delays.c - loops that only look at the clock: by how much they end late, whatever the simulator
// leaves out of them. THREADS of them at a time.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { DELAYS = 200, THREADS_MOST = 64 };

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static __attribute__((noinline)) uint64_t for_a_time(uint64_t ns) {
    uint64_t begin = now(), at;
    while ((at = now()) - begin < ns) {}
    return at - begin - ns;
}

static __attribute__((noinline)) uint64_t until_a_time(uint64_t ns) {
    uint64_t end = now() + ns, at;
    while ((at = now()) <= end) {}
    return at - end;
}

static void *work(void *arg) {
    uint64_t *late = arg;
    for (uint64_t i = 0; i < DELAYS; i++) {
        uint64_t ns = 300 + i * 7919 % 20000;
        uint64_t l = i & 1 ? for_a_time(ns) : until_a_time(ns);
        if (l > *late) *late = l;
    }
    return NULL;
}

int main(void) {
    int threads = atoi(getenv("THREADS"));
    pthread_t id[THREADS_MOST];
    static uint64_t late[THREADS_MOST][8];
    uint64_t most = 0;
    for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, work, late[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(id[i], NULL);
        if (late[i][0] > most) most = late[i][0];
    }
    printf("late %lu\n", (unsigned long)most);
    return 0;
}
