// SPDX-License-Identifier: MIT
// planted.c - programs with planted locks, whose figures are known: the program counts and times
// for itself what `hotlock top` must find, and writes it as JSON to the file $TRUTH names.
//
//   planted SCENE: hot, held, sleeping, idle, slow, passing, beside, apart, kinds, condition, loop,
//   child, many, paths, words, bucket, threads, rate, forever, killed
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define NEVER_INLINE __attribute__((noinline, optimize("no-optimize-sibling-calls")))

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }

static void busy(uint64_t ns) {
    for (uint64_t end = now() + ns; now() < end;) continue;
}

// ------------------------------------------------------------------------- the truth
static struct {
    atomic_uint_fast64_t taken, hold, wait, cpu, spin, long_hold, calls, handoff;
    atomic_uint_fast64_t brief, brief_hold; // those too short to have lost the processor
} truth;

static void write_truth(void) {
    const char *file = getenv("TRUTH");
    FILE *f = file ? fopen(file, "w") : NULL;
    struct rusage used = {0};
    getrusage(RUSAGE_SELF, &used);
    if (!f) return;
    fprintf(f, "{\"taken\": %llu, \"hold\": %llu, \"wait\": %llu, \"cpu\": %llu, \"spin\": %llu, "
               "\"long_hold\": %llu, \"pid\": %d, \"rss\": %ld, \"brief\": %llu, "
               "\"brief_hold\": %llu, \"calls\": %llu, \"handoff\": %llu}\n",
            (unsigned long long)truth.taken, (unsigned long long)truth.hold,
            (unsigned long long)truth.wait, (unsigned long long)truth.cpu,
            (unsigned long long)truth.spin, (unsigned long long)truth.long_hold, (int)getpid(),
            used.ru_maxrss,
            (unsigned long long)truth.brief, (unsigned long long)truth.brief_hold,
            (unsigned long long)truth.calls, (unsigned long long)truth.handoff);
    fclose(f);
}

