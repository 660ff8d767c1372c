// SPDX-License-Identifier: MIT
// count_read.h - the counters that a program keeps of its named locks (hotlock/count.h).
#ifndef HOTLOCK_COUNT_READ_H
#define HOTLOCK_COUNT_READ_H

#include "profile.h"

// Adds the named locks of a running process; how many. It is not stopped. -1, with errno: its
// descriptors cannot be read.
int count_read_process(pid_t pid, profile_t *p);

// Adds those of every process that counted into files in this directory (HOTLOCK_COUNTERS).
int count_read_directory(const char *directory, profile_t *p);

#endif
