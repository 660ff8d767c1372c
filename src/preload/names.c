// SPDX-License-Identifier: MIT
// names.c - every function of ours that another name may hide.
#include <threads.h>

#include "preload.h"

#define X(name) {#name, (void *)(name)},
const hlp_name_t hlp_names[HLP_NAMES] = {HLP_EXPORTED(X)};
#undef X
