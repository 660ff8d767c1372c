/* SPDX-License-Identifier: MIT */
/* Lock names as users write them: NAME, or NAME and a wait policy as NAME:POLICY. */
#ifndef HOTLOCK_LOCKNAME_H
#define HOTLOCK_LOCKNAME_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *name;  /* "libc", or a lock's own name */
    const char *wait;  /* "spin", "yield", "park"; NULL: the lock's own policy */
    bool libc;         /* no preload at all */
} lockname_t;

/* Unknown names, and locks that cannot stand in for a pthread lock, are one line and exit 2. */
lockname_t lockname_parse(const char *text);

/* What to put into the environment variable HOTLOCK; NULL for libc. Free it. */
char *lockname_setting(const lockname_t *lock, bool check);

/* A lock the preload does not offer is one line, exit 2. */
void lockname_require(const lockname_t *lock, const char *preload);

/* "nmcs" or "nmcs:yield"; free it. */
char *lockname_label(const lockname_t *lock);

/* All locks the preload offers. */
size_t lockname_all(lockname_t *locks, size_t room, const char *preload);

#endif
