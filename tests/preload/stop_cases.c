// SPDX-License-Identifier: MIT
// stop_cases.c - signals, threads that are suspended by one, and threads that leave a section in
// another way than by its end. The repositories and numbers are those of the public reports.
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "scenario.h"
#include "shared.h"
#if defined(__x86_64__)
#include "step.h"
#endif

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

// ------------------------------------------------------------------------- signals
static pthread_mutex_t handler_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int handled;
static void lock_in_handler(int unused) {  // dart-lang/sdk 51124, gperftools 775
    (void)unused;
    volatile char big[65536];  // a handler with a big frame
    big[0] = big[sizeof big - 1] = 1;
    int saved = errno;
    if (pthread_mutex_trylock(&handler_mutex) == 0) pthread_mutex_unlock(&handler_mutex);
    handled++;
    errno = saved;
}
static void *be_interrupted(void *arg) {
    long *count = arg;
    for (int i = 0; i < 2000; i++) {
        pthread_mutex_lock(&the_mutex);
        ++*count;
        pthread_mutex_unlock(&the_mutex);
        if (i % 10 == 0) raise(SIGUSR1);
    }
    return NULL;
}
SCENARIO(handler_that_locks) {
    struct sigaction action = {.sa_handler = lock_in_handler};
    struct itimerval often = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t t[4];
    long count = 0;
    for (int i = 0; i < 4; i++) t[i] = start(be_interrupted, &count);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    setitimer(ITIMER_REAL, &off, NULL);
    say("count=%ld", count);
    expect(handled >= 800, "handlers ran");
}

#if defined(__x86_64__)
// ClickHouse 82091: a signal during the first call of all; earlylib.c was interrupted by one after
// each instruction, in its constructor.
extern int early_failures(void);
extern long early_steps(void);
SCENARIO(signal_in_the_first_call) {
    say("failures=%d", early_failures());
    expect(early_steps() > 10, "interrupted");
}

// DataDog/pprof-rs PR 18: not only in the first. The other thread makes each lock wait as well.
static _Atomic bool steps_over;
static void *be_in_the_way(void *s) {
    shared_t *shared = s;
    while (!steps_over) {
        pthread_mutex_lock(&shared->mutex);
        shared->counter++;
        pthread_mutex_unlock(&shared->mutex);
    }
    return NULL;
}
SCENARIO(signal_after_each_instruction) {
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    struct timespec past = {1, 0};
    long mine = 0;
    pthread_t t = start(be_in_the_way, &s);
    step_begin();
    for (int i = 0; i < 12; i++) {
        pthread_mutex_lock(&s.mutex);
        mine++;
        pthread_cond_timedwait(&cond, &s.mutex, &past);
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&s.mutex);
        pthread_rwlock_wrlock(&rw);
        pthread_rwlock_unlock(&rw);
    }
    step_end();
    steps_over = true;
    pthread_join(t, NULL);
    say("mine=%ld failures=%ld", mine, step_failures);
    expect(step_count > 1000, "interrupted");
}
#endif

// ------------------------------------------------------------------------- suspended
static sem_t suspended;
static void suspend(int unused) {
    (void)unused;
    sigset_t all_but_resume;
    sigfillset(&all_but_resume);
    sigdelset(&all_but_resume, SIGUSR2);
    sem_post(&suspended);
    sigsuspend(&all_but_resume);
}
static void resume(int unused) { (void)unused; }

static void may_suspend(void) {
    struct sigaction stop = {.sa_handler = suspend}, go = {.sa_handler = resume};
    sigfillset(&stop.sa_mask);
    sigaction(SIGUSR1, &stop, NULL);
    sigaction(SIGUSR2, &go, NULL);
    sem_init(&suspended, 0, 0);
}

static void take(sem_t *s) {
    while (sem_wait(s)) continue;  // interrupted by the signals
}

