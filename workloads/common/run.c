/* SPDX-License-Identifier: MIT */
/* Starts the workers, watches them for the time asked, stops them, and has the result checked. */
#include "run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../src/cli/cli.h"
#include "../../src/cli/foreign.h"
#include "../../src/cli/stats.h"
#include "options.h"

enum { STUCK_SECONDS = 30 };

static struct run *running; /* for the signal handler */

/* What the workers and the main thread meet at; shared between processes too. */
struct start_line {
    pthread_barrier_t barrier;
    atomic_uint ended;
};
static struct start_line *line;

static void on_signal(int number)
{
    running->interrupted = number;
    atomic_store_explicit(&running->stop, true, memory_order_relaxed);
}

static void watch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        sigaction(ends[i], &action, NULL);
}

_Noreturn void run_broken(struct run *run, const char *format, ...)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&said)) /* another thread is already saying it */
        for (;;)
            pause();
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: lock '%s' does not exclude: ", run->workload->name, run->lock->name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    if (run->workload->cleanup)
        run->workload->cleanup(run);
    _exit(WORKLOAD_BROKEN);
}

_Noreturn void run_failed(struct run *run, const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", run->workload->name, what, strerror(errno));
    if (run->workload->cleanup)
        run->workload->cleanup(run);
    _exit(WORKLOAD_BROKEN);
}

/* ---------------------------------------------------------------- the workers */

static void usage_now(double *cpu, uint64_t *switches)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    *cpu = (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
    *switches = (uint64_t)(u.ru_nvcsw + u.ru_nivcsw);
}

static void *work(void *arg)
{
    struct worker *me = arg;
    double cpu;
    uint64_t switches;
    pthread_barrier_wait(&line->barrier);
    usage_now(&cpu, &switches);
    waits_start(&me->waits, me->index + 1);
    me->run->loop(me->run, me);
    waits_stop(&me->waits);
    me->ended = hl_now_ns();
    double cpu_end;
    uint64_t switches_end;
    usage_now(&cpu_end, &switches_end);
    me->cpu = cpu_end - cpu;
    me->switches = switches_end - switches;
    atomic_fetch_add(&line->ended, 1);
    return NULL;
}

static void make_workers(struct run *run)
{
    line = lines_new(sizeof(*line));
    pthread_barrierattr_t attr;
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&line->barrier, &attr, run->threads + 1);
    run->workers = lines_new(run->threads * sizeof(*run->workers));
    for (unsigned i = 0; i < run->threads; i++) {
        struct worker *w = run->workers[i] = lines_new(sizeof(*w));
        w->run = run;
        w->index = i;
        w->random = (i + 1) * 0x9e3779b97f4a7c15u;
    }
}

static void start_thread(struct run *run, struct worker *w, pthread_t *thread)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    errno = pthread_create(thread, &attr, work, w);
    if (errno)
        run_failed(run, "cannot start a thread");
    pthread_attr_destroy(&attr);
}

static void start_process(struct run *run, struct worker *w)
{
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        run_failed(run, "cannot start a process");
    if (child > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        work(w);
    _exit(0);
}

/* Signals go to the main thread: block them while the workers are made. */
static void start_workers(struct run *run, pthread_t *threads)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (unsigned i = 0; i < run->threads; i++) {
        if (run->processes)
            start_process(run, run->workers[i]);
        else
            start_thread(run, run->workers[i], &threads[i]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A worker process that failed has said why and will never reach the end. */
static void reap(struct run *run)
{
    int status;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        if (status == 0)
            continue;
        if (run->workload->cleanup)
            run->workload->cleanup(run);
        exit(WORKLOAD_BROKEN);
    }
}

/* The end must come: a waiter that nobody ever lets in is a broken lock, not a slow one. */
static void await_end(struct run *run, pthread_t *threads)
{
    unsigned seen = 0;
    uint64_t since = hl_now_ns();
    for (unsigned ended; (ended = atomic_load(&line->ended)) < run->threads;) {
        if (ended != seen) {
            seen = ended;
            since = hl_now_ns();
        }
        if (hl_now_ns() - since > STUCK_SECONDS * 1000000000ull)
            run_broken(run, "%u of %u threads still wait %d s after the end", run->threads - ended,
                       run->threads, STUCK_SECONDS);
        if (run->processes)
            reap(run);
        hl_nap(1000000);
    }
    for (unsigned i = 0; i < run->threads && !run->processes; i++)
        pthread_join(threads[i], NULL);
    while (run->processes && wait(NULL) > 0)
        ;
}

/* ---------------------------------------------------------------- watching them */

struct watch {
    uint64_t *before;    /* each worker's count at the last window */
    double *window;      /* and how much was done in this one */
    uint64_t second_ops; /* total at the last whole second */
    double jain_sum;
    unsigned ticks;
};

static void note_second(struct run *run, struct watch *watch, uint64_t total)
{
    if (run->seconds_count == run->seconds_room) {
        run->seconds_room = run->seconds_room ? 2 * run->seconds_room : 64;
        run->seconds_ops = cli_grow(run->seconds_ops, run->seconds_room, sizeof(uint64_t));
    }
    uint64_t count = total - watch->second_ops;
    watch->second_ops = total;
    run->seconds_ops[run->seconds_count++] = count;
    if (run->workload->prints_seconds && !run->json) {
        printf("%llu\n", (unsigned long long)count);
        fflush(stdout);
    }
}

static uint64_t read_window(struct run *run, struct watch *watch)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < run->threads; i++) {
        uint64_t ops = atomic_load_explicit(&run->workers[i]->ops, memory_order_relaxed);
        watch->window[i] = (double)(ops - watch->before[i]);
        watch->before[i] = ops;
        total += ops;
    }
    return total;
}

