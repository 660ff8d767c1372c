// SPDX-License-Identifier: MIT
// conformance.c - what POSIX and C11 say about results and error codes, function by function.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>

#include "scenario.h"
#include "shared.h"

// ------------------------------------------------------------------------- from another thread
typedef struct {
    pthread_mutex_t *mutex;
    clockid_t clock;
    struct timespec at;
} call_t;

static int lock_it(void *m) {
    int error = pthread_mutex_lock(m);
    if (!error) pthread_mutex_unlock(m);
    return error;
}
static int timed_it(void *arg) {
    call_t *c = arg;
    int error = pthread_mutex_timedlock(c->mutex, &c->at);
    if (!error) pthread_mutex_unlock(c->mutex);
    return error;
}
static int clock_it(void *arg) {
    call_t *c = arg;
    int error = pthread_mutex_clocklock(c->mutex, c->clock, &c->at);
    if (!error) pthread_mutex_unlock(c->mutex);
    return error;
}

// ------------------------------------------------------------------------- mutex, any type
static void timed_forms(pthread_mutex_t *m, const char *state) {
    call_t c = {m, CLOCK_REALTIME, {0, 0}};
    timed_case_t calls[TIMED_CASES];
    timed_cases(calls);
    say("[%s", state);
    for (size_t i = 0; i < TIMED_CASES; i++) {
        c.clock = calls[i].clock;
        c.at = calls[i].at;
        if (c.clock == CLOCK_REALTIME) say_result(calls[i].name, in_thread(timed_it, &c));
        say_result(calls[i].name, in_thread(clock_it, &c));
    }
    say("]");
}

static void again_by_owner(pthread_mutex_t *m) {
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    int error = pthread_mutex_trylock(m);
    say_result("try-own", error);
    if (!error) pthread_mutex_unlock(m);
    error = pthread_mutex_timedlock(m, &soon);
    say_result("timed-own", error);
    if (!error) pthread_mutex_unlock(m);
}

// Only what is defined for the type: strict ones say no to a stranger's unlock.
static void life(pthread_mutex_t *m, bool strict) {
    int ceiling = -1;
    say_result("lock", pthread_mutex_lock(m));
    say_result("try", in_thread(try_it, m));
    timed_forms(m, "held");
    again_by_owner(m);
    say_result("destroy-held", pthread_mutex_destroy(m));
    if (strict) say_result("unlock-stranger", in_thread(unlock_mutex, m));
    say_result("unlock", pthread_mutex_unlock(m));
    if (strict) say_result("unlock-free", pthread_mutex_unlock(m));
    say_result("try-free", in_thread(try_it, m));
    say_result("lock-free", in_thread(lock_it, m));
    timed_forms(m, "free");
    say_result("consistent", pthread_mutex_consistent(m));
    say_result("getceiling", pthread_mutex_getprioceiling(m, &ceiling));
    say_result("destroy", pthread_mutex_destroy(m));
    say_result("lock-dead", pthread_mutex_lock(m));
    say_result("try-dead", pthread_mutex_trylock(m));
    say_result("unlock-dead", pthread_mutex_unlock(m));
    say_result("destroy-dead", pthread_mutex_destroy(m));
    say_result("init", pthread_mutex_init(m, NULL));
    say_result("lock", pthread_mutex_lock(m));
    say_result("unlock", pthread_mutex_unlock(m));
}

static void life_with(int type, int robust, int protocol, int shared, bool strict) {
    pthread_mutexattr_t a;
    pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                              -1, 0);
    memset(m, 0xff, sizeof *m);  // init must not read what is there
    pthread_mutexattr_init(&a);
    say_result("settype", pthread_mutexattr_settype(&a, type));
    say_result("setrobust", pthread_mutexattr_setrobust(&a, robust));
    say_result("setprotocol", pthread_mutexattr_setprotocol(&a, protocol));
    say_result("setpshared", pthread_mutexattr_setpshared(&a, shared));
    say_result("init", pthread_mutex_init(m, &a));
    pthread_mutexattr_destroy(&a);
    life(m, strict);
    munmap(m, 4096);
}

