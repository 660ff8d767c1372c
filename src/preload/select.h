// SPDX-License-Identifier: MIT
// select.h - choosing another lock for some mutexes; see select.c.
#ifndef HOTLOCK_PRELOAD_SELECT_H
#define HOTLOCK_PRELOAD_SELECT_H

#include <errno.h>

#include "preload.h"

#define HLP_CHOICES_MOST 64

extern bool hlp_selecting;  // any choice was made; then no mutex takes the fast path

bool hlp_site_is_valid(const char *value, const char *end);
void hlp_site_add(const char *value, const char *end);  // once, while the library starts
void hlp_sites_find(void);                              // in the files loaded by now
bool hlp_sites_wait_for_a_file(void);                   // one was not
void hlp_sites_report(void);

hlp_ops_t hlp_two_ops(void);
int hlp_two_lock_from(pthread_mutex_t *m, const void *caller);
void hlp_two_init(pthread_mutex_t *m, const void *caller);
void hlp_two_refresh(hlp_mutex_t *m);

#endif
