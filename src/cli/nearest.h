/* SPDX-License-Identifier: MIT */
/* The nearest of some names to a mistyped one, for "unknown lock 'tikcet'; nearest is 'ticket'". */
#ifndef HOTLOCK_NEAREST_H
#define HOTLOCK_NEAREST_H

#include <stddef.h>

/* Edits (insert, delete, replace, swap neighbours) that turn a into b, ignoring case. */
size_t nearest_distance(const char *a, const char *b);

/* The name with the fewest edits, the first of equals; NULL only if there are no names. */
const char *nearest_name(const char *word, const char *const *names, size_t count);

#endif
