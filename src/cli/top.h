// SPDX-License-Identifier: MIT
// top.h - the parts of `hotlock top` and `hotlock report`: one profile, its diagnoses, many forms.
#ifndef HOTLOCK_TOP_H
#define HOTLOCK_TOP_H

#include <jansson.h>
#include <stdio.h>

#include "../trace/diagnosis.h"
#include "../trace/profile.h"
#include "table.h"

typedef struct {
    const profile_t *profile;
    const diagnosis_t *diagnoses; // one per lock, in the order of the profile
    size_t limit;                 // locks shown in tables
    size_t detailed;              // of them, with stacks and verdict
    size_t stacks;                // shown of each role
    const char *command;          // words that run the program again: "-- prog -x"; or NULL
    json_t *sweep;                // result of `hotlock try` or `bench` to draw, or NULL
    const char *sweep_name;
} top_result_t;

// A form of the result. Writes all of it to OUT; false: it could not be made.
typedef bool (*top_writer_t)(const top_result_t *r, FILE *out);

typedef struct {
    const char *name;      // for --format
    const char *suffix;    // of a file that is written in this form
    top_writer_t write;
    const char *help;
} top_form_t;

extern const top_form_t top_forms[]; // ends with a NULL name

bool top_text(const top_result_t *r, FILE *out);
bool top_json(const top_result_t *r, FILE *out);
bool top_csv(const top_result_t *r, FILE *out);
bool top_markdown(const top_result_t *r, FILE *out);
bool top_folded(const top_result_t *r, FILE *out);
bool top_pprof(const top_result_t *r, FILE *out);
bool top_prometheus(const top_result_t *r, FILE *out);
bool top_html(const top_result_t *r, FILE *out);

// Shared pieces of the forms.
table_t *top_table(const top_result_t *r);
// Two or three sentences: time, CPU time, its share spent spinning, what was dropped; free it.
char *top_summary(const profile_t *p);
// "get (kv.c:88)"; the innermost frames, "get (kv.c:88) < serve < main"; free them.
char *top_frame_text(const profile_frame_t *f);
char *top_stack_text(const profile_t *p, const profile_stack_t *s, size_t frames);
// "1.20 s", "33.1 us"; BUFFER has room for 32.
const char *top_duration(double ns, char *buffer);
// What a lock's stacks of a role sum up to.
uint64_t top_role_ns(const profile_lock_t *l, profile_role_t role);
// Share of the watched time during which the lock was held, 0 to 1; NaN: not known.
double top_utilisation(const profile_t *p, const profile_lock_t *l);
// What was not measured, dropped or is odd: one line each, to be freed; NULL-ended.
char **top_remarks(const profile_t *p);

// The commands to type next, a line each, for the costliest lock that they reach; or NULL. Free it.
char *top_next(const top_result_t *r);

// The live view: a looker for top_options_t.
typedef struct top_live top_live_t;
top_live_t *top_live_begin(const char *what);
bool top_live_look(profile_t *so_far, void *live);
void top_live_end(top_live_t *live);

// hold and think times of the hottest lock, as a C program for `hotlock sim`; false: not known.
bool top_export_workload(const top_result_t *r, FILE *out);

#endif
