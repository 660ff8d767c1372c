// SPDX-License-Identifier: MIT
// bpf_gather.c - from records of waits and ticks to locks with stacks.
#include "bpf_gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "bpf_kinds.h"
#include "bpf_object.h"
#include "bpf_registers.h"
#include "bpf_spin.h"

#define PLACES 16384            // addresses and loops, a power of two
#define PENDING 4096            // waits of the sample that are not over, a power of two
#define STACKS_MOST 20000       // distinct stacks of all locks
#define NAME_TRIES 8
#define QUEUE_BYTES (32u << 20) // snapshots waiting to be unwound

typedef struct {
    profile_role_t role;
    uint32_t depth;
    uint64_t hash;
    uint64_t *pc;
    double count, ns;
} stack_t_; // not stack_t: that is the C library's

typedef struct {
    uint64_t key;     // a futex's address, or the loop's if it waits for no known address
    uint64_t address; // what a user knows it by; 0: a loop
    const char *kind;
    char *name;       // of one in allocated memory; NULL: not known
    unsigned tried;   // to name it
    bool lock, of_library, known, searched;
    uint64_t ticks;   // spinning for it
    uint64_t looks, held, idle;
    futex_sums_t sums;
    stack_t_ *stacks;
    size_t stack_count, stack_room;
} place_t;

typedef struct {
    uint64_t id, key;
    uint32_t waiter_depth, holder_depth;
    uint64_t waiter[PROFILE_DEPTH], holder[PROFILE_DEPTH];
} pending_t;

typedef struct {
    record_t *record;
    size_t bytes;
} queued_t;

struct gather {
    pid_t pid;
    const char *symbols;
    profile_t maps; // only the maps of it
    Dwfl *dwfl;
    unwinder_t *unwinder;
    spin_finder_t *spins;
    place_t *places;
    size_t place_count;
    pending_t *pending;
    queued_t *queue;
    size_t queued, queue_room, queue_bytes;
    size_t stack_count;
    uint64_t ticks, spinning, in_kernel;
    uint64_t dropped_stacks, dropped_places, dropped_samples;
};

// ------------------------------------------------------------------------- modules
static void close_modules(gather_t *g)
{
    unwinder_free(g->unwinder);
    spin_free(g->spins);
    symbols_end(g->dwfl);
    profile_free(&g->maps);
}

static bool open_modules(gather_t *g)
{
    profile_init(&g->maps);
    if (!symbols_read_maps(&g->maps, g->pid))
        return false;
    g->dwfl = symbols_dwfl(&g->maps, g->pid, g->symbols);
    g->unwinder = unwinder_new(g->dwfl, g->pid);
    g->spins = spin_new(g->dwfl, g->pid);
    return true;
}

// A library loaded since, or one executed: other maps. Those of a process that is gone stay.
static void refresh_modules(gather_t *g)
{
    profile_t now;
    profile_init(&now);
    bool same = true;
    size_t files = 0, had = 0;
    if (symbols_read_maps(&now, g->pid) && now.map_count > 0) {
        for (size_t i = 0; i < now.map_count; i++)
            files += now.maps[i].executable;
        for (size_t i = 0; i < g->maps.map_count; i++)
            had += g->maps.maps[i].executable;
        same = files == had;
        for (size_t i = 0; same && i < now.map_count; i++)
            same = !now.maps[i].executable ||
                   profile_map_at(&g->maps, g->pid, now.maps[i].start) != NULL;
    }
    profile_free(&now);
    if (!same) {
        close_modules(g);
        if (!open_modules(g))
            cli_bad("process %d ended while it was being read", (int)g->pid);
    }
}

static int read_symbols(Dwfl_Module *m, void **kept, const char *name, Dwarf_Addr start, void *arg)
{
    (void)kept, (void)name, (void)start, (void)arg;
    dwfl_module_getsymtab(m);
    return DWARF_CB_OK;
}

// Reads the symbol tables now, so that it does not take time from the program while it is watched.
static void warm_up(gather_t *g)
{
    if (g->dwfl)
        dwfl_getmodules(g->dwfl, read_symbols, NULL, 0);
}

gather_t *gather_new(pid_t pid, const char *symbols)
{
    gather_t *g = cli_alloc(sizeof *g);
    g->pid = pid;
    g->symbols = symbols;
    if (!open_modules(g)) {
        profile_free(&g->maps);
        free(g);
        return NULL;
    }
    warm_up(g);
    g->places = cli_alloc(PLACES * sizeof *g->places);
    g->pending = cli_alloc(PENDING * sizeof *g->pending);
    return g;
}

