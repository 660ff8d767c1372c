// SPDX-License-Identifier: MIT
// bpf_absent.c - the collectors of a hotlock that was built without BPF: they say what is missing.
#include "../cli/cli.h"
#include "profile.h"

int collect_process(const top_options_t *o, profile_t *p)
{
    (void)o, (void)p;
    cli_bad("-p needs a hotlock built with BPF (missing: " BPF_MISSING "); hotlock top -- CMD, "
            "which starts the program itself, still works");
}

int collect_system(const top_options_t *o, profile_t *p)
{
    (void)o, (void)p;
    cli_bad("-a needs a hotlock built with BPF (missing: " BPF_MISSING "); hotlock top -- CMD, "
            "which shows a program's own locks, still works");
}
