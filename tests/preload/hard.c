// SPDX-License-Identifier: MIT
// hard.c - the cases that have broken lock interposers in public, one scenario each, for mutexes
// and spinlocks. The repositories and numbers are those of the public reports.
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "scenario.h"

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

static int try_it(void *m) {
    int error = pthread_mutex_trylock(m);
    if (!error) pthread_mutex_unlock(m);
    return error;
}

// ------------------------------------------------------------------------- exclusion
enum { THREADS = 6, ROUNDS = 20000 };
typedef struct {
    pthread_mutex_t mutex;
    pthread_spinlock_t spin;
    long counter;
} shared_t;

static void *count_mixed(void *arg) {  // every way to lock, on one mutex
    shared_t *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec later = after_ms(CLOCK_MONOTONIC, 60000);
        switch (i % 4) {
        case 0: pthread_mutex_lock(&s->mutex); break;
        case 1: while (pthread_mutex_trylock(&s->mutex)) sched_yield(); break;
        case 2: pthread_mutex_clocklock(&s->mutex, CLOCK_MONOTONIC, &later); break;
        case 3:
            later = after_ms(CLOCK_REALTIME, 60000);
            pthread_mutex_timedlock(&s->mutex, &later);
        }
        s->counter++;
        pthread_mutex_unlock(&s->mutex);
    }
    return NULL;
}

static void *count_spin(void *arg) {
    shared_t *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 3) pthread_spin_lock(&s->spin);
        else while (pthread_spin_trylock(&s->spin)) sched_yield();
        s->counter++;
        pthread_spin_unlock(&s->spin);
    }
    return NULL;
}

static void all_count(body_t body, shared_t *s) {
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) t[i] = start(body, s);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

SCENARIO(exclusion_mixed) {
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    all_count(count_mixed, &s);
    say("counted=%ld", s.counter);
}

SCENARIO(exclusion_adaptive) {
    shared_t s = {.mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};
    all_count(count_mixed, &s);
    say("counted=%ld", s.counter);
}

SCENARIO(exclusion_spin) {
    shared_t s = {.counter = 0};
    pthread_spin_init(&s.spin, PTHREAD_PROCESS_PRIVATE);
    all_count(count_spin, &s);
    say("counted=%ld", s.counter);
}

static void *count_briefly(void *arg) {  // each gives up after a moment and comes back
    shared_t *s = arg;
    for (int i = 0; i < 3000; i++) {
        struct timespec soon;
        do {
            clock_gettime(CLOCK_MONOTONIC, &soon);
            soon.tv_nsec += 20000;
            if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
        } while (pthread_mutex_clocklock(&s->mutex, CLOCK_MONOTONIC, &soon));
        long was = s->counter;
        if (i % 64 == 0) sched_yield();
        s->counter = was + 1;
        pthread_mutex_unlock(&s->mutex);
    }
    return NULL;
}

SCENARIO(exclusion_timeouts) {
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    all_count(count_briefly, &s);
    say("counted=%ld", s.counter);
}

// Two processes on one spinlock in shared memory: a queue in one would be none in the other.
SCENARIO(spin_across_processes) {
    shared_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_spin_init(&s->spin, PTHREAD_PROCESS_SHARED);
    pid_t child = fork();
    all_count(count_spin, s);
    if (child == 0) _exit(0);
    int status;
    waitpid(child, &status, 0);
    say("both=%ld status=%d", s->counter, status);
}

SCENARIO(mutex_across_processes) {
    shared_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&s->mutex, &a);
    pid_t child = fork();
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&s->mutex);
        s->counter++;
        pthread_mutex_unlock(&s->mutex);
    }
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    say("both=%ld", s->counter);
}

