// SPDX-License-Identifier: MIT
// avl.c - one AVL map under one lock: 1024 keys, four of five operations look up, the others insert
// or remove (the micro-benchmark of D. Dice and A. Kogan, EuroSys 2019).
#include "bench.h"

enum { KEYS = 1024 };
typedef struct node {
    struct node *child[2];
    int key, height;
} node_t;

static _Alignas(64) stock_lock_t lock;
static _Alignas(64) node_t *root;

static int height(const node_t *n) { return n ? n->height : 0; }

static void measure(node_t *n) {
    int l = height(n->child[0]), r = height(n->child[1]), h = 1 + (l > r ? l : r);
    if (n->height != h) n->height = h;
}

static node_t *rotate(node_t *n, int up) {   // the child `up` rises
    node_t *c = n->child[up];
    n->child[up] = c->child[!up];
    c->child[!up] = n;
    measure(n);
    measure(c);
    return c;
}

static node_t *balance(node_t *n) {
    int tilt = height(n->child[1]) - height(n->child[0]);
    measure(n);
    if (tilt > -2 && tilt < 2) return n;
    int up = tilt > 0;
    node_t *c = n->child[up];
    if (height(c->child[!up]) > height(c->child[up])) n->child[up] = rotate(c, !up);
    return rotate(n, up);
}

static void set(node_t **link, node_t *n) {
    if (*link != n) *link = n;
}

static node_t *insert(node_t *n, int key) {
    if (!n) {
        n = calloc(1, sizeof *n);
        *n = (node_t){.key = key, .height = 1};
        return n;
    }
    if (key == n->key) return n;
    set(&n->child[key > n->key], insert(n->child[key > n->key], key));
    return balance(n);
}

static node_t *take_least(node_t *n, node_t **least) {
    if (!n->child[0]) {
        *least = n;
        return n->child[1];
    }
    set(&n->child[0], take_least(n->child[0], least));
    return balance(n);
}

static node_t *erase(node_t *n, int key) {
    if (!n) return NULL;
    if (key != n->key) {
        set(&n->child[key > n->key], erase(n->child[key > n->key], key));
        return balance(n);
    }
    node_t *l = n->child[0], *r = n->child[1], *least;
    free(n);
    if (!r) return l;
    r = take_least(r, &least);
    least->child[1] = r;
    least->child[0] = l;
    return balance(least);
}

static node_t *find(node_t *n, int key) {
    while (n && n->key != key) n = n->child[key > n->key];
    return n;
}

static void setup(int threads) {
    worker_t me = {.random = 1};
    (void)threads;
    for (int i = 0; i < KEYS; i++)
        if (chance(&me) & 1) root = insert(root, i);
}

static void op(worker_t *me) {
    unsigned long r = chance(me);
    int key = (int)(r % KEYS), what = (int)(r / KEYS % 10);
    stock_lock(&lock, me->index);
    if (what == 0) root = insert(root, key);
    else if (what == 1) root = erase(root, key);
    else find(root, key);
    stock_unlock(&lock, me->index);
}
