// SPDX-License-Identifier: MIT
// scenario.c - runs one scenario by name, or lists them; what scenarios share.
#include "scenario.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static scenario_t *first, **last = &first;

void scenario_add(scenario_t *s) {
    *last = s;
    last = &s->next;
}

void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar(' ');
    fflush(stdout);
}

void say_result(const char *what, int error) {
    say("%s=%s", what, error == 0 ? "0" : strerrorname_np(error));
}

void expect(bool truth, const char *what) {
    if (!truth) say("WRONG:%s", what);
}

pthread_t start(body_t body, void *arg) {
    pthread_t t;
    int error = pthread_create(&t, NULL, body, arg);
    if (error) {
        fprintf(stderr, "pthread_create: %s\n", strerror(error));
        exit(3);
    }
    return t;
}

typedef struct {
    int (*body)(void *);
    void *arg;
    int result;
} call_t;

static void *run_call(void *arg) {
    call_t *c = arg;
    c->result = c->body(c->arg);
    return NULL;
}

int in_thread(int (*body)(void *), void *arg) {
    call_t c = {body, arg, 0};
    pthread_join(start(run_call, &c), NULL);
    return c.result;
}

struct timespec after_ms(clockid_t clock, long ms) {
    struct timespec t;
    clock_gettime(clock, &t);
    long long ns = t.tv_sec * 1000000000LL + t.tv_nsec + ms * 1000000LL;
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

pid_t my_tid(void) { return (pid_t)syscall(SYS_gettid); }

static char state_of(pid_t tid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    FILE *f = fopen(path, "r");
    if (!f) return '?';
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *end = strrchr(text, ')');
    return end && end[1] ? end[2] : '?';
}

bool is_asleep(pid_t tid) { return state_of(tid) == 'S'; }

static long long burnt_ns(pthread_t t) {
    clockid_t clock;
    struct timespec now = {0, 0};
    if (pthread_getcpuclockid(t, &clock) == 0) clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void let_it_wait(pthread_t t, pid_t tid) {
    long long begin = burnt_ns(t);
    while (!is_asleep(tid) && burnt_ns(t) - begin < 1000000) sched_yield();
}

int main(int argc, char **argv) {
    if (argc != 2) {
        for (scenario_t *s = first; s; s = s->next) puts(s->name);
        return argc == 1 ? 0 : 2;
    }
    for (scenario_t *s = first; s; s = s->next) {
        if (strcmp(s->name, argv[1]) != 0) continue;
        s->run();
        puts("end");
        return 0;
    }
    fprintf(stderr, "scenarios: no scenario '%s'\n", argv[1]);
    return 2;
}