// ------------------------------------------------------------------------- names and versions
// gluing to one version: what a program linked long ago asks for (multicore-locks/litl 11,
// google/sanitizers 465). 2.2.5 is the first version on x86-64.
#if defined(__x86_64__)
#define OLD(name, alias, type)                                         \
    extern int alias type;                                             \
    __asm__(".symver " #alias ", " #name "@GLIBC_2.2.5");
OLD(pthread_mutex_trylock, old_trylock, (pthread_mutex_t *))
OLD(pthread_mutex_timedlock, old_timedlock, (pthread_mutex_t *, const struct timespec *))
OLD(pthread_spin_trylock, old_spin_trylock, (pthread_spinlock_t *))
OLD(__pthread_mutex_lock, alias_lock, (pthread_mutex_t *))
OLD(__pthread_mutex_unlock, alias_unlock, (pthread_mutex_t *))
OLD(__pthread_mutex_trylock, alias_trylock, (pthread_mutex_t *))
OLD(__pthread_mutex_init, alias_init, (pthread_mutex_t *, const pthread_mutexattr_t *))
OLD(__pthread_mutex_destroy, alias_destroy, (pthread_mutex_t *))

static int old_try(void *m) { return old_trylock(m); }
static int old_timed(void *m) {
    struct timespec past = {1, 0};
    return old_timedlock(m, &past);
}
static int old_spin_try(void *s) { return old_spin_trylock(s); }

SCENARIO(old_versions) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_spinlock_t s;
    pthread_spin_init(&s, 0);
    pthread_mutex_lock(&m);
    pthread_spin_lock(&s);
    say_result("old-try", in_thread(old_try, &m));
    say_result("old-timed", in_thread(old_timed, &m));
    say_result("old-spin", in_thread(old_spin_try, (void *)&s));
}

SCENARIO(old_names) {  // llvm 59820, ClickHouse 30462
    pthread_mutex_t m;
    say_result("init", alias_init(&m, NULL));
    say_result("lock", alias_lock(&m));
    say_result("try", in_thread(try_it, &m));
    say_result("alias-try", alias_trylock(&m));
    say_result("destroy-held", alias_destroy(&m));
    say_result("unlock", pthread_mutex_unlock(&m));
    say_result("lock", pthread_mutex_lock(&m));
    say_result("alias-unlock", alias_unlock(&m));
    say_result("try", in_thread(try_it, &m));
    say_result("destroy", alias_destroy(&m));
}
#endif

SCENARIO(next_symbol) {  // clementgallet/libTAS 82
    int (*lock)(pthread_mutex_t *) =
        (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    int (*unlock)(pthread_mutex_t *) =
        (int (*)(pthread_mutex_t *))dlsym(RTLD_DEFAULT, "pthread_mutex_unlock");
    say_result("lock", lock(&the_mutex));
    say_result("try", in_thread(try_it, &the_mutex));
    say_result("unlock", unlock(&the_mutex));
    say_result("try", in_thread(try_it, &the_mutex));
}

// ------------------------------------------------------------------------- before and after main
// earlylib.c is linked to this program; its constructor ran before the preload's.
extern int early_failures(void);
SCENARIO(constructor_of_a_library) {  // multicore-locks/litl 1, 7, 9, 10; VirtualGL PR 7
    say("early-failures=%d", early_failures());
}

static void lock_at_exit(void) {
    pthread_mutex_lock(&the_mutex);
    pthread_mutex_unlock(&the_mutex);
    say("at-exit");
}
SCENARIO(lock_in_atexit) { atexit(lock_at_exit); }

static void *hold_for_ever(void *gate) {
    pthread_mutex_lock(&the_mutex);
    sem_post(gate);
    for (;;) pause();
    return NULL;
}
static void *want_it(void *gate) {
    sem_post(gate);
    pthread_mutex_lock(&the_mutex);
    return NULL;
}
static void *wait_for_ever(void *gate) {
    static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&m);
    sem_post(gate);
    for (;;) pthread_cond_wait(&c, &m);
    return NULL;
}
SCENARIO(exit_with_locks_held) {  // supercollider PR 5357
    sem_t gate;
    sem_init(&gate, 0, 0);
    start(hold_for_ever, &gate);
    sem_wait(&gate);
    for (int i = 0; i < 4; i++) start(want_it, &gate);
    for (int i = 0; i < 4; i++) start(wait_for_ever, &gate);
    for (int i = 0; i < 8; i++) sem_wait(&gate);
    puts("end");
    exit(0);
}

// ------------------------------------------------------------------------- whose lock is it
SCENARIO(unlock_by_another_thread) {
    pthread_mutex_lock(&the_mutex);
    say_result("stranger", in_thread((int (*)(void *))pthread_mutex_unlock, &the_mutex));
    say_result("lock", pthread_mutex_lock(&the_mutex));
    say_result("unlock", pthread_mutex_unlock(&the_mutex));
    say_result("destroy", pthread_mutex_destroy(&the_mutex));
}

