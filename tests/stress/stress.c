// SPDX-License-Identifier: MIT
// stress.c - one lock under load: stress LOCK [SECONDS]. TAP on stdout.
//
// Each scenario runs threads for its share of the time and then counts: the sections write plain
// variables, so a lock that lets two threads in, or orders them badly, gives a wrong sum here and a
// report in the ThreadSanitizer build. Memory that the contract lets a caller take away (the
// stacks of finished threads, the lock itself after the last unlock) is made inaccessible, so a late
// touch is a crash. A scenario that comes to a stop is ended by SIGALRM.
//
// HOTLOCK_STRESS_SECONDS (2): time for all scenarios together. HOTLOCK_STRESS_SEED (1): the mix.
// HOTLOCK_STRESS_LIMIT (60): seconds beyond its time after which a scenario counts as stuck.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "locks.h"

enum { MOST_THREADS = 64, STACK_BYTES = 2 << 20, PAGE = 65536 };  // no machine has larger pages

// What the threads of one scenario share. The counters are plain on purpose.
typedef struct {
    HL_ALIGNED test_cell_t cell;
    HL_ALIGNED long first;
    int inside;
    HL_ALIGNED long second;
} shared_t;

typedef struct {
    HL_ALIGNED pthread_t id;
    int me;
    uint64_t random, end_ns;
    long sections, refused;
    shared_t *s;
    test_node_t node;
} worker_t;

static const test_lock_t *lock_;
static int processors;
static uint64_t seed = 1;

// ------------------------------------------------------------------------- helpers
__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    printf("not ok - %s ", lock_->name);
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

// xorshift64 (Marsaglia, 2003).
static uint64_t draw(worker_t *w) {
    uint64_t x = w->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return w->random = x;
}

static bool over(const worker_t *w) { return hl_now_ns() >= w->end_ns; }

static void *pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) fail("mmap: %s", strerror(errno));
    return p;
}

static void allow(void *p, size_t bytes, int access) {
    if (mprotect(p, bytes, access)) fail("mprotect: %s", strerror(errno));
}

static void start(worker_t *w, void *(*run)(void *), const pthread_attr_t *attr) {
    int error = pthread_create(&w->id, attr, run, w);
    if (error) fail("pthread_create: %s", strerror(error));
}

static void prepare(worker_t *w, int me, shared_t *s, uint64_t end_ns) {
    memset(w, 0, sizeof *w);
    w->me = me;
    w->random = (seed + (uint64_t)me) * UINT64_C(0x9e3779b97f4a7c15);
    w->end_ns = end_ns;
    w->s = s;
}

// ------------------------------------------------------------------------- one section
static void section(worker_t *w) {
    shared_t *s = w->s;
    s->inside = w->me;
    s->first++;
    if (draw(w) % 256 == 0) sched_yield();  // a holder that is not running
    s->second++;
    if (s->inside != w->me) fail("two threads in one section");
    w->sections++;
}

// Any of the three ways in; deadlines are so short that many waits are abandoned.
static bool enter(worker_t *w, test_cell_t *c, test_node_t *n) {
    uint64_t r = draw(w);
    bool in = true;
    if (r % 8 < 4) lock_->lock(c, n);
    else if (r % 8 < 6) in = lock_->trylock(c, n);
    else in = lock_->lock_until(c, n, hl_now_ns() + (r >> 8) % 50000);
    if (!in) w->refused++;
    return in;
}

static void *mix(void *arg) {
    worker_t *w = (worker_t *)arg;
    do {
        if (!enter(w, &w->s->cell, &w->node)) continue;
        section(w);
        lock_->unlock(&w->s->cell, &w->node);
    } while (!over(w));
    return NULL;
}

static void settle(shared_t *s, long sections, const char *scenario) {
    test_node_t n;
    if (s->first != sections || s->second != sections)
        fail("%s: %ld sections, but counted %ld and %ld", scenario, sections, s->first, s->second);
    if (lock_->is_locked(&s->cell)) fail("%s: locked with nobody left", scenario);
    if (!lock_->trylock(&s->cell, &n)) fail("%s: cannot be locked any more", scenario);
    lock_->unlock(&s->cell, &n);
}

static long run_mix(int threads, uint64_t ns, const char *scenario) {
    static worker_t w[MOST_THREADS];
    static shared_t s;
    long sections = 0;
    memset(&s, 0, sizeof s);
    test_init(lock_, &s.cell);
    uint64_t end = hl_now_ns() + ns;
    for (int i = 0; i < threads; i++) {
        prepare(&w[i], i, &s, end);
        start(&w[i], mix, NULL);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].id, NULL);
        sections += w[i].sections;
    }
    settle(&s, sections, scenario);
    return sections;
}