void gather_free(gather_t *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < PLACES; i++) {
        for (size_t k = 0; k < g->places[i].stack_count; k++)
            free(g->places[i].stacks[k].pc);
        free(g->places[i].stacks);
        free(g->places[i].name);
    }
    for (size_t i = 0; i < g->queued; i++)
        free(g->queue[i].record);
    free(g->queue);
    free(g->places);
    free(g->pending);
    close_modules(g);
    free(g);
}

// ------------------------------------------------------------------------- places
static place_t *place_of(gather_t *g, uint64_t key, bool make)
{
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 40) & (PLACES - 1);
    for (;; at = (at + 1) & (PLACES - 1)) {
        place_t *p = &g->places[at];
        if (p->key == key)
            return p;
        if (p->key)
            continue;
        if (!make)
            return NULL;
        if (g->place_count >= PLACES / 2) {
            g->dropped_places++;
            return NULL;
        }
        g->place_count++;
        p->key = p->address = key;
        p->kind = "futex";
        p->lock = true;
        return p;
    }
}

static void add_stack(gather_t *g, place_t *p, profile_role_t role, const uint64_t *pc,
                      uint32_t depth, double count, double ns)
{
    uint64_t hash = role + 1;
    for (uint32_t i = 0; i < depth; i++)
        hash = (hash ^ pc[i]) * 0x100000001b3u;
    for (size_t i = 0; i < p->stack_count; i++) {
        stack_t_ *s = &p->stacks[i];
        if (s->hash != hash || s->depth != depth || s->role != role ||
            memcmp(s->pc, pc, depth * sizeof *pc) != 0)
            continue;
        s->count += count;
        s->ns += ns;
        return;
    }
    if (g->stack_count == STACKS_MOST) {
        g->dropped_stacks++;
        return;
    }
    g->stack_count++;
    if (p->stack_count == p->stack_room) {
        p->stack_room = p->stack_room ? 2 * p->stack_room : 4;
        p->stacks = cli_grow(p->stacks, p->stack_room, sizeof *p->stacks);
    }
    stack_t_ *s = &p->stacks[p->stack_count++];
    *s = (stack_t_){role, depth, hash, cli_alloc(depth * sizeof *pc), count, ns};
    memcpy(s->pc, pc, depth * sizeof *pc);
}

static void learn(gather_t *g, place_t *p, const unwound_t *frames, uint32_t depth, bool spins)
{
    // A wait tells more than a loop: the functions that sleep are libc's.
    if (p->known && (spins || strcmp(p->kind, "home-made loop") != 0))
        return;
    wait_kind_t k = kind_of_stack(g->dwfl, frames, depth, spins);
    p->kind = k.kind;
    p->lock = k.lock;
    p->of_library = k.of_library;
    p->address = spins ? p->address : kind_base(k.kind, p->key);
    p->known = true;
}

// A variable is named by its address later; what is allocated only by who points to it now.
static void name_object(gather_t *g, place_t *p, const record_t *r, const unwound_t *frames,
                        uint32_t depth)
{
    if (p->name || p->tried == NAME_TRIES || !p->lock || !p->address ||
        (g->dwfl && dwfl_addrmodule(g->dwfl, p->address)))
        return;
    p->tried++;
    // Not libc's own frames: to read what describes them takes longer than all the rest.
    uint32_t first = kind_caller(g->dwfl, frames, depth);
    p->name = object_name(g->dwfl, g->pid, r, frames + first, depth - first, p->address);
}

// ------------------------------------------------------------------------- records
// A stack begins with the function that wanted the lock: libc's own in front of it say nothing.
static uint32_t pcs(const gather_t *g, const unwound_t *frames, uint32_t depth, uint64_t *pc)
{
    uint32_t first = kind_caller(g->dwfl, frames, depth);
    for (uint32_t i = first; i < depth; i++)
        pc[i - first] = frames[i].pc;
    return depth - first;
}

static pending_t *pending_of(gather_t *g, uint64_t id, bool make)
{
    pending_t *w = &g->pending[(id * 0x9e3779b97f4a7c15u >> 40) & (PENDING - 1)];
    if (w->id == id)
        return w;
    if (!make)
        return NULL;
    *w = (pending_t){.id = id}; // whoever was here never ended, or is lost: it is a sample
    return w;
}

