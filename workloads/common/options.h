/* SPDX-License-Identifier: MIT */
/* The options every workload has. */
#ifndef WORKLOADS_OPTIONS_H
#define WORKLOADS_OPTIONS_H

#include "run.h"

enum { WORKLOAD_SECONDS_MOST = 86400 };

/* Fills run from the command line; bad input is one line on stderr and exit code 2. */
void options_parse(struct run *run, int argc, char **argv);

#endif