// ------------------------------------------------------------------------- scenarios
// One to eight times more threads than processors.
static long crowd(uint64_t ns) {
    long sections = 0;
    for (int times = 1; times <= 8; times *= 2)
        sections += run_mix(times * processors, ns / 4, "crowd");
    return sections;
}

// Every way of waiting, forced on the lock.
static long policies(uint64_t ns) {
    static const hl_wait_policy_t all[] = {HL_WAIT_SPIN, HL_WAIT_YIELD, HL_WAIT_PARK};
    long sections = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        hl_wait_set(all[i]);
        sections += run_mix(2 * processors, ns / 3, "policies");
    }
    hl_wait_set(HL_WAIT_DEFAULT);
    return sections;
}

static void *visit(void *arg) {
    worker_t *w = (worker_t *)arg;
    for (int i = 0; i < 20; i++) {
        if (!enter(w, &w->s->cell, &w->node)) continue;
        section(w);
        lock_->unlock(&w->s->cell, &w->node);
    }
    return NULL;
}

// Threads come and go; the stack of one that has gone cannot be touched for a generation.
static long come_and_go(uint64_t ns) {
    enum { SLOTS = 8 };
    static worker_t w[SLOTS];
    static shared_t s;
    void *stacks[SLOTS][2];
    long sections = 0, born = 0;
    uint64_t end = hl_now_ns() + ns;
    memset(&s, 0, sizeof s);
    test_init(lock_, &s.cell);
    for (int i = 0; i < 2 * SLOTS; i++) stacks[i / 2][i % 2] = pages(STACK_BYTES);
    do {
        for (int i = 0; i < SLOTS; i++, born++) {
            void **pair = stacks[i];
            pthread_attr_t attr;
            if (born >= SLOTS) {
                pthread_join(w[i].id, NULL);
                sections += w[i].sections;
                allow(pair[0], STACK_BYTES, PROT_NONE);
                void *gone = pair[0];
                pair[0] = pair[1];
                pair[1] = gone;
                allow(pair[0], STACK_BYTES, PROT_READ | PROT_WRITE);
            }
            prepare(&w[i], (int)(born % 1000000), &s, end);
            pthread_attr_init(&attr);
            pthread_attr_setstack(&attr, pair[0], STACK_BYTES);
            start(&w[i], visit, &attr);
            pthread_attr_destroy(&attr);
        }
    } while (hl_now_ns() < end);
    for (int i = 0; i < SLOTS; i++) {
        pthread_join(w[i].id, NULL);
        sections += w[i].sections;
    }
    for (int i = 0; i < 2 * SLOTS; i++) munmap(stacks[i / 2][i % 2], STACK_BYTES);
    settle(&s, sections, "come_and_go");
    return sections;
}

// An object that its last user frees right after unlocking it, as a reference count does.
typedef struct {
    HL_ALIGNED test_cell_t cell;
    int users;
    bool go;
} object_t;

enum { OBJECTS = 64, USERS_MOST = 16 };
static char *objects;
static pthread_barrier_t rounds;

static void *last_out(void *arg) {
    worker_t *w = (worker_t *)arg;
    for (int round = 0;; round = (round + 1) % OBJECTS) {
        object_t *o = (object_t *)(void *)(objects + round * PAGE);
        pthread_barrier_wait(&rounds);
        if (!o->go) return NULL;
        while (!enter(w, &o->cell, &w->node)) {}
        bool last = --o->users == 0;
        lock_->unlock(&o->cell, &w->node);
        if (last) allow(o, PAGE, PROT_NONE);
        w->sections++;
    }
}

static long last_one_frees(uint64_t ns) {
    static worker_t w[USERS_MOST];
    int users = 2 * processors < USERS_MOST ? 2 * processors : USERS_MOST;
    long sections = 0;
    uint64_t end = hl_now_ns() + ns;
    objects = (char *)pages(OBJECTS * PAGE);
    allow(objects, OBJECTS * PAGE, PROT_NONE);
    pthread_barrier_init(&rounds, NULL, (unsigned)users + 1);
    for (int i = 0; i < users; i++) {
        prepare(&w[i], i, NULL, end);
        start(&w[i], last_out, NULL);
    }
    bool go = true;
    for (int round = 0; go; round = (round + 1) % OBJECTS) {
        // The object used OBJECTS rounds ago is free again: every user has passed a barrier since.
        object_t *o = (object_t *)(void *)(objects + round * PAGE);
        allow(o, PAGE, PROT_READ | PROT_WRITE);
        test_init(lock_, &o->cell);
        o->users = users;
        o->go = go = hl_now_ns() < end;
        pthread_barrier_wait(&rounds);
    }
    for (int i = 0; i < users; i++) {
        pthread_join(w[i].id, NULL);
        sections += w[i].sections;
    }
    pthread_barrier_destroy(&rounds);
    munmap(objects, OBJECTS * PAGE);
    return sections;
}

