// SPDX-License-Identifier: MIT
// rwlock_cases.c - reader-writer locks: results, error codes, and what has broken them in public.
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"
#include "shared.h"

// ------------------------------------------------------------------------- from another thread
static int try_read(void *rw) {
    int error = pthread_rwlock_tryrdlock(rw);
    if (!error) pthread_rwlock_unlock(rw);
    return error;
}
static int try_write(void *rw) {
    int error = pthread_rwlock_trywrlock(rw);
    if (!error) pthread_rwlock_unlock(rw);
    return error;
}

typedef struct {
    pthread_rwlock_t *rw;
    clockid_t clock;
    struct timespec at;
} call_t;
static int done(pthread_rwlock_t *rw, int error) {
    if (!error) pthread_rwlock_unlock(rw);
    return error;
}
static int timed_read(void *arg) {
    call_t *c = arg;
    return done(c->rw, pthread_rwlock_timedrdlock(c->rw, &c->at));
}
static int timed_write(void *arg) {
    call_t *c = arg;
    return done(c->rw, pthread_rwlock_timedwrlock(c->rw, &c->at));
}
static int clock_read(void *arg) {
    call_t *c = arg;
    return done(c->rw, pthread_rwlock_clockrdlock(c->rw, c->clock, &c->at));
}
static int clock_write(void *arg) {
    call_t *c = arg;
    return done(c->rw, pthread_rwlock_clockwrlock(c->rw, c->clock, &c->at));
}

static void timed_forms(pthread_rwlock_t *rw, const char *state) {
    timed_case_t calls[TIMED_CASES];
    timed_cases(calls);
    say("[%s", state);
    for (size_t i = 0; i < TIMED_CASES; i++) {
        call_t c = {rw, calls[i].clock, calls[i].at};
        if (c.clock == CLOCK_REALTIME) {
            say_result(calls[i].name, in_thread(timed_read, &c));
            say_result("write", in_thread(timed_write, &c));
        }
        say_result(calls[i].name, in_thread(clock_read, &c));
        say_result("write", in_thread(clock_write, &c));
    }
    say("]");
}

// ------------------------------------------------------------------------- one life
static void as_writer(pthread_rwlock_t *rw) {
    struct timespec soon = after_ms(CLOCK_REALTIME, 5);
    say_result("wrlock", pthread_rwlock_wrlock(rw));
    say_result("again", pthread_rwlock_wrlock(rw));
    say_result("read-own", pthread_rwlock_rdlock(rw));
    say_result("try-own", pthread_rwlock_trywrlock(rw));
    say_result("tryrd-own", pthread_rwlock_tryrdlock(rw));
    say_result("timed-own", pthread_rwlock_timedwrlock(rw, &soon));
    say_result("timedrd-own", pthread_rwlock_timedrdlock(rw, &soon));
    say_result("tryrd", in_thread(try_read, rw));
    say_result("trywr", in_thread(try_write, rw));
    timed_forms(rw, "written");
    say_result("unlock", pthread_rwlock_unlock(rw));
}

static void as_reader(pthread_rwlock_t *rw) {
    say_result("rdlock", pthread_rwlock_rdlock(rw));
    say_result("rdlock", pthread_rwlock_rdlock(rw));
    say_result("tryrd", pthread_rwlock_tryrdlock(rw));
    say_result("tryrd", in_thread(try_read, rw));
    say_result("trywr", in_thread(try_write, rw));
    say_result("trywr-own", pthread_rwlock_trywrlock(rw));
    timed_forms(rw, "read");
    for (int i = 0; i < 3; i++) say_result("unlock", pthread_rwlock_unlock(rw));
    say_result("trywr", in_thread(try_write, rw));
    say_result("tryrd", in_thread(try_read, rw));
    timed_forms(rw, "free");
}

static void life(pthread_rwlock_t *rw) {
    as_writer(rw);
    as_reader(rw);
    as_writer(rw);
    say_result("destroy", pthread_rwlock_destroy(rw));
    say_result("init", pthread_rwlock_init(rw, NULL));
    as_reader(rw);
    say_result("destroy", pthread_rwlock_destroy(rw));
}