static void work_on_waiter(gather_t *g, const record_t *r)
{
    unwound_t frames[PROFILE_DEPTH];
    uint32_t depth = unwind(g->unwinder, r, frames);
    place_t *p = place_of(g, r->head.address, true);
    if (!p)
        return;
    learn(g, p, frames, depth, false);
    name_object(g, p, r, frames, depth);
    if (!r->head.id)
        return;
    pending_t *w = pending_of(g, r->head.id, true);
    w->key = r->head.address;
    w->waiter_depth = pcs(g, frames, depth, w->waiter);
}

static void work_on_holder(gather_t *g, const record_t *r)
{
    pending_t *w = pending_of(g, r->head.id, false);
    if (!w)
        return;
    unwound_t frames[PROFILE_DEPTH];
    w->holder_depth = pcs(g, frames, unwind(g->unwinder, r, frames), w->holder);
}

static void work_on_end(gather_t *g, const record_head_t *r)
{
    pending_t *w = pending_of(g, r->id, false);
    place_t *p = w ? place_of(g, w->key, false) : NULL;
    if (!p)
        return;
    double count = r->weight, ns = (double)r->weight * (double)r->wait;
    add_stack(g, p, STACK_WAITER, w->waiter, w->waiter_depth, count, ns);
    if (w->holder_depth)
        add_stack(g, p, STACK_HOLDER, w->holder, w->holder_depth, count, ns);
    w->id = 0;
}

static void work_on_spin(gather_t *g, const record_t *r)
{
    unwound_t frames[PROFILE_DEPTH];
    spin_t found;
    uint64_t pc[PROFILE_DEPTH];
    uint32_t depth = unwind(g->unwinder, r, frames);
    if (!spin_at(g->spins, r, frames, depth, &found))
        return;
    place_t *p = place_of(g, found.address ? found.address : found.loop, true);
    g->spinning++;
    if (!p)
        return;
    if (!found.address)
        p->address = 0;
    learn(g, p, frames + found.frame, depth - found.frame, true);
    name_object(g, p, r, frames, depth);
    p->ticks++;
    add_stack(g, p, STACK_SPINNER, pc, pcs(g, frames, depth, pc), 1, 0);
}

// The kernel's clock page reads again while it is being updated: that is no lock.
static bool in_clock(const gather_t *g, const record_t *r)
{
    const profile_map_t *m = profile_map_at(&g->maps, g->pid, r->regs[REGISTER_PC]);
    return m && strcmp(m->path, "[vdso]") == 0;
}

static void work_on_tick(gather_t *g, const record_t *r)
{
    g->ticks++;
    for (size_t i = 0; i < RECORD_KERNEL_FRAMES && r->head.kernel[i]; i++)
        if (kernel_spins(symbols_kernel(r->head.kernel[i], NULL))) {
            g->in_kernel++;
            break;
        }
}

void gather_record(gather_t *g, const void *record, size_t bytes)
{
    const record_t *r = record;
    spin_t found;
    if (r->head.kind == RECORD_TICK) {
        work_on_tick(g, r);
        if (in_clock(g, r) || !spin_at(g->spins, r, NULL, 0, &found))
            return;
    }
    size_t keep = sizeof r->head;
    if (r->head.kind != RECORD_END) // what lies behind the chunks was never written
        keep = offsetof(record_t, stack) + (size_t)r->head.chunks * RECORD_CHUNK;
    if (keep > bytes)
        keep = bytes;
    if (g->queue_bytes + keep > QUEUE_BYTES) {
        g->dropped_samples++;
        return;
    }
    if (g->queued == g->queue_room) {
        g->queue_room = g->queue_room ? 2 * g->queue_room : 256;
        g->queue = cli_grow(g->queue, g->queue_room, sizeof *g->queue);
    }
    g->queue[g->queued] = (queued_t){cli_alloc(keep), keep};
    memcpy(g->queue[g->queued++].record, r, keep);
    g->queue_bytes += keep;
}

void gather_work_some(gather_t *g, size_t most)
{
    if (g->queued)
        refresh_modules(g);
    if (most > g->queued)
        most = g->queued;
    for (size_t i = 0; i < most; i++) {
        const record_t *r = g->queue[i].record;
        switch ((record_kind_t)r->head.kind) {
        case RECORD_WAITER: work_on_waiter(g, r); break;
        case RECORD_HOLDER: work_on_holder(g, r); break;
        case RECORD_END: work_on_end(g, &r->head); break;
        case RECORD_TICK: work_on_spin(g, r); break;
        }
        g->queue_bytes -= g->queue[i].bytes;
        free(g->queue[i].record);
    }
    g->queued -= most;
    memmove(g->queue, g->queue + most, g->queued * sizeof *g->queue);
}

void gather_work(gather_t *g)
{
    gather_work_some(g, SIZE_MAX);
}

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
