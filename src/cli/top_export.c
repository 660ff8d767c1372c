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
    "    for (volatile uint64_t i = 0; i < turns; i++) continue;\n"
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
    "static double draw(uint64_t *random) {\n"
    "    *random = *random * 6364136223846793005u + 1442695040888963407u;\n"
    "    return (double)(*random >> 11) / 9007199254740992.0;\n"
    "}\n"
    "\n"
    "static double hold(double at) {\n"
    "    int i = 0;\n"
    "    while (at > holds[i].up_to && i + 1 < (int)(sizeof holds / sizeof *holds)) i++;\n"
    "    return holds[i].ns;\n"
    "}\n"
    "\n"
    "static void *work(void *arg) {\n"
    "    uint64_t random = (uint64_t)(uintptr_t)arg * 2654435761u + 1;\n"
    "    for (int i = 0; i < sections; i++) {\n"
    "        double held = hold(draw(&random)), away = THINK_NS * 2 * draw(&random);\n"
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
    "    double begin = now();\n"
    "    turn(20000);\n"
    "    turns_per_ns = 20000 / (now() - begin);\n"
    "    sections = ALL_SECTIONS / threads;\n"
    "    begin = now();\n"
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
                 "// Run it elsewhere: hotlock sim THIS.c, or: hotlock try -- ./a.out\n"
                 "#include <pthread.h>\n#include <stdint.h>\n#include <stdio.h>\n"
                 "#include <stdlib.h>\n#include <time.h>\n\n"
                 "#define THINK_NS %.1f\n#define USUAL_THREADS %u\n#define ALL_SECTIONS 20000\n",
            k.ns, away, (unsigned long long)l->acquisitions, p->wall_s, away,
            p->threads ? p->threads : 2);
    put_table(out, l, &k);
    fputs(program, out);
    return true;
}
