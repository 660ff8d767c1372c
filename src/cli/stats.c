/* SPDX-License-Identifier: MIT */
/* Statistics of repeated runs: medians, percentiles, fairness, bootstrap intervals. */
#include "stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define RESAMPLES 10000
#define SEED 0x686f746c6f636bull /* any fixed number: the same figures give the same interval */

/* SplitMix64 (G. Steele, D. Lea, C. Flood, OOPSLA 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static size_t random_below(uint64_t *state, size_t n)
{
    return (size_t)((next_random(state) >> 32) * n >> 32);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Insertion sort for the few figures of a resample, where qsort() would be mostly calls. */
static void sort(double *x, size_t n)
{
    if (n > 32) {
        qsort(x, n, sizeof *x, by_value);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        double moved = x[i];
        size_t j = i;
        for (; j > 0 && x[j - 1] > moved; j--)
            x[j] = x[j - 1];
        x[j] = moved;
    }
}

static double sorted_percentile(const double *x, size_t n, double percent)
{
    if (n == 0)
        return NAN;
    double place = (double)(n - 1) * percent / 100;
    size_t below = (size_t)place;
    if (below + 1 >= n)
        return x[n - 1];
    return x[below] + (place - (double)below) * (x[below + 1] - x[below]);
}

double stats_percentile(const double *x, size_t n, double percent)
{
    double *sorted = cli_alloc(n * sizeof *sorted);
    if (n)
        memcpy(sorted, x, n * sizeof *sorted);
    sort(sorted, n);
    double value = sorted_percentile(sorted, n, percent);
    free(sorted);
    return value;
}

double stats_median(const double *x, size_t n)
{
    return stats_percentile(x, n, 50);
}

double stats_jain(const double *x, size_t n)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    return squares > 0 ? sum * sum / ((double)n * squares) : 1;
}

/* lo and hi: what the middle CONFIDENCE of the resampled figures spans. */
static void set_interval(stats_estimate_t *e, double *resampled, double confidence)
{
    double tail = (1 - confidence) / 2 * 100;
    sort(resampled, RESAMPLES);
    e->lo = sorted_percentile(resampled, RESAMPLES, tail);
    e->hi = sorted_percentile(resampled, RESAMPLES, 100 - tail);
}

static double draw_median(const double *x, size_t n, double *scratch, uint64_t *random)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = x[random_below(random, n)];
    sort(scratch, n);
    return sorted_percentile(scratch, n, 50);
}

stats_estimate_t stats_median_interval(const double *x, size_t n, double confidence)
{
    stats_estimate_t e = {stats_median(x, n), NAN, NAN};
    if (n < 2)
        return e;
    double *scratch = cli_alloc(n * sizeof *scratch);
    double *resampled = cli_alloc(RESAMPLES * sizeof *resampled);
    uint64_t random = SEED;
    for (size_t k = 0; k < RESAMPLES; k++)
        resampled[k] = draw_median(x, n, scratch, &random);
    set_interval(&e, resampled, confidence);
    free(resampled);
    free(scratch);
    return e;
}

/*
 * Paired draws pick rounds: starting both generators alike makes draw_median() choose the same
 * places in x and in base. Unpaired, each has a stream of its own.
 */
stats_estimate_t stats_ratio_interval(const double *x, size_t n, const double *base, size_t m,
                                      bool paired, double confidence)
{
    stats_estimate_t e = {stats_median(x, n) / stats_median(base, m), NAN, NAN};
    if (n < 2 || m < 2)
        return e;
    double *scratch = cli_alloc((n > m ? n : m) * sizeof *scratch);
    double *resampled = cli_alloc(RESAMPLES * sizeof *resampled);
    uint64_t random = SEED, random_base = paired ? SEED : ~SEED;
    for (size_t k = 0; k < RESAMPLES; k++) {
        double over = draw_median(x, n, scratch, &random);
        resampled[k] = over / draw_median(base, m, scratch, &random_base);
    }
    set_interval(&e, resampled, confidence);
    free(resampled);
    free(scratch);
    return e;
}
