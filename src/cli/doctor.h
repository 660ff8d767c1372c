/* SPDX-License-Identifier: MIT */
/* What hotlock doctor finds: one row a finding. */
#ifndef HOTLOCK_DOCTOR_H
#define HOTLOCK_DOCTOR_H

#include <stdbool.h>

#include "table.h"

/* A finding's weight: nothing to do, worth knowing, stands in the way. */
typedef enum { DOCTOR_OK, DOCTOR_NOTE, DOCTOR_BAD } doctor_weight_t;

typedef struct {
    table_t *table;
    size_t notes, bad;
} doctor_t;

/* Adds a row: what was looked at, its state in a word or two, and what follows from it. */
void doctor_row(doctor_t *d, doctor_weight_t weight, const char *what, const char *state,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Looks at this machine. */
void doctor_host(doctor_t *d, const char *preload);

/* Looks at a program, FILE, and at the libraries it needs; false: no lock of it can be replaced. */
bool doctor_program(doctor_t *d, const char *file, const char *preload);

#endif