// Signals interrupt waiters and holders; the handler takes a lock of the same kind that only
// handlers take.
static shared_t in_handlers;
enum { NOT_HERE = -1 };  // instead of a number of sections
static HL_ATOMIC(bool) quiet;

// Linux enters a handler with the stack aligned to 16 bytes, as a node must be; QEMU 7.2's emulation
// of i386 and of 64-bit MIPS with 8, so that the node's address looked like flags and all stood
// still. On i386 a function can align its own stack, on MIPS none can.
static HL_ATOMIC(bool) askew;

static HL_OWN_STACK void look_at_stack(int number) {
    __attribute__((aligned(16))) char here[16];
    uintptr_t at = (uintptr_t)here;
    (void)number;
    __asm__("" : "+r"(at));  // not what the compiler takes for granted
    hl_store(&askew, at % 16 != 0);
}

static HL_OWN_STACK void on_signal(int number) {
    test_node_t n;
    (void)number;
    lock_->lock(&in_handlers.cell, &n);
    in_handlers.first++;
    in_handlers.second++;
    lock_->unlock(&in_handlers.cell, &n);
}

static void *mix_until_quiet(void *arg) {
    mix(arg);
    while (!hl_load_acq(&quiet)) sched_yield();
    return NULL;
}

static long signal_storm(uint64_t ns) {
    static worker_t w[MOST_THREADS];
    static shared_t s;
    struct sigaction action, before;
    int threads = 2 * processors;
    long sections = 0;
    uint64_t end = hl_now_ns() + ns;
    memset(&s, 0, sizeof s);
    memset(&in_handlers, 0, sizeof in_handlers);
    test_init(lock_, &s.cell);
    test_init(lock_, &in_handlers.cell);
    memset(&action, 0, sizeof action);
    action.sa_handler = look_at_stack;
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, hl_load(&askew) ? &before : &action, NULL);
    if (hl_load(&askew)) return NOT_HERE;
    hl_store(&quiet, false);
    for (int i = 0; i < threads; i++) {
        prepare(&w[i], i, &s, end);
        start(&w[i], mix_until_quiet, NULL);
    }
    for (unsigned i = 0; hl_now_ns() < end; i++) {
        pthread_kill(w[i % (unsigned)threads].id, SIGUSR1);
        sched_yield();
    }
    hl_store_rel(&quiet, true);
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].id, NULL);
        sections += w[i].sections;
    }
    sigaction(SIGUSR1, &before, NULL);
    settle(&s, sections, "signal_storm");
    settle(&in_handlers, in_handlers.first, "signal_storm, handlers");
    return sections;
}

// Several locks at once, taken in order and released in any.
enum { NEST = 3 };
static shared_t nest[NEST];

static void *take_some(void *arg) {
    worker_t *w = (worker_t *)arg;
    do {
        test_node_t n[NEST];
        memset(n, 0, sizeof n);
        bool held[NEST] = {false};
        for (int i = 0; i < NEST; i++) {
            if (draw(w) % 4 == 0) continue;
            if (!enter(w, &nest[i].cell, &n[i])) break;
            held[i] = true;
            nest[i].first++;
            nest[i].second++;
        }
        for (int i = 0, at = (int)(draw(w) % NEST); i < NEST; i++, at = (at + 1) % NEST) {
            if (!held[at]) continue;
            lock_->unlock(&nest[at].cell, &n[at]);
            w->sections++;
        }
    } while (!over(w));
    return NULL;
}

static long nested(uint64_t ns) {
    static worker_t w[MOST_THREADS];
    long sections = 0, counted = 0;
    uint64_t end = hl_now_ns() + ns;
    memset(nest, 0, sizeof nest);
    for (int i = 0; i < NEST; i++) test_init(lock_, &nest[i].cell);
    for (int i = 0; i < 2 * processors; i++) {
        prepare(&w[i], i, NULL, end);
        start(&w[i], take_some, NULL);
    }
    for (int i = 0; i < 2 * processors; i++) {
        pthread_join(w[i].id, NULL);
        sections += w[i].sections;
    }
    for (int i = 0; i < NEST; i++) {
        counted += nest[i].first;
        settle(&nest[i], nest[i].first, "nested");
    }
    if (counted != sections) fail("nested: %ld sections, but counted %ld", sections, counted);
    return sections;
}