#define N PTHREAD_MUTEX_NORMAL
#define PRIVATE PTHREAD_PROCESS_PRIVATE
#define STALLED PTHREAD_MUTEX_STALLED

SCENARIO(mutex_static) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    life(&m, false);
}
SCENARIO(mutex_zeroed) {
    pthread_mutex_t *m = calloc(1, sizeof *m);
    life(m, false);
    free(m);
}
SCENARIO(mutex_no_attr) {
    pthread_mutex_t m;
    memset(&m, 0xff, sizeof m);
    say_result("init", pthread_mutex_init(&m, NULL));
    life(&m, false);
}
SCENARIO(mutex_static_adaptive) {
    static pthread_mutex_t m = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
    life(&m, false);
}
SCENARIO(mutex_static_recursive) {
    static pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    life(&m, true);
}
SCENARIO(mutex_static_errorcheck) {
    static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    life(&m, true);
}
SCENARIO(mutex_normal) { life_with(N, STALLED, PTHREAD_PRIO_NONE, PRIVATE, false); }
SCENARIO(mutex_default) {
    life_with(PTHREAD_MUTEX_DEFAULT, STALLED, PTHREAD_PRIO_NONE, PRIVATE, false);
}
SCENARIO(mutex_adaptive) {
    life_with(PTHREAD_MUTEX_ADAPTIVE_NP, STALLED, PTHREAD_PRIO_NONE, PRIVATE, false);
}
SCENARIO(mutex_recursive) {
    life_with(PTHREAD_MUTEX_RECURSIVE, STALLED, PTHREAD_PRIO_NONE, PRIVATE, true);
}
SCENARIO(mutex_errorcheck) {
    life_with(PTHREAD_MUTEX_ERRORCHECK, STALLED, PTHREAD_PRIO_NONE, PRIVATE, true);
}
SCENARIO(mutex_robust) { life_with(N, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE, PRIVATE, true); }
SCENARIO(mutex_inherit) { life_with(N, STALLED, PTHREAD_PRIO_INHERIT, PRIVATE, false); }
SCENARIO(mutex_protect) { life_with(N, STALLED, PTHREAD_PRIO_PROTECT, PRIVATE, false); }
SCENARIO(mutex_shared) {
    life_with(N, STALLED, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED, false);
}
SCENARIO(mutex_bad_type) {
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    say_result("settype", pthread_mutexattr_settype(&a, 99));
    say_result("setprotocol", pthread_mutexattr_setprotocol(&a, 99));
    say_result("setpshared", pthread_mutexattr_setpshared(&a, 99));
}

static bool reached(clockid_t clock, struct timespec t) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

// A timed lock must not give up before its time, by its own clock.
static int patient(void *m) {
    int early = 0;
    for (int i = 0; i < 10; i++) {
        struct timespec wall = after_ms(CLOCK_REALTIME, 3), mono = after_ms(CLOCK_MONOTONIC, 6);
        early += pthread_mutex_timedlock(m, &wall) != ETIMEDOUT || !reached(CLOCK_REALTIME, wall);
        early += pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &mono) != ETIMEDOUT ||
                 !reached(CLOCK_MONOTONIC, mono);
    }
    return early;
}
SCENARIO(mutex_waits_its_time) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&m);
    say("early=%d", in_thread(patient, &m));
}

SCENARIO(recursion_overflow) {  // EAGAIN: the count is preset to its limit, wherever it is kept
    pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    uint32_t *count = &m.__data.__count, preload_s = 28 / sizeof *count;  // src/preload/preload.h
    pthread_mutex_lock(&m);
    pthread_mutex_lock(&m);
    if (*count != 2) count = (uint32_t *)(void *)&m + preload_s;
    if (*count != 2) say("nobody counts");
    *count = UINT32_MAX;
    say_result("lock", pthread_mutex_lock(&m));
    say_result("try", pthread_mutex_trylock(&m));
}

