// SPDX-License-Identifier: MIT
// bpf_fill.c - exact sums joined with sampled stacks, written to a profile.
#include <math.h>
#include <string.h>

#include "../cli/cli.h"
#include "bpf_object.h"
#include "bpf_places.h"

// ------------------------------------------------------------------------- sums
void gather_clear_sums(gather_t *g)
{
    for (size_t i = 0; i < PLACES; i++)
        if (g->places[i].key)
            memset(&g->places[i].sums, 0, sizeof g->places[i].sums);
}

void gather_sums(gather_t *g, uint64_t address, const futex_sums_t *s)
{
    place_t *p = place_of(g, address, true);
    if (!p)
        return;
    futex_sums_t *to = &p->sums;
    to->waits += s->waits;
    to->wait += s->wait;
    to->handoff += s->handoff;
    to->woken += s->woken;
    to->waiters += s->waiters;
    if (s->waiters_most > to->waiters_most)
        to->waiters_most = s->waiters_most;
    to->owner_off += s->owner_off;
    to->owner_off_time += s->owner_off_time;
    to->owner_blocked_time += s->owner_blocked_time;
    to->owner_seen += s->owner_seen;
    to->owner_changes += s->owner_changes;
    if (s->longest > to->longest)
        to->longest = s->longest;
    if (s->handoff_longest > to->handoff_longest)
        to->handoff_longest = s->handoff_longest;
    for (size_t i = 0; i < RECORD_HISTOGRAM; i++) {
        to->histogram[i] += s->histogram[i];
        to->handoff_histogram[i] += s->handoff_histogram[i];
    }
}

void gather_held(gather_t *g, uint64_t key, uint64_t looks, uint64_t held, uint64_t idle)
{
    place_t *p = place_of(g, key, false);
    if (!p)
        return;
    p->looks += looks;
    p->held += held;
    p->idle += idle;
}

static held_t held_by(const place_t *p)
{
    if (!p->known || !p->lock || !p->address)
        return HELD_NOT_KNOWN;
    if (strcmp(p->kind, "mutex") == 0 || strcmp(p->kind, "lock of libc") == 0)
        return HELD_MUTEX;
    if (strcmp(p->kind, "rwlock") == 0)
        return HELD_RWLOCK;
    return strcmp(p->kind, "spinlock") == 0 ? HELD_SPIN : HELD_NOT_KNOWN;
}

size_t gather_hot(gather_t *g, hot_t hot[GATHER_HOT])
{
    size_t n = 0;
    for (size_t i = 0; i < PLACES; i++) {
        const place_t *p = &g->places[i];
        held_t how = p->key ? held_by(p) : HELD_NOT_KNOWN;
        double cost = (double)p->ticks * 1e7;
        for (size_t k = 0; k < p->stack_count; k++)
            cost += p->stacks[k].ns;
        if (how == HELD_NOT_KNOWN || (n == GATHER_HOT && cost <= hot[n - 1].cost))
            continue;
        size_t at = n < GATHER_HOT ? n++ : n - 1;
        for (; at > 0 && hot[at - 1].cost < cost; at--)
            hot[at] = hot[at - 1];
        hot[at] = (hot_t){p->key, p->address, how, cost};
    }
    return n;
}

void gather_ticks(const gather_t *g, uint64_t *all, uint64_t *spinning, uint64_t *kernel)
{
    *all = g->ticks;
    *spinning = g->spinning;
    *kernel = g->in_kernel;
}

// ------------------------------------------------------------------------- the profile
static void fill_stacks(gather_t *g, profile_t *p, profile_lock_t *l, const place_t *from,
                        double tick_ns)
{
    for (size_t i = 0; i < from->stack_count; i++) {
        const stack_t_ *s = &from->stacks[i];
        uint32_t frames[PROFILE_DEPTH];
        for (uint32_t k = 0; k < s->depth; k++)
            frames[k] = profile_frame(p, g->pid, s->pc[k]);
        double ns = s->role == STACK_SPINNER ? s->count * tick_ns : s->ns;
        profile_stack(l, s->role, frames, s->depth, (uint64_t)llround(s->count),
                      (uint64_t)llround(ns));
    }
}

static void fill_waits(profile_lock_t *l, const futex_sums_t *s)
{
    l->has |= HAS_CONTENDED | HAS_WAIT | HAS_WAIT_SPLIT;
    l->contended += s->waits;
    l->wait_ns += s->wait;
    l->sleep_ns += s->wait;
    if (s->longest > l->wait_worst_ns)
        l->wait_worst_ns = s->longest;
    l->handoffs += s->woken;
    if (s->handoff_longest > l->handoff_worst_ns)
        l->handoff_worst_ns = s->handoff_longest;
    l->owner_changes += s->owner_changes;
    if (s->woken)
        l->has |= HAS_OWNERS | HAS_WAITERS;
    l->waiters_sum += s->waiters;
    if (s->waiters_most > l->waiters_most)
        l->waiters_most = s->waiters_most;
    if (s->owner_seen)
        l->has |= HAS_PREEMPTED;
    l->preempted += s->owner_off;
    l->preempted_ns += s->owner_off_time;
    for (size_t i = 0; i < PROFILE_BUCKETS && i < RECORD_HISTOGRAM; i++) {
        l->wait_hist[i] += s->histogram[i];
        l->handoff_hist[i] += s->handoff_histogram[i];
    }
}

