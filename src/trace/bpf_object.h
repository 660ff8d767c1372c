// SPDX-License-Identifier: MIT
/*
 * Names for locks in allocated memory: a variable of the waiting functions, or a global one, that
 * points to the object the lock is in. "struct cache.lock" says more than an address.
 */
#ifndef HOTLOCK_TRACE_BPF_OBJECT_H
#define HOTLOCK_TRACE_BPF_OBJECT_H

#include "bpf_unwind.h"

// NULL: no variable points there, or there is no debug information. Free it.
char *object_name(Dwfl *dwfl, pid_t pid, const record_t *r, const unwound_t *frames,
                  uint32_t depth, uint64_t address);
char *object_name_global(Dwfl *dwfl, pid_t pid, uint64_t address);

#endif
