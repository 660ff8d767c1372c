/* SPDX-License-Identifier: MIT */
/* What a trial shows, in figures and in words. */
#include "verdict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define CPU_WORTH_SAYING 1.25 /* the best lock's CPU time, in libc's */

/* ---- figures ---- */

typedef double (*figure_t)(const sample_t *s);

static double value_of(const sample_t *s)
{
    return s->value;
}

static double wall_of(const sample_t *s)
{
    return s->wall;
}

static double cpu_of(const sample_t *s)
{
    return s->cpu;
}

/* The figure of every round in which c, and other if there is one, went well. */
static size_t collect(const trial_t *t, const contestant_t *c, const contestant_t *other,
                      figure_t figure, double *x)
{
    size_t n = 0;
    for (long r = 0; r < t->plan->runs; r++)
        if (c->samples[r].good && (!other || other->samples[r].good))
            x[n++] = figure(&c->samples[r]);
    return n;
}

static double median_of(const trial_t *t, const contestant_t *c, figure_t figure)
{
    double *x = cli_alloc((size_t)t->plan->runs * sizeof *x);
    double median = stats_median(x, collect(t, c, NULL, figure, x));
    free(x);
    return median;
}

/* Ratio of a's median to b's over the rounds both have. */
static stats_estimate_t ratio_of(const trial_t *t, const contestant_t *a, const contestant_t *b,
                                 double confidence)
{
    double *x = cli_alloc((size_t)t->plan->runs * sizeof *x);
    double *y = cli_alloc((size_t)t->plan->runs * sizeof *y);
    size_t n = collect(t, a, b, value_of, x);
    collect(t, b, a, value_of, y);
    stats_estimate_t e = stats_ratio_interval(x, n, y, n, true, confidence);
    free(x);
    free(y);
    return e;
}

static standing_t stand(const trial_t *t, size_t index, double wide_confidence)
{
    const contestant_t *c = &t->contestants[index], *libc = &t->contestants[0];
    double *x = cli_alloc((size_t)t->plan->runs * sizeof *x);
    standing_t s = {.index = index, .good = trial_good(t, c)};
    size_t n = collect(t, c, NULL, value_of, x);
    s.ranked = trial_faults(c) == 0 && n > 0;
    s.value = stats_median_interval(x, n, 0.95);
    s.wall = median_of(t, c, wall_of);
    s.cpu = median_of(t, c, cpu_of);
    s.ratio = ratio_of(t, c, libc, 0.95);
    s.wide = ratio_of(t, c, libc, wide_confidence);
    free(x);
    return s;
}

/* ---- order ---- */

static bool higher; /* for the comparison below: is more better? */

static int by_rank(const void *a, const void *b)
{
    const standing_t *x = a, *y = b;
    if (x->ranked != y->ranked)
        return y->ranked - x->ranked;
    if (!x->ranked || x->ratio.mid == y->ratio.mid)
        return (x->index > y->index) - (x->index < y->index);
    return (x->ratio.mid < y->ratio.mid) == higher ? 1 : -1;
}

/* ---- words ---- */

static bool is_below(const stats_estimate_t *e)
{
    return e->hi < 1 - VERDICT_MARGIN;
}

static bool is_above(const stats_estimate_t *e)
{
    return e->lo > 1 + VERDICT_MARGIN;
}

static bool is_better(const trial_t *t, const stats_estimate_t *e)
{
    return t->plan->higher_better ? is_above(e) : is_below(e);
}

static bool is_worse(const trial_t *t, const stats_estimate_t *e)
{
    return t->plan->higher_better ? is_below(e) : is_above(e);
}

static const char *measured(const trial_t *t)
{
    return trial_measure_words[t->plan->measure];
}

/* "28.4 % less wall time than libc (95 % interval 27.1 to 29.9 %)"; from twice on, "3.2 times". */
static char *difference(const trial_t *t, const stats_estimate_t *e)
{
    double size = fabs(e->mid - 1) * 100, lo = fabs(e->lo - 1) * 100, hi = fabs(e->hi - 1) * 100;
    const char *word = t->plan->measure == MEASURE_METRIC ? (e->mid < 1 ? "lower" : "higher")
                                                          : (e->mid < 1 ? "less" : "more");
    if (e->mid >= 2)
        return cli_printf("%.2f times libc's %s (95 %% interval %.2f to %.2f)", e->mid, measured(t),
                          e->lo, e->hi);
    bool one_side = (e->lo - 1) * (e->hi - 1) > 0;
    if (!one_side)
        return cli_printf("%.1f %% %s %s than libc (95 %% interval of the ratio %.3f to %.3f)",
                          size, word, measured(t), e->lo, e->hi);
    return cli_printf("%.1f %% %s %s than libc (95 %% interval %.1f to %.1f %%)", size, word,
                      measured(t), fmin(lo, hi), fmax(lo, hi));
}