typedef struct {
    pthread_mutex_t mutex;
    sem_t turn;
    long handed;
} relay_t;
static void *unlocker(void *arg) {
    relay_t *r = arg;
    for (int i = 0; i < 5000; i++) {
        sem_wait(&r->turn);
        r->handed++;
        pthread_mutex_unlock(&r->mutex);
    }
    return NULL;
}
SCENARIO(unlock_by_another_contended) {
    relay_t r = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    sem_init(&r.turn, 0, 0);
    pthread_t t = start(unlocker, &r);
    for (int i = 0; i < 5000; i++) {  // the next lock may come before the unlock
        pthread_mutex_lock(&r.mutex);
        sem_post(&r.turn);
    }
    pthread_join(t, NULL);
    say("handed=%ld", r.handed);
}

SCENARIO(unlock_of_unlocked) {  // undefined, and harmless in libc: programs do it
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    say_result("unlock", pthread_mutex_unlock(&m));
    say_result("lock", pthread_mutex_lock(&m));
    say_result("try", in_thread(try_it, &m));
    say_result("unlock", pthread_mutex_unlock(&m));
    say_result("try", in_thread(try_it, &m));
}

enum { LINKS = 16 };
static pthread_mutex_t chain[LINKS];
static long chain_count[LINKS];
static void *walk_chain(void *unused) {
    for (int round = 0; round < 2000; round++) {
        pthread_mutex_lock(&chain[0]);
        for (int i = 0; i < LINKS; i++) {
            chain_count[i]++;
            if (i + 1 < LINKS) pthread_mutex_lock(&chain[i + 1]);
            pthread_mutex_unlock(&chain[i]);
        }
    }
    return unused;
}
SCENARIO(hand_over_hand) {
    pthread_t t[4];
    for (int i = 0; i < LINKS; i++) pthread_mutex_init(&chain[i], NULL);
    for (int i = 0; i < 4; i++) t[i] = start(walk_chain, NULL);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < LINKS; i++) say("%ld", chain_count[i]);
}

static void *out_of_order(void *arg) {  // eclipse/omr PR 4086
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < 8; i++) pthread_mutex_lock(&chain[i]);
        ++*(long *)arg;
        for (int i = 0; i < 8; i++) pthread_mutex_unlock(&chain[(i * 5) % 8]);
    }
    return NULL;
}
SCENARIO(unlock_out_of_order) {
    pthread_t t[4];
    long count = 0;
    for (int i = 0; i < LINKS; i++) pthread_mutex_init(&chain[i], NULL);
    for (int i = 0; i < 4; i++) t[i] = start(out_of_order, &count);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    say("count=%ld", count);
}

// ------------------------------------------------------------------------- many, moved, reused
SCENARIO(many_locks) {
    enum { MANY = 20000 };
    pthread_mutex_t *m = calloc(MANY, sizeof *m);
    for (int i = 0; i < MANY; i++) pthread_mutex_lock(&m[i]);
    int busy = 0;
    for (int i = 0; i < MANY; i++) busy += pthread_mutex_trylock(&m[i]) == EBUSY;
    say("busy=%d", busy);
    for (int i = 0; i < MANY; i++) pthread_mutex_unlock(&m[i]);
    for (int i = 0; i < MANY; i++) busy -= pthread_mutex_destroy(&m[i]) == 0;
    say("left=%d", busy);
    free(m);
}

SCENARIO(moved_while_unlocked) {  // zeroed, copied, re-initialised over garbage: benchkit PR 170
    pthread_mutex_t *a = calloc(1, sizeof *a), *b = malloc(sizeof *b);
    pthread_mutex_lock(a);
    pthread_mutex_unlock(a);
    memcpy(b, a, sizeof *b);
    memset(a, 0xff, sizeof *a);
    say_result("lock", pthread_mutex_lock(b));
    say_result("try", in_thread(try_it, b));
    say_result("unlock", pthread_mutex_unlock(b));
    say_result("destroy", pthread_mutex_destroy(b));
    say_result("init", pthread_mutex_init(a, NULL));
    say_result("lock", pthread_mutex_lock(a));
    say_result("unlock", pthread_mutex_unlock(a));
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_init(b, NULL);
        pthread_mutex_lock(b);
        pthread_mutex_unlock(b);
        pthread_mutex_destroy(b);
    }
    free(a);
    free(b);
}

