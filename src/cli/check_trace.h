/* SPDX-License-Identifier: MIT */
/* What a run of the model checker reported: verdict, counts, outcomes, and one execution. */
#ifndef HOTLOCK_CHECK_TRACE_H
#define HOTLOCK_CHECK_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "table.h"

/* What an atomic access reads or writes: up to 16 bytes. */
__extension__ typedef unsigned __int128 trace_value_t;

typedef struct {
    int thread, index, type, op, order, success, failure, offset, size, mask, rmw, hidden, loc;
    int rf, copos, child, seq;
    trace_value_t value;
    unsigned long pc;
} trace_event_t;

typedef struct {
    unsigned long addr;
    int size;
    trace_value_t init;
} trace_place_t;

typedef struct {
    unsigned long pc;
    char *function, *file, *text; /* text: the source line, trimmed; may be NULL */
    int line;
} trace_spot_t;

typedef struct {
    unsigned long pc;
    int op, order, failure; /* op: -1 a fence; else vm_op_t */
} trace_site_t;

typedef struct {
    char *end;  /* complete, bad, time, bound, limit, unusable, alone, nothing, replayed */
    char *what; /* the counterexample, the limit, or why the program is unusable */
    char *kind; /* of a counterexample: race, assert, deadlock, freed, stack, exit, crash, misuse */
    int thread, other_thread;
    unsigned long pc, other_pc, bound_pc;
    unsigned long long complete, blocked, runs, bounded;
    unsigned long long found, seen; /* the first counterexample's run; how many there were */
    int allowed;                /* plain search: preemptions */
    unsigned long long cut;     /* how often one more would have been another choice */
    double seconds;
    struct { unsigned long long times; char *text; } *outcomes;
    size_t outcome_count;
    char *printed;              /* by the counterexample */
    trace_event_t *events;
    size_t event_count;
    trace_place_t *places;
    size_t place_count;
    int *order;                 /* threads, event by event, with fewest context switches */
    size_t order_count;
    bool not_fewest;            /* there were too many orders to look at */
    int strict;                 /* 2: the order is an interleaving; less: only weak memory shows it */
    struct { int thread, joins; unsigned long pc; } *waits;
    size_t wait_count;
    trace_site_t *sites;
    size_t site_count;
    trace_spot_t *spots;        /* of every pc above, once trace_locate() has run */
    size_t spot_count;
} trace_t;

/* Reads the report in FILE; false if it is not there or not whole: the checker itself died. */
bool trace_read(const char *file, trace_t *t);
void trace_free(trace_t *t);

/* Finds function, file and line of every program counter in PROGRAM. */
void trace_locate(trace_t *t, const char *program);
const trace_spot_t *trace_spot(const trace_t *t, unsigned long pc); /* never NULL */

/* The counterexample's steps: one row for each event worth one. */
table_t *trace_steps(const trace_t *t, const char *program);
/* The counterexample, for people; and for programs, a new reference. */
void trace_print(const trace_t *t, const char *program, FILE *out);
json_t *trace_json(const trace_t *t, const char *program);

const char *trace_order_name(int order);

#endif
