/* SPDX-License-Identifier: MIT */
/* A trial: one program under libc and under each lock, again and again, interleaved. */
#include "trial.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define FIRST_LIMIT 600.0  /* seconds for libc's first run, when nothing is known yet */
#define LEAST_LIMIT 10.0
#define LIMIT_TIMES 10.0
#define OVER_LIMIT_MOST 2  /* runs over the limit until a lock is not run again */

const char *const trial_measure_names[MEASURES] = {"wall", "cpu", "metric"};
const char *const trial_measure_words[MEASURES] = {"wall time", "CPU time", "metric"};

static bool same_bytes(const char *a, size_t n, const char *b, size_t m)
{
    return n == m && memcmp(a, b, n) == 0;
}

static bool same_output(const child_result_t *a, const child_result_t *b)
{
    return same_bytes(a->out, a->out_len, b->out, b->out_len) &&
           same_bytes(a->err, a->err_len, b->err, b->err_len);
}

static bool measure(const trial_plan_t *plan, const child_result_t *r, sample_t *s)
{
    char *seen = NULL;
    *s = (sample_t){.good = true, .wall = r->wall, .cpu = r->user + r->system};
    s->value = plan->measure == MEASURE_CPU ? s->cpu : s->wall;
    if (plan->measure == MEASURE_METRIC)
        s->good = metric_find(&plan->metric, r, &s->value, &seen);
    free(seen);
    return s->good;
}

static fault_t judge(const trial_t *t, const child_result_t *r, sample_t *s)
{
    switch (r->end) {
    case CHILD_SIGNALLED:
        return FAULT_CRASH;
    case CHILD_LIMIT:
        return FAULT_LIMIT;
    case CHILD_OUTPUT:
        return FAULT_FLOOD;
    default:
        if (r->code != t->reference.code)
            return FAULT_EXIT;
        if (t->plan->same_output && !same_output(r, &t->reference))
            return FAULT_OUTPUT;
        return measure(t->plan, r, s) ? FAULT_NONE : FAULT_METRIC;
    }
}

/* Everything is compared with libc's first run, so that one has to be sound. */
static void take_reference(trial_t *t, const child_result_t *r)
{
    char how[100], *seen;
    double value;
    if (r->end == CHILD_LIMIT)
        cli_bad("'%s' takes longer than %g s under libc itself; use a higher --limit",
                t->command[0], t->limit);
    if (r->end != CHILD_EXITED)
        cli_bad("'%s' fails under libc itself (%s); there is nothing to compare with",
                t->command[0], child_end_text(r, how, sizeof how));
    if (t->plan->measure == MEASURE_METRIC && !metric_find(&t->plan->metric, r, &value, &seen)) {
        if (seen)
            cli_bad("--metric '%s' found '%.60s' in the output, which is not a number",
                    t->plan->metric.text, seen);
        cli_bad("--metric '%s' matches nothing in the output of '%s' (it ended with exit %d)",
                t->plan->metric.text, t->command[0], r->code);
    }
    t->reference = *r;
    t->has_reference = true;
    if (t->plan->limit <= 0)
        t->limit = r->wall * LIMIT_TIMES > LEAST_LIMIT ? r->wall * LIMIT_TIMES : LEAST_LIMIT;
}

static void note_fault(trial_t *t, contestant_t *c, fault_t fault, child_result_t *r)
{
    if (fault == FAULT_OUTPUT && c->lock.libc)
        cli_bad("--same-output cannot judge '%s': its output differs from run to run under libc "
                "itself; drop the option", t->command[0]);
    if (trial_faults(c) == 0)
        c->fault = (child_result_t){.end = r->end, .code = r->code};
    c->faults[fault]++;
    c->dropped = c->faults[FAULT_LIMIT] >= OVER_LIMIT_MOST;
}

/* round < 0: warm-up, checked like the others but not counted. */
static void run_once(trial_t *t, contestant_t *c, long round, foreign_t *foreign)
{
    child_spec_t spec = {t->path, t->command, c->env, t->limit, true};
    child_result_t r;
    sample_t sample = {0};

    foreign_begin(foreign);
    child_run(&spec, &r);
    foreign_end(foreign, r.user + r.system);
    if (r.end == CHILD_INTERRUPTED) {
        t->interrupted = true;
        child_free(&r);
        return;
    }
    if (r.end == CHILD_NOT_STARTED)
        cli_bad("cannot run '%s': %s", t->path, strerror(r.code));
    bool first = !t->has_reference;
    if (first)
        take_reference(t, &r);
    c->ran++;
    fault_t fault = judge(t, &r, &sample);
    if (fault != FAULT_NONE)
        note_fault(t, c, fault, &r);
    else if (round >= 0)
        c->samples[round] = sample;
    if (!first)
        child_free(&r);
}

/* Round 0 begins with libc, whose first run is the reference. */
void trial_run(trial_t *t, foreign_t *foreign, progress_t *progress)
{
    long rounds = t->plan->warmup + t->plan->runs;
    t->limit = t->plan->limit > 0 ? t->plan->limit : FIRST_LIMIT;
    for (size_t i = 0; i < t->count; i++)
        t->contestants[i].samples = cli_alloc((size_t)t->plan->runs * sizeof(sample_t));
    for (long round = 0; round < rounds; round++) {
        for (size_t i = 0; i < t->count && !t->interrupted; i++) {
            contestant_t *c = &t->contestants[((size_t)round + i) % t->count];
            if (!c->dropped) {
                progress_show(progress, "round %ld of %ld, %s", round + 1, rounds, c->label);
                run_once(t, c, round - t->plan->warmup, foreign);
            }
            progress_step(progress, 1);
        }
    }
}

void trial_free(trial_t *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->contestants[i].samples);
        free(t->contestants[i].label);
        child_free_env(t->contestants[i].env);
    }
    free(t->contestants);
    child_free(&t->reference);
}

long trial_faults(const contestant_t *c)
{
    long sum = 0;
    for (int f = 0; f < FAULTS; f++)
        sum += c->faults[f];
    return sum;
}

long trial_good(const trial_t *t, const contestant_t *c)
{
    long good = 0;
    for (long r = 0; r < t->plan->runs; r++)
        good += c->samples[r].good;
    return good;
}