static void make(pthread_rwlock_t *rw, int kind, int shared) {
    pthread_rwlockattr_t a;
    memset(rw, 0xff, sizeof *rw);  // init must not read what is there
    pthread_rwlockattr_init(&a);
    say_result("setkind", pthread_rwlockattr_setkind_np(&a, kind));
    say_result("setpshared", pthread_rwlockattr_setpshared(&a, shared));
    say_result("init", pthread_rwlock_init(rw, &a));
    pthread_rwlockattr_destroy(&a);
}

static void life_with(int kind, int shared) {
    pthread_rwlock_t *rw = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                -1, 0);
    make(rw, kind, shared);
    life(rw);
    munmap(rw, 4096);
}

#define READER PTHREAD_RWLOCK_PREFER_READER_NP
#define WRITER PTHREAD_RWLOCK_PREFER_WRITER_NP
#define STRICT PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP

SCENARIO(rwlock_static) {
    static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    life(&rw);
}
SCENARIO(rwlock_static_strict) {
    static pthread_rwlock_t rw = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    life(&rw);
}
SCENARIO(rwlock_zeroed) {
    pthread_rwlock_t *rw = calloc(1, sizeof *rw);
    life(rw);
    free(rw);
}
SCENARIO(rwlock_prefer_reader) { life_with(READER, PTHREAD_PROCESS_PRIVATE); }
SCENARIO(rwlock_prefer_writer) { life_with(WRITER, PTHREAD_PROCESS_PRIVATE); }
SCENARIO(rwlock_strict) { life_with(STRICT, PTHREAD_PROCESS_PRIVATE); }
SCENARIO(rwlock_shared) { life_with(READER, PTHREAD_PROCESS_SHARED); }
SCENARIO(rwlock_shared_strict) { life_with(STRICT, PTHREAD_PROCESS_SHARED); }
SCENARIO(rwlock_bad_kind) { life_with(99, 77); }

// ------------------------------------------------------------------------- waiting
static int lock_to_read(void *rw) { return pthread_rwlock_rdlock(rw); }
static int lock_to_write(void *rw) { return pthread_rwlock_wrlock(rw); }
static int unlock_it(void *rw) { return pthread_rwlock_unlock(rw); }
static pthread_t begin_to_wait(waiter_t *w, pthread_rwlock_t *rw, bool write) {
    waiter_begin(w, write ? lock_to_write : lock_to_read, unlock_it, rw);
    return w->thread;
}
static pthread_t let_wait(waiter_t *w, pthread_rwlock_t *rw, bool write) {
    begin_to_wait(w, rw, write);
    let_it_wait(w->thread, w->tid);
    return w->thread;
}

// dashmap 195, openssl PR 10501: who reads may read again while a writer waits.
static void read_again(int kind, bool again) {
    pthread_rwlock_t rw;
    waiter_t w;
    make(&rw, kind, PTHREAD_PROCESS_PRIVATE);
    pthread_rwlock_rdlock(&rw);
    pthread_t t = let_wait(&w, &rw, true);
    if (again) {
        say_result("again", pthread_rwlock_rdlock(&rw));
        say_result("again", pthread_rwlock_tryrdlock(&rw));
        pthread_rwlock_unlock(&rw);
        pthread_rwlock_unlock(&rw);
    }
    say_result("other-try", in_thread(try_read, &rw));
    say_result("trywr", in_thread(try_write, &rw));
    say_result("unlock", pthread_rwlock_unlock(&rw));
    pthread_join(t, NULL);
    say_result("trywr", in_thread(try_write, &rw));
}
SCENARIO(rwlock_again_reader) { read_again(READER, true); }
SCENARIO(rwlock_again_writer) { read_again(WRITER, true); }
SCENARIO(rwlock_again_strict) { read_again(STRICT, false); }

