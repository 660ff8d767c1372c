// SPDX-License-Identifier: MIT
// top_export.c - the hottest lock as a small pthread program: as many threads as took locks, holds
// drawn from the measured histogram, think times around the measured mean. `hotlock sim` runs it on
// other machines, `hotlock try` under other locks.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top.h"

// A hold much longer than most was one whose thread was off the processor. The program that is
// written will meet its own scheduler, so these are left out: what lies above LONGEST medians.
#define LONGEST 64

// Of work, all threads together, in one run. More simulated work takes minutes for all the runs of
// a hotlock sim, and shows no more.
#define SECTIONS_MOST 20000
#define REAL_NS      1e9
#define SIMULATED_NS 2e6

static double sections(double work_ns, double each_ns)
{
    return fmin(SECTIONS_MOST, ceil(work_ns / (each_ns + 1)));
}

typedef struct {
    uint64_t count;    // of holds kept
    double ns;         // mean of these
    unsigned end;      // buckets from here on are left out
} kept_t;

static kept_t keep(const profile_lock_t *l)
{
    double limit = LONGEST * profile_percentile(l->hold_hist, 50), sum = 0;
    kept_t k = {.end = PROFILE_BUCKETS};
    uint64_t all = 0;
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) {
        all += l->hold_hist[i];
        if (ldexp(1, (int)i) > limit) {
            k.end = i < k.end ? i : k.end;
            continue;
        }
        k.count += l->hold_hist[i];
        sum += (double)l->hold_hist[i] * ldexp(1.5, (int)i);
    }
    // Middles of buckets are not means; use what was measured of such holds.
    k.ns = l->hold_undisturbed_ns > 0 ? l->hold_undisturbed_ns
           : k.count == all           ? (double)l->hold_ns / (double)l->acquisitions
                                      : sum / (double)k.count;
    return k;
}

// Mean time between a thread's unlock and its next lock: CPU time that was neither holding nor
// spinning if that is known, else the threads' time that was neither holding nor waiting.
static double think_ns(const profile_t *p, const profile_lock_t *l, const kept_t *k)
{
    double all = (p->user_s + p->system_s) * 1e9;
    double busy = (double)l->spin_ns + k->ns * (double)l->acquisitions;
    if (!isfinite(all)) {
        all = p->wall_s * 1e9 * p->threads;
        busy = (double)(l->hold_ns + l->wait_ns);
    }
    return all > busy ? (all - busy) / (double)l->acquisitions : 0;
}

static const profile_lock_t *hottest(const profile_t *p)
{
    for (size_t i = 0; i < p->lock_count; i++)
        if (p->locks[i].has & HAS_HOLD && p->locks[i].acquisitions)
            return &p->locks[i];
    return NULL;
}

// What stands in a comment must not end it.
static void comment(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 || *text == '\\' ? ' ' : *text, out);
}

static void put_table(FILE *out, const profile_lock_t *l, const kept_t *k)
{
    uint64_t sum = 0;
    double mean = 0;
    for (unsigned i = 0; i < k->end; i++)
        mean += (double)l->hold_hist[i] * ldexp(1.5, (int)i) / (double)k->count;
    double scale = k->ns / mean;
    fputs("static const struct { double up_to, ns; } holds[] = {\n", out);
    for (unsigned i = 0; i < k->end; i++) {
        if (!l->hold_hist[i])
            continue;
        sum += l->hold_hist[i];
        fprintf(out, "    {%.9f, %.1f},\n", (double)sum / (double)k->count,
                ldexp(1.5, (int)i) * scale);
    }
    fputs("};\n", out);
}

