/* SPDX-License-Identifier: MIT */
/* Builds the program that `hotlock check` explores or `hotlock sim` simulates: instrumented, renamed. */
#ifndef HOTLOCK_CHECK_BUILD_H
#define HOTLOCK_CHECK_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "child.h"

typedef struct {
    const char *compiler; /* "gcc" or "clang", or a path */
    char **sources;       /* C or C++ files, NULL-ended */
    char **flags;         /* -D, -I and whatever else the compiler shall get */
    size_t flag_count;
    bool wide;            /* the model checker for single executions of big programs */
    bool simulate;        /* on the simulator, not the model checker; objects and archives too */
    const char *output;   /* where the program goes; NULL: a directory that goes when the command ends */
} check_build_t;

/* Whether FILE is a program built for the simulator; not a program at all is one line, exit 2. */
bool check_is_built(const char *file);

/*
 * Gives the program's path, in a directory of its own that goes when the command ends. What does
 * not compile is one line, the compiler's first error, and exit 2; so is an object that holds locked
 * instructions the compiler did not report, for they could not be seen.
 */
char *check_build(const check_build_t *b);

/* Runs ARGV (a name is searched in PATH) with output captured; Ctrl-C ends the command. */
void check_tool(const char *const *argv, child_result_t *result);

#endif
