// SPDX-License-Identifier: MIT
// unit.c - what the contract promises of each lock, one promise per case. C and C++.
//
// Every case runs on every row of locks.h. A case that needs a second thread gets one from
// elsewhere(), and a case that needs a waiter waits until the kernel says that it sleeps, or
// until it has had time enough to spin; nothing here depends on how long anything takes.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif
#include <cmocka.h>
#ifdef __cplusplus
}
#endif

#include "locks.h"

#define ROW ((const test_lock_t *)*state)

enum { MS = 1000000 };

// ------------------------------------------------------------------------- a second thread
typedef struct {
    const test_lock_t *t;
    test_cell_t *c;
    uint64_t deadline_ns;
    bool got;
    HL_ATOMIC(pid_t) tid;
} other_t;

static void *try_once(void *arg) {
    other_t *o = (other_t *)arg;
    test_node_t n;
    o->got = o->t->trylock(o->c, &n);
    if (o->got) o->t->unlock(o->c, &n);
    return NULL;
}

static void *lock_once(void *arg) {
    other_t *o = (other_t *)arg;
    test_node_t n;
    hl_store_rel(&o->tid, (pid_t)syscall(SYS_gettid));
    if (o->deadline_ns == HL_NO_DEADLINE) {
        o->t->lock(o->c, &n);
        o->got = true;
    } else {
        o->got = o->t->lock_until(o->c, &n, o->deadline_ns);
    }
    if (o->got) o->t->unlock(o->c, &n);
    return NULL;
}

static pthread_t start(void *(*run)(void *), other_t *o) {
    pthread_t id;
    if (pthread_create(&id, NULL, run, o)) abort();
    return id;
}

static bool elsewhere(void *(*run)(void *), const test_lock_t *t, test_cell_t *c,
                      uint64_t deadline_ns) {
    other_t o = {t, c, deadline_ns, false, {0}};
    pthread_join(start(run, &o), NULL);
    return o.got;
}

// Returns when the thread sleeps in the kernel, or has had many turns to come to wait.
static void await_waiting(other_t *o) {
    char path[64], state = 0;
    pid_t tid;
    while (!(tid = hl_load_acq(&o->tid))) sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    for (int turns = 0; turns < 30 && state != 'S'; turns++) {
        FILE *f = fopen(path, "r");
        if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 0;
        if (f) fclose(f);
        sched_yield();
    }
}

// ------------------------------------------------------------------------- cases of every lock
static void has_its_size(void **state) {
    assert_int_equal(ROW->size, ROW->bytes);
}

static void zero_is_unlocked(void **state) {
    test_cell_t c;
    test_init(ROW, &c);
    assert_false(ROW->is_locked(&c));
}

static void lock_and_unlock(void **state) {
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    for (int i = 0; i < 3; i++) {
        ROW->lock(&c, &n);
        assert_true(ROW->is_locked(&c));
        ROW->unlock(&c, &n);
        assert_false(ROW->is_locked(&c));
    }
}

static void many_rounds(void **state) {  // past the width of every counter in a lock
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    for (int i = 0; i < 70000; i++) {
        ROW->lock(&c, &n);
        ROW->unlock(&c, &n);
    }
    assert_false(ROW->is_locked(&c));
    assert_true(ROW->trylock(&c, &n));
    ROW->unlock(&c, &n);
}

static void trylock_takes_a_free_lock(void **state) {
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    assert_true(ROW->trylock(&c, &n));
    assert_true(ROW->is_locked(&c));
    assert_false(elsewhere(try_once, ROW, &c, 0));
    ROW->unlock(&c, &n);
    assert_true(elsewhere(try_once, ROW, &c, 0));
}

static void trylock_refuses_a_held_lock(void **state) {
    test_cell_t c;
    test_node_t n, mine;
    test_init(ROW, &c);
    ROW->lock(&c, &n);
    assert_false(ROW->trylock(&c, &mine));
    assert_false(elsewhere(try_once, ROW, &c, 0));
    assert_true(ROW->is_locked(&c));
    ROW->unlock(&c, &n);
    assert_false(ROW->is_locked(&c));
}

static void past_deadline_is_a_trylock(void **state) {
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    assert_true(ROW->lock_until(&c, &n, 0));
    assert_false(elsewhere(lock_once, ROW, &c, 0));
    assert_false(elsewhere(lock_once, ROW, &c, 1));
    assert_false(elsewhere(lock_once, ROW, &c, hl_now_ns()));
    ROW->unlock(&c, &n);
    assert_true(elsewhere(lock_once, ROW, &c, 1));
    assert_false(ROW->is_locked(&c));
}

static void waits_until_its_deadline(void **state) {
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    ROW->lock(&c, &n);
    uint64_t deadline = hl_now_ns() + 5 * MS;
    assert_false(elsewhere(lock_once, ROW, &c, deadline));
    assert_true(hl_now_ns() >= deadline);
    ROW->unlock(&c, &n);
    assert_false(ROW->is_locked(&c));
}

