/* SPDX-License-Identifier: MIT */
/* A figure a program prints, found by a POSIX extended regular expression with one group. */
#ifndef HOTLOCK_METRIC_H
#define HOTLOCK_METRIC_H

#include <regex.h>
#include <stdbool.h>

#include "child.h"

typedef struct {
    const char *text;
    regex_t regex;
} metric_t;

/* A regex that does not compile or has not just one group is one line, exit 2. */
void metric_compile(metric_t *metric, const char *text);

/*
 * The number in the group of the last match in stdout, or in stderr if stdout has none. False if
 * nothing matched or the group held no number; *seen is then what it held or NULL, free it.
 */
bool metric_find(const metric_t *metric, const child_result_t *result, double *value, char **seen);

#endif
