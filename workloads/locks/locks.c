/* SPDX-License-Identifier: MIT */
/* The catalogue of locks, filled from the descriptors, and memory for them. */
#define WORKLOAD_COMBINERS 1
#include "locks.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LINES = 128, CHUNK = 1 << 21 };

#define LOCK_BODY "locks_setup.h"
#include "each.h"

#define LOCK_BODY "locks_row.h"
const struct lock_info lock_catalogue[] = {
#include "each.h"
};
const size_t lock_count = sizeof(lock_catalogue) / sizeof(lock_catalogue[0]);

static int mapping = MAP_PRIVATE;

void lines_share(void)
{
    mapping = MAP_SHARED;
}

void *lines_new(size_t bytes)
{
    static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER; /* threads make their own nodes */
    static char *chunk;
    static size_t left;
    bytes = (bytes + LINES - 1) / LINES * LINES;
    pthread_mutex_lock(&guard);
    if (bytes > left) {
        left = bytes > CHUNK ? bytes : CHUNK;
        chunk = mmap(NULL, left, PROT_READ | PROT_WRITE, mapping | MAP_ANONYMOUS, -1, 0);
        if (chunk == MAP_FAILED) {
            fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
            exit(1);
        }
    }
    void *lines = chunk;
    chunk += bytes;
    left -= bytes;
    pthread_mutex_unlock(&guard);
    return lines;
}

void *lock_new(const struct lock_info *info, unsigned threads, bool shared)
{
    void *lock = lines_new(info->bytes);
    info->setup(lock, threads, shared);
    return lock;
}
