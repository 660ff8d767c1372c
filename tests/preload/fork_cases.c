// SPDX-License-Identifier: MIT
// fork_cases.c - fork with locks held and waited for, atfork handlers, and other ways to start a
// process. The repositories and numbers are those of the public reports.
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"
#include "shared.h"

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

// ------------------------------------------------------------------------- fork
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

// jart/cosmopolitan PR 1487: the waiters of the parent are not there in the child.
static void fork_with_waiters(void (*child_does)(pthread_mutex_t *)) {
    enum { WAITERS = 3 };
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    waiter_t w[WAITERS];
    pthread_mutex_lock(&m);
    waiters_wait(w, WAITERS, &m);
    pid_t child = fork();
    if (child == 0) {
        child_does(&m);
        _exit(0);
    }
    say("child=%d", finish_child(child));
    pthread_mutex_unlock(&m);
    waiters_join(w, WAITERS);
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
    waiter_t w;
    waiter_wait(&w, m);
    pthread_mutex_unlock(m);
    waiters_join(&w, 1);
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

// Perl 13687: two libraries with a mutex and handlers each; the order of the handlers is that of
// the locks.
static pthread_mutex_t outer = PTHREAD_MUTEX_INITIALIZER;
static void take_outer(void) { pthread_mutex_lock(&outer); }
static void leave_outer(void) { pthread_mutex_unlock(&outer); }
static void *use_both(void *unused) {
    while (!fork_stop) {
        pthread_mutex_lock(&outer);
        pthread_mutex_lock(&fork_mutex);
        fork_count++;
        pthread_mutex_unlock(&fork_mutex);
        pthread_mutex_unlock(&outer);
    }
    return unused;
}
SCENARIO(atfork_of_two_libraries) {
    pthread_atfork(before_fork, after_fork, after_fork);
    pthread_atfork(take_outer, leave_outer, leave_outer);  // prepare runs in reverse
    pthread_t t = start(use_both, NULL);
    fork_busily();
    pthread_join(t, NULL);
    say_result("try", in_thread(try_it, &outer));
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

