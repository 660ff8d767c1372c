// SPDX-License-Identifier: MIT
// diagnosis.h - what a lock's figures mean: which limit it is at, with the arithmetic, and what to
// do next.
#ifndef HOTLOCK_DIAGNOSIS_H
#define HOTLOCK_DIAGNOSIS_H

#include "profile.h"

typedef enum {
    LIMIT_NONE,      // not a lock problem
    LIMIT_UNKNOWN,   // too little was measured to say
    LIMIT_HOLD,      // held nearly all the time: no lock will help
    LIMIT_HANDOFF,   // passing it on is what takes the time: another lock can help
    LIMIT_PREEMPTED, // its holder is off the processor while others wait
    LIMIT_READERS,   // readers wait for readers
    LIMIT_SPIN,      // waiting burns CPU time that others could use
    LIMIT_BURSTS,    // idle most of the time, yet waited for: they come together
    LIMIT_CALLS      // hardly waited for, but taking and freeing it is what takes the time
} limit_t;

typedef struct {
    limit_t limit;
    char *verdict;     // one sentence
    char *arithmetic;  // the figures it follows from
    char *advice;      // what would help
    double bound;      // at most this share of the watched time can a better lock save; NaN
} diagnosis_t;

// One per lock of a finished profile; free with diagnosis_free().
diagnosis_t *diagnose(const profile_t *p);
void diagnosis_free(diagnosis_t *d, size_t count);

// "hold time", "hand-off"...
const char *limit_name(limit_t limit);

// Shares of the watched time, 0 to 1; NaN: not known.
double diagnosis_utilisation(const profile_t *p, const profile_lock_t *l);
double diagnosis_handoff_share(const profile_t *p, const profile_lock_t *l);
// Of the CPU time, inside its calls; or of the time of the thread that was there most, if that is
// more.
double diagnosis_calls_share(const profile_t *p, const profile_lock_t *l);

#endif
