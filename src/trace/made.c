// SPDX-License-Identifier: MIT
// made.c - tells a lock that is made of a mutex and a condition variable from a wait for work, by
// the functions that wait.
#include "made.h"

#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"

enum { FRAMES = 6 }; // to look at: static functions of a stripped program have no names

const char *made_kind(const char *function) {
    static const struct {
        const char *part, *kind;
    } made[] = {
        {"take_gil", MADE_GIL},          {"PyEval_RestoreThread", MADE_GIL},
        {"PyEval_AcquireThread", MADE_GIL}, {"PyGILState_Ensure", MADE_GIL},
        {"_PyEval_EvalFrame", MADE_GIL}, {"PyThread_acquire_lock", "lock of Python"},
        {"g_mutex_lock", "GMutex"},      {"g_rw_lock_", "GRWLock"},
    };
    for (size_t i = 0; function && i < sizeof made / sizeof *made; i++)
        if (strstr(function, made[i].part)) return made[i].kind;
    return NULL;
}

static const char *kind_of_stack(const profile_t *p, const profile_stack_t *s) {
    for (uint32_t i = 0; i < s->depth && i < FRAMES; i++) {
        const char *function = p->frames[s->frame[i]].function, *kind = made_kind(function);
        if (kind || function) return kind;
    }
    return NULL;
}

// What most of the sleeping was for; NULL: work.
static const char *kind_of_sleep(const profile_t *p, const profile_lock_t *l) {
    const char *kind = NULL;
    uint64_t of_kind = 0, all = 0;
    for (size_t i = 0; i < l->stack_count; i++) {
        const profile_stack_t *s = &l->stacks[i];
        if (s->role != STACK_SLEEPER) continue;
        const char *k = kind_of_stack(p, s);
        all += s->ns;
        of_kind += k ? s->ns : 0;
        kind = k ? k : kind;
    }
    return 2 * of_kind > all ? kind : NULL;
}

// Sleepers become waiters, or go; of a made lock so do the waiters for the mutex it is made of.
static void turn_stacks(profile_lock_t *l, bool is_lock) {
    size_t kept = 0;
    for (size_t i = 0; i < l->stack_count; i++) {
        profile_stack_t s = l->stacks[i];
        bool sleeper = s.role == STACK_SLEEPER;
        if (is_lock ? !sleeper && s.role != STACK_INIT : sleeper) {
            free(s.frame);
            continue;
        }
        if (sleeper) s.role = STACK_WAITER;
        l->stacks[kept++] = s;
    }
    l->stack_count = kept;
}

// The mutex's own figures say nothing of the lock it is part of.
static void become(profile_lock_t *l, const char *kind) {
    profile_lock_t was = *l;
    *l = (profile_lock_t){.pid = was.pid, .address = was.address, .kind = kind, .name = was.name,
                          .where = was.where, .stacks = was.stacks, .cpu_spin_share = 0,
                          .stack_count = was.stack_count, .stack_room = was.stack_room};
    l->has = HAS_CONTENDED | HAS_WAIT | HAS_WAIT_SPLIT;
    l->contended = was.sleeps;
    l->wait_ns = l->sleep_ns = was.slept_ns;
    l->wait_worst_ns = was.slept_worst_ns;
    memcpy(l->wait_hist, was.sleep_hist, sizeof l->wait_hist);
    turn_stacks(l, true);
}

// Python's one lock sleeps on two condition variables, each with a mutex: the second joins.
static bool join(profile_t *p, size_t i) {
    profile_lock_t *l = &p->locks[i], *to = NULL;
    if (strcmp(l->kind, MADE_GIL) != 0) return false;
    for (size_t k = 0; k < i && !to; k++)
        if (p->locks[k].pid == l->pid && strcmp(p->locks[k].kind, MADE_GIL) == 0)
            to = &p->locks[k];
    if (!to) return false;
    to->contended += l->contended;
    to->wait_ns += l->wait_ns;
    to->sleep_ns += l->sleep_ns;
    if (l->wait_worst_ns > to->wait_worst_ns) to->wait_worst_ns = l->wait_worst_ns;
    for (unsigned b = 0; b < PROFILE_BUCKETS; b++) to->wait_hist[b] += l->wait_hist[b];
    for (size_t k = 0; k < l->stack_count; k++) {
        const profile_stack_t *s = &l->stacks[k];
        if (s->role != STACK_INIT) profile_stack(to, s->role, s->frame, s->depth, s->count, s->ns);
        free(s->frame);
    }
    free(l->stacks);
    free(l->name);
    free(l->where);
    return true;
}

void made_find(profile_t *p) {
    uint64_t mutexes = 0, ns = 0;
    size_t kept = 0;
    for (size_t i = 0; i < p->lock_count; i++) {
        profile_lock_t *l = &p->locks[i];
        const char *kind = l->sleeps ? kind_of_sleep(p, l) : NULL;
        if (kind) {
            become(l, kind);
        } else if (l->sleeps) {
            mutexes++;
            ns += l->slept_ns;
            turn_stacks(l, false);
        }
        if (kept != i) p->locks[kept] = *l;
        if (!join(p, kept)) kept++;
    }
    p->lock_count = kept;
    if (mutexes)
        profile_note(p, "condition variables of %llu mutexes are left out: threads slept %.3g s in "
                     "them, for work and not for a lock", (unsigned long long)mutexes,
                     (double)ns * 1e-9);
}
