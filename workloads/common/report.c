/* SPDX-License-Identifier: MIT */
/* What a run found, for people or as one line of JSON (schema hotlock-workload/1). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../src/cli/cli.h"
#include "../../src/cli/stats.h"
#include "run.h"

struct figures {
    double seconds, ops_per_s, jain, ns_per_tick, ticks_per_pair;
    uint64_t sections, switches;
    struct waits waits;
};

static void summarise(const struct run *run, struct figures *f)
{
    *f = (struct figures){ .sections = run_sections(run) };
    double ns = (double)(run->end_ns - run->begin_ns);
    f->seconds = 1e-9 * ns;
    f->ops_per_s = (double)run->ops / f->seconds;
    double *ops = cli_alloc(run->threads * sizeof(double));
    for (unsigned i = 0; i < run->threads; i++) {
        const struct worker *w = run->workers[i];
        ops[i] = (double)atomic_load_explicit(&w->ops, memory_order_relaxed);
        f->switches += w->switches;
        waits_add(&f->waits, &w->waits);
    }
    f->jain = stats_jain(ops, run->threads);
    free(ops);
    f->ns_per_tick = run->ns_per_tick;
    /* Workers go on a little after the time is up; their sections are scaled back to it. */
    double sections = (double)f->sections * (double)run->ops / (double)run_total(run);
    f->ticks_per_pair = run->threads * ns / run->ns_per_tick / sections;
}

static double wait_ns(const struct figures *f, double quantile)
{
    return f->ns_per_tick * (double)waits_quantile(&f->waits, quantile);
}

/* A time with the unit that suits it. */
static const char *time_text(double ns, char buffer[16])
{
    if (ns < 1e3)
        snprintf(buffer, 16, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(buffer, 16, "%.1f us", ns / 1e3);
    else
        snprintf(buffer, 16, "%.1f ms", ns / 1e6);
    return buffer;
}

void report_text(const struct run *run)
{
    struct figures f;
    char a[16], b[16], c[16], d[16];
    summarise(run, &f);
    printf("%s: lock %s%s, %u %s, %.2f s%s\n", run->workload->name, run->lock->name,
           run->closures ? " (functions)" : "", run->threads,
           run->processes ? "processes" : "threads", f.seconds,
           run->interrupted ? ", partial: interrupted, exclusion not checked" : "");
    printf("  done         %" PRIu64 " %s, %.4g million per second\n", run->ops,
           run->workload->unit, f.ops_per_s / 1e6);
    printf("  sections     %" PRIu64 ", %.0f ticks x threads each, %u atomic%s per lone pair\n",
           f.sections, f.ticks_per_pair, run->lock->atomics, run->lock->atomics == 1 ? "" : "s");
    printf("  fairness     Jain %.3f, per %d ms %.3f\n", f.jain, WORKLOAD_WINDOW_MS,
           run->jain_windows);
    printf("  wait         p50 %s, p99 %s, p99.9 %s, longest %s\n", time_text(wait_ns(&f, 0.5), a),
           time_text(wait_ns(&f, 0.99), b), time_text(wait_ns(&f, 0.999), c),
           time_text(wait_ns(&f, 1), d));
    printf("  without lock %s at worst\n", time_text(f.ns_per_tick * (double)f.waits.gap, a));
    printf("  processors   %.2f used, others took %.0f %%; %" PRIu64 " context switches",
           run->cpu, 100 * run->foreign, f.switches);
    if (run->futex_calls >= 0)
        printf(", %" PRId64 " futex calls by hotlock's locks", run->futex_calls);
    putchar('\n');
    if (run->workload->report)
        run->workload->report(run);
}

static void real(const char *key, double value)
{
    if (isfinite(value))
        printf(",\"%s\":%.9g", key, value);
    else
        printf(",\"%s\":null", key);
}

static void whole(const char *key, uint64_t value)
{
    printf(",\"%s\":%" PRIu64, key, value);
}

static void flag(const char *key, bool value)
{
    printf(",\"%s\":%s", key, value ? "true" : "false");
}

static void thread_json(const struct worker *w, const struct figures *f, bool first)
{
    printf("%s{\"ops\":%" PRIu64, first ? "" : ",",
           (uint64_t)atomic_load_explicit(&w->ops, memory_order_relaxed));
    whole("sections", w->sections);
    real("wait_p50_ns", f->ns_per_tick * (double)waits_quantile(&w->waits, 0.5));
    real("wait_p99_ns", f->ns_per_tick * (double)waits_quantile(&w->waits, 0.99));
    real("wait_p999_ns", f->ns_per_tick * (double)waits_quantile(&w->waits, 0.999));
    real("wait_max_ns", f->ns_per_tick * (double)w->waits.max);
    real("gap_ns", f->ns_per_tick * (double)w->waits.gap);
    real("cpu_s", w->cpu);
    whole("context_switches", w->switches);
    printf("}");
}

void report_json(const struct run *run)
{
    struct figures f;
    summarise(run, &f);
    printf("{\"schema\":\"hotlock-workload/1\",\"workload\":\"%s\",\"lock\":\"%s\",\"form\":\"%s\"",
           run->workload->name, run->lock->name, run->closures ? "run" : "lock");
    if (run->wait)
        printf(",\"wait\":\"%s\"", run->wait);
    whole("threads", run->threads);
    flag("processes", run->processes);
    flag("partial", run->interrupted != 0);
    flag("finished", run->finished);
    real("seconds", f.seconds);
    real("seconds_to_last", 1e-9 * (double)(run->last_ns - run->begin_ns));
    printf(",\"unit\":\"%s\"", run->workload->unit);
    whole("ops", run->ops);
    real("ops_per_s", f.ops_per_s);
    whole("sections", f.sections);
    real("ticks_per_pair", f.ticks_per_pair);
    whole("atomics_per_pair", run->lock->atomics);
    whole("lock_bytes", run->lock->bytes);
    whole("node_bytes", run->lock->node_bytes);
    real("jain", f.jain);
    real("jain_windows", run->jain_windows);
    whole("wait_samples", f.waits.samples);
    real("wait_p50_ns", wait_ns(&f, 0.5));
    real("wait_p99_ns", wait_ns(&f, 0.99));
    real("wait_p999_ns", wait_ns(&f, 0.999));
    real("wait_max_ns", f.ns_per_tick * (double)f.waits.max);
    real("gap_ns", f.ns_per_tick * (double)f.waits.gap);
    real("cpu", run->cpu);
    real("foreign_share", run->foreign);
    whole("context_switches", f.switches);
    printf(",\"futex_calls\":%" PRId64, run->futex_calls);
    printf(",\"exclusion\":%s", run->interrupted ? "null" : "\"ok\"");
    printf(",\"per_second\":[");
    for (unsigned i = 0; i < run->seconds_count; i++)
        printf("%s%" PRIu64, i ? "," : "", run->seconds_ops[i]);
    printf("],\"per_thread\":[");
    for (unsigned i = 0; i < run->threads; i++)
        thread_json(run->workers[i], &f, i == 0);
    printf("]}\n");
}
