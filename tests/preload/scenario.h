// SPDX-License-Identifier: MIT
// scenario.h - the frame of the preload's scenarios: small programs whose output is compared, cell
// by cell, between libc's own locks and each lock of the preload.
//
// A scenario is a function that says what it saw. It never says a time or anything else that
// may differ between two runs. A scenario that hangs, crashes or says something else than it does
// under libc is a defect of the preload.
#ifndef HOTLOCK_TESTS_SCENARIO_H
#define HOTLOCK_TESTS_SCENARIO_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct scenario {
    const char *name;
    void (*run)(void);
    struct scenario *next;
} scenario_t;

void scenario_add(scenario_t *s);

// A scenario registers itself before main.
#define SCENARIO(name_)                                                            \
    static void run_##name_(void);                                                 \
    __attribute__((constructor)) static void add_##name_(void) {                   \
        static scenario_t self = {#name_, run_##name_, 0};                         \
        scenario_add(&self);                                                       \
    }                                                                              \
    static void run_##name_(void)

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_result(const char *what, int error);  // "what=EBUSY"
void expect(bool truth, const char *what);     // says what, if it is not so

typedef void *(*body_t)(void *);
pthread_t start(body_t body, void *arg);
int in_thread(int (*body)(void *), void *arg);  // runs it in a thread of its own

// From now, by that clock; negative: in the past.
struct timespec after_ms(clockid_t clock, long ms);

bool is_asleep(pid_t tid);  // in the kernel

// Returns once the thread sleeps in the kernel, or has burnt a millisecond of processor time since
// the call (a lock that spins).
void let_it_wait(pthread_t t, pid_t tid);
pid_t my_tid(void);

#ifdef __cplusplus
}
#endif

#endif
