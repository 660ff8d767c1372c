// SPDX-License-Identifier: MIT
// litmus.c - the classic litmus tests, one per -DTEST=name, with -DST=, -DLD= and -DFENCE= as the
// orders of stores, loads and the fence in the middle (FENCE 0: none). Each prints the final
// values; expected.txt says which outcomes each model allows. Names: Alglave, Maranget,
// Tautschnig, "Herding cats", ACM TOPLAS 2014.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#ifndef ST
#define ST relaxed
#endif
#ifndef LD
#define LD relaxed
#endif
#define ORDER_(o) memory_order_##o
#define ORDER(o) ORDER_(o)
#define W(x, v) atomic_store_explicit(&x, v, ORDER(ST))
#define R(x)    atomic_load_explicit(&x, ORDER(LD))
#ifdef FENCE
#define F atomic_thread_fence(ORDER(FENCE))
#else
#define F (void)0
#endif
#define THREAD(n) static void *n(void *unused)
#define BODY(n, code) THREAD(n) { (void)unused; code; return NULL; }
#define W_(x, v, order) atomic_store_explicit(&x, v, memory_order_##order)
#define R_(x, order)    atomic_load_explicit(&x, memory_order_##order)

#ifdef WIDE // 16 bytes
__extension__ static _Atomic unsigned __int128 x, y, z;
#else
static atomic_int x, y, z;
#endif
static int a, b, c, d;

#define SB 1
#define MP 2
#define LB 3
#define WRC 4
#define IRIW 5
#define TWO_TWO_W 6
#define CORR 7
#define CORW 8
#define COWR 9
#define COWW 10
#define S 11
#define RR 12
#define ISA2 13
#define MP_RMW 14
#define REL_SEQ 15
#define RWC 16
#define COUNT 17
#define BYTE_SB 18
#define WORD_BYTE 19
#define SB_HALVES 20
#define Z6U 21
#define W_RWC 22
#define DETOUR 23
#define SAME_PLACE 24
#define SAME_END 25
#define MP_OUT 26
#define MP_IN 27
#define MP_CHAIN 28
#define MP_BROKEN 29
#define MP_EARLIER 30

#if TEST == SB
BODY(p, W(x, 1); F; a = R(y))
BODY(q, W(y, 1); F; b = R(x))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == MP
BODY(p, W(x, 1); F; W(y, 1))
BODY(q, a = R(y); F; b = R(x))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == LB
BODY(p, a = R(x); F; W(y, 1))
BODY(q, b = R(y); F; W(x, 1))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == WRC
BODY(p, W(x, 1))
BODY(q, a = R(x); F; W(y, 1))
BODY(r, b = R(y); F; c = R(x))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == IRIW
BODY(p, W(x, 1))
BODY(q, W(y, 1))
BODY(r, a = R(x); F; b = R(y))
BODY(s, c = R(y); F; d = R(x))
#define THIRD r
#define FOURTH s
#define SHOW printf("%d%d%d%d\n", a, b, c, d)
#elif TEST == TWO_TWO_W
BODY(p, W(x, 1); F; W(y, 2))
BODY(q, W(y, 1); F; W(x, 2))
#define SHOW printf("%d%d\n", atomic_load_explicit(&x, memory_order_relaxed), \
                    atomic_load_explicit(&y, memory_order_relaxed))
#elif TEST == CORR
BODY(p, W(x, 1))
BODY(q, a = R(x); F; b = R(x))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == CORW
BODY(p, W(x, 1))
BODY(q, a = R(x); F; W(x, 2))
#define SHOW printf("%d%d\n", a, atomic_load_explicit(&x, memory_order_relaxed))
#elif TEST == COWR
BODY(p, W(x, 1); F; a = R(x))
BODY(q, W(x, 2))
#define SHOW printf("%d%d\n", a, atomic_load_explicit(&x, memory_order_relaxed))
#elif TEST == COWW
BODY(p, W(x, 1); F; W(x, 2))
BODY(q, a = R(x); F; b = R(x))
#define SHOW printf("%d%d%d\n", a, b, atomic_load_explicit(&x, memory_order_relaxed))
#elif TEST == S
BODY(p, W(x, 2); F; W(y, 1))
BODY(q, a = R(y); F; W(x, 1))
#define SHOW printf("%d%d\n", a, atomic_load_explicit(&x, memory_order_relaxed))
#elif TEST == RR
BODY(p, W(x, 1); F; W(y, 1))
BODY(q, W(y, 2); F; a = R(x))
#define SHOW printf("%d%d\n", a, atomic_load_explicit(&y, memory_order_relaxed))
#elif TEST == ISA2
BODY(p, W(x, 1); F; W(y, 1))
BODY(q, a = R(y); F; W(z, 1))
BODY(r, b = R(z); F; c = R(x))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == MP_RMW  // a read-modify-write by another thread continues a release sequence
BODY(p, atomic_store_explicit(&x, 1, memory_order_relaxed); W(y, 1))
BODY(q, atomic_fetch_add_explicit(&y, 1, memory_order_relaxed))
BODY(r, a = R(y); b = atomic_load_explicit(&x, memory_order_relaxed))
#define THIRD r
#define SHOW printf("%d%d\n", a, b)
#elif TEST == REL_SEQ  // a relaxed store by the same thread no longer does, since C++20
BODY(p, atomic_store_explicit(&x, 1, memory_order_relaxed); W(y, 1);
     atomic_store_explicit(&y, 2, memory_order_relaxed))
