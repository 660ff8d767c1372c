/* SPDX-License-Identifier: MIT */
/*
 * Where a result goes: --json, --csv, --markdown and -o FILE, the same for every command.
 *
 * A file is written beside its place and renamed into it, so it is never half written.
 */
#ifndef HOTLOCK_OUTPUT_H
#define HOTLOCK_OUTPUT_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

#include "table.h"

typedef struct {
    table_format_t format;
    const char *file; /* NULL: stdout */
} output_t;

/* Child parsers for struct argp; input is an output_t. The second has no -o. */
extern const struct argp output_argp;
extern const struct argp output_format_argp;

/* Before the work: is FILE a place one can write to? Else one line, exit 2. */
void output_check(const output_t *output);

/* Writes all bytes to FILE (NULL: stdout); false and one line on stderr if it cannot. */
bool output_write(const char *file, const char *bytes, size_t count);

/* Prints JSON with an ending newline, stealing the reference. */
void output_json(json_t *value, FILE *out);

#endif
