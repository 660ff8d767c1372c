// SPDX-License-Identifier: MIT
// bpf_collect.c - the collectors of `hotlock top -p` and `-a`: watch for some time, then fill.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../cli/child.h"
#include "../cli/cli.h"
#include "bpf_watch.h"

#define POLL_NS 100000000

typedef struct {
    process_watch_t *process;
    kernel_watch_t *kernel;
    const top_options_t *options;
    double begin;
} watch_t;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static char *name_of(pid_t pid)
{
    char path[64], name[64] = "?";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "re");
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = 0;
    if (f)
        fclose(f);
    return cli_printf("PID %d (%s)", (int)pid, name);
}

static void fill(const watch_t *w, const char *what, profile_t *p)
{
    p->what = cli_printf("%s", what);
    p->pid = w->options->pid;
    p->processors = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    p->wall_s = now() - w->begin;
    p->how = w->kernel && w->process
                 ? "BPF: waits for the kernel's locks, and the program's sleeps, exact; stacks, "
                   "spinning and holding from samples; free acquisitions are not seen"
             : w->kernel
                 ? "BPF: waits for the kernel's locks, exact; spinning from samples of "
                   "every processor; free acquisitions are not seen"
             : w->options->uprobes
                 ? "BPF: every lock call was counted and every hold timed, which slowed the "
                   "program; sleeps are exact; stacks and spinning are from samples"
                 : "BPF: sleeps are exact; stacks, spinning and holding are from samples; "
                   "acquisitions of a free lock are not seen";
    if (w->process)
        process_watch_fill(w->process, p);
    if (w->kernel)
        kernel_watch_fill(w->kernel, p);
}

// True while somebody wants to see more.
static bool show(const watch_t *w, const char *what)
{
    profile_t so_far;
    profile_init(&so_far);
    fill(w, what, &so_far);
    bool more = w->options->look(&so_far, w->options->looker);
    profile_free(&so_far);
    return more;
}

static int watch(watch_t *w, profile_t *p)
{
    const top_options_t *o = w->options;
    char *what = !w->process ? cli_printf("this machine")
                             : name_of(o->pid);
    double shown = w->begin = now(), at = w->begin;
    bool more = true, lives = true;
    while (more && lives && !child_interrupted() && (!o->seconds || at - w->begin < o->seconds)) {
        double left = o->seconds ? o->seconds - (at - w->begin) : 1;
        struct timespec pause = {0, POLL_NS};
        if (left < POLL_NS * 1e-9)
            pause.tv_nsec = (long)(left * 1e9);
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        if (w->process)
            lives = process_watch_poll(w->process);
        if (w->kernel)
            kernel_watch_poll(w->kernel);
        at = now();
        if (o->look && at - shown >= 1) {
            shown = at;
            more = show(w, what);
        } else if (o->look) {
            more = o->look(NULL, o->looker); // to answer keys
        }
    }
    fill(w, what, p);
    p->partial = child_interrupted();
    free(what);
    return 0;
}

int collect_process(const top_options_t *o, profile_t *p)
{
    watch_t w = {.options = o};
    child_watch_interrupts();
    w.process = process_watch_start(o);
    int code = watch(&w, p);
    process_watch_stop(w.process);
    return code;
}

int collect_system(const top_options_t *o, profile_t *p)
{
    watch_t w = {.options = o};
    child_watch_interrupts();
    if (o->pid)
        w.process = process_watch_start(o);
    w.kernel = kernel_watch_start(o);
    int code = watch(&w, p);
    kernel_watch_stop(w.kernel);
    process_watch_stop(w.process);
    return code;
}
