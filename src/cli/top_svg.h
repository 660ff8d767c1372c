// SPDX-License-Identifier: MIT
// top_svg.h - the drawings of the HTML report: inline SVG, coloured by the page's style.
#ifndef HOTLOCK_TOP_SVG_H
#define HOTLOCK_TOP_SVG_H

#include "top.h"

// TEXT with the five characters of HTML that mean something escaped.
void svg_text(FILE *out, const char *text);

// One bar per lock over the time watched: held, free though wanted, free; beside it the waiting.
void svg_shares(FILE *out, const top_result_t *r);
// Waits, holds and hand-offs of a lock: counts per power of two of nanoseconds.
void svg_histograms(FILE *out, const profile_lock_t *l);
// An icicle of all stacks of a role, of one lock (or NULL: all), outermost on top.
void svg_flame(FILE *out, const profile_t *p, const profile_lock_t *only, profile_role_t role);
// What `hotlock try` or `hotlock bench` measured for several thread counts; false: nothing to draw.
bool svg_sweep(FILE *out, const json_t *sweep);

#endif
