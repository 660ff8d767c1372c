// SPDX-License-Identifier: MIT
// races.c - two accesses of which one is plain: each pair that is a race, and each that is none.
// check: => verified
// check: -D FIRST=read -D SECOND=read -D ORDER=memory_order_relaxed => verified
// check: -D FIRST=read -D SECOND=write -D ORDER=memory_order_relaxed => race
// check: -D FIRST=write -D SECOND=read -D ORDER=memory_order_relaxed => race
// check: -D FIRST=write -D SECOND=write -D ORDER=memory_order_relaxed => race
// check: -D FIRST=load -D SECOND=read -D ORDER=memory_order_relaxed => verified
// check: -D FIRST=load -D SECOND=write -D ORDER=memory_order_relaxed => race
// check: -D FIRST=store -D SECOND=read -D ORDER=memory_order_relaxed => race
// check: -D FIRST=store -D SECOND=write -D ORDER=memory_order_relaxed => race
// check: -D FIRST=read -D SECOND=load -D ORDER=memory_order_relaxed => verified
// check: -D FIRST=read -D SECOND=store -D ORDER=memory_order_relaxed => race
// check: -D FIRST=write -D SECOND=load -D ORDER=memory_order_relaxed => race
// check: -D FIRST=write -D SECOND=store -D ORDER=memory_order_relaxed => race
// check: -D FIRST=load -D SECOND=write => verified
// check: -D FIRST=store -D SECOND=read => verified
// check: -D FIRST=write -D SECOND=load => verified
// check: -D FIRST=read -D SECOND=write => verified
// check: -D NEIGHBOURS => verified
// check: -D NEIGHBOURS -D OTHER => race
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#ifndef FIRST
#define FIRST write
#define SECOND read
#endif
#ifndef ORDER
#define ORDER memory_order_release
#endif

static atomic_int flag, data;

#ifndef NEIGHBOURS
// The data are written and read both ways.
static void read_(void) { (void)*(volatile int *)&data; }
static void write_(void) { *(volatile int *)&data = 2; }
static void load_(void) { (void)atomic_load_explicit(&data, memory_order_relaxed); }
static void store_(void) { atomic_store_explicit(&data, 2, memory_order_relaxed); }
#define JOIN_(a, b) a##b
#define CALL_(name) JOIN_(name, _)()

// The second comes after the first; whether that orders them is up to ORDER.
static void *first(void *unused) {
    CALL_(FIRST);
    atomic_store_explicit(&flag, 1, ORDER);
    return unused;
}
static void *second(void *unused) {
    while (!atomic_load_explicit(&flag, memory_order_acquire)) {}
    CALL_(SECOND);
    return unused;
}
#else
// Each thread reads one of two neighbours, which one depends on the schedule, and the second writes
// its own, or the other's.
static volatile int pair[2] __attribute__((aligned(8))), seen[2];

static void *first(void *arg) {
    seen[0] += pair[atomic_exchange_explicit(&data, 0, memory_order_relaxed)];
    atomic_store_explicit(&flag, 1, memory_order_release);
    return arg;
}
static void *second(void *arg) {
    int mine = atomic_exchange_explicit(&data, 0, memory_order_relaxed);
    (void)atomic_load_explicit(&flag, memory_order_relaxed); // the first may read before
    seen[1] += pair[mine];
#ifdef OTHER
    pair[!mine] = 1;
#else
    pair[mine] = 1;
#endif
    return arg;
}
#endif

int main(void) {
    pthread_t t, u;
    atomic_store_explicit(&data, 1, memory_order_relaxed);
    pthread_create(&t, NULL, first, NULL);
    pthread_create(&u, NULL, second, NULL);
    pthread_join(t, NULL);
    pthread_join(u, NULL);
    (void)flag;
    return 0;
}