// A reader that another reader waits for must get in past the writer that waits.
static int read_it(void *rw) {
    int error = pthread_rwlock_rdlock(rw);
    if (!error) pthread_rwlock_unlock(rw);
    return error;
}
SCENARIO(rwlock_reader_waits_for_reader) {
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    waiter_t w;
    pthread_rwlock_rdlock(&rw);
    pthread_t t = let_wait(&w, &rw, true);
    say_result("other", in_thread(read_it, &rw));
    pthread_rwlock_unlock(&rw);
    pthread_join(t, NULL);
}

// Many wait both ways; all get their turn.
SCENARIO(rwlock_all_get_in) {
    enum { WAITERS = 8 };
    static const int kinds[] = {READER, WRITER, STRICT};
    for (int k = 0; k < 3; k++) {
        pthread_rwlock_t rw;
        waiter_t w[WAITERS];
        pthread_t t[WAITERS];
        make(&rw, kinds[k], PTHREAD_PROCESS_PRIVATE);
        pthread_rwlock_wrlock(&rw);
        for (int i = 0; i < WAITERS; i++) t[i] = let_wait(&w[i], &rw, i % 2);
        pthread_rwlock_unlock(&rw);
        for (int i = 0; i < WAITERS; i++) pthread_join(t[i], NULL);
        say_result("trywr", in_thread(try_write, &rw));
    }
}

// A writer gets in though readers never leave the lock empty (libc's third kind promises it).
static _Atomic bool written;
static void *read_until_written(void *rw) {
    while (!written) {
        pthread_rwlock_rdlock(rw);
        sched_yield();
        pthread_rwlock_unlock(rw);
    }
    return NULL;
}
SCENARIO(rwlock_writer_is_not_starved) {
    pthread_rwlock_t rw;
    pthread_t t[4];
    make(&rw, STRICT, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < 4; i++) t[i] = start(read_until_written, &rw);
    for (int i = 0; i < 20; i++) {
        pthread_rwlock_wrlock(&rw);
        pthread_rwlock_unlock(&rw);
    }
    written = true;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    say("written");
}

static int patient(void *rw) {
    int early = 0;
    for (int i = 0; i < 10; i++) {
        struct timespec wall = after_ms(CLOCK_REALTIME, 3), mono = after_ms(CLOCK_MONOTONIC, 6), now;
        early += pthread_rwlock_timedrdlock(rw, &wall) != ETIMEDOUT;
        clock_gettime(CLOCK_REALTIME, &now);
        early += now.tv_sec < wall.tv_sec ||
                 (now.tv_sec == wall.tv_sec && now.tv_nsec < wall.tv_nsec);
        early += pthread_rwlock_clockwrlock(rw, CLOCK_MONOTONIC, &mono) != ETIMEDOUT;
        clock_gettime(CLOCK_MONOTONIC, &now);
        early += now.tv_sec < mono.tv_sec ||
                 (now.tv_sec == mono.tv_sec && now.tv_nsec < mono.tv_nsec);
    }
    return early;
}
SCENARIO(rwlock_waits_its_time) {
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_wrlock(&rw);
    say("early=%d", in_thread(patient, &rw));
    pthread_rwlock_unlock(&rw);
    say_result("trywr", in_thread(try_write, &rw));
}

// A writer that gives up must let in the readers that stood aside for it.
static void *write_briefly(void *rw) {
    struct timespec soon = after_ms(CLOCK_MONOTONIC, 30);
    say_result("write", pthread_rwlock_clockwrlock(rw, CLOCK_MONOTONIC, &soon));
    return NULL;
}
SCENARIO(rwlock_writer_gives_up) {
    pthread_rwlock_t rw;
    waiter_t w[3];
    pthread_t t[3];
    make(&rw, STRICT, PTHREAD_PROCESS_PRIVATE);
    pthread_rwlock_rdlock(&rw);
    pthread_t writer = start(write_briefly, &rw);
    for (int i = 0; i < 3; i++) t[i] = begin_to_wait(&w[i], &rw, false);
    pthread_join(writer, NULL);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    pthread_rwlock_unlock(&rw);
    say_result("trywr", in_thread(try_write, &rw));
}