SCENARIO(reinit_while_locked) {  // undefined, works in libc
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&m);
    say_result("init", pthread_mutex_init(&m, NULL));
    say_result("lock", pthread_mutex_lock(&m));
    say_result("unlock", pthread_mutex_unlock(&m));
    pthread_mutex_lock(&m);
    memset(&m, 0, sizeof m);
    say_result("lock", pthread_mutex_lock(&m));
}

SCENARIO(mapped_twice) {  // sysrepo 2123: locked at one address, unlocked at another
    int fd = memfd_create("mutex", 0);
    expect(ftruncate(fd, 4096) == 0, "ftruncate");
    pthread_mutex_t *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_mutex_t *b = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_mutex_init(a, NULL);
    pthread_mutex_lock(a);
    say_result("try", in_thread(try_it, b));
    munmap(a, 4096);
    say_result("unlock", pthread_mutex_unlock(b));
    say_result("lock", pthread_mutex_lock(b));
}

// The last user frees the object: unlock must not touch it after handing it over (osv 137).
typedef struct {
    pthread_mutex_t mutex;
    int users;
} object_t;
static void *drop(void *arg) {
    object_t *o = arg;
    pthread_mutex_lock(&o->mutex);
    int left = --o->users;
    pthread_mutex_unlock(&o->mutex);
    if (left) return NULL;
    pthread_mutex_destroy(&o->mutex);
    munmap(o, 4096);
    return o;
}
enum { DROPS = 4000, DROPPERS = 3 };
typedef struct {
    object_t **objects;
    pthread_barrier_t *barrier;
} drops_t;
static void *drop_all(void *arg) {
    drops_t *d = arg;
    for (int i = 0; i < DROPS; i++) {
        if (i % 64 == 0) pthread_barrier_wait(d->barrier);
        drop(d->objects[i]);
    }
    return NULL;
}
SCENARIO(last_user_frees) {
    object_t *objects[DROPS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, DROPPERS);
    for (int i = 0; i < DROPS; i++) {
        objects[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        objects[i]->users = DROPPERS;
    }
    pthread_t t[DROPPERS];
    drops_t d = {objects, &barrier};
    for (int i = 0; i < DROPPERS; i++) t[i] = start(drop_all, &d);
    for (int i = 0; i < DROPPERS; i++) pthread_join(t[i], NULL);
    say("freed");
}

static void *come_and_go(void *arg) {
    shared_t *s = arg;
    pthread_mutex_lock(&s->mutex);
    s->counter++;
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}
SCENARIO(many_threads_over_time) {  // more threads than any per-thread table has
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < 2600; i += 4) {
        pthread_t t[4];
        for (int k = 0; k < 4; k++) t[k] = start(come_and_go, &s);
        for (int k = 0; k < 4; k++) pthread_join(t[k], NULL);
    }
    say("count=%ld", s.counter);
}

// ------------------------------------------------------------------------- fork
static int finish_child(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

SCENARIO(fork_holding) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&m);
    pid_t child = fork();
    if (child == 0) {
        int bad = in_thread(try_it, &m) != EBUSY;
        bad += pthread_mutex_destroy(&m) != EBUSY;
        bad += pthread_mutex_unlock(&m) != 0;
        bad += pthread_mutex_lock(&m) != 0;
        bad += pthread_mutex_unlock(&m) != 0;
        _exit(bad + (pthread_mutex_destroy(&m) != 0));
    }
    say("child=%d", finish_child(child));
    say_result("unlock", pthread_mutex_unlock(&m));
}

typedef struct {
    pthread_mutex_t *mutex;
    sem_t ready;
    pid_t tid;
} waiting_t;
static void *wait_and_unlock(void *arg) {
    waiting_t *w = arg;
    w->tid = my_tid();
    sem_post(&w->ready);
    pthread_mutex_lock(w->mutex);
    pthread_mutex_unlock(w->mutex);
    return NULL;
}

