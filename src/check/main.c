// SPDX-License-Identifier: MIT
// main.c - the process that is checked: options, crashes, and the loop over executions.
//
// The command builds the program with this as its main(); the program's own is renamed. Options
// come in HOTLOCK_CHECK, "name=value" separated by blanks; the report goes to the file that
// HOTLOCK_CHECK_REPORT names. Exit code: 0 nothing left to explore, 1 counterexample, 2 the
// program cannot be checked, 3 stopped before the end.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

options_t options = {.bound = MAX_EVENTS, .timers = true, .samples = 1000, .depth = 3,
                     .preemptions = -1, .marks = true};

// "ORDER,PC,PC..."
static void read_weakened(const char *v) {
    char *next;
    options.weak_order = (int)strtol(v, &next, 10);
    while (*next == ',' && options.weak_count < WEAK_MOST)
        options.weak_pc[options.weak_count++] = (uint32_t)strtoul(next + 1, &next, 16);
}

static void read_options(const char *text) {
    char copy[8192], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *v = strchr(w, '=');
        if (!v) continue;
        *v++ = '\0';
        if (!strcmp(w, "model"))
            model = !strcmp(v, "sc") ? MODEL_SC : !strcmp(v, "tso") ? MODEL_TSO : MODEL_C11;
        if (!strcmp(w, "bound")) options.bound = atoi(v);
        if (!strcmp(w, "expiries")) options.expiries = atoi(v);
        if (!strcmp(w, "spurious")) options.spurious = atoi(v);
        if (!strcmp(w, "sleeps")) options.sleeps = atoi(v);
        if (!strcmp(w, "weak_failures")) options.weak_failures = atoi(v);
        if (!strcmp(w, "loops")) options.loops = atoi(v);
        if (!strcmp(w, "search"))
            options.search = !strcmp(v, "random") ? SEARCH_RANDOM : !strcmp(v, "pct") ? SEARCH_PCT
                             : !strcmp(v, "plain") ? SEARCH_PLAIN : SEARCH_ALL;
        if (!strcmp(w, "preemptions")) options.preemptions = atoi(v);
        if (!strcmp(w, "samples")) options.samples = strtoull(v, NULL, 10);
        if (!strcmp(w, "more")) options.more = strtoull(v, NULL, 10);
        if (!strcmp(w, "seed")) options.seed = strtoull(v, NULL, 10);
        if (!strcmp(w, "depth")) options.depth = atoi(v);
        if (!strcmp(w, "keep")) options.keep_going = atoi(v);
        if (!strcmp(w, "sites")) options.sites = atoi(v);
        if (!strcmp(w, "weaken")) read_weakened(v);
        if (!strcmp(w, "marks")) options.marks = atoi(v);
        if (!strcmp(w, "timers")) options.timers = atoi(v);
        if (!strcmp(w, "seconds")) options.seconds = atof(v);
        if (options.bound > MAX_EVENTS) options.bound = MAX_EVENTS;
        if (!strcmp(w, "replay")) options.replay = strdup(v);
    }
}

// A crash of the program is a counterexample; a crash of ours is not caught twice.
static void crashed(int sig, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    if (current < 0) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    report_bad(BAD_CRASH, sig == SIGFPE ? "the program divided by zero or the like"
               : sig == SIGILL ? "the program ran into an illegal instruction"
                               : "the program used memory it does not have", 0, -1, 0);
}

static void catch_crashes(void) {
    static char stack[65536];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternative, NULL);
    struct sigaction act = {.sa_sigaction = crashed,
                            .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &act, NULL);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void note_bound(void) {
    if (!counts.bounded++) bound_spot = bound_now;
}

static bool several_threads;

static bool sampling(void) {
    return options.search == SEARCH_RANDOM || options.search == SEARCH_PCT;
}

static void tally(run_end_t end) {
    if (end == RUN_COMPLETE) counts.complete++;
    if (end == RUN_BLOCKED) counts.blocked++;
    if (end == RUN_STOPPED) counts.moot++;
    if (end == RUN_BOUND) note_bound();
    if (end != RUN_BAD) report_outcome(end == RUN_COMPLETE);
    several_threads = several_threads || g->threads != 1;
}

// The plain search goes on with the next execution, or with one preemption more.
static bool another_plain(void) {
    explore_begin();
    if (plain_next()) return true;
    if (plain_allowed() == options.preemptions || !counts.cut) return false;
    report_reset();
    plain_begin(plain_allowed() + 1);
    return true;
}

// Is there another execution to run?
static bool another(void) {
    if (options.replay) return false;
    if (options.search == SEARCH_ALL) return explore_next();
    if (options.search == SEARCH_PLAIN) return another_plain();
    uint64_t number = counts.runs;
    sample_begin(number);
    explore_begin();
    return number < options.samples;
}

int main(int argc, char **argv) {
    read_options(getenv("HOTLOCK_CHECK"));
    if (options.replay) options.search = SEARCH_ALL;
    if (options.replay || options.search != SEARCH_ALL) options.marks = false;
    report_init();
    shadow_init();
    run_init(argc, argv);
    catch_crashes();
    double start = now();
    bool out_of_time = false;
    do {
        report_reset();
        layout_changed = false;
        explore_begin();
        sample_begin(0);
        plain_begin(options.preemptions < 0 ? -1 : 0);
        if (options.replay) report_load(options.replay);
        do {
            tally(run_once());
            if (options.seconds > 0 && (sampling() || !(counts.runs & 1023)))
                out_of_time = now() - start > options.seconds;
        } while ((!found_bad || report_wants_more()) && !layout_changed && !out_of_time &&
                 another());
    } while (layout_changed && !found_bad && !options.replay);
    const char *why = found_bad ? "bad" : options.replay ? "replayed"
                      : sampling() && !out_of_time ? "sampled"
                      : out_of_time ? "time" : counts.bounded ? "bound" : !several_threads ? "alone"
                      : !counts.complete ? "nothing" : "complete";
    report_end(why, now() - start);
    bool clean = !strcmp(why, "complete");
    _exit(found_bad ? 1 : clean ? 0 : !strcmp(why, "alone") ? 2 : 3);
}
