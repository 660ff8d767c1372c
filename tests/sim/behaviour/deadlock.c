// SPDX-License-Identifier: MIT
// deadlock.c - two threads take two mutexes in opposite orders and both wait for ever.
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;

static void *forth(void *arg) {
    pthread_mutex_lock(&first);
    usleep(100);
    pthread_mutex_lock(&second);
    return arg;
}
static void *back(void *arg) {
    pthread_mutex_lock(&second);
    usleep(100);
    pthread_mutex_lock(&first);
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, forth, NULL);
    pthread_create(&b, NULL, back, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    return 0;
}
