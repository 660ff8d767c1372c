// SPDX-License-Identifier: MIT
// name.h - names for locks that are no variables with a symbol.
#ifndef HOTLOCK_NAME_H
#define HOTLOCK_NAME_H

#include "profile.h"

// Names a lock that has no name yet: by the function that made it, else the file whose data it is
// in, else the function that takes it, else its address. Sort its stacks first.
void name_lock(const profile_t *p, profile_lock_t *l);

#endif
