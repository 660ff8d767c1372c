// SPDX-License-Identifier: MIT
// tries.c - loops that come to the same load again and are no waits: one counts its tries, one
// changes what it reads.
// check: --model c11 => verified 4
// check: --model sc => verified 4
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_int flag, count;

static __attribute__((noinline)) int tries(int most)
{
    for (int i = 0; i < most; i++)
        if (atomic_load_explicit(&flag, memory_order_relaxed)) return i;
    return most;
}

static __attribute__((noinline)) void up_to(int n)
{
    while (atomic_fetch_add_explicit(&count, 1, memory_order_relaxed) < n) {}
}

static void *work(void *unused)
{
    (void)unused;
    int n = tries(3);
    assert(n >= 0 && n <= 3);
    up_to(2);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    atomic_store_explicit(&flag, 1, memory_order_relaxed);
    pthread_join(thread, NULL);
    assert(atomic_load_explicit(&count, memory_order_relaxed) == 3);
    return 0;
}