// ------------------------------------------------------------------------- robust: the owner dies
static void *die_with_it(void *m) {
    pthread_mutex_lock(m);
    return NULL;
}

SCENARIO(robust_owner_dies) {
    pthread_mutexattr_t a;
    pthread_mutex_t m;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&m, &a);
    pthread_join(start(die_with_it, &m), NULL);
    say_result("try", pthread_mutex_trylock(&m));
    say_result("consistent", pthread_mutex_consistent(&m));
    say_result("unlock", pthread_mutex_unlock(&m));
    pthread_join(start(die_with_it, &m), NULL);
    say_result("lock", pthread_mutex_lock(&m));
    say_result("unlock", pthread_mutex_unlock(&m));
    say_result("lock", pthread_mutex_lock(&m));
}

// ------------------------------------------------------------------------- spin
static int spin_try(void *s) {
    int error = pthread_spin_trylock(s);
    if (!error) pthread_spin_unlock(s);
    return error;
}

static void spin_life(int shared) {
    pthread_spinlock_t s;
    memset((void *)&s, 0xff, sizeof s);
    say_result("init", pthread_spin_init(&s, shared));
    for (int i = 0; i < 3; i++) {
        say_result("lock", pthread_spin_lock(&s));
        say_result("try", in_thread(spin_try, (void *)&s));
        say_result("unlock", pthread_spin_unlock(&s));
        say_result("try-free", in_thread(spin_try, (void *)&s));
    }
    say_result("destroy", pthread_spin_destroy(&s));
    say_result("init", pthread_spin_init(&s, shared));
    say_result("try", pthread_spin_trylock(&s));
    say_result("unlock", pthread_spin_unlock(&s));
}
SCENARIO(spin_private) { spin_life(PRIVATE); }
SCENARIO(spin_shared) { spin_life(PTHREAD_PROCESS_SHARED); }

// ------------------------------------------------------------------------- condition variables
static void bad_waits(pthread_cond_t *c, pthread_mutex_t *m) {
    struct timespec past = {1, 0}, negative = {-1, 0}, low = {1, -1}, high = {1, 1000000000};
    pthread_mutex_lock(m);
    say_result("past", pthread_cond_timedwait(c, m, &past));
    say_result("negative", pthread_cond_timedwait(c, m, &negative));
    say_result("nsec-1", pthread_cond_timedwait(c, m, &low));
    say_result("nsec1e9", pthread_cond_timedwait(c, m, &high));
    say_result("mono-past", pthread_cond_clockwait(c, m, CLOCK_MONOTONIC, &past));
    say_result("mono-nsec", pthread_cond_clockwait(c, m, CLOCK_MONOTONIC, &high));
    say_result("real-past", pthread_cond_clockwait(c, m, CLOCK_REALTIME, &past));
    say_result("no-clock", pthread_cond_clockwait(c, m, 77, &past));
    say_result("cpu-clock", pthread_cond_clockwait(c, m, CLOCK_PROCESS_CPUTIME_ID, &past));
    say_result("still-held", in_thread(try_it, m));
    pthread_mutex_unlock(m);
}

// A timed wait must not end before its time, by its own clock.
static void waits_its_time(pthread_cond_t *c, clockid_t own) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC};
    pthread_mutex_lock(&m);
    struct timespec t = after_ms(own, 20);
    int error;
    while (!(error = pthread_cond_timedwait(c, &m, &t))) continue;  // woken for no reason
    say_result("timed", error);
    expect(reached(own, t), "too early");
    for (int i = 0; i < 2; i++) {
        t = after_ms(clocks[i], 20);
        while (!(error = pthread_cond_clockwait(c, &m, clocks[i], &t))) continue;
        say_result("clock", error);
        expect(reached(clocks[i], t), "too early");
    }
    say_result("held", in_thread(try_it, &m));
    pthread_mutex_unlock(&m);
}

