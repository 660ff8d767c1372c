// SPDX-License-Identifier: MIT
// sections.c - sections of ali that break one rule each: sections CASE [foreign].
//
// What libhotlock-debug has to say about each is in debug.py. `foreign`: the section is run by
// another thread than the one that asked for it. No case ends in a deadlock that it warns of,
// except those that debug.py runs with HOTLOCK_DEBUG=abort.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hotlock/hotlock.h>

typedef void section_t(void *);

static hl_ali_t lock_ = HL_ALI_INIT;
static hl_tas_t tas_ = HL_TAS_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread int tls_counter;
static __thread volatile long tls_other[4];  // volatile: stays one variable
static long total;

// ------------------------------------------------------------------------- running a section
typedef struct { section_t *fn; void *arg; } request_t;

static void *ask(void *request) {
    request_t *r = request;
    hl_ali_run(&lock_, r->fn, r->arg);
    return NULL;
}

// A section that ends when another thread's request has joined the queue: its owner runs that one.
static pthread_t asker;
static void until_asked(void *request) {
    if (pthread_create(&asker, NULL, ask, request)) abort();
    while (!hl_ali_top(hl_load(&lock_.word))) sched_yield();
}

// The section is run by this thread, for another.
static void run_foreign(section_t *fn, void *arg) {
    request_t r = {fn, arg};
    hl_ali_run(&lock_, until_asked, &r);
    pthread_join(asker, NULL);
}

static bool foreign;
static void run(section_t *fn, void *arg) {
    if (foreign) run_foreign(fn, arg);
    else hl_ali_run(&lock_, fn, arg);
}

// ------------------------------------------------------------------------- no rule broken
static void add(void *arg) { total += *(int *)arg; }

static void add_with_locks(void *arg) {
    if (pthread_mutex_trylock(&mutex) == 0) pthread_mutex_unlock(&mutex);
    hl_tas_lock(&tas_);
    total += *(int *)arg;
    hl_tas_unlock(&tas_);
}

// A section may submit to its own lock: that does not wait.
typedef struct { hl_ali_req_t r; int *amount; } submission_t;
static void submits(void *arg) {
    submission_t *s = arg;
    hl_ali_submit(&lock_, &s->r, add, s->amount);
    if (hl_ali_done(&lock_, &s->r)) abort();
}

static void *mixed(void *arg) {
    for (int i = 0; i < 2000; i++) {
        hl_ali_req_t r = {0};
        hl_ali_run(&lock_, i % 3 ? add : add_with_locks, arg);
        hl_ali_submit(&lock_, &r, add, arg);
        tls_counter++;
        errno = i;
        if (hl_ali_trylock(&lock_)) hl_ali_unlock(&lock_);
        hl_ali_lock(&lock_);
        total++;
        hl_ali_unlock(&lock_);
        if (!hl_ali_done(&lock_, &r)) hl_ali_wait(&lock_, &r);
        if (hl_ali_lock_until(&lock_, hl_now_ns())) hl_ali_unlock(&lock_);
        if (errno != i) abort();
    }
    return NULL;
}

static void clean(void) {
    int one = 1;
    pthread_t t[4];
    submission_t s = {.amount = &one};
    run(submits, &s);
    hl_ali_wait(&lock_, &s.r);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&t[i], NULL, mixed, &one)) abort();
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    if (total != 1 + 4 * 2000 * 3) abort();
}

// ------------------------------------------------------------------------- locks
static void unlocks_mutex(void *unused) { (void)unused; pthread_mutex_unlock(&mutex); }
static void unlocks_tas(void *unused) { (void)unused; hl_tas_unlock(&tas_); }

static void unlock_mutex(void) {
    pthread_mutex_lock(&mutex);
    run(unlocks_mutex, NULL);
}

static void unlock_tas(void) {
    hl_tas_lock(&tas_);
    run(unlocks_tas, NULL);
}

static void keeps_tas(void *unused) { (void)unused; hl_tas_lock(&tas_); }
static void lock_kept(void) { run(keeps_tas, NULL); hl_tas_unlock(&tas_); }

static void runs_again(void *arg) { hl_ali_run(&lock_, add, arg); }
static void locks_again(void *unused) { (void)unused; hl_ali_lock(&lock_); }
static void tries_again(void *unused) {
    (void)unused;
    if (hl_ali_lock_until(&lock_, hl_now_ns() + 1000)) abort();
}
static void self_run(void) { int one = 1; run(runs_again, &one); }
static void self_lock(void) { run(locks_again, NULL); }
static void self_timed(void) { run(tries_again, NULL); }

static void takes_mutex(void *unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}
static void asks_with_mutex(void) {
    int one = 1;
    pthread_mutex_lock(&mutex);
    hl_ali_run(&lock_, add, &one);
    pthread_mutex_unlock(&mutex);
}
static void order_asked_first(void) { asks_with_mutex(); run(takes_mutex, NULL); }
static void order_taken_first(void) { run(takes_mutex, NULL); asks_with_mutex(); }

