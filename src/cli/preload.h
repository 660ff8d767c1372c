/* SPDX-License-Identifier: MIT */
/* The preload library: where it is, how a program gets it, which locks it offers. */
#ifndef HOTLOCK_PRELOAD_H
#define HOTLOCK_PRELOAD_H

#include <stdbool.h>

/*
 * FILE if given, else the library beside this binary in the build tree, else the installed one;
 * free it. Not there, or a path LD_PRELOAD cannot hold: one line, exit 2.
 */
char *preload_find(const char *file);

/* Another library of hotlock's to preload, found in the same places; free it. */
char *preload_companion(const char *name, const char *build_directory);

/*
 * A copy of the environment in which the next program runs under a lock: PRELOAD before what
 * LD_PRELOAD held, HOTLOCK set to SETTING. NULL for both: as it is, but without HOTLOCK.
 */
char **preload_env(const char *preload, const char *setting);

/*
 * Does the library accept SETTING? Asked of itself: it is loaded once into this very binary, which
 * prints its version. A library that cannot be loaded at all is one line, exit 2.
 */
bool preload_accepts(const char *preload, const char *setting);

#endif