static void run(int threads, void *(*work)(void *)) {
    pthread_t id[8];
    for (long i = 0; i < threads; i++) pthread_create(&id[i], NULL, work, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
}

// ------------------------------------------------------------------------- one hot lock
static struct {
    long items;
    pthread_mutex_t lock;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t quiet = PTHREAD_MUTEX_INITIALIZER;

static void touch_quiet(void) {
    pthread_mutex_lock(&quiet);
    pthread_mutex_unlock(&quiet);
}

// Takes and frees the store's lock around `ns` of work and keeps the books.
static inline uint64_t section(uint64_t ns, bool sleeping) {
    uint64_t begin = now();
    pthread_mutex_lock(&store.lock);
    uint64_t got = now();
    if (sleeping) {
        usleep((useconds_t)(ns / 1000));
        touch_quiet();
    } else {
        busy(ns);
    }
    store.items++;
    uint64_t held = now() - got;
    pthread_mutex_unlock(&store.lock);
    truth.taken++;
    truth.hold += held;
    if (held < 20000) {
        truth.brief++;
        truth.brief_hold += held;
    }
    truth.wait += got - begin;
    return held;
}

NEVER_INLINE static void long_holder(void) { truth.long_hold += section(200000, false); }
NEVER_INLINE static void short_holder(void) { section(50000, false); }

static void *hot(void *arg) {
    for (int i = 0; i < 400; i++) {
        if (arg) short_holder();
        else long_holder();
        touch_quiet();
    }
    return NULL;
}

NEVER_INLINE static void sleeper(void) { section(2000000, true); }

static void *sleeping(void *arg) {
    (void)arg;
    for (int i = 0; i < 60; i++) sleeper();
    return NULL;
}

static void *idle(void *arg) {
    (void)arg;
    for (int i = 0; i < 20000; i++) section(0, false);
    return NULL;
}

// ------------------------------------------------------------------------- held, whatever comes
// Freeing a spinlock wakes nobody, so the scheduler has no reason to come in just then: a thread
// that loses its processor nearly always has the lock. Busy machine or not, it is held or its
// holder is not running; and it is not free while both want it.
static pthread_spinlock_t spin;

static void *held(void *arg) {
    for (int i = 0; i < 500; i++) {
        pthread_spin_lock(&spin);
        busy(200000);
        store.items++;
        pthread_spin_unlock(&spin);
    }
    return arg;
}

static void held_always(void) {
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    run(2, held);
}

// ------------------------------------------------------------------------- slow calls
// The mutex of slow.c, if this program is linked with it: how long its calls last is known.
extern uint64_t slow_calls __attribute__((weak)), slow_call_ns __attribute__((weak));

static void *slow(void *arg) {
    for (int i = 0; i < 40; i++) {
        pthread_mutex_lock(&store.lock);
        store.items++;
        pthread_mutex_unlock(&store.lock);
        busy(10000);
    }
    return arg;
}

// One thread after the other: it goes around, and nobody ever waits.
static void slow_turns(void) {
    for (int i = 0; i < 250; i++) run(1, slow);
    if (&slow_calls) truth.calls = slow_calls * slow_call_ns;
}

// ------------------------------------------------------------------------- readers that pass it on
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int wanted;
static atomic_uint_fast64_t freed;

static void shelf_section(int (*lock)(pthread_rwlock_t *), useconds_t us) {
    wanted++;
    lock(&shelf);
    wanted--;
    uint64_t since = atomic_exchange(&freed, 0);
    if (since) truth.handoff += now() - since;
    usleep(us);
    if (wanted) freed = now();
    pthread_rwlock_unlock(&shelf);
}

// A reader and a writer who sleep with it, so that the other comes to wait, busy machine or not.
static void *passing(void *writer) {
    for (int i = 0; i < 500; i++) {
        if (writer) shelf_section(pthread_rwlock_wrlock, 20);
        else shelf_section(pthread_rwlock_rdlock, 500);
        usleep(100);
    }
    return NULL;
}

// ------------------------------------------------------------------------- beside a lock
// Two threads take a lock, two others count up what is beside it, without the lock: in its line, or
// in one of its own. What the sections themselves change may lie there. The counter is no atomic
// one, for those give themselves away.
static struct {
    pthread_mutex_t lock;
    volatile long inside, hits;
    char apart[72];
    volatile long far;
} desk __attribute__((aligned(64))) = {.lock = PTHREAD_MUTEX_INITIALIZER};
static volatile long *counter;
enum { DESK_NS = 200000000 };

// Once one lingers until the other wants it: whose sections these are is known of waits.
static atomic_int lingers, wants;

NEVER_INLINE static void use_desk(bool linger) {
    pthread_mutex_lock(&desk.lock);
    for (int i = 0; i < 200; i++) desk.inside++;
    lingers |= linger;
    while (linger && !wants) usleep(1000);
    if (linger) usleep(100000);
    pthread_mutex_unlock(&desk.lock);
}

NEVER_INLINE static void count_hits(void) {
    for (int i = 0; i < 2000; i++) ++*counter;
}

static void *at_desk(void *number) {
    if ((long)number == 0) use_desk(true);
    while ((long)number == 2 && !lingers) usleep(1000);
    wants |= (long)number == 2;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < DESK_NS) {
        if ((long)number & 1) count_hits();
        else use_desk(false);
    }
    return NULL;
}

// Again and again until $GO is there.
static void desks(volatile long *counted) {
    const char *go = getenv("GO");
    counter = counted;
    do run(4, at_desk);
    while (go && access(go, F_OK) != 0);
}

// ------------------------------------------------------------------------- every kind
static pthread_rwlock_t table = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t nested;
static mtx_t c11;
static pthread_mutex_t *in_heap;

NEVER_INLINE static void open_store(void) {
    in_heap = malloc(sizeof *in_heap);
    pthread_mutex_init(in_heap, NULL);
}

static void kinds(void) {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&nested, &attr);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    mtx_init(&c11, mtx_plain);
    open_store();
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&nested);
        pthread_mutex_lock(&nested);
        pthread_mutex_unlock(&nested);
        pthread_mutex_unlock(&nested);
        pthread_spin_lock(&spin);
        pthread_spin_unlock(&spin);
        pthread_rwlock_rdlock(&table);
        pthread_rwlock_unlock(&table);
        if (i % 10 == 0) {
            pthread_rwlock_wrlock(&table);
            pthread_rwlock_unlock(&table);
        }
        mtx_lock(&c11);
        mtx_unlock(&c11);
        pthread_mutex_lock(in_heap);
        pthread_mutex_unlock(in_heap);
    }
}

