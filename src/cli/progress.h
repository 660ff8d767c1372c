/* SPDX-License-Identifier: MIT */
/* One line of progress on stderr, and only if that is a terminal. */
#ifndef HOTLOCK_PROGRESS_H
#define HOTLOCK_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    bool on;
    size_t done, total; /* runs */
    double begin;
} progress_t;

void progress_begin(progress_t *p, size_t total);
/* Shows what is being done now and, from the pace so far, how long the rest will take. */
void progress_show(const progress_t *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void progress_step(progress_t *p, size_t runs);
void progress_clear(const progress_t *p);

#endif
