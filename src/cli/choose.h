/* SPDX-License-Identifier: MIT */
/*
 * Choosing a lock for some of a program's mutexes: 'WHAT=LOCK'.
 *
 * WHAT is FILE:LINE, a place in the source that locks (or initialises) a mutex; a function that
 * does; a variable, or VARIABLE.FIELD, that is or holds one; or TYPE::FIELD. Translated to
 * addresses in the program's files by their debug information and symbol tables.
 */
#ifndef HOTLOCK_CHOOSE_H
#define HOTLOCK_CHOOSE_H

#include <stdbool.h>

typedef struct choose choose_t;

choose_t *choose_new(void);
void choose_free(choose_t *c);

/* One 'WHAT=LOCK'; what is wrong with it is one line, exit 2. */
void choose_add(choose_t *c, const char *text);

/* A file of them, one a line; # begins a comment. */
void choose_add_file(choose_t *c, const char *file);

/* A library that the program loads by itself and in which to look as well. */
void choose_add_plugin(choose_t *c, const char *file);

/* LOCK of 'default=LOCK'; NULL: not given. */
const char *choose_default(const choose_t *c);
bool choose_any(const choose_t *c);

/*
 * Finds every WHAT in PROGRAM and the libraries it needs and gives what to add to the preload's
 * setting; free it. Says on stderr what each stands for, if told to. One that stands for nothing
 * is one line, exit 2.
 */
char *choose_setting(choose_t *c, const char *program, bool say);

#endif
