// SPDX-License-Identifier: MIT
// bpf_process.c - `hotlock top -p PID`: the BPF programs of bpf/program.bpf.c and their results.
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../cli/cli.h"
#include "bpf_calls.h"
#include "bpf_gather.h"
#include "bpf_watch.h"
#include "program.skel.h"
#include "symbols.h"

#define WORK_AT_ONCE 64 // stacks unwound while the program is watched, every fifth of a second
#define LOCKS_MOST 8192
#define STACK_RATE 4 // per processor and tenth of a second: see draw() in program.bpf.c

struct process_watch {
    pid_t pid;
    unsigned hz;
    int ended; // a descriptor that tells
    struct program_bpf *bpf;
    calls_t *calls; // NULL: not asked
    struct ring_buffer *ring;
    bpf_timers_t timers;
    gather_t *gather;
    glance_t *glance;
    double user, system; // CPU seconds when it began, then now
    double user_now, system_now;
    unsigned threads;
    unsigned polls;
};

// ------------------------------------------------------------------------- the process
static void read_cpu(pid_t pid, double *user, double *system, unsigned *threads)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *after = strrchr(text, ')');
    unsigned long u, s;
    unsigned t;
    double tick = (double)sysconf(_SC_CLK_TCK);
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d "
                                    "%*d %*d %u", &u, &s, &t) != 3)
        return;
    *user = (double)u / tick;
    *system = (double)s / tick;
    if (t > *threads)
        *threads = t;
}

// ------------------------------------------------------------------------- start and stop
static int on_record(void *arg, void *record, size_t bytes)
{
    process_watch_t *w = arg;
    gather_record(w->gather, record, bytes);
    return 0;
}

// The ring must hold what comes between two looks at it, whatever the number of processors.
static __u32 ring_bytes(void)
{
    __u32 bytes = 8u << 20;
    for (int cpus = libbpf_num_possible_cpus(); cpus > 8 && bytes < 128u << 20; cpus /= 2)
        bytes *= 2;
    return bytes;
}

static void load(process_watch_t *w, bool uprobes)
{
    bpf_collect_complaints();
    w->bpf = program_bpf__open();
    if (!w->bpf)
        cli_bad("the BPF programs cannot be opened: %s", bpf_complaint());
    w->bpf->rodata->target = (__u32)w->pid;
    w->bpf->rodata->stack_rate = STACK_RATE;
    w->bpf->rodata->uprobes = uprobes;
    bpf_map__set_max_entries(w->bpf->maps.ring, ring_bytes());
    bpf_map__set_max_entries(w->bpf->maps.sums, bpf_entries(sizeof(futex_sums_t), LOCKS_MOST));
    if (!w->hz)
        bpf_program__set_autoload(w->bpf->progs.tick, false);
    if (program_bpf__load(w->bpf) != 0)
        cli_bad("this kernel refuses the BPF programs (5.19 or later is needed): %s; "
                "hotlock top -- CMD needs none", bpf_complaint());
    w->ring = ring_buffer__new(bpf_map__fd(w->bpf->maps.ring), on_record, w, NULL);
    if (!w->ring)
        cli_bad("no memory for the ring of the BPF programs: %s", bpf_complaint());
}

process_watch_t *process_watch_start(const top_options_t *o)
{
    static const char instead[] = "hotlock top -- CMD, which starts the program itself, still "
                                  "works";
    bpf_check_process(o->pid);
    static const char *const tracepoint[] = {"sched_switch", "sched_waking", NULL};
    bpf_check_allowed(tracepoint, instead);
    process_watch_t *w = cli_alloc(sizeof *w);
    w->pid = o->pid;
    w->hz = o->sample_hz;
    w->ended = (int)syscall(SYS_pidfd_open, o->pid, 0);
    w->gather = gather_new(o->pid, o->symbols);
    if (w->ended < 0 || !w->gather)
        cli_bad("process %d has ended", (int)o->pid);
    load(w, o->uprobes);
    if (w->hz)
        symbols_kernel(0, NULL); // read now, and not while the program is watched
    if (o->uprobes)
        w->calls = calls_start(o->pid, bpf_map__fd(w->bpf->maps.calling), instead);
    read_cpu(w->pid, &w->user, &w->system, &w->threads);
    if (program_bpf__attach(w->bpf) != 0)
        cli_bad("the scheduler's tracepoints cannot be attached to: %s; %s", bpf_complaint(),
                instead);
    if (w->hz && !bpf_timers_start(&w->timers, w->bpf->progs.tick, w->hz))
        cli_note("no processor clock to sample with (%s): spinning is not seen", bpf_complaint());
    w->glance = glance_start(o->pid, bpf_map__fd(w->bpf->maps.wanted));
    return w;
}