static void suspend_them(waiter_t *w, int count) {
    for (int i = 0; i < count; i++) pthread_kill(w[i].thread, SIGUSR1);
    for (int i = 0; i < count; i++) take(&suspended);
}

// As a collector does: all who wait are suspended, and whoever suspended them goes on locking.
// snazzy-d/sdc PR 401, bdwgc 473: a suspended waiter must not be given the lock.
static void stop_the_world(int (*lock)(void *), int (*unlock)(void *), void *object) {
    enum { WAITERS = 3 };
    waiter_t w[WAITERS];
    may_suspend();
    lock(object);
    for (int i = 0; i < WAITERS; i++) {
        waiter_begin(&w[i], lock, unlock, object);
        let_it_wait(w[i].thread, w[i].tid);
    }
    suspend_them(w, WAITERS);
    for (int i = 0; i < 3; i++) {
        unlock(object);
        say_result("lock", lock(object));
    }
    for (int i = 0; i < WAITERS; i++) pthread_kill(w[i].thread, SIGUSR2);
    unlock(object);
    waiters_join(w, WAITERS);
}

static int lock_spin(void *s) { return pthread_spin_lock(s); }
static int unlock_spin(void *s) { return pthread_spin_unlock(s); }
static int lock_to_read(void *rw) { return pthread_rwlock_rdlock(rw); }
static int lock_to_write(void *rw) { return pthread_rwlock_wrlock(rw); }
static int unlock_rw(void *rw) { return pthread_rwlock_unlock(rw); }

SCENARIO(stop_the_world) { stop_the_world(lock_mutex, unlock_mutex, &the_mutex); }
SCENARIO(stop_the_world_recursive) {
    static pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    stop_the_world(lock_mutex, unlock_mutex, &m);
}
SCENARIO(stop_the_world_spin) {
    static pthread_spinlock_t s;
    pthread_spin_init(&s, PTHREAD_PROCESS_PRIVATE);
    stop_the_world(lock_spin, unlock_spin, (void *)&s);
}
SCENARIO(stop_the_world_writers) {
    static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    stop_the_world(lock_to_write, unlock_rw, &rw);
}

// Only the first waiter is suspended: those behind it, and newcomers, still get their turn.
SCENARIO(stop_one_waiter) {
    enum { WAITERS = 3 };
    waiter_t w[WAITERS];
    may_suspend();
    pthread_mutex_lock(&the_mutex);
    waiters_wait(w, WAITERS, &the_mutex);
    suspend_them(w, 1);
    pthread_mutex_unlock(&the_mutex);
    waiters_join(&w[1], WAITERS - 1);
    say_result("lock", pthread_mutex_lock(&the_mutex));
    pthread_mutex_unlock(&the_mutex);
    pthread_kill(w[0].thread, SIGUSR2);
    waiters_join(w, 1);
}

#if defined(__x86_64__)
// A waiter is suspended after each instruction of its arrival in turn: before, while and after it
// joins a queue, and asleep. Then whoever held the lock leaves it, and all others get their turn.
typedef struct {
    void *object;
    int (*hold)(void *);          // main(), as the other arrives
    int (*arrive)(void *);
    int (*ahead)(void *);         // another that waits already, and must get its turn; or NULL
    int (*turn)(void *);          // main() afterwards: every way to lock and unlock
    int (*try_turn)(void *);      // and to try, if nobody runs who may be in between; or NULL
    int (*unlock)(void *);
} arrival_t;
static const arrival_t *arrival;

static void suspend_here(void) { suspend(0); }
static int lock_in_steps(void *object) {
    sigset_t go;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR2);  // not before it is suspended
    pthread_sigmask(SIG_BLOCK, &go, NULL);
    step_begin();
    int result = arrival->arrive(object);
    step_end();
    return result;
}

