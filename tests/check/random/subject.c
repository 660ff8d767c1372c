// SPDX-License-Identifier: MIT
// subject.c - interprets the program in HL_PROGRAM on real atomics and prints its final state. A
// location is an int and its halves, or, with -DWIDE, 16 bytes and halves of 8.
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "program.h"

static program_t program;
#ifdef WIDE
__extension__ typedef unsigned __int128 word_t;
typedef uint64_t half_t;
#else
typedef uint32_t word_t;
typedef uint16_t half_t;
#endif
enum { HALF = 8 * sizeof(half_t) };
static word_t memory[LOCATIONS];
static int registers[THREADS_MOST][REGISTERS];
static bool plain[LOCATIONS];

// Before main(): the checker takes what is here as the initial state.
__attribute__((constructor, no_sanitize("thread"))) static void read_program(void) {
    parse_program(getenv("HL_PROGRAM"), &program);
    for (int x = 0; x < LOCATIONS; x++) plain[x] = is_plain(&program, x);
}

// As the reference sees it, a location is an int with halves of 16 bits.
static int narrow(word_t w) { return (int)((uint32_t)(w >> HALF) << 16 | (uint16_t)w); }
static word_t widen(int i) { return (word_t)((uint32_t)i >> 16) << HALF | (uint16_t)i; }

#define BY_ORDER(order, with)                                   \
    switch (order) {                                            \
    case __ATOMIC_ACQUIRE: with(__ATOMIC_ACQUIRE); break;       \
    case __ATOMIC_RELEASE: with(__ATOMIC_RELEASE); break;       \
    case __ATOMIC_ACQ_REL: with(__ATOMIC_ACQ_REL); break;       \
    case __ATOMIC_SEQ_CST: with(__ATOMIC_SEQ_CST); break;       \
    default: with(__ATOMIC_RELAXED);                            \
    }
#define LOAD_ORDER(order, with)                                 \
    switch (order) {                                            \
    case __ATOMIC_ACQUIRE: with(__ATOMIC_ACQUIRE); break;       \
    case __ATOMIC_SEQ_CST: with(__ATOMIC_SEQ_CST); break;       \
    default: with(__ATOMIC_RELAXED);                            \
    }
#define STORE_ORDER(order, with)                                \
    switch (order) {                                            \
    case __ATOMIC_RELEASE: with(__ATOMIC_RELEASE); break;       \
    case __ATOMIC_SEQ_CST: with(__ATOMIC_SEQ_CST); break;       \
    default: with(__ATOMIC_RELAXED);                            \
    }

// Functions of their own: the compiler then peels no iteration off the loop.
#define WAIT_LOOP(m)                                                          \
    static __attribute__((noinline)) void wait_##m(const word_t *p, word_t v) {     \
        while (__atomic_load_n(p, __ATOMIC_##m) != v) {}                      \
    }
WAIT_LOOP(RELAXED)
WAIT_LOOP(ACQUIRE)
WAIT_LOOP(SEQ_CST)

static void step(const op_t *o, int *reg) {
    word_t *p = &memory[o->x], v = widen(o->v), expected = widen(o->e);
    half_t *half = (half_t *)p + (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? o->h : 1 - o->h);
    switch (o->kind) {
#define STORE(m) __atomic_store_n(p, v, m)
#define STORE_REG(m) __atomic_store_n(p, widen(reg[o->r] + 1), m)
#define LOAD(m) reg[o->r] = narrow(__atomic_load_n(p, m))
#define ADD(m) reg[o->r] = narrow(__atomic_fetch_add(p, v, m))
#define XCHG(m) reg[o->r] = narrow(__atomic_exchange_n(p, v, m))
#define FENCE(m) __atomic_thread_fence(m)
#define CAS(m, f) __atomic_compare_exchange_n(p, &expected, v, false, m, f)
#define WEAK(m, f) __atomic_compare_exchange_n(p, &expected, v, true, m, f)
#define STORE_HALF(m) __atomic_store_n(half, (half_t)o->v, m)
#define LOAD_HALF(m) reg[o->r] = (int)__atomic_load_n(half, m)
#define XCHG_HALF(m) reg[o->r] = (int)__atomic_exchange_n(half, (half_t)o->v, m)
// Every pair of orders a compare-exchange may have.
#define EXCHANGE(with)                                                        \
    switch (o->order * 8 + o->failure) {                                      \
    PAIR(with, __ATOMIC_RELAXED, __ATOMIC_RELAXED)                            \
    PAIR(with, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)                            \
    PAIR(with, __ATOMIC_RELEASE, __ATOMIC_RELAXED)                            \
    PAIR(with, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)                            \
    PAIR(with, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)                            \
    PAIR(with, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)                            \
    PAIR(with, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)                            \
    PAIR(with, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE)                            \
    PAIR(with, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)                            \
    default: abort();                                                         \
    }
#define PAIR(with, success, failure) \
    case success * 8 + failure: with(success, failure); break;
    case 'S': STORE_ORDER(o->order, STORE); break;
    case 'D': STORE_ORDER(o->order, STORE_REG); break;
    case 'L': LOAD_ORDER(o->order, LOAD); break;
    case 'W':
        if (o->order == __ATOMIC_RELAXED) wait_RELAXED(p, v);
        else if (o->order == __ATOMIC_ACQUIRE) wait_ACQUIRE(p, v);
        else wait_SEQ_CST(p, v);
        break;
    case 'A': BY_ORDER(o->order, ADD); break;
    case 'X': BY_ORDER(o->order, XCHG); break;
    case 'F': BY_ORDER(o->order, FENCE); break;
    case 'P': *p = v; break;
    case 'Q': reg[o->r] = narrow(*p); break;
    case 'B': STORE_ORDER(o->order, STORE_HALF); break;
    case 'H': LOAD_ORDER(o->order, LOAD_HALF); break;
    case 'Y': BY_ORDER(o->order, XCHG_HALF); break;
    case 'C': EXCHANGE(CAS); reg[o->r] = narrow(expected); break;
    case 'K': EXCHANGE(WEAK); reg[o->r] = narrow(expected); break;
    }
}

static void *run(void *arg) {
    int t = (int)(long)arg;
    for (int i = 0; i < program.ops[t]; i++) {
        const op_t *o = &program.op[t][i];
        if (o->kind != 'I') step(o, registers[t]);
        else if (registers[t][o->r] != o->v) i += o->x;
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS_MOST];
    for (long t = 0; t < program.threads; t++) pthread_create(&thread[t], NULL, run, (void *)t);
    for (int t = 0; t < program.threads; t++) pthread_join(thread[t], NULL);
    for (int t = 0; t < program.threads; t++) {
        for (int r = 0; r < REGISTERS; r++) printf("%d ", registers[t][r]);
        printf("| ");
    }
    for (int x = 0; x < LOCATIONS; x++) {
        word_t w = plain[x] ? memory[x] : __atomic_load_n(&memory[x], __ATOMIC_RELAXED);
        printf("%d ", narrow(w));
    }
    return 0;
}