// ------------------------------------------------------------------------- exclusion
enum { SECTIONS = 6000 };
typedef struct {
    pthread_rwlock_t rw;
    long first, second, torn;
    int writes;  // one section in so many
} halves_t;

static void *mix(void *arg) {  // rippled 3663, openucx PR 6619: every way to lock
    halves_t *s = arg;
    for (int i = 0; i < SECTIONS; i++) {
        struct timespec later = after_ms(CLOCK_MONOTONIC, 60000), soon = after_ms(CLOCK_REALTIME, 0);
        bool write = i % s->writes == 0;
        switch (i / s->writes % 4) {
        case 0: if (write) pthread_rwlock_wrlock(&s->rw); else pthread_rwlock_rdlock(&s->rw); break;
        case 1:
            while (write ? pthread_rwlock_trywrlock(&s->rw) : pthread_rwlock_tryrdlock(&s->rw))
                sched_yield();
            break;
        case 2:
            if (write) pthread_rwlock_clockwrlock(&s->rw, CLOCK_MONOTONIC, &later);
            else pthread_rwlock_clockrdlock(&s->rw, CLOCK_MONOTONIC, &later);
            break;
        default:
            while (write ? pthread_rwlock_timedwrlock(&s->rw, &soon)
                         : pthread_rwlock_timedrdlock(&s->rw, &soon)) {
                soon = after_ms(CLOCK_REALTIME, 1);
            }
        }
        if (write) {
            s->first++;
            if (i % 64 == 0) sched_yield();
            s->second++;
        } else if (s->first != s->second) {
            s->torn++;
        }
        pthread_rwlock_unlock(&s->rw);
    }
    return NULL;
}

static void count_with(int kind, int writes) {
    halves_t s = {.writes = writes};
    make(&s.rw, kind, PTHREAD_PROCESS_PRIVATE);
    all_count(mix, &s);
    say("counted=%ld torn=%ld", s.second, s.torn);
}
SCENARIO(rwlock_exclusion_writers) { count_with(READER, 1); }
SCENARIO(rwlock_exclusion_half) { count_with(READER, 2); }
SCENARIO(rwlock_exclusion_readers) { count_with(READER, 100); }
SCENARIO(rwlock_exclusion_strict) { count_with(STRICT, 10); }

// Writers that mostly give up, among readers: a reader let in twice before it noticed went out more
// often than it came in.
static void *write_or_give_up(void *arg) {
    halves_t *s = arg;
    for (int i = 0; i < 3000; i++) {
        struct timespec soon;
        clock_gettime(CLOCK_MONOTONIC, &soon);
        soon.tv_nsec += 5000;
        if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
        if (pthread_rwlock_clockwrlock(&s->rw, CLOCK_MONOTONIC, &soon)) continue;
        s->first++;
        s->second++;
        pthread_rwlock_unlock(&s->rw);
    }
    return NULL;
}
static void *read_on(void *arg) {
    halves_t *s = arg;
    for (int i = 0; i < 3000; i++) {
        pthread_rwlock_rdlock(&s->rw);
        if (s->first != s->second) s->torn++;
        if (i % 16 == 0) sched_yield();
        pthread_rwlock_unlock(&s->rw);
    }
    return NULL;
}
static void give_up_among_readers(int kind) {
    halves_t s = {.writes = 0};
    pthread_t t[8];
    make(&s.rw, kind, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < 8; i++) t[i] = start(i % 2 ? write_or_give_up : read_on, &s);
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    say("torn=%ld", s.torn);
    say_result("trywr", in_thread(try_write, &s.rw));
}
SCENARIO(rwlock_writers_give_up) { give_up_among_readers(READER); }
SCENARIO(rwlock_writers_give_up_strict) { give_up_among_readers(STRICT); }

SCENARIO(rwlock_across_processes) {
    halves_t *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make(&s->rw, READER, PTHREAD_PROCESS_SHARED);
    s->writes = 1;
    pid_t child = fork();
    mix(s);
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    say("both=%ld", s->second);
}

