// SPDX-License-Identifier: MIT
// percpu.c - an allocator whose every operation takes a lock that nobody else wants: what inlining
// is worth in time. percpu ROUNDS; prints nanoseconds of processor time per operation.
//
// Each thread has array caches of several sizes, as the kernel's slab allocators have per processor,
// each under its own lock: an object is taken and given back, in an order that mixes the sizes.
// Refilling and flushing are the slow path and take the lock of all, seldom. The lock is
// PERCPU_LOCK, its operations inline, calls, or what the linker makes of calls.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <hotlock/hotlock.h>

#define PASTE_(a, b, c) a##b##c
#define PASTE(a, b, c) PASTE_(a, b, c)
#define OPERATION(name) PASTE(hl_, PERCPU_LOCK, name)
typedef PASTE(hl_, PERCPU_LOCK, _t) lock_t;

enum { THREADS = 2, SIZES = 8, CACHE = 32, BATCH = 16, BURST = 24 };

typedef struct object { struct object *next; } object_t;
typedef struct {
    HL_ALIGNED lock_t lock;
    unsigned available;
    object_t *entry[CACHE];
} cache_t;

static HL_ALIGNED lock_t all;
static object_t *shared[SIZES];
static long rounds;

static void refill(cache_t *c, int size) {
    OPERATION(_lock)(&all);
    while (c->available < BATCH && shared[size]) {
        c->entry[c->available++] = shared[size];
        shared[size] = shared[size]->next;
    }
    OPERATION(_unlock)(&all);
    while (c->available < BATCH) {
        object_t *o = (object_t *)malloc(32u << size);
        if (!o) abort();
        c->entry[c->available++] = o;
    }
}

static void flush(cache_t *c, int size) {
    OPERATION(_lock)(&all);
    for (int i = 0; i < BATCH; i++) {
        object_t *o = c->entry[--c->available];
        o->next = shared[size];
        shared[size] = o;
    }
    OPERATION(_unlock)(&all);
}

static __attribute__((noinline)) object_t *take(cache_t *caches, int size) {
    cache_t *c = &caches[size];
    OPERATION(_lock)(&c->lock);
    if (hl_unlikely(!c->available)) refill(c, size);
    object_t *o = c->entry[--c->available];
    OPERATION(_unlock)(&c->lock);
    return o;
}

static __attribute__((noinline)) void give(cache_t *caches, int size, object_t *o) {
    cache_t *c = &caches[size];
    OPERATION(_lock)(&c->lock);
    if (hl_unlikely(c->available == CACHE)) flush(c, size);
    c->entry[c->available++] = o;
    OPERATION(_unlock)(&c->lock);
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *spent) {
    cache_t *caches = (cache_t *)aligned_alloc(HL_CACHELINE, SIZES * sizeof(cache_t));
    if (!caches) abort();
    memset(caches, 0, SIZES * sizeof(cache_t));
    uint64_t begin = cpu_ns();
    for (long r = 0; r < rounds; r++) {
        object_t *held[BURST];
        for (int i = 0; i < BURST; i++) held[i] = take(caches, (i * 5) % SIZES);
        for (int i = 0; i < BURST; i++) give(caches, (i * 5) % SIZES, held[i]);
    }
    *(uint64_t *)spent = cpu_ns() - begin;
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t id[THREADS];
    uint64_t spent[THREADS], sum = 0;
    rounds = argc > 1 ? atol(argv[1]) : 1000;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&id[i], NULL, work, &spent[i])) return 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(id[i], NULL);
        sum += spent[i];
    }
    printf("%.3f\n", (double)sum / ((double)rounds * THREADS * 2 * BURST));
    return 0;
}