static const char *label(const trial_t *t, const standing_t *s)
{
    return t->contestants[s->index].label;
}

typedef bool (*choice_t)(const trial_t *t, const verdict_t *v, const standing_t *s);

/* "park, tas and qspin": the ranked locks that CHOICE takes; "" if none. */
static char *name_list(const trial_t *t, const verdict_t *v, choice_t choice)
{
    char *list;
    size_t size, count = 0, at = 0;
    FILE *f = open_memstream(&list, &size);
    for (size_t i = 1; i < v->count; i++)
        count += v->standings[i].ranked && choice(t, v, &v->standings[i]);
    for (size_t i = 1; i < v->count; i++) {
        if (!v->standings[i].ranked || !choice(t, v, &v->standings[i]))
            continue;
        fprintf(f, "%s%s", at == 0 ? "" : at + 1 == count ? " and " : ", ",
                label(t, &v->standings[i]));
        at++;
    }
    fclose(f);
    return list;
}

static bool as_good_as_best(const trial_t *t, const verdict_t *v, const standing_t *s)
{
    if (s == v->best || (s->ratio.mid > 1) != t->plan->higher_better)
        return false;
    stats_estimate_t e = ratio_of(t, &t->contestants[s->index], &t->contestants[v->best->index],
                                  0.95);
    return !is_worse(t, &e);
}

static bool clearly_worse(const trial_t *t, const verdict_t *v, const standing_t *s)
{
    (void)v;
    return is_worse(t, &s->wide);
}

static size_t count_ranked(const verdict_t *v)
{
    size_t count = 0;
    for (size_t i = 1; i < v->count; i++)
        count += v->standings[i].ranked;
    return count;
}

/* Speed is often bought with CPU time that others could use; say so. */
static char *cpu_price(const trial_t *t, const verdict_t *v)
{
    double times = v->best->cpu / v->standings[0].cpu;
    if (t->plan->measure == MEASURE_CPU || !(times > CPU_WORTH_SAYING))
        return cli_printf("%s", "");
    return cli_printf(", at %.1f times the CPU time", times);
}

static void say_best(const trial_t *t, verdict_t *v)
{
    char *equals = name_list(t, v, as_good_as_best), *price = cpu_price(t, v);
    char *gain = difference(t, &v->best->ratio);
    v->kind = VERDICT_BEST;
    v->text = cli_printf("best is %s: %s%s%s%s%s", label(t, v->best), gain, price,
                         *equals ? "; as good within the noise: " : "", equals, ".");
    free(equals);
    free(price);
    free(gain);
}

static void say_all_worse(const trial_t *t, verdict_t *v)
{
    char *loss = difference(t, &v->standings[1].ratio);
    v->kind = VERDICT_WORSE;
    v->text = cli_printf("every alternative is worse; stay with libc. The least bad, %s, has %s.",
                         label(t, &v->standings[1]), loss);
    free(loss);
}

/* Half the interval of the lock known best: what a difference must exceed to be seen at all. */
static double resolution(const verdict_t *v)
{
    double least = INFINITY;
    for (size_t i = 1; i < v->count; i++)
        if (v->standings[i].ranked)
            least = fmin(least, (v->standings[i].wide.hi - v->standings[i].wide.lo) / 2);
    return least * 100;
}