// jart/cosmopolitan PR 1487: the waiters of the parent are not there in the child.
static void fork_with_waiters(void (*child_does)(pthread_mutex_t *)) {
    enum { WAITERS = 3 };
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    waiting_t w[WAITERS];
    pthread_t t[WAITERS];
    pthread_mutex_lock(&m);
    for (int i = 0; i < WAITERS; i++) {
        w[i].mutex = &m;
        sem_init(&w[i].ready, 0, 0);
        t[i] = start(wait_and_unlock, &w[i]);
        sem_wait(&w[i].ready);
        let_it_wait(t[i], w[i].tid);
    }
    pid_t child = fork();
    if (child == 0) {
        child_does(&m);
        _exit(0);
    }
    say("child=%d", finish_child(child));
    pthread_mutex_unlock(&m);
    for (int i = 0; i < WAITERS; i++) pthread_join(t[i], NULL);
}

static void unlock_and_relock(pthread_mutex_t *m) {
    for (int i = 0; i < 3; i++) {
        if (pthread_mutex_unlock(m)) _exit(1);
        if (in_thread(try_it, m)) _exit(2);
        if (pthread_mutex_lock(m)) _exit(3);
        if (in_thread(try_it, m) != EBUSY) _exit(4);
    }
}
static void count_in_child(pthread_mutex_t *m) {  // threads of the child's own queue up
    pthread_mutex_unlock(m);
    shared_t s = {.mutex = *m};
    memcpy(&s.mutex, m, sizeof *m);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) t[i] = start(count_mixed, &s);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    if (s.counter != 3 * ROUNDS) _exit(1);
}
static void lock_while_held(pthread_mutex_t *m) {  // a thread of the child waits for its forker
    waiting_t w = {.mutex = m};
    sem_init(&w.ready, 0, 0);
    pthread_t t = start(wait_and_unlock, &w);
    sem_wait(&w.ready);
    let_it_wait(t, w.tid);
    pthread_mutex_unlock(m);
    pthread_join(t, NULL);
}
static void begin_anew(pthread_mutex_t *m) {
    if (pthread_mutex_init(m, NULL) || pthread_mutex_lock(m)) _exit(1);
    pthread_mutex_unlock(m);
}
SCENARIO(fork_waiters_unlock) { fork_with_waiters(unlock_and_relock); }
SCENARIO(fork_waiters_count) { fork_with_waiters(count_in_child); }
SCENARIO(fork_waiters_wait) { fork_with_waiters(lock_while_held); }
SCENARIO(fork_waiters_reinit) { fork_with_waiters(begin_anew); }

// jemalloc 895: atfork handlers hold a busy mutex across the fork.
static pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
static long fork_count;
static _Atomic bool fork_stop;
static void before_fork(void) { pthread_mutex_lock(&fork_mutex); }
static void after_fork(void) { pthread_mutex_unlock(&fork_mutex); }
static void child_reinit(void) { pthread_mutex_init(&fork_mutex, NULL); }
static void *use_fork_mutex(void *unused) {
    while (!fork_stop) {
        pthread_mutex_lock(&fork_mutex);
        fork_count++;
        pthread_mutex_unlock(&fork_mutex);
    }
    return unused;
}
static void fork_busily(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) t[i] = start(use_fork_mutex, NULL);
    int bad = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 3; k++) {
                pthread_mutex_lock(&fork_mutex);
                if (in_thread(try_it, &fork_mutex) != EBUSY) _exit(1);
                pthread_mutex_unlock(&fork_mutex);
            }
            _exit(0);
        }
        bad += finish_child(child) != 0;
    }
    fork_stop = true;
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    say("bad=%d", bad);
}
SCENARIO(atfork_unlock) {
    pthread_atfork(before_fork, after_fork, after_fork);
    fork_busily();
}
SCENARIO(atfork_reinit) {
    pthread_atfork(before_fork, after_fork, child_reinit);
    fork_busily();
}

