// SPDX-License-Identifier: MIT
// sixteen.c - atomics of 16 bytes: a stack whose top is a pointer and a counter, changed as one.
// Without the counter a pop may put back a node that has been taken and returned meanwhile (ABA).
// check: -t 2 => verified
// check: -t 2 --model tso => verified
// check: -t 2 -D NO_COUNT => exit
// check: -t 2 -D NO_COUNT => top: read {&nodes\+?[0-9]*, 0}
// check: -t 2 -D HALF => verified
// check: -t 2 -D PLAIN => race
// check: -t 2 -D PLAIN => an atomic read and a plain write
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct node { struct node *next; int users; } node_t;
__extension__ typedef unsigned __int128 pair_t;
typedef union { pair_t whole; struct { node_t *node; uint64_t count; } part; } top_t;

static node_t nodes[2] = {{&nodes[1], 0}, {0, 0}};
static top_t top = {.part = {&nodes[0], 0}};
static int wrong;

static top_t look(void)
{
#ifdef HALF // the same by halves: the exchange finds out whether they belong together
    return (top_t){.part = {__atomic_load_n(&top.part.node, __ATOMIC_ACQUIRE),
                            __atomic_load_n(&top.part.count, __ATOMIC_ACQUIRE)}};
#else
    return (top_t){__atomic_load_n(&top.whole, __ATOMIC_ACQUIRE)};
#endif
}

static bool change(top_t was, node_t *to)
{
    top_t now = {.part = {to, was.part.count}};
#ifndef NO_COUNT
    now.part.count++;
#endif
    return __atomic_compare_exchange_n(&top.whole, &was.whole, now.whole, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static node_t *pop(void)
{
    for (;;) {
        top_t was = look();
        if (!was.part.node) return 0;
        node_t *next = __atomic_load_n(&was.part.node->next, __ATOMIC_RELAXED);
        if (change(was, next)) return was.part.node;
    }
}

static void push(node_t *n)
{
    for (;;) {
        top_t was = look();
        __atomic_store_n(&n->next, was.part.node, __ATOMIC_RELAXED);
        if (change(was, n)) return;
    }
}

static void use(node_t *n, int by)
{
    if (n && __atomic_fetch_add(&n->users, by, __ATOMIC_RELAXED) != (by < 0)) wrong = 1;
}

static void *work(void *again)
{
    node_t *a = pop();
    use(a, 1);
    if (!again) return 0;
    // Both, and the first one back: the top is as it was, what lies below it is not.
    node_t *b = pop();
    use(b, 1);
    use(a, -1);
    if (a) push(a);
#ifdef PLAIN
    top.part.count = 0;
#endif
    return 0;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, work, &thread);
    work(0);
    node_t *n = pop();
    use(n, 1);
    pthread_join(thread, 0);
    return wrong;
}
