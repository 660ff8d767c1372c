// SPDX-License-Identifier: MIT
/*
 * A program with one hot lock of each kind, which measures by its own clock what hotlock top has
 * to find out from outside. Each lock has one thread that holds it for a while, asleep, and one
 * that wants it; so waiting does not depend on how many processors are free.
 *
 * planted FILE: FILE is mapped, and holds truth_t of bpf.py. Ends when its standard input does.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef enum { REGISTRY, SESSION, TABLE, GATE, TURNSTILE, LOCKS } lock_name_t;

typedef struct {
    _Atomic uint64_t now, cpu;
    struct {
        _Atomic uint64_t wait, waits, hold, spin; // spin: CPU time of the waiting thread
    } lock[LOCKS];
    _Atomic uint64_t jobs, work;
} truth_t;

struct shard {
    long entries;
    pthread_mutex_t guard;
};

static struct {
    char name[24];
    struct shard shard[4];
} registry = {.shard = {[2] = {.guard = PTHREAD_MUTEX_INITIALIZER}}};

struct session {
    char peer[40];
    pthread_mutex_t door;
};

static struct {
    int rows;
    pthread_rwlock_t latch;
} table = {.latch = PTHREAD_RWLOCK_INITIALIZER};

static struct {
    char pad[64];
    atomic_int busy;
} gate;

static pthread_spinlock_t turnstile;

static pthread_mutex_t jobs_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t jobs_there = PTHREAD_COND_INITIALIZER;
static int jobs;
static truth_t *truth;

// ------------------------------------------------------------------------- clocks
static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap(long us)
{
    struct timespec t = {0, us * 1000};
    nanosleep(&t, NULL);
}

typedef struct {
    uint64_t wall, cpu;
} moment_t;

static moment_t moment(void)
{
    return (moment_t){clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID)};
}

static void waited(lock_name_t l, moment_t since)
{
    moment_t now = moment();
    truth->lock[l].wait += now.wall - since.wall;
    truth->lock[l].spin += now.cpu - since.cpu;
    truth->lock[l].waits++;
}

static void held(lock_name_t l, uint64_t since)
{
    truth->lock[l].hold += clock_ns(CLOCK_MONOTONIC) - since;
}

// ------------------------------------------------------------------------- holders and waiters
// Not inlined, so that the stacks are known. The empty statement keeps a call from becoming a jump,
// which would leave no frame behind.
#define OUT_OF_LINE __attribute__((noinline))
#define RETURNS_HERE __asm__ volatile("" ::: "memory")

#define PAIR(name, type, which, take, give, held_us, apart_us)           \
    OUT_OF_LINE static void hold_##name(type *object)                    \
    {                                                                    \
        (void)object;                                                    \
        moment_t since = moment();                                       \
        take;                                                            \
        waited(which, since);                                            \
        uint64_t taken = clock_ns(CLOCK_MONOTONIC);                      \
        nap(held_us);                                                    \
        held(which, taken);                                              \
        give; /* often a jump: who held it must be told all the same */  \
    }                                                                    \
    OUT_OF_LINE static void want_##name(type *object)                    \
    {                                                                    \
        (void)object;                                                    \
        moment_t since = moment();                                       \
        take;                                                            \
        waited(which, since);                                            \
        give;                                                            \
        RETURNS_HERE;                                                    \
    }                                                                    \
    static void *holds_##name(void *object)                              \
    {                                                                    \
        for (;;) {                                                       \
            hold_##name(object);                                         \
            nap(apart_us);                                               \
        }                                                                \
        return NULL;                                                     \
    }                                                                    \
    static void *wants_##name(void *object)                              \
    {                                                                    \
        for (;;) {                                                       \
            want_##name(object);                                         \
            nap(500);                                                    \
        }                                                                \
        return NULL;                                                     \
    }

static inline void gate_lock(void)
{
    while (atomic_exchange_explicit(&gate.busy, 1, memory_order_acquire))
        while (atomic_load_explicit(&gate.busy, memory_order_relaxed))
#if defined(__x86_64__)
            __builtin_ia32_pause();
#else
            __asm__ volatile("yield");
#endif
}

static inline void gate_unlock(void)
{
    atomic_store_explicit(&gate.busy, 0, memory_order_release);
}

PAIR(registry, void, REGISTRY, pthread_mutex_lock(&registry.shard[2].guard),
     pthread_mutex_unlock(&registry.shard[2].guard), 6000, 3000)
PAIR(session, struct session, SESSION, pthread_mutex_lock(&object->door),
     pthread_mutex_unlock(&object->door), 2000, 4000)
PAIR(table, void, TABLE, pthread_rwlock_wrlock(&table.latch), pthread_rwlock_unlock(&table.latch),
     3000, 4000)
PAIR(gate, void, GATE, gate_lock(), gate_unlock(), 3000, 3000)
PAIR(turnstile, void, TURNSTILE, pthread_spin_lock(&turnstile), pthread_spin_unlock(&turnstile),
     1500, 4500)

// ------------------------------------------------------------------------- no locks
static void *works(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&jobs_mutex);
        while (jobs == 0)
            pthread_cond_wait(&jobs_there, &jobs_mutex);
        jobs--;
        pthread_mutex_unlock(&jobs_mutex);
        truth->jobs++;
    }
    return arg;
}

// A sum that must come out the same, whatever happens to this thread.
static void *computes(void *arg)
{
    for (;;) {
        uint64_t x = 1;
        for (int i = 0; i < 20000; i++)
            x = x * 6364136223846793005u + 1442695040888963407u;
        if (x != 10579850105631593249u)
            abort();
        truth->work++;
        nap(2000);
    }
    return arg;
}

// Page faults beside changes of the address space: the kernel's mmap_lock.
static void *maps(void *arg)
{
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (size_t i = 0; p != MAP_FAILED && i < 1 << 20; i += 4096)
            p[i] = 1;
        if (p != MAP_FAILED)
            munmap(p, 1 << 20);
        nap(500);
    }
    return arg;
}

static void start(void *(*function)(void *), void *arg)
{
    pthread_t t;
    if (pthread_create(&t, NULL, function, arg) != 0)
        abort();
}

int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (fd < 0 || ftruncate(fd, sizeof *truth) != 0)
        return 2;
    truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct session *s = calloc(1, sizeof *s);
    if (truth == MAP_FAILED || !s || pthread_mutex_init(&s->door, NULL) != 0)
        return 2;
    pthread_spin_init(&turnstile, PTHREAD_PROCESS_PRIVATE);
    start(holds_registry, NULL), start(wants_registry, NULL);
    start(holds_session, s), start(wants_session, s);
    start(holds_table, NULL), start(wants_table, NULL);
    start(holds_gate, NULL), start(wants_gate, NULL);
    start(holds_turnstile, NULL), start(wants_turnstile, NULL);
    start(works, NULL), start(computes, NULL);
    for (int i = 0; i < 3; i++)
        start(maps, NULL);
    truth->cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    truth->now = clock_ns(CLOCK_MONOTONIC);
    puts("ready");
    fflush(stdout);
    fcntl(0, F_SETFL, O_NONBLOCK);
    char byte;
    while (read(0, &byte, 1) != 0) { // the end of its input is its end
        pthread_mutex_lock(&jobs_mutex);
        jobs++;
        pthread_cond_signal(&jobs_there);
        pthread_mutex_unlock(&jobs_mutex);
        truth->cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        truth->now = clock_ns(CLOCK_MONOTONIC);
        nap(5000);
    }
    puts("ended well");
    return 0;
}
