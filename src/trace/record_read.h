// SPDX-License-Identifier: MIT
// record_read.h - from the recorder's files to a profile.
#ifndef HOTLOCK_RECORD_READ_H
#define HOTLOCK_RECORD_READ_H

#include "profile.h"

// Adds what every process counted so far that recorded into this directory; how many did. The
// processes may be running.
size_t record_read(const char *directory, profile_t *p);

#endif
