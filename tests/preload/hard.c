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
#include "shared.h"

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

// ------------------------------------------------------------------------- exclusion
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

// eclipse-threadx, nuttx 19808: a failed trylock must leave the lock as it was.
static _Atomic bool storm_over;
static void *storm(void *arg) {
    shared_t *s = arg;
    long got = 0;
    while (!storm_over) got += pthread_mutex_trylock(&s->mutex) == 0;
    return (void *)got;
}
SCENARIO(trylock_storm) {
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t t[4];
    void *got;
    pthread_mutex_lock(&s.mutex);
    for (int i = 0; i < 4; i++) t[i] = start(storm, &s);
    for (int i = 0; i < 3000; i++) expect(pthread_mutex_trylock(&s.mutex) == EBUSY, "busy");
    storm_over = true;
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &got);
        expect(!got, "held");
    }
    say_result("unlock", pthread_mutex_unlock(&s.mutex));
    all_count(count_mixed, &s);
    say("counted=%ld", s.counter);
}

// wormhole 6: more waiters than a narrow field of numbers or readers holds.
SCENARIO(many_waiters) {
    enum { WAITERS = 300 };
    static waiter_t w[WAITERS];
    pthread_mutex_lock(&the_mutex);
    for (int i = 0; i < WAITERS; i++) waiter_begin(&w[i], lock_mutex, unlock_mutex, &the_mutex);
    let_it_wait(w[WAITERS - 1].thread, w[WAITERS - 1].tid);
    pthread_mutex_unlock(&the_mutex);
    waiters_join(w, WAITERS);
    say_result("lock", pthread_mutex_lock(&the_mutex));
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

SCENARIO(remapped_while_locked) {  // sysrepo 2560: unmapped and mapped again, at the same address
    int fd = memfd_create("mutex", 0);
    expect(ftruncate(fd, 4096) == 0, "ftruncate");
    pthread_mutex_t *a = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pthread_mutex_init(a, NULL);
    pthread_mutex_lock(a);
    munmap(a, 4096);
    void *again = mmap(a, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    expect(again == (void *)a, "mmap");
    say_result("try", in_thread(try_it, a));
    say_result("unlock", pthread_mutex_unlock(a));
    say_result("lock", pthread_mutex_lock(a));
}

SCENARIO(destroy_without_lock) {  // libressl PR 1353
    static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    say_result("mutex", pthread_mutex_destroy(&never));
    say_result("cond", pthread_cond_destroy(&cond));
    say_result("rwlock", pthread_rwlock_destroy(&rw));
    say_result("init", pthread_mutex_init(&never, NULL));
    say_result("lock", pthread_mutex_lock(&never));
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

// jemalloc PR 1382: the processors a thread may use change while it waits.
SCENARIO(processors_change) {
    cpu_set_t all, one;
    shared_t s = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    pthread_t t[THREADS];
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < THREADS; i++) t[i] = start(count_mixed, &s);
    for (int i = 0; i < 40 * THREADS; i++) {
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        pthread_setaffinity_np(t[i % THREADS], sizeof one, i / THREADS % 2 ? &all : &one);
        sched_yield();
    }
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    say("counted=%ld", s.counter);
}
