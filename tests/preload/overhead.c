// SPDX-License-Identifier: MIT
// overhead.c - what an uncontended pair costs under the preload, as a ratio to libc's own.
//
// Prints the median and the 10th and 90th percentile of interleaved rounds; nothing is judged.
//   LD_PRELOAD=.../libhotlock-preload.so HOTLOCK=lock=nmcs overhead [read|write]
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 51, PAIRS = 300000, TRIES = 3 };
typedef int (*op_t)(void *);

// The thread's own time: what other programs take of the processor does not count.
static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// The best of a few tries: what interrupts us is not the lock's cost.
static double pair_ns(op_t lock, op_t unlock, void *m) {
    double best = 1e18;
    for (int t = 0; t < TRIES; t++) {
        double begin = now_ns();
        for (int i = 0; i < PAIRS; i++) {
            lock(m);
            unlock(m);
        }
        double each = (now_ns() - begin) / PAIRS;
        if (each < best) best = each;
    }
    return best;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *wait_for_end(void *end) {
    while (sem_wait(end) != 0) continue;
    return NULL;
}

// What is measured: a mutex, or a reader-writer lock either way.
static const char *const names[][2] = {
    {"pthread_mutex_lock", "pthread_mutex_unlock"},
    {"pthread_rwlock_rdlock", "pthread_rwlock_unlock"},
    {"pthread_rwlock_wrlock", "pthread_rwlock_unlock"},
};

static op_t find(void *where, const char *name) { return (op_t)dlsym(where, name); }

int main(int argc, char **argv) {
    static struct { _Alignas(64) pthread_rwlock_t m; } ours, theirs;  // the larger of the two
    int what = argc < 2 ? 0 : strcmp(argv[1], "read") == 0 ? 1 : 2;
    double ratio[ROUNDS], ns[ROUNDS];
    sem_t end;
    pthread_t second;  // libc skips its atomics while there is one thread only
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    op_t lock = libc ? find(libc, names[what][0]) : NULL;
    op_t unlock = libc ? find(libc, names[what][1]) : NULL;
    op_t our_lock = find(RTLD_DEFAULT, names[what][0]);
    op_t our_unlock = find(RTLD_DEFAULT, names[what][1]);
    sem_init(&end, 0, 0);
    if (!lock || !unlock || pthread_create(&second, NULL, wait_for_end, &end)) {
        fprintf(stderr, "overhead: no libc.so.6 or no second thread\n");
        return 2;
    }
    for (int i = 0; i < ROUNDS; i++) {
        ns[i] = pair_ns(our_lock, our_unlock, &ours.m);
        ratio[i] = ns[i] / pair_ns(lock, unlock, &theirs.m);
    }
    qsort(ns, ROUNDS, sizeof *ns, by_value);
    qsort(ratio, ROUNDS, sizeof *ratio, by_value);
    printf("%.1f ns, ratio to libc %.2f [%.2f to %.2f]\n", ns[ROUNDS / 2], ratio[ROUNDS / 2],
           ratio[ROUNDS / 10], ratio[ROUNDS * 9 / 10]);
    sem_post(&end);
    pthread_join(second, NULL);
    return 0;
}
