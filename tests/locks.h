// SPDX-License-Identifier: MIT
// locks.h - the one table of locks that every test program walks.
//
// A row gives a lock's name, its size in the contract, and its operations behind one signature: all
// take a test_cell_t (room for any lock) and a node, which only mcs looks at. After the nine
// algorithms come the same nine behind hl_lock_t, named "any-tas" and so on.
#ifndef HOTLOCK_TESTS_LOCKS_H
#define HOTLOCK_TESTS_LOCKS_H

#include <string.h>

#include <hotlock/hotlock.h>

// One line per lock: name, in capitals, bytes, and the node argument of the one that has it.
enum { TEST_ADDRESS = sizeof(void *) };
#define TEST_LOCKS(X)                      \
    X(tas, TAS, 1)                         \
    X(ticket, TICKET, 4)                   \
    X(mcs, MCS, TEST_ADDRESS, n)           \
    X(nmcs, NMCS, 2 * TEST_ADDRESS)        \
    X(nmcs4, NMCS4, 4)                     \
    X(mcsflag, MCSFLAG, 2 * TEST_ADDRESS)  \
    X(qspin, QSPIN, 4)                     \
    X(park, PARK, 4)                       \
    X(ali, ALI, 8)

typedef union {
#define TEST_MEMBER(lock, ...) hl_##lock##_t lock;
    TEST_LOCKS(TEST_MEMBER)
#undef TEST_MEMBER
    hl_lock_t any;
} test_cell_t;

typedef hl_mcs_node_t test_node_t;

typedef struct {
    const char *name;
    size_t bytes;   // what the contract promises
    size_t size;    // what the compiler says
    int kind;       // behind hl_lock_t: which; else -1
    void (*lock)(test_cell_t *, test_node_t *);
    bool (*trylock)(test_cell_t *, test_node_t *);
    bool (*lock_until)(test_cell_t *, test_node_t *, uint64_t deadline_ns);
    void (*unlock)(test_cell_t *, test_node_t *);
    bool (*is_locked)(const test_cell_t *);
} test_lock_t;

// The operations of one lock, named test_tas_lock and so on.
#define TEST_ADAPT(which, capitals, size, ...)                                                  \
    static void test_##which##_lock(test_cell_t *c, test_node_t *n) {                           \
        (void)n;                                                                                \
        hl_##which##_lock(&c->which, ##__VA_ARGS__);                                            \
    }                                                                                           \
    static bool test_##which##_trylock(test_cell_t *c, test_node_t *n) {                        \
        (void)n;                                                                                \
        return hl_##which##_trylock(&c->which, ##__VA_ARGS__);                                  \
    }                                                                                           \
    static bool test_##which##_lock_until(test_cell_t *c, test_node_t *n, uint64_t deadline) {  \
        (void)n;                                                                                \
        return hl_##which##_lock_until(&c->which, ##__VA_ARGS__, deadline);                     \
    }                                                                                           \
    static void test_##which##_unlock(test_cell_t *c, test_node_t *n) {                         \
        (void)n;                                                                                \
        hl_##which##_unlock(&c->which, ##__VA_ARGS__);                                          \
    }                                                                                           \
    static bool test_##which##_is_locked(const test_cell_t *c) {                                \
        return hl_##which##_is_locked(&c->which);                                               \
    }
TEST_LOCKS(TEST_ADAPT)
#undef TEST_ADAPT

static void test_any_lock(test_cell_t *c, test_node_t *n) {
    (void)n;
    hl_lock(&c->any);
}

static bool test_any_trylock(test_cell_t *c, test_node_t *n) {
    (void)n;
    return hl_trylock(&c->any);
}

static bool test_any_lock_until(test_cell_t *c, test_node_t *n, uint64_t deadline_ns) {
    (void)n;
    return hl_lock_until(&c->any, deadline_ns);
}

static void test_any_unlock(test_cell_t *c, test_node_t *n) {
    (void)n;
    hl_unlock(&c->any);
}

static bool test_any_is_locked(const test_cell_t *c) { return hl_is_locked(&c->any); }

static const test_lock_t test_locks[] = {
#define TEST_ROW(which, capitals, size, ...)                                                    \
    {#which, size, sizeof(hl_##which##_t), -1, test_##which##_lock, test_##which##_trylock,     \
     test_##which##_lock_until, test_##which##_unlock, test_##which##_is_locked},
    TEST_LOCKS(TEST_ROW)
#undef TEST_ROW
#define TEST_ANY(which, capitals, ...)                                                          \
    {"any-" #which, sizeof(hl_lock_t), sizeof(hl_lock_t), HL_##capitals, test_any_lock,         \
     test_any_trylock, test_any_lock_until, test_any_unlock, test_any_is_locked},
    TEST_LOCKS(TEST_ANY)
#undef TEST_ANY
};

enum { TEST_LOCK_COUNT = sizeof test_locks / sizeof *test_locks };

// The row of that name, or NULL.
static inline const test_lock_t *test_lock_by_name(const char *name) {
    for (int i = 0; i < TEST_LOCK_COUNT; i++)
        if (strcmp(test_locks[i].name, name) == 0) return &test_locks[i];
    return NULL;
}

// An unlocked lock: all-zero memory, plus the kind where that is chosen at run time.
static inline void test_init(const test_lock_t *t, test_cell_t *c) {
    memset(c, 0, sizeof *c);
    if (t->kind >= 0) hl_lock_init(&c->any, (hl_kind_t)t->kind);
}

#endif