static void sleep_until(struct run *run, uint64_t when)
{
    struct timespec t = { (time_t)(when / 1000000000u), (long)(when % 1000000000u) };
    while (!run_stopping(run) && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

static void watch_workers(struct run *run)
{
    const uint64_t step = WORKLOAD_WINDOW_MS * 1000000ull;
    uint64_t end = run->begin_ns + (uint64_t)(run->seconds * 1e9);
    struct watch watch = {
        .before = cli_alloc(run->threads * sizeof(uint64_t)),
        .window = cli_alloc(run->threads * sizeof(double)),
    };
    uint64_t next = run->begin_ns;
    while (next < end && !run_stopping(run)) {
        bool whole = next + step <= end;
        next = whole ? next + step : end;
        sleep_until(run, next);
        uint64_t total = read_window(run, &watch);
        if (whole || run->windows == 0) {
            run->jain_windows += stats_jain(watch.window, run->threads);
            run->windows++;
        }
        if (whole && ++watch.ticks % (1000 / WORKLOAD_WINDOW_MS) == 0)
            note_second(run, &watch, total);
    }
    if (run->windows)
        run->jain_windows /= run->windows;
    free(watch.before);
    free(watch.window);
}

static uint64_t latest_end(const struct run *run)
{
    uint64_t latest = 0;
    for (unsigned i = 0; i < run->threads; i++)
        if (run->workers[i]->ended > latest)
            latest = run->workers[i]->ended;
    return latest;
}

static void measure(struct run *run)
{
    pthread_t *threads = cli_alloc(run->threads * sizeof(*threads));
    foreign_t foreign = { 0 };
    start_workers(run, threads);
    foreign_begin(&foreign);
    int64_t futexes = (int64_t)hl_load(&hl_wait_state.futex_calls);
    uint64_t begin_ticks = hl_ticks();
    run->begin_ns = hl_now_ns();
    pthread_barrier_wait(&line->barrier);
    watch_workers(run);
    run->finished = run_stopping(run) && !run->interrupted; /* the workers ended it themselves */
    run->end_ns = hl_now_ns();
    uint64_t ticks = hl_ticks() - begin_ticks;
    run->ns_per_tick = ticks ? (double)(run->end_ns - run->begin_ns) / (double)ticks : 1;
    run->ops = run_total(run);
    atomic_store_explicit(&run->stop, true, memory_order_relaxed);
    await_end(run, threads);
    run->last_ns = latest_end(run);
    if (run->finished) {
        run->end_ns = run->last_ns;
        run->ops = run_total(run);
    }
    double cpu = 0;
    for (unsigned i = 0; i < run->threads; i++)
        cpu += run->workers[i]->cpu;
    foreign_end(&foreign, cpu);
    run->foreign = foreign_share(&foreign);
    run->cpu = cpu / (1e-9 * (double)(run->last_ns - run->begin_ns));
    run->futex_calls = run->processes || run->lock->futex_hidden ? -1
        : (int64_t)hl_load(&hl_wait_state.futex_calls) - futexes;
    free(threads);
}

uint64_t run_total(const struct run *run)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < run->threads; i++)
        total += atomic_load_explicit(&run->workers[i]->ops, memory_order_relaxed);
    return total;
}

uint64_t run_sections(const struct run *run)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < run->threads; i++)
        total += run->workers[i]->sections;
    return total;
}

int workload_main(const struct workload *workload, void *data, int argc, char **argv)
{
    struct run parsed = { .workload = workload, .data = data };
    argv[0] = (char *)workload->name; /* who messages come from */
    options_parse(&parsed, argc, argv);
    if (parsed.processes)
        lines_share();
    struct run *run = running = lines_new(sizeof(*run));
    *run = parsed;
    make_workers(run);
    watch_signals();
    if (workload->setup)
        workload->setup(run);
    if (run->seconds == 0)
        run->seconds = 1;
    if (!run->interrupted)
        measure(run);
    if (!run->interrupted)
        workload->check(run);
    if (workload->cleanup)
        workload->cleanup(run);
    if (run->end_ns)
        (run->json ? report_json : report_text)(run);
    free(run->seconds_ops);
    return run->interrupted ? 128 + run->interrupted : 0;
}