static void cond_life(int shared, clockid_t clock) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    pthread_mutexattr_t ma;
    pthread_condattr_t a;
    pthread_cond_t c;
    memset(&c, 0xff, sizeof c);
    pthread_condattr_init(&a);
    say_result("setpshared", pthread_condattr_setpshared(&a, shared));
    say_result("setclock", pthread_condattr_setclock(&a, clock));
    say_result("init", pthread_cond_init(&c, &a));
    say_result("signal", pthread_cond_signal(&c));
    say_result("broadcast", pthread_cond_broadcast(&c));
    bad_waits(&c, &m);
    bad_waits(&c, &checked);
    say_result("not-owner", pthread_cond_wait(&c, &checked));
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_setpshared(&ma, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&m, &ma);
    bad_waits(&c, &m);
    waits_its_time(&c, clock);
    say_result("destroy", pthread_cond_destroy(&c));
    say_result("init", pthread_cond_init(&c, NULL));
    say_result("destroy", pthread_cond_destroy(&c));
}
SCENARIO(cond_realtime) { cond_life(PRIVATE, CLOCK_REALTIME); }
SCENARIO(cond_monotonic) { cond_life(PRIVATE, CLOCK_MONOTONIC); }
SCENARIO(cond_shared) { cond_life(PTHREAD_PROCESS_SHARED, CLOCK_REALTIME); }
SCENARIO(cond_shared_monotonic) { cond_life(PTHREAD_PROCESS_SHARED, CLOCK_MONOTONIC); }
SCENARIO(cond_bad_clock) {
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    say_result("setclock", pthread_condattr_setclock(&a, CLOCK_PROCESS_CPUTIME_ID));
    say_result("setclock", pthread_condattr_setclock(&a, 77));
}
SCENARIO(cond_static) {
    static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    waits_its_time(&c, CLOCK_REALTIME);
    say_result("destroy", pthread_cond_destroy(&c));
}

// ------------------------------------------------------------------------- C11
static int mtx_try_it(void *m) {
    int result = mtx_trylock(m);
    if (result == thrd_success) mtx_unlock(m);
    return result;
}

static void mtx_life(int type) {
    mtx_t m;
    cnd_t c;
    struct timespec past = {1, 0}, wrong = {1, -1};
    say("init=%d", mtx_init(&m, type));
    say("lock=%d", mtx_lock(&m));
    say("try=%d", in_thread(mtx_try_it, &m));
    int own = mtx_trylock(&m);
    say("try-own=%d", own);
    if (own == thrd_success) mtx_unlock(&m);
    own = mtx_timedlock(&m, &past);
    say("timed=%d", own);
    if (own == thrd_success) mtx_unlock(&m);
    say("seen-by-pthread=%d", in_thread(try_it, &m));
    say("cnd_init=%d", cnd_init(&c));
    say("signal=%d broadcast=%d", cnd_signal(&c), cnd_broadcast(&c));
    say("wait-past=%d", cnd_timedwait(&c, &m, &past));
    say("wait-wrong=%d", cnd_timedwait(&c, &m, &wrong));
    say("unlock=%d", mtx_unlock(&m));
    say("timed-free=%d", mtx_timedlock(&m, &wrong));
    say("unlock=%d", mtx_unlock(&m));
    cnd_destroy(&c);
    mtx_destroy(&m);
    say("init=%d", mtx_init(&m, mtx_plain));
    say("lock=%d unlock=%d", mtx_lock(&m), mtx_unlock(&m));
}
SCENARIO(c11_plain) { mtx_life(mtx_plain); }
SCENARIO(c11_timed) { mtx_life(mtx_timed); }
SCENARIO(c11_recursive) { mtx_life(mtx_plain | mtx_recursive); }
SCENARIO(c11_timed_recursive) { mtx_life(mtx_timed | mtx_recursive); }
SCENARIO(c11_bad_type) {
    mtx_t m;
    say("init=%d", mtx_init(&m, 99));
}
