/* SPDX-License-Identifier: MIT */
/* The probes with every operation inline, and what they call. */
#define PROBES size_probes_inline
#include "size_probe_body.h"

const size_t size_probe_count = sizeof size_probes_inline / sizeof *size_probes_inline;
