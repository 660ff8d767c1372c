/* SPDX-License-Identifier: MIT */
/*
 * What `hotlock size` knows of the lock operations in some objects and programs.
 *
 * Inlined operations are found in the debug information, calls in the disassembly, slow paths in
 * the symbol table. Several files are added up.
 */
#ifndef HOTLOCK_SIZE_H
#define HOTLOCK_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

/* Instructions of one operation when nobody else is there; 0: not counted. */
typedef struct {
    unsigned inlined, called;
} size_steps_t;

/* One operation of one lock. */
typedef struct {
    char *lock, *operation;  /* "nmcs", "unlock"; the lock of hotlock.h is "any" */
    size_t inlined, called;  /* sites */
    uint64_t inline_bytes;   /* of the inlined sites */
    uint64_t body;           /* bytes of the operation compiled once; 0: unknown */
    size_t functions;        /* that contain a site */
    uint64_t saves;          /* registers they store on the stack */
    size_steps_t steps;
} size_op_t;

typedef struct {
    size_op_t *ops;
    size_t count;
    uint64_t text;           /* bytes of code, all files */
    size_t slow_copies;      /* slow paths that inlining brought along */
    uint64_t slow_bytes;
    unsigned machine;        /* EM_...: of all files */
    bool debug;              /* every file has debug information */
    char **files;
} size_of_t;

/* "hl_nmcs_unlock" and the like; false: no operation. The entry is made if it is not there. */
bool size_is_operation(const char *function);
size_op_t *size_op(size_of_t *s, const char *function);
void size_free(size_of_t *s);

/* Adds FILE; what is no object or program is one line, exit 2. */
void size_add_file(size_of_t *s, const char *file);

/* Sites that the debug information lists, to be matched with functions: size_code.c. */
typedef struct {
    size_t op;               /* which of ops */
    char *section;           /* of an object; "" in a program */
    uint64_t address;
} size_site_t;

void size_add_code(size_of_t *s, const char *file, unsigned machine, const size_site_t *sites,
                   size_t count);

/* Bytes of the function NAME in an ELF file, 0 if it is not there. */
uint64_t size_of_function(const char *file, const char *name);

/* Counts, by single steps in a child, what each operation executes; false: cannot here. */
bool size_count_steps(size_of_t *s);

/* An estimate: the call and one argument. */
unsigned size_call_bytes(unsigned machine);

/* What an operation costs inline, and as calls; the sites of the other form are estimated. */
uint64_t size_bytes_inline(const size_op_t *op);
uint64_t size_bytes_called(const size_op_t *op, unsigned machine);

void size_print(const size_of_t *s, const size_of_t *other, double most, table_format_t format,
                FILE *out);

#endif