static const char program[] =
    "\nstatic pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n"
    "static volatile long shared[16];  // two cache lines, written by every section\n"
    "static double turns_per_ns;\n"
    "static int sections;\n"
    "\n"
    "static __attribute__((noinline)) void turn(uint64_t turns) {\n"
    "    while (turns--) __asm__ volatile(\"\");\n"
    "}\n"
    "\n"
    "static double now(void) {\n"
    "    struct timespec t;\n"
    "    clock_gettime(CLOCK_MONOTONIC, &t);\n"
    "    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;\n"
    "}\n"
    "\n"
    "static void busy(double ns) { turn((uint64_t)(ns * turns_per_ns)); }\n"
    "\n"
    "// Even steps on a circle, so that few draws have the measured mean too.\n"
    "static double draw(double *at, double step) {\n"
    "    *at += step;\n"
    "    if (*at >= 1) *at -= 1;\n"
    "    return *at;\n"
    "}\n"
    "\n"
    "static double hold(double at) {\n"
    "    int i = 0;\n"
    "    while (at > holds[i].up_to && i + 1 < (int)(sizeof holds / sizeof *holds)) i++;\n"
    "    return holds[i].ns;\n"
    "}\n"
    "\n"
    "static void *work(void *arg) {\n"
    "    double at = 0, to = 0;\n"
    "    for (long n = 0; n <= (long)arg; n++) draw(&at, 0.2451223337), draw(&to, 0.4301597090);\n"
    "    for (int i = 0; i < sections; i++) {\n"
    "        double held = hold(draw(&at, 0.6180339887));\n"
    "        double away = THINK_NS * 2 * draw(&to, 0.7548776662);\n"
    "        pthread_mutex_lock(&lock);\n"
    "        shared[0]++;\n"
    "        shared[8]++;\n"
    "        busy(held);\n"
    "        pthread_mutex_unlock(&lock);\n"
    "        busy(away);\n"
    "    }\n"
    "    return NULL;\n"
    "}\n"
    "\n"
    "int main(int argc, char **argv) {\n"
    "    const char *given = argc > 1 ? argv[1] : getenv(\"THREADS\");\n"
    "    int threads = given ? atoi(given) : USUAL_THREADS;\n"
    "    pthread_t id[1024];\n"
    "    if (threads < 1 || threads > 1024) return 2;\n"
    "    for (int i = 0; i < 25; i++) { // the fastest of short races: noise drops out\n"
    "        double start = now();\n"
    "        turn(20000);\n"
    "        double rate = 20000 / (now() - start);\n"
    "        if (rate > turns_per_ns) turns_per_ns = rate;\n"
    "    }\n"
    "    // A simulated turn takes ten times as long as a real one.\n"
    "    sections = (getenv(\"HOTLOCK_SIM\") ? SIMULATED_SECTIONS : ALL_SECTIONS) / threads;\n"
    "    if (sections < 4) sections = 4;\n"
    "    double begin = now();\n"
    "    for (long i = 0; i < threads; i++)\n"
    "        pthread_create(&id[i], NULL, work, (void *)(i + 1));\n"
    "    for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);\n"
    "    double taken = now() - begin;\n"
    "    printf(\"%d sections in %.3f ms: %.0f/s\\n\", sections * threads, taken / 1e6,\n"
    "           sections * threads * 1e9 / taken);\n"
    "    return shared[0] != (long)sections * threads;\n"
    "}\n";

bool top_export_workload(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    const profile_lock_t *l = hottest(p);
    if (!l)
        return false;
    kept_t k = keep(l);
    double away = think_ns(p, l, &k);
    fputs("// Written by hotlock top --export-workload: the lock ", out);
    comment(out, l->name);
    fputs("\n// of ", out);
    comment(out, p->what);
    fprintf(out, "\n// held %.4g ns on average, and %.4g ns away from it; %llu times in %.3g s.\n"
                 "// Run it elsewhere: hotlock sim THIS.c, or: cc -O2 -pthread THIS.c && "
                 "hotlock try -- ./a.out\n"
                 "#include <pthread.h>\n#include <stdint.h>\n#include <stdio.h>\n"
                 "#include <stdlib.h>\n#include <time.h>\n\n"
                 "#define THINK_NS %.1f\n#define USUAL_THREADS %u\n#define ALL_SECTIONS %.0f\n"
                 "#define SIMULATED_SECTIONS %.0f\n",
            k.ns, away, (unsigned long long)l->acquisitions, p->wall_s, away,
            p->threads ? p->threads : 2, sections(REAL_NS, k.ns + away),
            sections(SIMULATED_NS, k.ns + away));
    put_table(out, l, &k);
    fputs(program, out);
    return true;
}