SCENARIO(spawn_and_system) {
    char name[] = "true", *argv[] = {name, NULL};
    extern char **environ;
    pthread_mutex_lock(&the_mutex);
    pid_t child;
    say("spawn=%d", posix_spawnp(&child, name, NULL, NULL, argv, environ));
    say("child=%d", finish_child(child));
    say("system=%d", system("exit 3") >> 8);
    pid_t forked = vfork();
    if (forked == 0) _exit(7);
    say("vfork=%d", finish_child(forked));
    say_result("try", in_thread(try_it, &the_mutex));
    say_result("unlock", pthread_mutex_unlock(&the_mutex));
}

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
// snazzy-d/sdc PR 401, bdwgc 473: a suspended waiter must not be given the lock.
SCENARIO(stop_the_world) {
    enum { WAITERS = 3 };
    struct sigaction stop = {.sa_handler = suspend}, go = {.sa_handler = resume};
    sigfillset(&stop.sa_mask);
    sigaction(SIGUSR1, &stop, NULL);
    sigaction(SIGUSR2, &go, NULL);
    sem_init(&suspended, 0, 0);
    waiting_t w[WAITERS];
    pthread_t t[WAITERS];
    pthread_mutex_lock(&the_mutex);
    for (int i = 0; i < WAITERS; i++) {
        w[i].mutex = &the_mutex;
        sem_init(&w[i].ready, 0, 0);
        t[i] = start(wait_and_unlock, &w[i]);
        sem_wait(&w[i].ready);
        let_it_wait(t[i], w[i].tid);
    }
    for (int i = 0; i < WAITERS; i++) pthread_kill(t[i], SIGUSR1);
    for (int i = 0; i < WAITERS; i++) while (sem_wait(&suspended)) continue;
    for (int i = 0; i < 3; i++) {
        pthread_mutex_unlock(&the_mutex);
        say_result("lock", pthread_mutex_lock(&the_mutex));
    }
    for (int i = 0; i < WAITERS; i++) pthread_kill(t[i], SIGUSR2);
    pthread_mutex_unlock(&the_mutex);
    for (int i = 0; i < WAITERS; i++) pthread_join(t[i], NULL);
}

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

// droundy/append-only-vec PR 15, shadow 1792: all threads on one processor.
SCENARIO(one_processor) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all)) continue;
        CPU_SET(i, &one);
        break;
    }
    sched_setaffinity(0, sizeof one, &one);
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    all_count(count_mixed, &s);
    say("counted=%ld", s.counter);
}

// ------------------------------------------------------------------------- dlopen
// The library and the program must agree about every lock, however the library was bound.
static void share_with(const char *file, int mode) {
    void *lib = dlopen(file, mode);
    if (!lib) {
        say("dlopen: %s", dlerror());
        return;
    }
    const char *error = dlerror();
    expect(!error, "dlerror");
    int (*try_there)(void *) = (int (*)(void *))dlsym(lib, "plugin_try");
    int (*mtx_there)(mtx_t *) = (int (*)(mtx_t *))dlsym(lib, "plugin_mtx_lock");
    int (*wait_there)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(lib,
                                                                                 "plugin_wait");
    int (**lock_there)(pthread_mutex_t *) = (int (**)(pthread_mutex_t *))dlsym(lib, "plugin_lock");
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    struct timespec past = {1, 0};
    mtx_t mtx;
    pthread_mutex_lock(&the_mutex);
    say_result("try-there", in_thread(try_there, &the_mutex));
    say_result("wait-there", wait_there(&c, &the_mutex, &past));
    pthread_mutex_unlock(&the_mutex);
    say_result("try-there", try_there(&the_mutex));
    say_result("lock-there", (*lock_there)(&the_mutex));
    say_result("try-here", in_thread(try_it, &the_mutex));
    pthread_mutex_unlock(&the_mutex);
    mtx_init(&mtx, mtx_plain);
    say("mtx-there=%d", mtx_there(&mtx));
    say("mtx-here=%d", mtx_trylock(&mtx));
    dlclose(lib);
}
SCENARIO(dlopen_lazy) { share_with(PLUGIN, RTLD_LAZY | RTLD_LOCAL); }
SCENARIO(dlopen_deepbind) { share_with(PLUGIN, RTLD_LAZY | RTLD_DEEPBIND); }
SCENARIO(dlopen_deepbind_read_only) { share_with(PLUGIN_NOW, RTLD_NOW | RTLD_DEEPBIND); }
SCENARIO(dlopen_by_search_path) {  // found only through the search path of the caller, which is us
    share_with("libplugin.so", RTLD_NOW);
}
SCENARIO(dlopen_of_nothing) {
    expect(dlopen("libno-such.so", RTLD_NOW | RTLD_DEEPBIND) == NULL, "no such file");
    const char *error = dlerror();
    say("%s", error ? error : "no error");
    expect(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) != NULL, "the program itself");
}
