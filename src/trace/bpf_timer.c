// SPDX-License-Identifier: MIT
// bpf_timer.c - the processor clock as a source of samples; no hardware counter is needed.
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "../cli/cli.h"
#include "bpf_watch.h"

bool bpf_timers_start(bpf_timers_t *t, const struct bpf_program *program, unsigned hz)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_freq = hz,
        .freq = 1,
        .exclude_idle = 1,
    };
    int count = libbpf_num_possible_cpus(), started = 0;
    *t = (bpf_timers_t){0};
    if (count <= 0)
        return false;
    t->count = count;
    t->fd = cli_alloc((size_t)count * sizeof *t->fd);
    t->link = cli_alloc((size_t)count * sizeof *t->link);
    for (int i = 0; i < count; i++) {
        // A processor that is off has none.
        t->fd[i] = (int)syscall(SYS_perf_event_open, &attr, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
        if (t->fd[i] < 0)
            continue;
        t->link[i] = bpf_program__attach_perf_event(program, t->fd[i]);
        started += t->link[i] != NULL;
    }
    return started > 0;
}

void bpf_timers_stop(bpf_timers_t *t)
{
    for (int i = 0; i < t->count; i++)
        bpf_link__destroy(t->link[i]); // closes the event too
    free(t->fd);
    free(t->link);
    *t = (bpf_timers_t){0};
}
