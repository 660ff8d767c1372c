/* SPDX-License-Identifier: MIT */
/* Every subcommand's function. */
#ifndef HOTLOCK_COMMANDS_H
#define HOTLOCK_COMMANDS_H

#include "cli.h"

int cmd_bench(int argc, char **argv);
int cmd_calibrate(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_kernel(int argc, char **argv);
int cmd_locks(int argc, char **argv);
int cmd_machines(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_size(int argc, char **argv);
int cmd_try(int argc, char **argv);

#endif
