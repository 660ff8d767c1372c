// SPDX-License-Identifier: MIT
// bpf_absent.c - the collectors of a hotlock that was built without BPF: they say what is missing.
#include "../cli/cli.h"
#include "kernel_watch.h"

int collect_process(const top_options_t *o, profile_t *p)
{
    (void)o, (void)p;
    cli_bad("-p needs a hotlock built with BPF (missing: " BPF_MISSING "); hotlock top -- CMD, "
            "which starts the program itself, still works");
}

int collect_system(const top_options_t *o, profile_t *p)
{
    (void)p;
    kernel_watch_start(o);
    return CLI_NO_RESULT;
}

kernel_watch_t *kernel_watch_start(const top_options_t *o)
{
    (void)o;
    cli_bad("-a needs a hotlock built with BPF (missing: " BPF_MISSING "); hotlock top -- CMD, "
            "which shows a program's own locks, still works");
}

// Nobody has one.
void kernel_watch_poll(kernel_watch_t *w)
{
    (void)w;
}

void kernel_watch_fill(kernel_watch_t *w, profile_t *p)
{
    (void)w, (void)p;
}

void kernel_watch_stop(kernel_watch_t *w)
{
    (void)w;
}
