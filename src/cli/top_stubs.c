// SPDX-License-Identifier: MIT
#include "top.h"
top_live_t *top_live_begin(const char *what) { (void)what; return NULL; }
bool top_live_look(profile_t *so_far, void *live) { (void)so_far; (void)live; return true; }
void top_live_end(top_live_t *live) { (void)live; }