// The last user frees the lock: unlock must not touch it after giving it up.
typedef struct {
    pthread_rwlock_t rw;
    _Atomic int users;
} object_t;
enum { DROPS = 3000, DROPPERS = 3 };
static object_t *objects[DROPS];
static pthread_barrier_t together;
static void *drop_all(void *unused) {
    for (int i = 0; i < DROPS; i++) {
        if (i % 32 == 0) pthread_barrier_wait(&together);
        object_t *o = objects[i];
        pthread_rwlock_wrlock(&o->rw);
        int left = --o->users;
        pthread_rwlock_unlock(&o->rw);
        if (left) continue;
        pthread_rwlock_destroy(&o->rw);
        munmap(o, 4096);
    }
    return unused;
}
SCENARIO(rwlock_last_user_frees) {
    pthread_t t[DROPPERS];
    pthread_barrier_init(&together, NULL, DROPPERS);
    for (int i = 0; i < DROPS; i++) {
        objects[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        objects[i]->users = DROPPERS;
    }
    for (int i = 0; i < DROPPERS; i++) t[i] = start(drop_all, NULL);
    for (int i = 0; i < DROPPERS; i++) pthread_join(t[i], NULL);
    say("freed");
}

SCENARIO(rwlock_many) {
    enum { MANY = 20000 };
    pthread_rwlock_t *rw = calloc(MANY, sizeof *rw);
    for (int i = 0; i < MANY; i++) {
        if (i % 2) pthread_rwlock_wrlock(&rw[i]);
        else pthread_rwlock_rdlock(&rw[i]);
    }
    int busy = 0;
    for (int i = 0; i < MANY; i++) busy += pthread_rwlock_trywrlock(&rw[i]) == EBUSY;
    for (int i = 0; i < MANY; i++) pthread_rwlock_unlock(&rw[i]);
    int free_ = 0;
    for (int i = 0; i < MANY; i++) free_ += pthread_rwlock_trywrlock(&rw[i]) == 0;
    say("busy=%d free=%d", busy, free_);
    free(rw);
}

// ------------------------------------------------------------------------- fork
static void fork_holding(bool write, bool waiters) {
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    waiter_t w[4];
    pthread_t t[4];
    if (write) pthread_rwlock_wrlock(&rw);
    else pthread_rwlock_rdlock(&rw);
    // Behind a reader only writers wait.
    for (int i = 0; waiters && i < 4; i++) t[i] = let_wait(&w[i], &rw, !write || i % 2);
    pid_t child = fork();
    if (child == 0) {
        int bad = in_thread(try_write, &rw) != EBUSY;
        if (write) bad += in_thread(try_read, &rw) != EBUSY;
        // libc's child gets rid neither of the parent's waiters nor of its own writer's id.
        if (!waiters && !write) {
            bad += pthread_rwlock_unlock(&rw) != 0;
            bad += in_thread(try_write, &rw) != 0;
            bad += pthread_rwlock_wrlock(&rw) != 0;
            bad += in_thread(try_read, &rw) != EBUSY;
            bad += pthread_rwlock_unlock(&rw) != 0;
            bad += in_thread(try_read, &rw) != 0;
        }
        _exit(bad);
    }
    say("child=%d", finish_child(child));
    pthread_rwlock_unlock(&rw);
    for (int i = 0; waiters && i < 4; i++) pthread_join(t[i], NULL);
    say_result("trywr", in_thread(try_write, &rw));
}
SCENARIO(rwlock_fork_reading) { fork_holding(false, false); }
SCENARIO(rwlock_fork_writing) { fork_holding(true, false); }
SCENARIO(rwlock_fork_reading_waiters) { fork_holding(false, true); }
SCENARIO(rwlock_fork_writing_waiters) { fork_holding(true, true); }

static halves_t fork_shared = {.rw = PTHREAD_RWLOCK_INITIALIZER, .writes = 50};
static void before_fork(void) { pthread_rwlock_wrlock(&fork_shared.rw); }
static void after_fork(void) { pthread_rwlock_unlock(&fork_shared.rw); }
static void child_reinit(void) { pthread_rwlock_init(&fork_shared.rw, NULL); }
SCENARIO(rwlock_atfork) {
    pthread_t t[3];
    int bad = 0;
    pthread_atfork(before_fork, after_fork, child_reinit);
    for (int i = 0; i < 3; i++) t[i] = start(mix, &fork_shared);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int k = 0; k < 100; k++) {
                pthread_rwlock_wrlock(&fork_shared.rw);
                pthread_rwlock_unlock(&fork_shared.rw);
                pthread_rwlock_rdlock(&fork_shared.rw);
                pthread_rwlock_unlock(&fork_shared.rw);
            }
            _exit(0);
        }
        bad += finish_child(child) != 0;
    }
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    say("bad=%d torn=%ld", bad, fork_shared.torn);
}

