/* SPDX-License-Identifier: MIT */
/*
 * Statistics of repeated runs: medians, percentiles, fairness, bootstrap intervals.
 *
 * The bootstrap is the percentile bootstrap (B. Efron, Annals of Statistics 7, 1979). Its random
 * numbers start from a fixed seed, so the same figures always give the same interval.
 */
#ifndef HOTLOCK_STATS_H
#define HOTLOCK_STATS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Below five runs even the whole range of the figures covers the true median less than 94 times
 * in 100, so no interval drawn from them deserves a verdict.
 */
#define STATS_LEAST_RUNS 5

typedef struct {
    double mid, lo, hi; /* lo and hi are NaN if there are fewer than two figures; mid if none */
} stats_estimate_t;

double stats_median(const double *x, size_t n); /* NaN if n is 0 */
double stats_percentile(const double *x, size_t n, double percent); /* linear interpolation */
double stats_jain(const double *x, size_t n); /* Jain's index, 1/n to 1; 1 if all are 0 */

/* confidence: 0.95 for a 95 % interval. */
stats_estimate_t stats_median_interval(const double *x, size_t n, double confidence);

/*
 * Median of x over median of base. If paired, x[i] and base[i] come from the same round (n == m)
 * and are drawn together, so what slowed a whole round cancels.
 */
stats_estimate_t stats_ratio_interval(const double *x, size_t n, const double *base, size_t m,
                                      bool paired, double confidence);

#endif
