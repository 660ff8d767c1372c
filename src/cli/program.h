/* SPDX-License-Identifier: MIT */
/* Can a preloaded library act in this program? Asked before anything runs. */
#ifndef HOTLOCK_PROGRAM_H
#define HOTLOCK_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The file that running COMMAND would execute (searched in PATH like execvp(3) does), free it. What
 * cannot be executed is one line and exit 2. If PRELOAD is not NULL, so is a program in which it
 * could not act: static, set-user-ID, of another machine, with another C library.
 */
char *program_find(const char *command, const char *preload);

/* Copies the path of the dynamic linker of an ELF program; false if it names none. */
bool program_linker(const char *file, char *linker, size_t size);

/* The first bytes of FILE, missing ones zero; one line, exit 2 if it cannot be read. */
void program_head(const char *file, void *head, size_t size);

#endif