void process_watch_stop(process_watch_t *w)
{
    if (!w)
        return;
    calls_stop(w->calls);
    bpf_timers_stop(&w->timers);
    glance_stop(w->glance);
    ring_buffer__free(w->ring);
    program_bpf__destroy(w->bpf);
    gather_free(w->gather);
    close(w->ended);
    free(w);
}

// ------------------------------------------------------------------------- while it runs
bool process_watch_poll(process_watch_t *w)
{
    hot_t hot[GATHER_HOT];
    ring_buffer__consume(w->ring);
    read_cpu(w->pid, &w->user_now, &w->system_now, &w->threads);
    // What is hot must be known before it can be glanced at.
    if (w->polls++ % 2 == 1) {
        gather_work_some(w->gather, WORK_AT_ONCE);
        glance_collect(w->glance, w->gather);
        glance_at(w->glance, hot, gather_hot(w->gather, hot));
    }
    struct pollfd ended = {w->ended, POLLIN, 0};
    return poll(&ended, 1, 0) == 0;
}

// ------------------------------------------------------------------------- results
static void read_sums(process_watch_t *w)
{
    int fd = bpf_map__fd(w->bpf->maps.sums), cpus = libbpf_num_possible_cpus();
    futex_sums_t *per_cpu = cli_alloc((size_t)cpus * sizeof *per_cpu);
    __u64 key, *last = NULL;
    gather_clear_sums(w->gather);
    while (bpf_map_get_next_key(fd, last, &key) == 0) {
        if (bpf_map_lookup_elem(fd, &key, per_cpu) == 0)
            for (int i = 0; i < cpus; i++)
                gather_sums(w->gather, key, &per_cpu[i]);
        last = &key;
    }
    free(per_cpu);
}

static void read_drops(process_watch_t *w, profile_t *p)
{
    int fd = bpf_map__fd(w->bpf->maps.drops), cpus = libbpf_num_possible_cpus();
    __u64 *per_cpu = cli_alloc((size_t)cpus * sizeof *per_cpu);
    for (__u32 reason = 0; reason < DROP_REASONS; reason++) {
        __u64 sum = 0;
        if (bpf_map_lookup_elem(fd, &reason, per_cpu) == 0)
            for (int i = 0; i < cpus; i++)
                sum += per_cpu[i];
        if (reason == DROP_RECORDS)
            p->dropped.samples += sum;
        else if (reason == DROP_LOCKS)
            p->dropped.waits += sum;
        else
            p->dropped.events += sum;
    }
    free(per_cpu);
}

void process_watch_fill(process_watch_t *w, profile_t *p)
{
    read_sums(w); // first: unwinding takes time, in which the program goes on
    ring_buffer__consume(w->ring);
    gather_work(w->gather);
    glance_collect(w->glance, w->gather);
    read_drops(w, p);
    p->user_s = w->user_now - w->user;
    p->system_s = w->system_now - w->system;
    p->threads = w->threads;
    gather_fill(w->gather, p, w->hz);
    calls_fill(w->calls, p);
    if (!glance_prompt(w->glance))
        profile_note(p, "hold times are too high: looking at locks at the right moment needs "
                        "CAP_SYS_NICE (run it as root)");
}