static void gets_it_before_its_deadline(void **state) {
    test_cell_t c;
    test_node_t n;
    other_t o = {ROW, &c, hl_now_ns() + UINT64_C(1000000) * MS, false, {0}};
    test_init(ROW, &c);
    ROW->lock(&c, &n);
    pthread_t id = start(lock_once, &o);
    await_waiting(&o);
    ROW->unlock(&c, &n);
    pthread_join(id, NULL);
    assert_true(o.got);
    assert_false(ROW->is_locked(&c));
}

// Waiters that gave up, before and behind one that did not: it must still get the lock.
static void abandoned_waits_leave_nothing(void **state) {
    enum { WAITERS = 5, STAYS = 2 };
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    for (int round = 0; round < 8; round++) {
        other_t o[WAITERS];
        pthread_t id[WAITERS];
        ROW->lock(&c, &n);
        for (int i = 0; i < WAITERS; i++) {
            uint64_t soon = hl_now_ns() + (i % 2 ? 1 : 2) * MS;
            other_t one = {ROW, &c, i == STAYS ? HL_NO_DEADLINE : soon, false, {0}};
            o[i] = one;
            id[i] = start(lock_once, &o[i]);
            if (i == STAYS) await_waiting(&o[i]);
        }
        for (int i = 0; i < WAITERS; i++)
            if (i != STAYS) pthread_join(id[i], NULL);
        ROW->unlock(&c, &n);
        pthread_join(id[STAYS], NULL);
        for (int i = 0; i < WAITERS; i++) assert_int_equal(o[i].got, i == STAYS);
        assert_false(ROW->is_locked(&c));
        assert_true(ROW->trylock(&c, &n));
        ROW->unlock(&c, &n);
    }
}

static void waiters_all_get_it(void **state) {
    enum { WAITERS = 6 };
    static const hl_wait_policy_t policies[] = {HL_WAIT_DEFAULT, HL_WAIT_SPIN, HL_WAIT_YIELD,
                                                HL_WAIT_PARK};
    test_cell_t c;
    test_node_t n;
    test_init(ROW, &c);
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        other_t o[WAITERS];
        pthread_t id[WAITERS];
        hl_wait_set(policies[p]);
        ROW->lock(&c, &n);
        for (int i = 0; i < WAITERS; i++) {
            other_t one = {ROW, &c, HL_NO_DEADLINE, false, {0}};
            o[i] = one;
            id[i] = start(lock_once, &o[i]);
        }
        await_waiting(&o[WAITERS - 1]);
        ROW->unlock(&c, &n);
        for (int i = 0; i < WAITERS; i++) {
            pthread_join(id[i], NULL);
            assert_true(o[i].got);
        }
        assert_false(ROW->is_locked(&c));
    }
    hl_wait_set(HL_WAIT_DEFAULT);
}

// The shared pool of queue nodes is empty: waiters must still wait, give up and get the lock.
static void works_without_a_free_node(void **state) {
    static bool ours[HL_POOL_NODES];
    test_cell_t c;
    test_node_t n;
    other_t o = {ROW, &c, HL_NO_DEADLINE, false, {0}};
    if (ROW->kind == HL_MCS) return;  // even its holder needs one
    test_init(ROW, &c);
    for (int i = 0; i < HL_POOL_NODES; i++)
        ours[i] = hl_cas_acq(&hl_pool.at[i].claimed, 0u, 1u);
    ROW->lock(&c, &n);
    assert_false(elsewhere(lock_once, ROW, &c, hl_now_ns() + MS));
    pthread_t id = start(lock_once, &o);
    await_waiting(&o);
    ROW->unlock(&c, &n);
    pthread_join(id, NULL);
    for (int i = 0; i < HL_POOL_NODES; i++) {
        if (!ours[i]) continue;
        assert_int_equal(hl_load(&hl_pool.at[i].claimed), 1);  // nobody gave back what was ours
        hl_store_rel(&hl_pool.at[i].claimed, 0u);
    }
    assert_true(o.got);
    assert_false(ROW->is_locked(&c));
}

// After all that: every node that a timed waiter left behind has been given back.
static void gives_every_node_back(void **state) {
    (void)state;
    for (int i = 0; i < HL_POOL_NODES; i++) assert_int_equal(hl_load(&hl_pool.at[i].claimed), 0);
}

static void keeps_errno(void **state) {
    test_cell_t c;
    test_node_t n, late;
    test_init(ROW, &c);
    errno = EXDEV;
    ROW->lock(&c, &n);
    assert_int_equal(errno, EXDEV);
    assert_false(ROW->trylock(&c, &late));
    assert_int_equal(errno, EXDEV);
    assert_false(ROW->lock_until(&c, &late, hl_now_ns() + 2 * MS));
    assert_int_equal(errno, EXDEV);
    ROW->unlock(&c, &n);
    assert_int_equal(errno, EXDEV);
}