static void say_same(const trial_t *t, verdict_t *v, size_t worse)
{
    char *losers = name_list(t, v, clearly_worse);
    bool all_inside = true;
    for (size_t i = 1; i < v->count; i++) {
        const stats_estimate_t *e = &v->standings[i].wide;
        if (v->standings[i].ranked)
            all_inside = all_inside && e->lo >= 1 - VERDICT_MARGIN && e->hi <= 1 + VERDICT_MARGIN;
    }
    v->kind = all_inside ? VERDICT_NO_HELP : VERDICT_SAME;
    if (all_inside)
        v->text = cli_printf("no lock will help, because none changes the %s by more than %.0f %%: "
                             "what this program waits for is not its pthread locks.", measured(t),
                             VERDICT_MARGIN * 100);
    else
        v->text = cli_printf("no difference that matters: no lock is better than libc beyond the "
                             "noise%s%s. Differences below %.1f %% cannot be seen in %ld runs; "
                             "more runs would show smaller ones.",
                             worse ? "; worse are " : "", losers, resolution(v),
                             v->standings[0].good);
    free(losers);
}

static void decide(const trial_t *t, verdict_t *v)
{
    size_t ranked = count_ranked(v), better = 0, worse = 0;
    for (size_t i = 1; i < v->count; i++) {
        const standing_t *s = &v->standings[i];
        if (!s->ranked)
            continue;
        worse += is_worse(t, &s->wide);
        if (is_better(t, &s->wide) && better++ == 0)
            v->best = s; /* they come best first */
    }
    if (better)
        say_best(t, v);
    else if (worse == ranked)
        say_all_worse(t, v);
    else
        say_same(t, v, worse);
}

static bool enough_runs(const verdict_t *v)
{
    long least = v->standings[0].good;
    for (size_t i = 1; i < v->count; i++)
        if (v->standings[i].ranked && v->standings[i].good < least)
            least = v->standings[i].good;
    return least >= STATS_LEAST_RUNS;
}

static char *why_undecided(const trial_t *t, const verdict_t *v)
{
    if (trial_faults(&t->contestants[0]) > 0) {
        char *faults = verdict_faults(t, &t->contestants[0]);
        char *why = cli_printf("no verdict: under libc itself the runs differ (%s).", faults);
        free(faults);
        return why;
    }
    if (v->count == 1)
        return cli_printf("no verdict: there is no lock to compare libc with.");
    if (t->has_reference && trial_good(t, &t->contestants[0]) > 0 && count_ranked(v) == 0)
        return cli_printf("no verdict: under no lock did the program always run as under libc.");
    if (!enough_runs(v))
        return cli_printf("no verdict: it takes at least %d runs of each lock.", STATS_LEAST_RUNS);
    return NULL;
}

verdict_t verdict_of(const trial_t *t)
{
    verdict_t v = {.count = t->count, .kind = VERDICT_UNDECIDED};
    double wide = t->count > 1 ? 1 - 0.05 / (double)(t->count - 1) : 0.95;
    v.standings = cli_alloc(t->count * sizeof *v.standings);
    for (size_t i = 0; i < t->count; i++)
        v.standings[i] = stand(t, i, wide);
    higher = t->plan->higher_better;
    qsort(v.standings + 1, t->count - 1, sizeof *v.standings, by_rank);
    v.text = why_undecided(t, &v);
    if (!v.text)
        decide(t, &v);
    return v;
}

void verdict_free(verdict_t *v)
{
    free(v->standings);
    free(v->text);
}

const char *verdict_kind_name(verdict_kind_t kind)
{
    static const char *const names[] = {"best", "same", "no-help", "worse", "undecided"};
    return names[kind];
}

/* ---- faults ---- */

char *verdict_faults(const trial_t *t, const contestant_t *c)
{
    static const char *const names[FAULTS] = {
        "crashed", "over the limit", "too much output", "other exit code", "other output",
        "no metric"};
    char *list, how[100];
    size_t size;
    FILE *f = open_memstream(&list, &size);
    for (int k = 0; k < FAULTS; k++) {
        if (!c->faults[k])
            continue;
        fprintf(f, "%s%s %ld of %ld", ftell(f) > 0 ? ", " : "", names[k], c->faults[k], c->ran);
        if (k == FAULT_CRASH && c->fault.end == CHILD_SIGNALLED)
            fprintf(f, " (%s)", child_end_text(&c->fault, how, sizeof how));
        if (k == FAULT_EXIT && c->fault.end == CHILD_EXITED && c->fault.code != t->reference.code)
            fprintf(f, " (%d, not %d)", c->fault.code, t->reference.code);
        if (k == FAULT_LIMIT)
            fprintf(f, " (%.3g s)", t->limit);
    }
    fclose(f);
    return list;
}
