// SPDX-License-Identifier: MIT
/*
 * Every lock call of a running program, counted by uprobes on the functions of libc (or of the
 * library that stands before it): acquisitions and holds, exact, each at the cost of three traps.
 */
#ifndef HOTLOCK_TRACE_BPF_CALLS_H
#define HOTLOCK_TRACE_BPF_CALLS_H

#include "profile.h"

typedef struct calls calls_t;

// CALLING: the map of what threads are inside. Bad input: one line, exit 2.
calls_t *calls_start(pid_t pid, int calling, const char *instead);
void calls_fill(const calls_t *c, profile_t *p); // after the waits are there
void calls_stop(calls_t *c);

#endif