// Who leaves an ali lock runs waiting sections, with whatever it still holds.
static void order_left(void) {
    run(takes_mutex, NULL);
    hl_ali_lock(&lock_);
    pthread_mutex_lock(&mutex);
    hl_ali_unlock(&lock_);
    pthread_mutex_unlock(&mutex);
}

static void many_held(void) {
    static hl_tas_t many[40];
    for (int i = 0; i < 40; i++) hl_tas_lock(&many[i]);
    for (int i = 0; i < 40; i++) hl_tas_unlock(&many[i]);
}

// ------------------------------------------------------------------------- blocking
static void sleeps(void *unused) {
    struct timespec t = {0, 1};
    (void)unused;
    nanosleep(&t, NULL);
}
static void writes(void *unused) { (void)unused; if (write(-1, "", 1) != -1) abort(); }
static void waits_for_condition(void *condition) {
    struct timespec past = {0, 0};
    pthread_mutex_lock(&mutex);
    if (pthread_cond_timedwait(condition, &mutex, &past) != ETIMEDOUT) abort();
    pthread_mutex_unlock(&mutex);
}

static void block_sleep(void) { run(sleeps, NULL); run(sleeps, NULL); }
static void block_write(void) {
    errno = EBADF;  // so that it is not changed as well
    hl_ali_run(&lock_, writes, NULL);
}
static void block_condition(void) {
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    run(waits_for_condition, &condition);
}

// The mutex is another thread's until the section has tried to take it. The report is the sign.
static int held_pipe[2];
static void *hold_mutex(void *unused) {
    (void)unused;
    pthread_mutex_lock(&mutex);
    if (write(held_pipe[1], "", 1) != 1) abort();
    while (!hl_debug_violations()) sched_yield();
    pthread_mutex_unlock(&mutex);
    return NULL;
}
static void block_mutex(void) {
    pthread_t t;
    char byte;
    if (pipe(held_pipe) || pthread_create(&t, NULL, hold_mutex, NULL)) abort();
    if (read(held_pipe[0], &byte, 1) != 1) abort();
    run(takes_mutex, NULL);
    pthread_join(t, NULL);
}

// ------------------------------------------------------------------------- the thread
static void counts_in_tls(void *unused) { (void)unused; tls_counter++; }
static void counts_twice(void *unused) { (void)unused; tls_other[1]++; tls_other[3]++; }
static void sets_errno(void *unused) { (void)unused; errno = ENOENT; }
static void burns(void *unused) {
    struct timespec t;
    (void)unused;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while (t.tv_sec == 0 && t.tv_nsec < 100 * 1000 * 1000);
}

static void tls(void) {
    run(counts_in_tls, NULL);
    run(counts_in_tls, NULL);
    run(counts_twice, NULL);
}

// A section inside a section: only the inner one writes.
static hl_ali_t inner = HL_ALI_INIT;
static void asks_inner(void *unused) { hl_ali_run(&inner, counts_in_tls, unused); }
static void tls_nested(void) { run(asks_inner, NULL); }

static void sets_errno_case(void) { errno = 0; run(sets_errno, NULL); }
static void takes_long(void) { run(burns, NULL); }

// ------------------------------------------------------------------------- ways out
static jmp_buf back;
static void jumps_out(void *unused) { (void)unused; longjmp(back, 1); }
static void jumps_inside(void *unused) {
    jmp_buf here;
    (void)unused;
    if (!setjmp(here)) longjmp(here, 1);
}
static void leave_jump(void) {
    run(jumps_inside, NULL);
    if (!setjmp(back)) hl_ali_run(&lock_, jumps_out, NULL);
    (void)write(-1, "", 1);  // outside: nothing to report
}

static void exits_thread(void *unused) { pthread_exit(unused); }
static void *thread_exits(void *unused) {
    hl_ali_run(&lock_, exits_thread, unused);
    return NULL;
}
static void leave_exit(void) {
    pthread_t t;
    if (pthread_create(&t, NULL, thread_exits, NULL)) abort();
    pthread_join(t, NULL);
}

// ------------------------------------------------------------------------- main
static const struct { const char *name; void (*run)(void); } cases[] = {
    {"clean", clean},
    {"unlock-mutex", unlock_mutex},
    {"unlock-tas", unlock_tas},
    {"lock-kept", lock_kept},
    {"self-run", self_run},
    {"self-lock", self_lock},
    {"self-timed", self_timed},
    {"order-asked-first", order_asked_first},
    {"order-taken-first", order_taken_first},
    {"order-left", order_left},
    {"many-held", many_held},
    {"block-sleep", block_sleep},
    {"block-write", block_write},
    {"block-condition", block_condition},
    {"block-mutex", block_mutex},
    {"tls", tls},
    {"tls-nested", tls_nested},
    {"errno", sets_errno_case},
    {"long", takes_long},
    {"leave-jump", leave_jump},
    {"leave-exit", leave_exit},
};

int main(int argc, char **argv) {
    foreign = argc > 2 && !strcmp(argv[2], "foreign");
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1])) continue;
        cases[i].run();
        printf("%u\n", hl_debug_violations());
        return 0;
    }
    fprintf(stderr, "usage: sections CASE [foreign]\n");
    return 2;
}