BODY(q, a = R(y); b = atomic_load_explicit(&x, memory_order_relaxed))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == RWC
BODY(p, W(x, 1))
BODY(q, a = R(x); F; b = R(y))
BODY(r, W(y, 1); F; c = R(x))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == COUNT  // atomicity: every number exactly once
BODY(p, a = atomic_fetch_add_explicit(&x, 1, ORDER(ST)))
BODY(q, b = atomic_fetch_add_explicit(&x, 1, ORDER(ST)))
BODY(r, c = atomic_fetch_add_explicit(&x, 1, ORDER(ST)))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == BYTE_SB  // SB on the two bytes of one word, which is one location here
static union { _Atomic unsigned short word; _Atomic unsigned char byte[2]; } u;
BODY(p, W(u.byte[0], 1); F; a = R(u.byte[1]))
BODY(q, W(u.byte[1], 1); F; b = R(u.byte[0]))
#define SHOW printf("%d%d%x\n", a, b, atomic_load_explicit(&u.word, memory_order_relaxed))
#elif TEST == WORD_BYTE  // a byte's release store shows through to who reads the word
static union { _Atomic unsigned short word; _Atomic unsigned char byte[2]; } u;
BODY(p, atomic_store_explicit(&x, 1, memory_order_relaxed); W(u.byte[0], 1))
BODY(q, atomic_store_explicit(&u.byte[1], 1, memory_order_relaxed))
BODY(r, a = R(u.word); b = atomic_load_explicit(&x, memory_order_relaxed))
#define THIRD r
#define SHOW printf("%x,%d\n", a, b)
#elif TEST == SB_HALVES  // one thread has the accesses, the other the fence
BODY(p, W_(x, 1, seq_cst); a = R_(y, seq_cst))
BODY(q, W_(y, 1, relaxed); F; b = R_(x, relaxed))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == Z6U  // happens-before alone does not order sequentially consistent accesses
BODY(p, W_(x, 1, seq_cst); W_(y, 1, release))
BODY(q, a = atomic_fetch_add_explicit(&y, 1, memory_order_seq_cst); b = R_(y, relaxed))
BODY(r, W_(y, 3, seq_cst); c = R_(x, seq_cst))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == W_RWC
BODY(p, W(x, 1); W(y, 1))
BODY(q, a = R(y); F; b = R(z))
BODY(r, W(z, 1); F; c = R(x))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == DETOUR  // but it does where other places lie at both its ends
BODY(p, W_(x, 1, seq_cst); W(y, 1))
BODY(q, a = R(y); b = R_(z, seq_cst))
BODY(r, W_(z, 1, seq_cst); c = R_(x, seq_cst))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == SAME_PLACE  // and not where one of them is the same place
BODY(p, W_(x, 1, seq_cst); W_(x, 2, release))
BODY(q, a = R_(x, acquire); b = R_(y, seq_cst))
BODY(r, W_(y, 1, seq_cst); c = R_(x, seq_cst))
#define THIRD r
#define SHOW printf("%d%d%d\n", a, b, c)
#elif TEST == SAME_END
BODY(p, W_(x, 1, seq_cst); W_(y, 1, release))
BODY(q, a = R_(y, acquire); b = R_(y, seq_cst))
BODY(r, W_(y, 2, seq_cst); c = R_(x, seq_cst))
#define THIRD r
#define SHOW printf("%d%d%d%d\n", a, b, c, R_(y, relaxed))
#elif TEST == MP_OUT  // from a fence to a load
BODY(p, W_(x, 1, relaxed); F; W_(y, 1, relaxed))
BODY(q, a = R(y); b = R_(x, relaxed))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == MP_IN  // from a store to a fence
BODY(p, W_(x, 1, relaxed); W(y, 1))
BODY(q, a = R_(y, relaxed); F; b = R_(x, relaxed))
#define SHOW printf("%d%d\n", a, b)
#elif TEST == MP_EARLIER  // from a store to a fence that comes after another load
BODY(p, W_(z, 1, relaxed); W_(x, 1, relaxed); W(y, 1))
BODY(q, a = R_(y, relaxed); c = R_(z, relaxed); F; b = R_(x, relaxed))
#define SHOW printf("%d%d%d\n", a, c, b)
#elif TEST == MP_CHAIN  // from a fence to a fence, by a relaxed read-modify-write between
BODY(p, W_(x, 1, relaxed); F; W_(y, 1, relaxed))
BODY(q, atomic_fetch_add_explicit(&y, 1, memory_order_relaxed))
BODY(r, a = R_(y, relaxed); F; b = R_(x, relaxed))
#define THIRD r
#define SHOW printf("%d%d\n", a, b)
#elif TEST == MP_BROKEN  // another thread's store ends a release sequence
BODY(p, W_(x, 1, relaxed); W(y, 1))
BODY(q, if (R_(y, relaxed) == 1) W_(y, 2, relaxed))
BODY(r, a = R(y); b = R_(x, relaxed))
#define THIRD r
#define SHOW printf("%d%d\n", a, b)
#endif

int main(void) {
    pthread_t t[4];
    int n = 0;
    pthread_create(&t[n++], NULL, p, NULL);
    pthread_create(&t[n++], NULL, q, NULL);
#ifdef THIRD
    pthread_create(&t[n++], NULL, THIRD, NULL);
#endif
#ifdef FOURTH
    pthread_create(&t[n++], NULL, FOURTH, NULL);
#endif
    while (n) pthread_join(t[--n], NULL);
    SHOW;
    (void)y, (void)z, (void)c, (void)d;
    return 0;
}
