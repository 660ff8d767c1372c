/* SPDX-License-Identifier: MIT */
/* The result of `hotlock try` as text, CSV, Markdown or JSON. */
#ifndef HOTLOCK_REPORT_H
#define HOTLOCK_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "table.h"
#include "trial.h"
#include "verdict.h"

/* One table: the trial of one value of the varied parameter, or the only one. */
typedef struct {
    const char *vary; /* NULL: nothing varies */
    const char *value;
    trial_t trial;
    verdict_t verdict;
} section_t;

typedef struct {
    char **command; /* as typed */
    char *const *at; /* --at; NULL: the locks are tried everywhere */
    const trial_plan_t *plan;
    section_t *sections;
    size_t count;
    double foreign; /* share of the processors others used; NaN: unknown */
    bool partial;
} report_t;

void report_print(const report_t *r, table_format_t format, FILE *out);

#endif
