/* SPDX-License-Identifier: MIT */
/*
 * One function per operation of each lock, in both forms, whose instructions are counted: from
 * one size_mark() to the next there is the operation alone.
 */
#ifndef HOTLOCK_SIZE_PROBE_H
#define HOTLOCK_SIZE_PROBE_H

#include <stddef.h>

/* A lock of any kind and a node, for mcs. */
void size_mark(void *lock, void *node);

typedef struct {
    const char *function;                    /* "hl_tas_lock"; NULL: nothing, the reference */
    void (*probe)(void *lock, void *node);
} size_probe_t;

/* In the order lock, unlock, trylock, unlock again (not counted), for each lock. */
extern const size_probe_t size_probes_inline[], size_probes_called[];
extern const size_t size_probe_count;

#endif
