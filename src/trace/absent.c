// SPDX-License-Identifier: MIT
// absent.c - what `hotlock top` says when it was built without BPF.
#include "../cli/cli.h"
#include "profile.h"

int collect_process(const top_options_t *o, profile_t *p) {
    (void)p;
    cli_bad("-p %d needs BPF, which this hotlock was built without; use -- CMD", (int)o->pid);
}

int collect_system(const top_options_t *o, profile_t *p) {
    (void)o;
    (void)p;
    cli_bad("-a needs BPF, which this hotlock was built without; use -- CMD");
}