static void keeps_errno_when_it_wakes(void **state) {
    test_cell_t c;
    test_node_t n;
    other_t o = {ROW, &c, HL_NO_DEADLINE, false, {0}};
    test_init(ROW, &c);
    ROW->lock(&c, &n);
    pthread_t id = start(lock_once, &o);
    await_waiting(&o);
    errno = EXDEV;
    ROW->unlock(&c, &n);
    assert_int_equal(errno, EXDEV);
    pthread_join(id, NULL);
}

static void two_locks_are_two(void **state) {
    test_cell_t a, b;
    test_node_t na, nb;
    test_init(ROW, &a);
    test_init(ROW, &b);
    ROW->lock(&a, &na);
    assert_false(ROW->is_locked(&b));
    ROW->lock(&b, &nb);
    ROW->unlock(&a, &na);  // not in the order of a stack
    assert_true(ROW->is_locked(&b));
    assert_false(ROW->is_locked(&a));
    ROW->unlock(&b, &nb);
    assert_false(ROW->is_locked(&b));
}

#define CASE(f) {#f, f}
static const struct {
    const char *name;
    void (*run)(void **state);
} per_lock[] = {
    CASE(has_its_size),
    CASE(zero_is_unlocked),
    CASE(lock_and_unlock),
    CASE(many_rounds),
    CASE(trylock_takes_a_free_lock),
    CASE(trylock_refuses_a_held_lock),
    CASE(past_deadline_is_a_trylock),
    CASE(waits_until_its_deadline),
    CASE(gets_it_before_its_deadline),
    CASE(abandoned_waits_leave_nothing),
    CASE(waiters_all_get_it),
    CASE(keeps_errno),
    CASE(keeps_errno_when_it_wakes),
    CASE(two_locks_are_two),
    CASE(works_without_a_free_node),
    CASE(gives_every_node_back),
};
enum { PER_LOCK = sizeof per_lock / sizeof *per_lock };

// ------------------------------------------------------------------------- the run-time choice
static void initialiser_is_zero(void **state) {
    (void)state;
#define ZERO(which, capitals, ...)                                                          \
    {                                                                                       \
        static hl_##which##_t l = HL_##capitals##_INIT, zero; /* static: padding is zero */ \
        memset(&zero, 0, sizeof zero);                                                      \
        assert_memory_equal(&l, &zero, sizeof l);                                           \
    }
    TEST_LOCKS(ZERO)
#undef ZERO
    hl_lock_t any;
    memset(&any, 0, sizeof any);
    assert_false(hl_is_locked(&any));
    hl_lock(&any);
    assert_true(hl_is_locked(&any));
    hl_unlock(&any);
}

static void kinds_have_names(void **state) {
    (void)state;
    for (int k = 0; k < HL_KINDS; k++) {
        const hl_kind_info_t *info = hl_kind_info((hl_kind_t)k);
        assert_non_null(info);
        assert_int_equal(hl_kind_by_name(info->name), k);
        const test_lock_t *row = test_lock_by_name(info->name);
        assert_non_null(row);
        assert_int_equal(info->bytes, row->bytes);
        bool queues = k != HL_PARK && k != HL_TAS && k != HL_TICKET;
        assert_int_equal(info->node_bytes > 0, queues);
        assert_int_equal(info->shared, !queues);
        assert_true(info->summary[0] && info->source[0] && info->fairness[0]);
    }
    assert_int_equal(hl_kind_by_name("park"), HL_PARK);
    assert_int_equal(hl_kind_by_name("ali"), HL_ALI);
}

static void unknown_names_are_refused(void **state) {
    (void)state;
    assert_int_equal(hl_kind_by_name("nosuch"), -1);
    assert_int_equal(hl_kind_by_name(""), -1);
    assert_int_equal(hl_kind_by_name("MCS"), -1);
    assert_int_equal(hl_kind_by_name("mcs "), -1);
}

typedef struct {
    hl_lock_t *l;
    int calls;
    bool locked_inside;
} section_t;

static void section(void *arg) {
    section_t *s = (section_t *)arg;
    s->calls++;
    s->locked_inside = hl_is_locked(s->l);
}

static void run_calls_under_every_kind(void **state) {
    (void)state;
    for (int k = 0; k < HL_KINDS; k++) {
        hl_lock_t l;
        hl_lock_init(&l, (hl_kind_t)k);
        section_t s = {&l, 0, false};
        hl_run(&l, section, &s);
        assert_int_equal(s.calls, 1);
        assert_true(s.locked_inside);
        assert_false(hl_is_locked(&l));
    }
}

