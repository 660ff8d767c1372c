/* SPDX-License-Identifier: MIT */
/* Every subcommand: add one line here and one file to meson.build. */
#include "commands.h"

const cli_command_t cli_commands[] = {
    {"top", cmd_top, "find the hot lock of a program, a process or the machine"},
    {"report", cmd_report, "the same as one HTML page"},
    {"try", cmd_try, "run a program under each lock and say which cures it"},
    {"run", cmd_run, "run a program under one lock"},
    {"bench", cmd_bench, "compare the locks, and peers, on a workload"},
    {"check", cmd_check, "explore every execution of a small program, weak memory included"},
    {"sim", cmd_sim, "simulate a program on a machine you do not have"},
    {"calibrate", cmd_calibrate, "measure this machine into a machine file"},
    {"machines", cmd_machines, "list the machines that can be simulated, and what is known of them"},
    {"size", cmd_size, "what inlining each lock operation costs in bytes and gains"},
    {"doctor", cmd_doctor, "say what this machine supports, and what of a program is covered"},
    {"kernel", cmd_kernel, "build, boot and judge Linux 6.1 with another spinlock"},
    {"locks", cmd_locks, "list the locks and what they cost"},
    {0},
};