// ------------------------------------------------------------------------- signals, cancellation
static void *lock_while_cancelled(void *arg) {
    halves_t *s = arg;
    pthread_cancel(pthread_self());
    for (int i = 0; i < 300; i++) {
        if (i % 3) pthread_rwlock_rdlock(&s->rw);
        else pthread_rwlock_wrlock(&s->rw);
        long was = s->first;
        if (i % 4 == 0) sched_yield();
        if (i % 3 == 0) s->first = was + 1;
        pthread_rwlock_unlock(&s->rw);
    }
    pthread_testcancel();
    return NULL;
}
SCENARIO(rwlock_is_no_cancellation_point) {
    halves_t s = {.rw = PTHREAD_RWLOCK_INITIALIZER};
    pthread_t t[4];
    for (int i = 0; i < 4; i++) t[i] = start(lock_while_cancelled, &s);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    say("counted=%ld", s.first);
}

static pthread_rwlock_t handler_rw = PTHREAD_RWLOCK_INITIALIZER;
static void read_in_handler(int unused) {
    (void)unused;
    int saved = errno;
    if (pthread_rwlock_tryrdlock(&handler_rw) == 0) pthread_rwlock_unlock(&handler_rw);
    errno = saved;
}
static void *be_interrupted(void *arg) {
    halves_t *s = arg;
    for (int i = 0; i < 2000; i++) {
        if (i % 2) pthread_rwlock_rdlock(&s->rw);
        else pthread_rwlock_wrlock(&s->rw), s->first++;
        pthread_rwlock_unlock(&s->rw);
        if (i % 5 == 0) raise(SIGUSR1);
    }
    return NULL;
}
SCENARIO(rwlock_handler_that_reads) {
    halves_t s = {.rw = PTHREAD_RWLOCK_INITIALIZER};
    struct sigaction action = {.sa_handler = read_in_handler};
    pthread_t t[4];
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 4; i++) t[i] = start(be_interrupted, &s);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    say("counted=%ld", s.first);
}

SCENARIO(rwlock_old_names) {
#if defined(__x86_64__)
    extern int old_wrlock(pthread_rwlock_t *), old_rdlock(pthread_rwlock_t *);
    extern int old_tryrdlock(pthread_rwlock_t *), old_unlock(pthread_rwlock_t *);
    __asm__(".symver old_wrlock, __pthread_rwlock_wrlock@GLIBC_2.2.5\n"
            ".symver old_rdlock, __pthread_rwlock_rdlock@GLIBC_2.2.5\n"
            ".symver old_tryrdlock, __pthread_rwlock_tryrdlock@GLIBC_2.2.5\n"
            ".symver old_unlock, __pthread_rwlock_unlock@GLIBC_2.2.5\n");
    pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
    say_result("wrlock", old_wrlock(&rw));
    say_result("tryrd", in_thread(try_read, &rw));
    say_result("unlock", pthread_rwlock_unlock(&rw));
    say_result("rdlock", old_rdlock(&rw));
    say_result("tryrd", old_tryrdlock(&rw));
    say_result("trywr", in_thread(try_write, &rw));
    say_result("unlock", old_unlock(&rw));
    say_result("unlock", old_unlock(&rw));
    say_result("trywr", in_thread(try_write, &rw));
#endif
}