// ------------------------------------------------------------------------- ali's own
typedef struct {
    hl_ali_t *l;
    int seen[8], count;
} order_t;

typedef struct {
    order_t *o;
    int id;
} step_t;

static void note(void *arg) {
    step_t *s = (step_t *)arg;
    s->o->seen[s->o->count++] = s->id;
}

static void ali_submit_completes_alone(void **state) {
    (void)state;
    hl_ali_t l = HL_ALI_INIT;
    order_t o = {&l, {0}, 0};
    step_t s = {&o, 7};
    hl_ali_req_t r;
    hl_ali_submit(&l, &r, note, &s);
    hl_ali_wait(&l, &r);
    assert_int_equal(o.count, 1);
    assert_int_equal(o.seen[0], 7);
    assert_true(hl_ali_done(&l, &r));
    assert_false(hl_ali_is_locked(&l));
}

// Requests made while an ordinary section holds the lock run after it, each once, in order.
static void ali_requests_wait_for_an_ordinary_section(void **state) {
    (void)state;
    enum { N = 5 };
    hl_ali_t l = HL_ALI_INIT;
    order_t o = {&l, {0}, 0};
    step_t s[N];
    hl_ali_req_t r[N];
    hl_ali_lock(&l);
    for (int i = 0; i < N; i++) {
        s[i].o = &o;
        s[i].id = i;
        hl_ali_submit(&l, &r[i], note, &s[i]);
    }
    assert_int_equal(o.count, 0);
    assert_false(hl_ali_done(&l, &r[0]));
    assert_false(hl_ali_trylock(&l));
    hl_ali_unlock(&l);
    for (int i = 0; i < N; i++) hl_ali_wait(&l, &r[i]);
    assert_int_equal(o.count, N);
    for (int i = 0; i < N; i++) assert_int_equal(o.seen[i], i);
    assert_false(hl_ali_is_locked(&l));
}

static void ali_done_serves_what_nobody_waits_for(void **state) {
    (void)state;
    hl_ali_t l = HL_ALI_INIT;
    order_t o = {&l, {0}, 0};
    step_t s = {&o, 3};
    hl_ali_req_t r;
    hl_ali_lock(&l);
    hl_ali_submit(&l, &r, note, &s);
    hl_ali_unlock(&l);
    while (!hl_ali_done(&l, &r)) sched_yield();
    assert_int_equal(o.count, 1);
    assert_false(hl_ali_is_locked(&l));
}

static void nested(void *arg) {
    section_t *s = (section_t *)arg;
    hl_ali_t inner = HL_ALI_INIT;
    order_t o = {&inner, {0}, 0};
    step_t step = {&o, 1};
    hl_ali_run(&inner, note, &step);
    s->calls += o.count;
}

static void ali_sections_nest_on_two_locks(void **state) {
    (void)state;
    hl_ali_t l = HL_ALI_INIT;
    section_t s = {NULL, 0, false};
    hl_ali_run(&l, nested, &s);
    assert_int_equal(s.calls, 1);
    assert_false(hl_ali_is_locked(&l));
}

static const struct CMUnitTest once[] = {
    cmocka_unit_test(initialiser_is_zero),
    cmocka_unit_test(kinds_have_names),
    cmocka_unit_test(unknown_names_are_refused),
    cmocka_unit_test(run_calls_under_every_kind),
    cmocka_unit_test(ali_submit_completes_alone),
    cmocka_unit_test(ali_requests_wait_for_an_ordinary_section),
    cmocka_unit_test(ali_done_serves_what_nobody_waits_for),
    cmocka_unit_test(ali_sections_nest_on_two_locks),
};
enum { ONCE = sizeof once / sizeof *once };

// `unit` runs everything; `unit LOCK` the cases of one lock.
int main(int argc, char **argv) {
    static struct CMUnitTest tests[TEST_LOCK_COUNT * PER_LOCK + ONCE];
    static char names[TEST_LOCK_COUNT * PER_LOCK][64];
    size_t n = 0;
    for (int l = 0; l < TEST_LOCK_COUNT; l++) {
        if (argc > 1 && strcmp(argv[1], test_locks[l].name) != 0) continue;
        for (int k = 0; k < PER_LOCK; k++, n++) {
            snprintf(names[n], sizeof names[n], "%s %s", test_locks[l].name, per_lock[k].name);
            tests[n].name = names[n];
            tests[n].test_func = per_lock[k].run;
            tests[n].initial_state = (void *)&test_locks[l];
        }
    }
    for (int i = 0; argc == 1 && i < ONCE; i++) tests[n++] = once[i];
    if (n == 0) {
        fprintf(stderr, "unit: no lock '%s'\n", argv[1]);
        return 2;
    }
    return _cmocka_run_group_tests("unit", tests, n, NULL, NULL);
}
