// SPDX-License-Identifier: MIT
/*
 * The two things that can be watched with BPF, a process and the kernel (kernel_watch.h), each with
 * the same four verbs, so that both can run over the same seconds and fill one profile.
 */
#ifndef HOTLOCK_TRACE_BPF_WATCH_H
#define HOTLOCK_TRACE_BPF_WATCH_H

#include "kernel_watch.h"
#include "profile.h"

typedef struct process_watch process_watch_t;
process_watch_t *process_watch_start(const top_options_t *o); // bad input: one line, exit 2
bool process_watch_poll(process_watch_t *w);                  // false: the process has ended
void process_watch_fill(process_watch_t *w, profile_t *p);    // all so far; p->wall_s is set
void process_watch_stop(process_watch_t *w);

// --- what both need (bpf_allowed.c, bpf_timer.c)

// May this machine and this user do it at all, and has the kernel these tracepoints (NULL ends
// them)? Else one line with what still works, exit 2.
void bpf_check_allowed(const char *const tracepoint[], const char *instead);
void bpf_check_process(pid_t pid);

// How many entries of this size, kept for each processor, a map may have: memory is bounded.
unsigned bpf_entries(size_t bytes, unsigned most);

// The last thing libbpf or the kernel complained about; for the one line.
void bpf_collect_complaints(void);
const char *bpf_complaint(void);

// A timer on every processor, or -1 in all: descriptors to attach a perf_event program to.
struct bpf_link;
struct bpf_program;
typedef struct {
    int count;
    int *fd;
    struct bpf_link **link;
} bpf_timers_t;
bool bpf_timers_start(bpf_timers_t *t, const struct bpf_program *program, unsigned hz);
void bpf_timers_stop(bpf_timers_t *t);

// --- glances at locks from outside (bpf_glance.c)
typedef struct glance glance_t;
#include "bpf_gather.h"
glance_t *glance_start(pid_t pid, int wanted); // WANTED: the map of threads per address
void glance_at(glance_t *g, const hot_t *hot, size_t count); // and hand over what was seen
void glance_collect(glance_t *g, gather_t *to);
bool glance_prompt(const glance_t *g); // it had a priority that makes it unbiased
void glance_stop(glance_t *g);

#endif