// False: it was asleep before that many steps.
static bool arrive_in_steps(const arrival_t *a, long steps) {
    waiter_t arriving, ahead;
    bool stopped = false;
    arrival = a;
    step_count = 0;
    step_skip = steps;
    a->hold(a->object);
    if (a->ahead) {
        waiter_begin(&ahead, a->ahead, a->unlock, a->object);
        let_it_wait(ahead.thread, ahead.tid);
    }
    waiter_begin(&arriving, lock_in_steps, a->unlock, a->object);
    bool asleep = false;
    for (unsigned i = 1; !stopped && !asleep; i++, sched_yield()) {
        if (i % 8 == 0) asleep = is_asleep(arriving.tid);
        stopped = sem_trywait(&suspended) == 0;
    }
    if (!stopped) pthread_kill(arriving.thread, SIGUSR2);  // no stop later on: it may hold it then
    a->unlock(a->object);
    if (stopped && !a->ahead && a->try_turn) expect(!a->try_turn(a->object), "got it by trying");
    a->turn(a->object);
    if (a->ahead) waiters_join(&ahead, 1);
    pthread_kill(arriving.thread, SIGUSR2);
    waiters_join(&arriving, 1);
    return stopped;
}

static void may_suspend_in_steps(void) {
    may_suspend();
    step_strike = suspend_here;
    step_strikes = 1;
}

static int turn_mutex(void *m) {
    pthread_mutex_lock(m);
    return pthread_mutex_unlock(m);
}

// Waiters that spin never sleep: so many instructions; the queue locks' waiters join their queue
// after some 430 to 570.
enum { JOIN_STEPS = 400, ARRIVAL_STEPS = 600 };
SCENARIO(stop_arrivals) {
    arrival_t alone = {&the_mutex, lock_mutex, lock_mutex, NULL, turn_mutex, try_it,
                       unlock_mutex};
    arrival_t behind = alone;
    long steps = 0;
    behind.ahead = lock_mutex;
    may_suspend_in_steps();
    while (steps < ARRIVAL_STEPS && arrive_in_steps(&alone, steps) &&
           arrive_in_steps(&behind, steps + 1))
        steps += steps < JOIN_STEPS ? 25 : 2;
    expect(steps > 20, "stopped in its arrival");
}

// libc hands the lock to a waiter, suspended or not, and all others wait: not asked natively.
static bool rwlock_hands_over(void) {
    const char *chosen = getenv("HOTLOCK");
    return !chosen || strstr(chosen, "lock=libc");
}

static int turn_rw(void *rw) {
    int bad = pthread_rwlock_wrlock(rw) || pthread_rwlock_unlock(rw) ||
              pthread_rwlock_rdlock(rw) || pthread_rwlock_unlock(rw);
    expect(!bad, "each got it");
    return bad;
}

static int try_turn_rw(void *rw) {
    return pthread_rwlock_trywrlock(rw) || pthread_rwlock_unlock(rw) ||
           pthread_rwlock_tryrdlock(rw) || pthread_rwlock_unlock(rw);
}

// Who waits goes to sleep after some 200 instructions.
enum { RW_ARRIVAL_STEPS = 300, RW_STRIDE = 3 };
static void stop_rw_arrivals(int (*hold)(void *), int (*arrive)(void *), int (*ahead)(void *),
                             int kind) {
    pthread_rwlock_t rw;
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, kind);
    pthread_rwlock_init(&rw, &attr);
    arrival_t a = {&rw, hold, arrive, ahead, turn_rw, try_turn_rw, unlock_rw};
    long steps = 0;
    may_suspend_in_steps();
    while (steps < RW_ARRIVAL_STEPS && !rwlock_hands_over() && arrive_in_steps(&a, steps))
        steps += RW_STRIDE;
    expect(rwlock_hands_over() || steps > 20, "stopped in its arrival");
    pthread_rwlock_destroy(&rw);
}