// The share of glances that saw it held is the share of time it is held. That it was free and
// waited for is the cost of handing it on: the time from a wake-up to running is not, since
// others may have taken the lock meanwhile.
static void fill_glances(const profile_t *p, profile_lock_t *l, const place_t *from)
{
    double each = p->wall_s * 1e9 / (double)from->looks;
    uint64_t hold = (uint64_t)((double)from->held * each);
    l->has |= HAS_HOLD;
    l->hold_samples += from->held;
    if (hold > l->hold_ns) // a lock with two futexes is looked at twice
        l->hold_ns = hold;
    if (from->sums.woken) {
        l->has |= HAS_HANDOFF;
        l->handoff_ns += (uint64_t)((double)from->idle * each);
    }
}

// Python's one lock is a condition variable, and sleeps on several words of it.
static uint64_t address_of(const profile_t *p, const place_t *from)
{
    for (size_t i = 0; strcmp(from->kind, "Python's GIL") == 0 && i < p->lock_count; i++)
        if (strcmp(p->locks[i].kind, from->kind) == 0)
            return p->locks[i].address;
    return from->address;
}

// Global pointers are looked through at the end, for what is worth it.
static void name_by_pointers(gather_t *g)
{
    hot_t hot[GATHER_HOT];
    size_t count = g->dwfl ? gather_hot(g, hot) : 0;
    for (size_t i = 0; i < count; i++) {
        place_t *p = place_of(g, hot[i].key, false);
        if (!p || p->name || p->searched || dwfl_addrmodule(g->dwfl, p->address))
            continue;
        p->searched = true;
        p->name = object_name_global(g->dwfl, g->pid, p->address);
    }
}

static void fill_place(gather_t *g, profile_t *p, const place_t *from, double tick_ns)
{
    profile_lock_t *l = profile_lock(p, g->pid, address_of(p, from), from->kind);
    if (from->name && !l->name)
        l->name = cli_printf("%s", from->name);
    if (from->sums.waits)
        fill_waits(l, &from->sums);
    uint64_t spun = (uint64_t)((double)from->ticks * tick_ns);
    l->spin_ns += spun;
    l->wait_ns += spun;
    if (from->ticks)
        l->has |= HAS_WAIT_SPLIT;
    if (g->ticks) {
        l->has |= HAS_CPU;
        double share = (double)from->ticks / (double)g->ticks;
        l->cpu_spin_share = isnan(l->cpu_spin_share) ? share : l->cpu_spin_share + share;
    }
    if (from->looks)
        fill_glances(p, l, from);
    fill_stacks(g, p, l, from, tick_ns);
}

void gather_beside(const gather_t *g, const profile_t *p, profile_lock_t *l)
{
    beside_fill(g->beside, p, l);
}

void gather_fill(gather_t *g, profile_t *p, unsigned sample_hz)
{
    double tick_ns = sample_hz ? 1e9 / sample_hz : 0;
    uint64_t idle = 0, idle_ns = 0;
    name_by_pointers(g);
    for (size_t i = 0; i < g->maps.map_count; i++) {
        const profile_map_t *m = &g->maps.maps[i];
        profile_map(p, m->pid, m->start, m->end, m->offset, m->executable, m->path);
    }
    for (size_t i = 0; i < PLACES; i++) {
        const place_t *from = &g->places[i];
        if (!from->key)
            continue;
        if (from->known && !from->lock) {
            idle++;
            idle_ns += from->sums.wait;
        } else if (from->sums.waits || from->ticks) {
            fill_place(g, p, from, tick_ns);
        }
    }
    for (size_t i = 0; i < p->lock_count; i++)
        if (p->locks[i].pid == g->pid)
            gather_beside(g, p, &p->locks[i]);
    if (idle)
        profile_note(p, "%llu condition variables, semaphores, barriers and joins are left out: "
                     "threads slept %.3g s in them, for work and not for a lock",
                     (unsigned long long)idle, (double)idle_ns * 1e-9);
    if (g->ticks) {
        p->spin_share = (double)(g->spinning + g->in_kernel) / (double)g->ticks;
        p->kernel_spin_share = (double)g->in_kernel / (double)g->ticks;
    }
    p->dropped.stacks += g->dropped_stacks;
    p->dropped.locks += g->dropped_places;
    p->dropped.samples += g->dropped_samples;
}
