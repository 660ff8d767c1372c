/* SPDX-License-Identifier: MIT */
/* Line plots as SVG, drawn by gnuplot. */
#ifndef HOTLOCK_PLOT_H
#define HOTLOCK_PLOT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    double x, y, lo, hi; /* lo and hi: error bar; NaN: none. A y of NaN leaves the point out */
} plot_point_t;

typedef struct {
    const char *name;
    const plot_point_t *points;
    size_t count;
    bool aside; /* drawn thin: there to compare with */
} plot_series_t;

typedef struct {
    const char *title, *x_title, *y_title;
    const plot_series_t *series; /* all with the same x */
    size_t count;
} plot_t;

/* Before the work: is gnuplot there and FILE a place one can write to? Else one line, exit 2. */
void plot_check(const char *file);

/* Both axes are logarithmic. False, and one line on stderr, if it could not be drawn. */
bool plot_svg(const plot_t *plot, const char *file);

#endif
