// SPDX-License-Identifier: MIT
// wide.c - atomics of 16 bytes. Processors have one instruction for all of them, a locked
// compare-exchange, so loads and stores too cost what a change costs.
#include "sim.h"

// Declared by nobody: the compiler knows them by name.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

__extension__ typedef unsigned __int128 wide_t;

// A change of the line that changes nothing; what follows happens at the same moment.
static void touch(volatile wide_t *p, int order) {
    engine_rmw((uintptr_t)p, 8, VM_OR, 0, 0, order, order, VM_SITE());
}

wide_t __tsan_atomic128_load(const volatile wide_t *p, int order) {
    touch((volatile wide_t *)(uintptr_t)p, order);
    return *p;
}
void __tsan_atomic128_store(volatile wide_t *p, wide_t x, int order) {
    touch(p, order);
    *p = x;
}

#define CHANGE(name, result)                                                                   \
    wide_t __tsan_atomic128_##name(volatile wide_t *p, wide_t x, int order) {                  \
        touch(p, order);                                                                       \
        wide_t old = *p;                                                                       \
        *p = (result);                                                                         \
        return old;                                                                            \
    }
CHANGE(exchange, x)
CHANGE(fetch_add, old + x)
CHANGE(fetch_sub, old - x)
CHANGE(fetch_and, old & x)
CHANGE(fetch_or, old | x)
CHANGE(fetch_xor, old ^ x)
CHANGE(fetch_nand, ~(old & x))

wide_t __tsan_atomic128_compare_exchange_val(volatile wide_t *p, wide_t expected, wide_t x,
                                             int order, int failure) {
    (void)failure;
    touch(p, order);
    wide_t old = *p;
    if (old == expected) *p = x;
    return old;
}

#define EXCHANGE(kind)                                                                         \
    int __tsan_atomic128_compare_exchange_##kind(volatile wide_t *p, wide_t *expected, wide_t x, \
                                                 int order, int failure) {                     \
        wide_t old = __tsan_atomic128_compare_exchange_val(p, *expected, x, order, failure);   \
        if (old == *expected) return 1;                                                        \
        *expected = old;                                                                       \
        return 0;                                                                              \
    }
EXCHANGE(strong)
EXCHANGE(weak)
