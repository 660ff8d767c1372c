/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own locks, watched with BPF: with -a, alone, beside a process or beside a program
 * that is run.
 */
#ifndef HOTLOCK_TRACE_KERNEL_WATCH_H
#define HOTLOCK_TRACE_KERNEL_WATCH_H

#include "profile.h"

typedef struct kernel_watch kernel_watch_t;
kernel_watch_t *kernel_watch_start(const top_options_t *o); // not allowed: one line, exit 2
void kernel_watch_poll(kernel_watch_t *w);
void kernel_watch_fill(kernel_watch_t *w, profile_t *p); // all so far
void kernel_watch_stop(kernel_watch_t *w);               // NULL: nothing

#endif
