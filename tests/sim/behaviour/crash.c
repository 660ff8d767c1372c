// SPDX-License-Identifier: MIT
// crash.c - one thread holds a mutex and writes where it must not; the others wait for it.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int *volatile nowhere;

static __attribute__((noinline)) void broken(void) { *nowhere = 1; }

static void *holder(void *arg) {
    pthread_mutex_lock(&mutex);
    usleep(100);
#ifdef ABORT
    abort();
#endif
    broken();
    return arg;
}
static void *waiter(void *arg) {
    usleep(50);
    pthread_mutex_lock(&mutex);
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, holder, NULL);
    pthread_create(&b, NULL, waiter, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
