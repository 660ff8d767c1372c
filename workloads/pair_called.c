/* SPDX-License-Identifier: MIT */
/* Lone pairs with every operation a call into libhotlock. */
#define HL_INLINE_LOCK 0
#define HL_INLINE_TRYLOCK 0
#define HL_INLINE_UNLOCK 0
#define WORKLOAD_OURS_ONLY 1
#include "locks/locks.h"
#include "pair.h"

#define LOCK_BODY "../pair_body.h"
#include "locks/each.h"

#define LOCK_BODY "../pair_row.h"
const struct pair_loop pair_called[] = {
#include "locks/each.h"
};
const size_t pair_called_count = sizeof(pair_called) / sizeof(pair_called[0]);
