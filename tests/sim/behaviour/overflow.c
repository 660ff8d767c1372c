// SPDX-License-Identifier: MIT
// overflow.c - a thread that uses up its stack while another one sleeps: it must meet the guard page,
// not the other's stack.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) int deeper(int n) {
    volatile char room[4000];
    memset((char *)room, n, sizeof room);
    return deeper(n + 1) + room[n % 4000];
}

static void *fall(void *arg) { return (void *)(long)deeper((int)(long)arg); }
static void *rest(void *arg) {
    sleep(1);
    return arg;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, rest, NULL);
    pthread_create(&b, NULL, fall, NULL);
    pthread_join(b, NULL);
    pthread_join(a, NULL);
    puts("never");
    return 0;
}
