// SPDX-License-Identifier: MIT
/*
 * bpf_glance.c - how long a lock is held, without counting a single acquisition: look now and
 * then, from outside, whether it is. The share of glances that find it held is the share of time
 * it is held.
 *
 * A lock that is free while threads sleep for it was let go, and nobody has taken it yet: that
 * share of the time is what handing it on costs.
 *
 * The glances must not depend on what the program does. So they come at random intervals, and
 * from a thread with a real-time priority: without one the scheduler may let it wait until a
 * thread of the program blocks, that is, until a lock is held.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include <bpf/bpf.h>

#include "../cli/cli.h"
#include "bpf_watch.h"

#define GLANCE_NS 8000000 // on average

struct glance {
    pid_t pid;
    int wanted;
    pthread_t thread;
    pthread_mutex_t mutex;
    bool stop, prompt, started;
    hot_t hot[GATHER_HOT];
    uint64_t looks[GATHER_HOT], held[GATHER_HOT], idle[GATHER_HOT];
    size_t count;
};

typedef struct {
    uint32_t word[2];
} seen_t;

static bool is_held(held_t how, const seen_t *s)
{
    switch (how) {
    case HELD_MUTEX:
        return s->word[0] != 0;
    case HELD_RWLOCK: // readers are counted from bit 3; bit 1 and 0: a writer has it
        return s->word[0] >> 3 || (s->word[0] & 3) == 3;
    case HELD_SPIN: // glibc: 1 is free on x86, 0 elsewhere
#if defined(__x86_64__)
        return (int32_t)s->word[0] <= 0;
#else
        return s->word[0] != 0;
#endif
    default:
        return false;
    }
}

// One call reads all of them. A page that is gone ends it early: what was read counts.
static void glance(glance_t *g)
{
    struct iovec here[GATHER_HOT], there[GATHER_HOT];
    seen_t seen[GATHER_HOT];
    for (size_t i = 0; i < g->count; i++) {
        here[i] = (struct iovec){&seen[i], sizeof seen[i]};
        there[i] = (struct iovec){(void *)(uintptr_t)g->hot[i].address, sizeof seen[i]};
    }
    ssize_t got = process_vm_readv(g->pid, here, g->count, there, g->count, 0);
    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof seen[0]; i++) {
        uint32_t threads = 0;
        g->looks[i]++;
        if (is_held(g->hot[i].how, &seen[i]))
            g->held[i]++;
        else if (bpf_map_lookup_elem(g->wanted, &g->hot[i].key, &threads) == 0 && threads)
            g->idle[i]++;
    }
}

static void *look_again(void *arg)
{
    glance_t *g = arg;
    unsigned seed = (unsigned)g->pid;
    bool stop = false;
    while (!stop) {
        struct timespec pause = {0, 1000000 + rand_r(&seed) % (2 * GLANCE_NS - 2000000)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        pthread_mutex_lock(&g->mutex);
        stop = g->stop;
        if (g->count && !stop)
            glance(g);
        pthread_mutex_unlock(&g->mutex);
    }
    return NULL;
}

glance_t *glance_start(pid_t pid, int wanted)
{
    glance_t *g = cli_alloc(sizeof *g);
    pthread_attr_t attr;
    pthread_mutexattr_t inherit;
    struct sched_param lowest = {.sched_priority = 1};
    g->pid = pid;
    g->wanted = wanted;
    pthread_mutexattr_init(&inherit); // the thread must not wait for one that is out-ranked
    pthread_mutexattr_setprotocol(&inherit, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&g->mutex, &inherit);
    pthread_attr_init(&attr);
    pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
    pthread_attr_setschedparam(&attr, &lowest);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // Ctrl-C is for the main thread
    g->prompt = g->started = pthread_create(&g->thread, &attr, look_again, g) == 0;
    if (!g->started)
        g->started = pthread_create(&g->thread, NULL, look_again, g) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    pthread_mutexattr_destroy(&inherit);
    return g;
}

void glance_collect(glance_t *g, gather_t *to)
{
    pthread_mutex_lock(&g->mutex);
    for (size_t i = 0; i < g->count; i++) {
        gather_held(to, g->hot[i].key, g->looks[i], g->held[i], g->idle[i]);
        g->looks[i] = g->held[i] = g->idle[i] = 0;
    }
    pthread_mutex_unlock(&g->mutex);
}

void glance_at(glance_t *g, const hot_t *hot, size_t count)
{
    pthread_mutex_lock(&g->mutex);
    memcpy(g->hot, hot, count * sizeof *hot);
    memset(g->looks, 0, sizeof g->looks);
    memset(g->held, 0, sizeof g->held);
    memset(g->idle, 0, sizeof g->idle);
    g->count = count;
    pthread_mutex_unlock(&g->mutex);
}

bool glance_prompt(const glance_t *g)
{
    return g->prompt;
}

void glance_stop(glance_t *g)
{
    if (!g)
        return;
    pthread_mutex_lock(&g->mutex);
    g->stop = true;
    pthread_mutex_unlock(&g->mutex);
    if (g->started)
        pthread_join(g->thread, NULL);
    pthread_mutex_destroy(&g->mutex);
    free(g);
}
