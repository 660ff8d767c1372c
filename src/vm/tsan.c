// SPDX-License-Identifier: MIT
// tsan.c - the functions GCC and Clang call under -fsanitize=thread, all handed to the engine.
#include <string.h>

#include "vm.h"

// Declared by nobody: the compiler knows them by name.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define A(p) ((uintptr_t)(p))

// ------------------------------------------------------------------------- atomics
#define RMW(bits, T, name, op)                                                         \
    T __tsan_atomic##bits##_##name(volatile T *p, T x, int order) {                    \
        return (T)engine_rmw(A(p), bits / 8, op, x, 0, order, order, VM_SITE());       \
    }
#ifdef VM_WEAK_FAILS  // the engine has them fail for no reason, too
#define FAILS(bits, p, order, failure, old) \
    engine_weak_fails(A(p), bits / 8, order, failure, old, VM_SITE())
#else
#define FAILS(bits, p, order, failure, old) false
#endif
#define CAS(bits, T, kind, is_weak)                                                    \
    int __tsan_atomic##bits##_compare_exchange_##kind(volatile T *p, T *expected, T x, \
                                                      int order, int failure) {        \
        vm_value_t seen;                                                               \
        if (is_weak && FAILS(bits, p, order, failure, &seen)) {                        \
            *expected = (T)seen;                                                       \
            return 0;                                                                  \
        }                                                                              \
        T old = (T)engine_rmw(A(p), bits / 8, VM_CAS, x, *expected, order, failure,    \
                              VM_SITE());                                              \
        if (old == *expected) return 1;                                                \
        *expected = old;                                                               \
        return 0;                                                                      \
    }
#define ATOMIC(bits, T)                                                                \
    T __tsan_atomic##bits##_load(const volatile T *p, int order) {                     \
        return (T)engine_load(A(p), bits / 8, order, VM_SITE());                       \
    }                                                                                  \
    void __tsan_atomic##bits##_store(volatile T *p, T x, int order) {                  \
        engine_store(A(p), bits / 8, x, order, VM_SITE());                             \
    }                                                                                  \
    RMW(bits, T, exchange, VM_XCHG)                                                    \
    RMW(bits, T, fetch_add, VM_ADD)                                                    \
    RMW(bits, T, fetch_sub, VM_SUB)                                                    \
    RMW(bits, T, fetch_and, VM_AND)                                                    \
    RMW(bits, T, fetch_or, VM_OR)                                                      \
    RMW(bits, T, fetch_xor, VM_XOR)                                                    \
    RMW(bits, T, fetch_nand, VM_NAND)                                                  \
    CAS(bits, T, strong, false)                                                             \
    CAS(bits, T, weak, true)                                                               \
    T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T expected, T x,       \
                                                 int order, int failure) {             \
        return (T)engine_rmw(A(p), bits / 8, VM_CAS, x, expected, order, failure,      \
                             VM_SITE());                                               \
    }

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
#ifdef VM_VALUE_16
ATOMIC(128, vm_value_t)
#endif

void __tsan_atomic_thread_fence(int order) { engine_fence(order, VM_HERE()); }
void __tsan_atomic_signal_fence(int order) { (void)order; }

// ------------------------------------------------------------------------- plain accesses
// A volatile read may be all that a waiting loop does; an engine may want to know.
#ifdef VM_VOLATILE_READS
#define VOLATILE(p, n) engine_volatile_read(A(p), n, VM_SITE())
#else
#define VOLATILE(p, n) engine_plain(A(p), n, false, VM_HERE())
#endif
#define PLAIN(n)                                                                        \
    void __tsan_read##n(void *p) { engine_plain(A(p), n, false, VM_HERE()); }           \
    void __tsan_write##n(void *p) { engine_plain(A(p), n, true, VM_HERE()); }           \
    void __tsan_unaligned_read##n(void *p) { engine_plain(A(p), n, false, VM_HERE()); } \
    void __tsan_unaligned_write##n(void *p) { engine_plain(A(p), n, true, VM_HERE()); } \
    void __tsan_volatile_read##n(void *p) { VOLATILE(p, n); }                           \
    void __tsan_volatile_write##n(void *p) { engine_plain(A(p), n, true, VM_HERE()); }  \
    void __tsan_unaligned_volatile_read##n(void *p) {                                   \
        engine_plain(A(p), n, false, VM_HERE());                                        \
    }                                                                                   \
    void __tsan_unaligned_volatile_write##n(void *p) {                                  \
        engine_plain(A(p), n, true, VM_HERE());                                         \
    }                                                                                   \
    void __tsan_read_write##n(void *p) {                                                \
        engine_plain(A(p), n, false, VM_HERE());                                        \
        engine_plain(A(p), n, true, VM_HERE());                                         \
    }                                                                                   \
    void __tsan_unaligned_read_write##n(void *p) {                                      \
        engine_plain(A(p), n, false, VM_HERE());                                        \
        engine_plain(A(p), n, true, VM_HERE());                                         \
    }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *p, size_t n) { engine_plain(A(p), n, false, VM_HERE()); }
void __tsan_write_range(void *p, size_t n) { engine_plain(A(p), n, true, VM_HERE()); }
void __tsan_vptr_read(void *p) { engine_plain(A(p), sizeof(void *), false, VM_HERE()); }
void __tsan_vptr_update(void *p, void *x) {
    (void)x;
    engine_plain(A(p), sizeof(void *), true, VM_HERE());
}

// memcpy() and the like: the program's own calls come here too (redirect.syms).
void *__tsan_memcpy(void *to, const void *from, size_t n) {
    engine_plain(A(from), n, false, VM_HERE());
    engine_plain(A(to), n, true, VM_HERE());
    return memmove(to, from, n);
}
void *__tsan_memmove(void *to, const void *from, size_t n) {
    engine_plain(A(from), n, false, VM_HERE());
    engine_plain(A(to), n, true, VM_HERE());
    return memmove(to, from, n);
}
void *__tsan_memset(void *to, int c, size_t n) {
    engine_plain(A(to), n, true, VM_HERE());
    return memset(to, c, n);
}

// ------------------------------------------------------------------------- the rest
void __tsan_func_entry(void *pc) {
    (void)pc;
    engine_enter(VM_HERE());
}
void __tsan_func_exit(void) { engine_leave(VM_HERE()); }
void __tsan_init(void) {}
