/* SPDX-License-Identifier: MIT */
/*
 * The frame of every workload: options, threads, clock, what the threads found, the report.
 *
 * A workload declares itself in a struct workload and calls workload_main(). Its worker loop is
 * compiled once per lock (locks/each.h) and runs until run_stopping(). After each unit of work
 * it publishes the count in its own line; the main thread reads these every 100 ms, so the
 * workers never share anything but what the workload is about.
 */
#ifndef WORKLOADS_RUN_H
#define WORKLOADS_RUN_H

#include <argp.h>
#include <hotlock/wait.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../locks/locks.h"
#include "waits.h"

enum {
    WORKLOAD_THREADS_MOST = 1024,
    WORKLOAD_BROKEN = 1, /* exit code: mutual exclusion was broken, or the machine said no */
    WORKLOAD_WINDOW_MS = 100
};

struct run;

struct worker {
    _Alignas(128) atomic_uint_fast64_t ops; /* published after each unit of work */
    _Alignas(128) struct run *run;
    unsigned index;
    uint64_t random;
    uint64_t sections; /* times it held the lock */
    uint64_t ended; /* ns */
    double cpu;        /* seconds */
    uint64_t switches; /* voluntary and not */
    struct waits waits;
    _Alignas(128) char end[];
};

typedef void (*worker_fn)(struct run *run, struct worker *me);

/* A worker loop and the name of the lock it is compiled around. */
struct loop {
    const char *lock;
    worker_fn fn;
};

struct workload {
    const char *name;
    const char *about;              /* one paragraph for --help */
    const char *unit;               /* what an op is, plural */
    const struct argp_option *options; /* its own, beside the common ones */
    error_t (*option)(int key, char *arg, struct argp_state *state); /* input: struct run * */
    const struct loop *loops;
    size_t loop_count;
    void (*setup)(struct run *run); /* before the threads start */
    /* After they ended: is what the lock protects as it must be? If not: run_broken(). */
    void (*check)(struct run *run);
    void (*cleanup)(struct run *run); /* whatever happened */
    void (*report)(const struct run *run); /* more lines of text, or NULL */
    bool forms;                       /* has --form */
    bool every_lock;                  /* without --lock it does not choose one */
    bool prints_seconds;              /* a line each second */
};

struct run {
    _Alignas(128) atomic_bool stop;
    _Alignas(128) const struct workload *workload;
    const struct lock_info *lock;
    worker_fn loop;
    unsigned threads;
    double seconds; /* 0: not given */
    bool json;
    bool closures;  /* sections are functions, run by LOCK_RUN where the lock has it */
    bool processes; /* workers are processes, not threads */
    const char *wait; /* wait policy forced on our locks, or NULL */
    void *data;     /* the workload's */
    struct worker **workers;
    /* Filled while it runs. */
    uint64_t begin_ns, end_ns; /* the time measured */
    uint64_t last_ns; /* when the last worker was out: CPU time and calls count until then */
    double ns_per_tick;
    uint64_t ops;   /* when the time was up */
    uint64_t *seconds_ops; /* ops in each whole second */
    unsigned seconds_count, seconds_room;
    double jain_windows;
    unsigned windows;
    double cpu, foreign;  /* in processors */
    int64_t futex_calls;
    bool finished;   /* the workers had done all they were to do before the time was up */
    int interrupted; /* signal number */
};

static inline bool run_stopping(struct run *run)
{
    return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

static inline void run_publish(struct worker *me, uint64_t ops)
{
    atomic_store_explicit(&me->ops, ops, memory_order_relaxed);
}

/* A cheap random number; the high bits are the good ones. */
static inline uint32_t run_random(struct worker *me)
{
    me->random = me->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(me->random >> 33);
}

int workload_main(const struct workload *workload, void *data, int argc, char **argv);

/* What a worker, setup or check calls when the lock did not exclude: says so and ends with 1. */
_Noreturn void run_broken(struct run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The machine refused something (errno); ends with 1. */
_Noreturn void run_failed(struct run *run, const char *what);

/* Sums over the workers: times the lock was held, units of work. */
uint64_t run_sections(const struct run *run);
uint64_t run_total(const struct run *run);

void report_text(const struct run *run);
void report_json(const struct run *run);

#endif
