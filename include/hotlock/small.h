// SPDX-License-Identifier: MIT
// small.h - atomics of one and two bytes on a machine that has only those of four and eight.
//
// A part of atomic.h. The word around the bytes is compared and exchanged; its other bytes keep
// what they hold, and whoever stores to one of them meanwhile makes the exchange fail and be done
// again. So plain stores to a part of a lock mix with exchanges of another, as they do elsewhere.
#ifndef HOTLOCK_SMALL_H
#define HOTLOCK_SMALL_H

#include "atomic.h"

#define HL_SMALL_INLINE_ static inline __attribute__((always_inline, unused))

typedef uint32_t __attribute__((may_alias)) hl_small_word_t;

typedef struct {
    hl_small_word_t *word;
    unsigned shift;
    uint32_t mask;
} hl_small_t;

HL_SMALL_INLINE_ hl_small_t hl_small_at(void *p, unsigned size) {
    unsigned at = (unsigned)((uintptr_t)p & 3);
    hl_small_t s;
    if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) at = 4 - size - at;
    s.word = (hl_small_word_t *)(void *)((uintptr_t)p & ~(uintptr_t)3);
    s.shift = 8 * at;
    s.mask = (size == 1 ? 0xffu : 0xffffu) << s.shift;
    return s;
}

// Replaces `old` by `new_`, or fails if the bytes are not `old` (anything with any_old). Gives what
// they were before.
HL_SMALL_INLINE_ uint32_t hl_small_swap(hl_small_t s, bool any_old, uint32_t old, uint32_t new_,
                                        bool add, int order) {
    for (;;) {
        uint32_t seen = __atomic_load_n(s.word, __ATOMIC_RELAXED);
        uint32_t was = (seen & s.mask) >> s.shift, value = add ? was + new_ : new_;
        if (!any_old && was != old) return was;
        uint32_t word = (seen & ~s.mask) | ((value << s.shift) & s.mask);
        if (__atomic_compare_exchange_n(s.word, &seen, word, true, order, __ATOMIC_RELAXED))
            return was;
    }
}

HL_SMALL_INLINE_ uint32_t hl_small_xchg(void *p, unsigned size, uint32_t x, int order) {
    return hl_small_swap(hl_small_at(p, size), true, 0, x, false, order);
}

HL_SMALL_INLINE_ uint32_t hl_small_add(void *p, unsigned size, uint32_t x, int order) {
    return hl_small_swap(hl_small_at(p, size), true, 0, x, true, order);
}

HL_SMALL_INLINE_ bool hl_small_cas(void *p, unsigned size, uint32_t old, uint32_t new_, int order) {
    return hl_small_swap(hl_small_at(p, size), false, old, new_, false, order) == old;
}

#if HL_WORDS_ONLY
// The casts only serve the branch that is not taken: a value may be an address.
#define hl_small_value_(p, x) ((uint32_t)(uintptr_t)(__typeof__((p)->v))(x))
#define hl_xchg_order_(p, x, order)                                                             \
    (sizeof((p)->v) < 4                                                                         \
         ? (__typeof__((p)->v))(uintptr_t)hl_small_xchg(&(p)->v, sizeof((p)->v),                \
                                                        hl_small_value_(p, x), order)           \
         : __atomic_exchange_n(&(p)->v, (x), order))
#define hl_add_order_(p, x, order)                                                              \
    (sizeof((p)->v) < 4                                                                         \
         ? (__typeof__((p)->v))hl_small_add(&(p)->v, sizeof((p)->v), hl_small_value_(p, x), order) \
         : __atomic_fetch_add(&(p)->v, (x), order))
#define hl_cas_order_(p, old, new_, order)                                                      \
    (__extension__({                                                                            \
        __typeof__((p)->v) hl_old_ = (old), hl_new_ = (new_);                                   \
        sizeof hl_old_ < 4                                                                      \
            ? hl_small_cas(&(p)->v, sizeof hl_old_, hl_small_value_(p, hl_old_),                \
                           hl_small_value_(p, hl_new_), order)                                  \
            : __atomic_compare_exchange_n(&(p)->v, &hl_old_, hl_new_, false, order,             \
                                          __ATOMIC_RELAXED);                                    \
    }))
#endif

#endif
