// SPDX-License-Identifier: MIT
// hidden.c - a lock in inline assembly, which instrumentation cannot see.
#include <pthread.h>

static int word;

static __attribute__((noinline)) void take(void) {
#if defined(__x86_64__)
    __asm__ volatile("lock incl %0" : "+m"(word));
#else
    int old;
    __asm__ volatile("ldxr %w0, %1" : "=r"(old) : "Q"(word));
#endif
}

static void *work(void *arg) {
    take();
    return arg;
}

int main(void) {
    pthread_t t;
    pthread_create(&t, NULL, work, NULL);
    pthread_join(t, NULL);
    return 0;
}