enum {
    RECURSIVE_READERS = PTHREAD_RWLOCK_PREFER_READER_NP,
    WRITERS_FIRST = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP,
};
SCENARIO(rwlock_stop_writers_behind_readers) {
    stop_rw_arrivals(lock_to_read, lock_to_write, NULL, RECURSIVE_READERS);
    stop_rw_arrivals(lock_to_read, lock_to_write, NULL, WRITERS_FIRST);
}
SCENARIO(rwlock_stop_writers_behind_a_writer) {
    stop_rw_arrivals(lock_to_write, lock_to_write, NULL, RECURSIVE_READERS);
    stop_rw_arrivals(lock_to_write, lock_to_write, NULL, WRITERS_FIRST);
}
SCENARIO(rwlock_stop_writers_in_a_row) {
    stop_rw_arrivals(lock_to_read, lock_to_write, lock_to_write, RECURSIVE_READERS);
    stop_rw_arrivals(lock_to_write, lock_to_write, lock_to_write, WRITERS_FIRST);
}
SCENARIO(rwlock_stop_readers_behind_a_writer) {
    stop_rw_arrivals(lock_to_write, lock_to_read, NULL, RECURSIVE_READERS);
    stop_rw_arrivals(lock_to_write, lock_to_read, NULL, WRITERS_FIRST);
}
SCENARIO(rwlock_stop_readers_at_the_gate) {
    stop_rw_arrivals(lock_to_write, lock_to_read, lock_to_write, RECURSIVE_READERS);
    stop_rw_arrivals(lock_to_read, lock_to_read, lock_to_write, WRITERS_FIRST);
}
#endif

// ------------------------------------------------------------------------- leaving a section
static void unlock_cleanup(void *m) { pthread_mutex_unlock(m); }
static void *die_in_section(void *gate) {
    pthread_mutex_lock(&the_mutex);
    pthread_cleanup_push(unlock_cleanup, &the_mutex);
    sem_post(gate);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return NULL;
}
SCENARIO(cancel_in_section) {
    sem_t gate;
    sem_init(&gate, 0, 0);
    for (int i = 0; i < 20; i++) {
        pthread_t t = start(die_in_section, &gate);
        sem_wait(&gate);
        pthread_cancel(t);
        void *result;
        pthread_join(t, &result);
        if (result != PTHREAD_CANCELED) say("not cancelled");
    }
    say_result("try", in_thread(try_it, &the_mutex));
}

// Locking is no cancellation point, however the lock waits.
static void *lock_while_cancelled(void *arg) {
    shared_t *s = arg;
    pthread_cancel(pthread_self());
    for (int i = 0; i < 300; i++) {
        pthread_mutex_lock(&s->mutex);
        long was = s->counter;
        if (i % 4 == 0) sched_yield();
        s->counter = was + 1;
        pthread_mutex_unlock(&s->mutex);
    }
    pthread_testcancel();
    return NULL;
}
SCENARIO(lock_is_no_cancellation_point) {
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    all_count(lock_while_cancelled, &s);
    say("counted=%ld", s.counter);
}

SCENARIO(longjmp_out_of_section) {
    static jmp_buf back;
    volatile int rounds = 0;
    setjmp(back);
    pthread_mutex_unlock(&the_mutex);
    if (++rounds > 100) {
        say_result("try", in_thread(try_it, &the_mutex));
        return;
    }
    pthread_mutex_lock(&the_mutex);
    longjmp(back, 1);
}

static int errno_kept(void *m) {
    for (int i = 0; i < 2000; i++) {
        errno = 77;
        pthread_mutex_lock(m);
        if (errno != 77) return 1;
        if (i % 50 == 0) sched_yield();
        errno = 77;
        pthread_mutex_unlock(m);
        if (errno != 77) return 2;
    }
    return 0;
}
static void *errno_keeper(void *bad) {
    *(int *)bad = errno_kept(&the_mutex);
    return NULL;
}
SCENARIO(errno_is_kept) {
    pthread_t t[4];
    int bad[4];
    for (int i = 0; i < 4; i++) t[i] = start(errno_keeper, &bad[i]);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) say("%d", bad[i]);
}
