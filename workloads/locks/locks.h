/* SPDX-License-Identifier: MIT */
/*
 * What is known of each lock without compiling a loop around it: the catalogue.
 *
 * LOCK_FN(prefix) names a body's function for the lock in force: LOCK_FN(counter) is counter_tas.
 */
#ifndef WORKLOADS_LOCKS_H
#define WORKLOADS_LOCKS_H

#include <stdbool.h>
#include <stddef.h>

#define LOCK_JOIN_(a, b) a##_##b
#define LOCK_JOIN(a, b) LOCK_JOIN_(a, b)
#define LOCK_FN(prefix) LOCK_JOIN(prefix, LOCK)
#define LOCK_STRING_(a) #a
#define LOCK_STRING(a) LOCK_STRING_(a)
#define LOCK_NAME LOCK_STRING(LOCK)

/* Most locks need nothing of the thread. */
struct lock_me_none {
    char unused;
};

struct lock_info {
    const char *name;
    size_t bytes;      /* of the lock */
    size_t node_bytes; /* per thread or per wait, beside the lock's own pools */
    unsigned atomics;  /* of an uncontended lock/unlock pair */
    bool shared;       /* works between processes */
    bool sections;     /* has lock and unlock; else it runs functions only */
    bool combines;     /* runs functions, perhaps on another thread */
    bool futex_hidden; /* it calls futex where we cannot count */
    void (*setup)(void *lock, unsigned threads, bool shared);
};

extern const struct lock_info lock_catalogue[];
extern const size_t lock_count;

/* Memory on cache lines of its own, zeroed, there until the program ends. */
void *lines_new(size_t bytes);

/* From now on lines_new() gives memory that forked workers share. */
void lines_share(void);

/* A new lock of this kind. */
void *lock_new(const struct lock_info *info, unsigned threads, bool shared);

#endif
