// SPDX-License-Identifier: MIT
// fibers.c - prints "host 1" if all threads of the program are the same thread of the host, else how
// many those are, and that thread-local variables and the C library's errno are each thread's own.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4 };
static char name[THREADS][64];
static _Thread_local int mine = 7;
static pthread_barrier_t barrier;
static int wrong;

static void *work(void *arg) {
    int me = (int)(long)arg;
    wrong += mine != 7;
    mine = me;
    errno = 100 + me;
    pthread_barrier_wait(&barrier);
    wrong += mine != me || errno != 100 + me;
    // not redirected: the real kernel's answer
    if (readlink("/proc/thread-self", name[me], sizeof name[me] - 1) < 0) wrong++;
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    int hosts = 0;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        int before = 0;
        while (strcmp(name[before], name[i]) != 0) before++;
        hosts += before == i;
    }
    printf("host %d\nright %d\n", hosts, !wrong);
    return wrong != 0;
}