// ------------------------------------------------------------------------- condition variable
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *ping(void *arg) {
    int me = (int)(long)arg;
    pthread_mutex_lock(&store.lock);
    for (int i = 0; i < 200; i++) {
        while (turn != me) pthread_cond_wait(&changed, &store.lock);
        turn = !me;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&store.lock);
    return NULL;
}

// Nobody signals: a second in which the mutex is not held.
static void wait_in_vain(void) {
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec++;
    pthread_mutex_lock(&quiet);
    pthread_cond_timedwait(&never, &quiet, &at);
    pthread_mutex_unlock(&quiet);
}

// ------------------------------------------------------------------------- a home-made loop
static int home_made;

static inline void home_lock(int *l) {
    while (__atomic_exchange_n(l, 1, __ATOMIC_ACQUIRE))
        while (__atomic_load_n(l, __ATOMIC_RELAXED)) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("isb" ::: "memory");
#endif
        }
}

static void *loop(void *arg) {
    uint64_t spun = 0;
    (void)arg;
    while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < 700000000) {
        uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        home_lock(&home_made);
        spun += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
        busy(300000);
        __atomic_store_n(&home_made, 0, __ATOMIC_RELEASE);
        busy(20000);
    }
    truth.spin += spun;
    return NULL;
}

// ------------------------------------------------------------------------- many locks, many stacks
enum { MANY = 1000000 };

static void many(void) {
    pthread_mutex_t *all = calloc(MANY, sizeof *all);
    for (size_t i = 0; i < MANY; i++) {
        pthread_mutex_lock(&all[i]);
        pthread_mutex_unlock(&all[i]);
    }
    truth.taken = MANY;
    free(all);
}

// Eight call sites at each of seven levels: two million paths to one mutex that is made and gone.
// The stack pointer differs too, as it does between paths of a program. The comment in assembler
// keeps the call sites apart.
#define STEP(label, text)                 \
    label:                                \
        path(rest, levels - 1);           \
        __asm__ volatile("# " text);      \
        break
NEVER_INLINE static void path(unsigned digits, int levels) {
    static pthread_mutex_t made;
    char *room = __builtin_alloca(16 + 16 * (digits & 511));
    __asm__ volatile("" : : "r"(room) : "memory");
    if (!levels) {
        pthread_mutex_init(&made, NULL);
        pthread_mutex_lock(&made);
        pthread_mutex_unlock(&made);
        pthread_mutex_destroy(&made);
        return;
    }
    unsigned rest = digits >> 3;
    switch (digits & 7) {
    STEP(case 0, "0");
    STEP(case 1, "1");
    STEP(case 2, "2");
    STEP(case 3, "3");
    STEP(case 4, "4");
    STEP(case 5, "5");
    STEP(case 6, "6");
    STEP(default, "7");
    }
}

static void paths(void) {
    for (unsigned i = 0; i < MANY; i++) path(i, 7);
    truth.taken = MANY;
}

// A tenth as many words that a thread sleeps on, each once, when a line comes.
static void words(void) {
    static uint32_t word[MANY / 10];
    struct timespec at = {0, 5000};
    prctl(PR_SET_TIMERSLACK, 1);
    FILE *f = fopen(getenv("TRUTH"), "w");
    if (f) fclose(f);
    getchar();
    for (size_t i = 0; i < MANY / 10; i++)
        syscall(SYS_futex, &word[i], FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &at, NULL, 0);
}

// ------------------------------------------------------------------------- locks of the kernel
// A futex that is asked to sleep on a value it does not have takes its bucket's lock, no more.
static void *hammer(void *arg) {
    static atomic_bool taken;
    uint64_t end = now() + 1500000000;
    if (!arg) {
        pthread_mutex_lock(&store.lock);
        taken = true;
        while (now() < end) usleep(10000);
        pthread_mutex_unlock(&store.lock);
    } else if (arg == (void *)1) {
        while (!taken) usleep(1000);
        pthread_mutex_lock(&store.lock);
        pthread_mutex_unlock(&store.lock);
    } else {
        while (now() < end)
            syscall(SYS_futex, &store.lock, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 77, NULL, NULL, 0);
    }
    return NULL;
}

