// SPDX-License-Identifier: MIT
// memory.c - memory that is no longer there: freed, of a function that returned, of a dead thread.
// check: -D FREED => freed
// check: -D FREED -D ORDERED => verified
// check: -D TWICE => misuse
// check: -D FRAME => stack
// check: -D FRAME -D ORDERED => verified
// check: -D REUSED => stack
// check: -D DEAD => stack
// check: -D NULL_POINTER => crash
// check: -D SHARED_BYTES => verified
// check: -D PLAIN_FLAG => race
// check: -D PUBLISH => verified
// check: -D PUBLISH -D ORDER=memory_order_relaxed => race
// check: -D ENDLESS --loops 5 => bound
// check: -D EXIT => exit
// check: -D LOST_UPDATE => exit
// check: -D LOST_UPDATE --model sc => exit
// check: -D STORE_BUFFER --model sc => verified
// check: -D STORE_BUFFER --model tso => assert
// check: -D STORE_BUFFER --model c11 => assert
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifndef ORDER
#define ORDER memory_order_release
#endif

static _Atomic(int *) shared;
static atomic_int flag, x, y;
static int plain;

#if defined(FREED) || defined(TWICE)
static void *first(void *unused) {
    int *p = malloc(sizeof *p);
    *p = 1;
    atomic_store(&shared, p);
#ifdef ORDERED
    while (!atomic_load(&flag)) {}
#endif
    free(p);
#ifdef TWICE
    free(p);
#endif
    return unused;
}
static void *second(void *unused) {
    int *p = atomic_load(&shared);
#ifdef FREED
    if (p) *p = 2;
#endif
    atomic_store(&flag, 1);
    (void)p;
    return unused;
}
#elif defined(FRAME) || defined(REUSED)
static __attribute__((noinline)) void call(int wait) {
    int mine = 0;
    atomic_store(&shared, &mine);
    while (wait && !atomic_load(&flag)) {}
}
static void *first(void *unused) {
#ifdef ORDERED
    call(1);
#else
    call(0);
#endif
#ifdef REUSED  // the same address in a later call; whoever still has the old one is wrong
    atomic_int again = 0;
    atomic_store(&again, 1);
    call(0);
#endif
    return unused;
}
static void *second(void *unused) {
    int *p = atomic_load(&shared);
    if (p) *p = 1;
    atomic_store(&flag, 1);
    return unused;
}
#elif defined(DEAD)
static void *leaf(void *unused) {
    int mine = 0;
    atomic_store(&shared, &mine);
    return unused;
}
static void *first(void *unused) {
    pthread_t t;
    pthread_create(&t, NULL, leaf, NULL);
    pthread_join(t, NULL);
    atomic_store(&flag, 1);
    return unused;
}
static void *second(void *unused) {
    if (atomic_load(&flag)) *atomic_load(&shared) = 1;
    return unused;
}
#elif defined(NULL_POINTER)
static void *first(void *unused) {
    atomic_store(&shared, &plain);
    return unused;
}
static void *second(void *unused) {
    *atomic_load(&shared) = 1;
    return unused;
}
#elif defined(SHARED_BYTES)
static char bytes[8];
static void *first(void *unused) { return bytes[0]++, unused; }
static void *second(void *unused) { return bytes[1]++, unused; }
#elif defined(PLAIN_FLAG)
static void *first(void *unused) { return plain = 1, unused; }
static void *second(void *unused) { return (void)*(volatile int *)&plain, unused; }
#elif defined(PUBLISH)
static void *first(void *unused) {
    plain = 1;
    atomic_store_explicit(&flag, 1, ORDER);
    return unused;
}
static void *second(void *unused) {
    if (atomic_load_explicit(&flag, memory_order_acquire)) assert(plain == 1);
    return unused;
}
#elif defined(ENDLESS)
static void *first(void *unused) {
    for (int i = 0; !atomic_load(&flag); i++) atomic_store(&x, i);
    return unused;
}
static void *second(void *unused) { return unused; }
#elif defined(EXIT)
static void *first(void *unused) { return exit(3), unused; }
static void *second(void *unused) { return unused; }
#elif defined(LOST_UPDATE)
static void *first(void *unused) {
    atomic_store(&x, atomic_load(&x) + 1);
    return unused;
}
#define second first
#elif defined(STORE_BUFFER)
static int a, b;
static void *first(void *unused) {
    atomic_store_explicit(&x, 1, memory_order_release);
    a = atomic_load_explicit(&y, memory_order_acquire);
    return unused;
}
static void *second(void *unused) {
    atomic_store_explicit(&y, 1, memory_order_release);
    b = atomic_load_explicit(&x, memory_order_acquire);
    return unused;
}
#endif

int main(void) {
    pthread_t t, u;
    pthread_create(&t, NULL, first, NULL);
    pthread_create(&u, NULL, second, NULL);
    pthread_join(t, NULL);
    pthread_join(u, NULL);
#ifdef LOST_UPDATE
    return atomic_load(&x) != 2;
#endif
#ifdef STORE_BUFFER
    assert(a || b);
#endif
    (void)shared, (void)flag, (void)x, (void)y, (void)plain;
    return 0;
}
