// SPDX-License-Identifier: MIT
// made.h - locks that are made of other things: a mutex and a condition variable, a semaphore.
#ifndef HOTLOCK_MADE_H
#define HOTLOCK_MADE_H

#include "profile.h"

#define MADE_GIL "Python's GIL"

// What a function that waits on a condition variable or a semaphore waits for, if that is a lock:
// "Python's GIL". NULL: it is not known for one.
const char *made_kind(const char *function);

// Of a profile with names: mutexes whose sleepers wait for a lock become that lock; other sleepers
// wait for work, and a note says how long.
void made_find(profile_t *p);

#endif
