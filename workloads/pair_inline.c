/* SPDX-License-Identifier: MIT */
/* Lone pairs with every operation inlined. */
#define WORKLOAD_COMBINERS 1
#include "locks/locks.h"
#include "pair.h"

#define LOCK_BODY "../pair_body.h"
#include "locks/each.h"

#define LOCK_BODY "../pair_row.h"
const struct pair_loop pair_inline[] = {
#include "locks/each.h"
};
const size_t pair_inline_count = sizeof(pair_inline) / sizeof(pair_inline[0]);

__attribute__((noinline)) void pair_empty(void *unused)
{
    (void)unused;
    __asm__ __volatile__("");
}
