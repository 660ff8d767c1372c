/* SPDX-License-Identifier: MIT */
/*
 * Machine files: what `hotlock sim` simulates. A topology as hwloc writes it, and numbers, each
 * with its source and how it came to be: measured, published, estimated, or fitted to a result.
 */
#ifndef HOTLOCK_MACHINE_H
#define HOTLOCK_MACHINE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef enum { KIND_MEASURED, KIND_PUBLISHED, KIND_ESTIMATED, KIND_FITTED, KINDS } number_kind_t;

typedef struct {
    const char *key;
    double value;         /* ns, or without a unit */
    number_kind_t kind;
    const char *source;
    bool given;           /* false: the default */
} number_t;

typedef struct {
    int core, l3, socket, group;
    int rank_core, rank_thread; /* of the core in its socket, of the hardware thread in its core */
} place_cpu_t;

typedef struct {
    char *file;
    const char *name, *about;
    const char *topology;  /* a synthetic description or the XML file's name */
    number_t *numbers;
    size_t number_count;
    place_cpu_t *cpus;     /* in the order threads are placed */
    size_t cpu_count;
    int sockets, cores, l3s;
    double ghz;
    json_t *root;
} place_machine_t;

extern const char *const machine_kind_names[KINDS];

/*
 * NAME is one of the machines that come with hotlock, or a file. A number that is missing or makes
 * no sense is one line (file, key, reason) and exit 2.
 */
place_machine_t *machine_load(const char *name);
void machine_free(place_machine_t *m);

/* "spread" (over the sockets), "compact" (socket by socket) or a list of CPUs like "0,2,4-7". */
void machine_place(place_machine_t *m, const char *how);

double machine_number(const place_machine_t *m, const char *key);
/* The simulated process's settings; free them. */
char *machine_settings(const place_machine_t *m);
char *machine_cpus(const place_machine_t *m);
/* "none", or the keys of numbers that were fitted; free it. */
char *machine_fitted(const place_machine_t *m);

/* Names of the machines that come with hotlock, sorted, NULL-ended; free with cli_free_list(). */
char **machine_names(void);
/* Whether NUMBER could be one of KEY's, for those who write machine files. */
const char *machine_absurd(const char *key, double value);

#endif
