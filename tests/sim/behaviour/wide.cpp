// SPDX-License-Identifier: MIT
// wide.cpp - C++ threads that add to both halves of a 16-byte atomic by compare-exchange.
#include <cstdint>
#include <cstdio>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 100 };
__extension__ typedef unsigned __int128 wide_t;
static wide_t pair;

static void *work(void *arg) {
    for (int i = 0; i < ROUNDS; i++) {
        wide_t old = __atomic_load_n(&pair, __ATOMIC_RELAXED), next;
        do next = old + 1 + ((wide_t)1 << 64);
        while (!__atomic_compare_exchange_n(&pair, &old, next, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED));
    }
    return arg;
}

int main() {
    pthread_t t[THREADS];
    for (auto &id : t) pthread_create(&id, nullptr, work, nullptr);
    for (auto &id : t) pthread_join(id, nullptr);
    uint64_t low = (uint64_t)pair, high = (uint64_t)(pair >> 64);
    std::printf("sum %d\n", (int)(low + high));
    return low != THREADS * ROUNDS || high != low;
}
