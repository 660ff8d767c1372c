/* SPDX-License-Identifier: MIT */
/* The libraries a program is linked to, as its own dynamic linker finds them. */
#ifndef HOTLOCK_NEEDS_H
#define HOTLOCK_NEEDS_H

#include <stdbool.h>

typedef struct {
    char *name; /* as the program asks for it */
    char *path; /* NULL: not found */
} need_t;

/*
 * Asks LINKER what it would load for FILE; nothing of the
 * program runs. Ends with a NULL name; NULL if it would not say. The C library's own are left out.
 */
need_t *needs_of(const char *file, const char *linker);
void needs_free(need_t *needs);

#endif
