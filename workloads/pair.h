/* SPDX-License-Identifier: MIT */
/* The loops of pair: one lock, taken and given back n times by one thread. */
#ifndef WORKLOADS_PAIR_H
#define WORKLOADS_PAIR_H

#include <stddef.h>
#include <stdint.h>

struct pair_loop {
    const char *lock;
    void (*sections)(void *lock, uint64_t pairs); /* lock, unlock; NULL: it runs functions only */
    void (*functions)(void *lock, uint64_t pairs); /* empty function run by the lock; or NULL */
};

extern const struct pair_loop pair_inline[], pair_called[];
extern const size_t pair_inline_count, pair_called_count;

void pair_empty(void *unused);

#endif
