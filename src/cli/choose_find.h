/* SPDX-License-Identifier: MIT */
/* Where in a program's files the choices of choose.c lie. */
#ifndef HOTLOCK_CHOOSE_FIND_H
#define HOTLOCK_CHOOSE_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a file: code that calls, or data that is a mutex. Addresses as the file has them. */
typedef struct {
    const char *path;
    uint64_t begin, end;
    bool data, exact; /* exact: it is WHAT itself; else it belongs to the type that WHAT names */
} place_t;

typedef struct {
    char *what;
    const char *lock;
    int line;           /* 0: a name */
    size_t file_length; /* of WHAT, before the line */
    place_t *places;
    size_t count;
    bool field_seen;      /* the type that WHAT names has such a field */
    bool by_type, others; /* found through TYPE::FIELD; not all in the first file */
} choice_t;

/*
 * Fills in the places, in PROGRAM, the libraries it needs, and PLUGINS (NULL, or ending with NULL);
 * their paths live for ever.
 */
void choose_find(choice_t *choices, size_t count, const char *program, char *const *plugins);

#endif