static void *nothing(void *arg) { return arg; }

// Each thread's number comes from one table of the whole machine.
static void *starts_threads(void *arg) {
    (void)arg;
    for (uint64_t end = now() + 1500000000; now() < end;) {
        pthread_t id;
        pthread_create(&id, NULL, nothing, NULL);
        pthread_join(id, NULL);
    }
    return NULL;
}

// ------------------------------------------------------------------------- a million a second
static atomic_bool over;
static struct {
    pthread_mutex_t lock;
    char apart[88];
} four[4];

// About a microsecond from lock to lock, on one mutex in turn of four. The fastest piece of some
// ten milliseconds is one in which nobody else disturbed it.
enum { PIECE = 10000 };
static double fastest;

static void end_piece(uint64_t *begin) {
    uint64_t at = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    double rate = PIECE * 1e9 / (double)(at - *begin);
    if (rate > fastest) fastest = rate;
    *begin = at;
}

static void *million(void *arg) {
    uint64_t taken = 0, begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    (void)arg;
    for (; !atomic_load_explicit(&over, memory_order_relaxed); taken++) {
        if (taken % PIECE == PIECE - 1) end_piece(&begin);
        pthread_mutex_t *l = &four[taken & 3].lock;
        pthread_mutex_lock(l);
        store.items++;
        pthread_mutex_unlock(l);
        for (int i = 0; i < 2500; i++) __asm__ volatile("");
    }
    truth.taken += taken;
    return NULL;
}

// Measures for a second and a half from when $GO is there: whoever watches has come by then.
static void rate(void) {
    const char *go = getenv("GO");
    pthread_t id;
    while (go && access(go, F_OK) != 0) usleep(1000);
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID), begin = now();
    pthread_create(&id, NULL, million, NULL);
    usleep(1500000);
    over = true;
    pthread_join(id, NULL);
    double wall = (double)(now() - begin), used;
    used = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    fprintf(stderr, "rate: %.0f a second, %.0f a CPU second, %.0f undisturbed\n",
            (double)truth.taken * 1e9 / wall, (double)truth.taken * 1e9 / used, fastest);
}

// ------------------------------------------------------------------------- ends
static void *forever(void *arg) {
    (void)arg;
    for (int i = 0;; i++) {
        section(100000, false);
        if (i != 20) continue;
        FILE *f = fopen(getenv("TRUTH"), "w");
        if (f) fclose(f);
    }
    return NULL;
}

static void child(void) {
    pid_t pid = fork();
    for (int i = 0; i < (pid ? 100 : 300); i++) {
        pthread_mutex_lock(&store.lock);
        pthread_mutex_unlock(&store.lock);
    }
    if (!pid) _exit(0);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    const char *scene = argc > 1 ? argv[1] : "";
    if (!strcmp(scene, "hot")) run(3, hot);
    else if (!strcmp(scene, "held")) held_always();
    else if (!strcmp(scene, "sleeping")) run(3, sleeping);
    else if (!strcmp(scene, "idle")) run(1, idle);
    else if (!strcmp(scene, "slow")) slow_turns();
    else if (!strcmp(scene, "passing")) run(2, passing);
    else if (!strcmp(scene, "beside")) desks(&desk.hits);
    else if (!strcmp(scene, "apart")) desks(&desk.far);
    else if (!strcmp(scene, "kinds")) kinds();
    else if (!strcmp(scene, "condition")) run(2, ping), wait_in_vain();
    else if (!strcmp(scene, "loop")) run(2, loop);
    else if (!strcmp(scene, "many")) many();
    else if (!strcmp(scene, "paths")) paths();
    else if (!strcmp(scene, "words")) words();
    else if (!strcmp(scene, "bucket")) run(5, hammer);
    else if (!strcmp(scene, "rate")) rate();
    else if (!strcmp(scene, "threads")) run(4, starts_threads);
    else if (!strcmp(scene, "child")) child();
    else if (!strcmp(scene, "forever")) run(2, forever);
    else if (!strcmp(scene, "killed")) {
        run(1, idle);
        raise(SIGKILL);
    } else {
        fprintf(stderr, "planted: no scene '%s'\n", scene);
        return 2;
    }
    truth.cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    write_truth();
    return 0;
}