// ------------------------------------------------------------------------- ali's requests
typedef struct {
    hl_ali_req_t request;
    shared_t *s;
    long times, result;
} errand_t;

static void errand(void *arg) {
    errand_t *e = (errand_t *)arg;
    e->s->first++;
    e->times++;
    e->result = ++e->s->second;
}

// After completion the requester sees what the section wrote, and the memory is its own again.
static void collect(worker_t *w, errand_t *e) {
    if (e->times != 1) fail("requests: a request ran %ld times", e->times);
    if (e->result <= 0) fail("requests: completed without its result");
    w->sections++;
    memset(e, 0xa5, sizeof *e);
}

static void errand_init(errand_t *e, shared_t *s) {
    e->s = s;
    e->times = e->result = 0;
}

static void submit_some(worker_t *w, hl_ali_t *l) {
    enum { MOST = 5 };
    errand_t e[MOST];
    int n = 1 + (int)(draw(w) % MOST);
    for (int i = 0; i < n; i++) {
        errand_init(&e[i], w->s);
        hl_ali_submit(l, &e[i].request, errand, &e[i]);
    }
    if (draw(w) % 16 == 0) sched_yield();  // requests that nobody waits for
    for (int i = 0; i < n; i++) {
        if (draw(w) % 2 == 0) hl_ali_wait(l, &e[i].request);
        while (!hl_ali_done(l, &e[i].request)) hl_pause();
        collect(w, &e[i]);
    }
}

static void *ask(void *arg) {
    worker_t *w = (worker_t *)arg;
    hl_ali_t *l = &w->s->cell.ali;
    errand_t e;
    do {
        switch (draw(w) % 4) {
        case 0:
            if (!enter(w, &w->s->cell, NULL)) break;
            section(w);
            hl_ali_unlock(l);
            break;
        case 1:
            submit_some(w, l);
            break;
        default:
            errand_init(&e, w->s);
            hl_ali_run(l, errand, &e);
            collect(w, &e);
        }
    } while (!over(w));
    return NULL;
}

// All the ways into ali on one lock: each request runs exactly once and is seen by who made it.
static long requests(uint64_t ns) {
    static worker_t w[MOST_THREADS];
    static shared_t s;
    long sections = 0;
    for (int times = 1; times <= 4; times *= 2) {
        long round = 0;
        uint64_t end = hl_now_ns() + ns / 3;
        memset(&s, 0, sizeof s);
        for (int i = 0; i < times * processors; i++) {
            prepare(&w[i], i, &s, end);
            start(&w[i], ask, NULL);
        }
        for (int i = 0; i < times * processors; i++) {
            pthread_join(w[i].id, NULL);
            round += w[i].sections;
        }
        settle(&s, round, "requests");
        sections += round;
    }
    return sections;
}

#define SCENARIO(f) {#f, f}
static const struct {
    const char *name;
    long (*run)(uint64_t ns);  // gives the number of sections
} scenarios[] = {
    SCENARIO(crowd),        SCENARIO(policies), SCENARIO(come_and_go), SCENARIO(last_one_frees),
    SCENARIO(signal_storm), SCENARIO(nested),   SCENARIO(requests),
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };  // the last one: for ali alone

static double number(const char *variable, double otherwise) {
    const char *text = getenv(variable);
    char *end;
    if (!text) return otherwise;
    double value = strtod(text, &end);
    if (*end || end == text || !(value > 0)) {
        fprintf(stderr, "stress: %s=%s: give a number above 0\n", variable, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv) {
    lock_ = argc > 1 ? test_lock_by_name(argv[1]) : NULL;
    if (!lock_) {
        fprintf(stderr, "stress: no lock '%s'; usage: stress LOCK\n", argc > 1 ? argv[1] : "");
        return 2;
    }
    double seconds = number("HOTLOCK_STRESS_SECONDS", 2);
    double limit = number("HOTLOCK_STRESS_LIMIT", 60);
    seed = (uint64_t)number("HOTLOCK_STRESS_SEED", 1);
    processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (processors > MOST_THREADS / 8) processors = MOST_THREADS / 8;
    int count = lock_->lock == test_ali_lock ? SCENARIOS : SCENARIOS - 1;
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        printf("# %s %s\n", lock_->name, scenarios[i].name);
        fflush(stdout);
        alarm((unsigned)(seconds / count + limit + 1));
        long sections = scenarios[i].run((uint64_t)(seconds / count * 1e9));
        if (sections == NOT_HERE)
            printf("ok - %s %s # SKIP a handler's stack is askew\n", lock_->name, scenarios[i].name);
        else
            printf("ok - %s %s: %ld sections\n", lock_->name, scenarios[i].name, sections);
    }
    return 0;
}
