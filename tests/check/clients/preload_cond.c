// SPDX-License-Identifier: MIT
// preload_cond.c - the preload's condition variable: no wake-up is lost, none is needed twice, and
// the object may go once nobody waits. The code is src/preload/cond.c as it is; below it a mutex of
// ours and a semaphore that may be interrupted, or time out, when the clock jumps.
//
//   -DWAYS=WS        what each thread does: W takes an item, waiting for it; T the same by a
//                    deadline; S adds one item and signals with the mutex held, s after it was
//                    unlocked; B adds an item for each W and T and broadcasts, b the same after it
//                    was unlocked
//   -DLAST_FREES     who has woken all destroys and frees the condition variable, while they are
//                    still on their way out: W, T and one B
//   -DPOLICY=HL_WAIT_PARK
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

// The names the preload exports stay apart from the checker's own.
#define pthread_cond_init      preload_cond_init
#define pthread_cond_destroy   preload_cond_destroy
#define pthread_cond_wait      preload_cond_wait
#define pthread_cond_timedwait preload_cond_timedwait
#define pthread_cond_clockwait preload_cond_clockwait
#define pthread_cond_signal    preload_cond_signal
#define pthread_cond_broadcast preload_cond_broadcast
// Nobody is cancelled here.
#undef pthread_cleanup_push
#undef pthread_cleanup_pop
#define pthread_cleanup_push(fn, arg) { (void)(fn), (void)(arg);
#define pthread_cleanup_pop(run) }

#include "hotlock/park.h"

// The semaphore: of the program's own atomics, so that a post to a waiter that has gone shows. A
// wait fails, as libc's may, when the clock jumps meanwhile.
typedef HL_ATOMIC(uint32_t) count_t;

static int wait_or(sem_t *s, int error) {
    count_t *count = (count_t *)(void *)s;
    uint64_t begin = hl_now_ns();
    for (;;) {
        uint32_t n = hl_load(count);
        if (n && hl_cas_acq(count, n, n - 1)) return 0;
        if (hl_now_ns() != begin) {
            errno = error;
            return -1;
        }
    }
}

static void post(sem_t *s) {
    count_t *count = (count_t *)(void *)s;
    uint32_t n = hl_load(count);
    while (!hl_cas_rel(count, n, n + 1)) n = hl_load(count);
}
#define sem_init(s, shared, n)      hl_store((count_t *)(void *)(s), n)
#define sem_post(s)                 post(s)
#define sem_wait(s)                 wait_or(s, EINTR)
#define sem_clockwait(s, clock, at) ((void)(clock), (void)(at), wait_or(s, ETIMEDOUT))

#include "preload/cond.c"
#include "preload_rest.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#ifndef WAYS
#define WAYS WS
#endif
#ifndef POLICY
#define POLICY HL_WAIT_SPIN
#endif

// ------------------------------------------------------------------------- the threads
static const char ways[] = STRING(WAYS);
static pthread_mutex_t mutex;
static pthread_cond_t *condition;
static int items, taken, late;

static bool takes(char way) { return way == 'W' || way == 'T'; }

static int takers(void) {
    int n = 0;
    for (const char *w = ways; *w; w++) n += takes(*w);
    return n;
}

static void take(char way) {
    const struct timespec soon = {1, 0};
    int error = 0;
    hlp_mutex_lock(&mutex);
    while (!items && error != ETIMEDOUT)
        error = way == 'T' ? hlp_cond_timedwait(condition, &mutex, &soon)
                           : hlp_cond_wait(condition, &mutex);
    assert(!error || (error == ETIMEDOUT && way == 'T'));
    if (items) items--, taken++;
    else late++;
    hlp_mutex_unlock(&mutex);
}

static void give(char way) {
    bool all = way == 'B' || way == 'b', after = way == 's' || way == 'b';
    hlp_mutex_lock(&mutex);
    items += all ? takers() : 1;
    if (after) hlp_mutex_unlock(&mutex);
    if (all) hlp_cond_broadcast(condition);
    else hlp_cond_signal(condition);
    if (!after) hlp_mutex_unlock(&mutex);
#ifdef LAST_FREES
    // Nobody will wait any more: there is an item for each.
    hlp_cond_destroy(condition);
    free(condition);
#endif
}

static void *work(void *arg) {
    char way = ways[(long)arg];
    if (takes(way)) take(way);
    else give(way);
    return NULL;
}

int main(void) {
    enum { THREADS_ = sizeof ways - 1 };
    pthread_t thread[THREADS_];
    condition = calloc(1, sizeof *condition);
    hl_wait_set(POLICY);
    (void)hl_ns_to_ticks(1);
    for (long i = 0; i < THREADS_; i++) pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS_; i++) pthread_join(thread[i], NULL);
    assert(taken + late == takers());
#ifndef LAST_FREES
    assert(!hl_load(&ours(condition)->first) && !hl_load(&ours(condition)->users));
#endif
    return 0;
}
