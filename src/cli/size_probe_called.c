/* SPDX-License-Identifier: MIT */
/* The probes with every operation a call. */
#define HL_INLINE_LOCK 0
#define HL_INLINE_TRYLOCK 0
#define HL_INLINE_UNLOCK 0
#define PROBES size_probes_called
#include "size_probe_body.h"
