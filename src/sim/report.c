// SPDX-License-Identifier: MIT
// report.c - what a run of one seed found, as JSON in the file the command named.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

enum { PLACES = 4096, STEPS = 8, BUCKETS = 62 * STEPS };

counts_t counts;
static place_t place[PLACES];                 // open addressing by pc
static uint64_t bucket[BUCKETS];              // waits, 8 steps per power of two
static uint64_t sections[MAX_THREADS];
static uintptr_t crashed_at;

// ------------------------------------------------------------------------- counting
void report_move(uintptr_t pc, near_t how, ps_t time) {
    counts.moves[how]++;
    unsigned at = (unsigned)((pc * 0x9e3779b97f4a7c15u) >> 40) % PLACES;
    for (int tries = 0; tries < 64; tries++, at = (at + 1) % PLACES) {
        if (place[at].pc && place[at].pc != pc) continue;
        place[at].pc = pc;
        place[at].moves[how]++;
        place[at].time += time;
        return;
    }
}

static unsigned bucket_of(uint64_t ns) {
    if (ns < STEPS) return (unsigned)ns;
    unsigned log = 63 - (unsigned)__builtin_clzll(ns);
    return (log - 2) * STEPS + (unsigned)(ns >> (log - 3) & (STEPS - 1));
}

static uint64_t bucket_top(unsigned b) {
    if (b < STEPS) return b;
    unsigned log = b / STEPS + 2;
    return ((uint64_t)1 << log) + (b % STEPS + 1) * ((uint64_t)1 << (log - 3)) - 1;
}

ps_t report_asks(void) { return self ? self->cpu->now : 0; }

void report_got(ps_t asked) {
    if (!self) return;
    ps_t waited = self->cpu->now - asked;
    bucket[bucket_of(waited / 1000)]++;
    counts.waits++;
    if (waited > counts.wait_most) counts.wait_most = waited;
    sections[self->id]++;
}

static uint64_t quantile(double q) {
    uint64_t wanted = (uint64_t)(q * (double)counts.waits), seen = 0;
    for (unsigned b = 0; b < BUCKETS; b++)
        if ((seen += bucket[b]) > wanted) return bucket_top(b);
    return counts.wait_most / 1000;
}

// ------------------------------------------------------------------------- writing
static void text(FILE *f, const char *key, const char *value) {
    fprintf(f, "\"%s\":\"", key);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\') fputc('\\', f);
        fputc((unsigned char)*value < 0x20 ? ' ' : *value, f);
    }
    fputs("\",", f);
}

static void number(FILE *f, const char *key, uint64_t value) {
    fprintf(f, "\"%s\":%" PRIu64 ",", key, value);
}

static void moves(FILE *f, const uint64_t *m) {
    fputs("\"moves\":[", f);
    for (int i = 0; i < NEARS; i++) fprintf(f, "%s%" PRIu64, i ? "," : "", m[i]);
    fputs("],", f);
}

static void write_places(FILE *f) {
    bool first = true;
    fputs("\"places\":[", f);
    for (int i = 0; i < PLACES; i++) {
        if (!place[i].pc) continue;
        fprintf(f, "%s{", first ? "" : ",");
        moves(f, place[i].moves);
        number(f, "ns", place[i].time / 1000);
        fprintf(f, "\"pc\":%" PRIuPTR "}", place[i].pc);
        first = false;
    }
    fputs("],", f);
}

static void write_threads(FILE *f) {
    static const char *const states[] = {"ready", "running", "asleep", "ended"};
    fputs("\"threads\":[", f);
    for (int i = 0; i < thread_count; i++) {
        const thread_t *t = threads[i];
        fprintf(f, "%s{", i ? "," : "");
        text(f, "state", t->parked ? "waiting" : states[t->state]);
        number(f, "cpu", (uint64_t)t->cpu->id);
        number(f, "sections", sections[i]);
        fputs("\"calls\":[", f);
        int depth = t->depth < MAX_CALLS ? t->depth : MAX_CALLS;
        uintptr_t in = t->parked ? t->loop.pc : t == self ? crashed_at : 0;
        for (int k = 0; k < depth; k++) fprintf(f, "%s%" PRIuPTR, k ? "," : "", t->calls[k]);
        if (in) fprintf(f, "%s%" PRIuPTR, depth ? "," : "", in);
        fputs("]}", f);
    }
    fputs("]}\n", f);
}

static void write_times(FILE *f) {
    ps_t ran = 0, spun = 0, now = 0;
    for (int i = 0; i < thread_count; i++) {
        const thread_t *t = threads[i];
        ran += t->ran;
        spun += t->spun;
        if (t->state == THREAD_RUNNING) ran += t->cpu->now - t->cpu->run_since;
    }
    for (int i = 0; i < cpu_count; i++)
        if (cpus[i].now > now) now = cpus[i].now;
    number(f, "simulated_ns", (self ? self->cpu->now : now) / 1000);
    number(f, "ran_ns", ran / 1000);
    number(f, "spun_ns", spun / 1000);
}

static void write_report(FILE *f, const char *end, const char *what, int status) {
    fputc('{', f);
    text(f, "end", end);
    text(f, "what", what);
    number(f, "status", (uint64_t)status);
    number(f, "seed", settings.seed);
    write_times(f);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    fprintf(f, "\"host_s\":%.6f,", (double)clock() / CLOCKS_PER_SEC);
    number(f, "peak_kib", (uint64_t)used.ru_maxrss);
    number(f, "loads", counts.loads);
    number(f, "stores", counts.stores);
    number(f, "changes", counts.changes);
    number(f, "plain", counts.plain);
    number(f, "skipped", counts.skipped);
    number(f, "events", counts.events);
    number(f, "switches", counts.switches);
    number(f, "preempted", counts.preempted);
    number(f, "migrated", counts.migrated);
    number(f, "wakes", counts.wakes);
    number(f, "fetched", counts.fetched);
    moves(f, counts.moves);
    number(f, "waits", counts.waits);
    number(f, "wait_p50_ns", quantile(0.5));
    number(f, "wait_p99_ns", quantile(0.99));
    number(f, "wait_p999_ns", quantile(0.999));
    number(f, "wait_max_ns", counts.wait_most / 1000);
    write_places(f);
    write_threads(f);
}

// Under another name until it is whole.
static void finish(const char *end, const char *what, int status) {
    char part[4096];
    if (!settings.report) return;
    snprintf(part, sizeof part, "%s.part", settings.report);
    FILE *f = fopen(part, "w");
    if (!f) return;
    write_report(f, end, what, status);
    bool good = !ferror(f);
    if (fclose(f) != 0 || !good || rename(part, settings.report) != 0) unlink(part);
}

void report_crash(const char *what, uintptr_t pc) {
    crashed_at = pc + 1;   // the others are return addresses
    report_end("crashed", what);
}

void report_end(const char *end, const char *what) {
    finish(end, what, 0);
    sched_leave();
    fflush(NULL);
    if (!settings.report) fprintf(stderr, "hotlock sim: %s\n", what);
    _exit(3);
}

// The program ends by itself: what it registered with atexit() runs outside simulated time.
void report_exit(int status) {
    finish("done", "", status);
    sched_leave();
    exit(status);
}
