/* SPDX-License-Identifier: MIT */
/* hotlock check --orders: which memory orders of a program are needed. */
#ifndef HOTLOCK_CHECK_ORDERS_H
#define HOTLOCK_CHECK_ORDERS_H

#include "check_trace.h"
#include "output.h"

typedef void (*check_explore_t)(const char *program, const char *more, trace_t *t);

/* Writes the table; gives the exit code of the command. */
int check_orders(const char *program, check_explore_t explore, const output_t *output);

#endif
