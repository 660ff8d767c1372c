/* SPDX-License-Identifier: MIT */
/* Can a preloaded library act in this program? Asked before anything runs. */
#ifndef HOTLOCK_PROGRAM_H
#define HOTLOCK_PROGRAM_H

#include <stdbool.h>

/*
 * The file that running COMMAND would execute (searched in PATH like execvp(3) does), free it. What
 * cannot be executed is one line and exit 2. If PRELOAD is not NULL, so is a program in which it
 * could not act: static, set-user-ID, of another machine, with another C library.
 */
char *program_find(const char *command, const char *preload);

/*
 * The preload library: FILE if given, else the one beside this binary in the build tree, else the
 * installed one; free it. Not there, or a path LD_PRELOAD cannot hold: one line, exit 2.
 */
char *program_preload(const char *file);

/*
 * A copy of the environment in which the next program runs under a lock: PRELOAD before what
 * LD_PRELOAD held, HOTLOCK set to SETTING. NULL for both: as it is, but without HOTLOCK.
 */
char **program_env(const char *preload, const char *setting);

#endif
