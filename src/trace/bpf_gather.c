// SPDX-License-Identifier: MIT
// bpf_gather.c - from records of waits and ticks to locks with stacks.
#include "bpf_gather.h"

#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "bpf_kinds.h"
#include "bpf_object.h"
#include "bpf_places.h"
#include "bpf_registers.h"

// ------------------------------------------------------------------------- modules
static void close_modules(gather_t *g)
{
    unwinder_free(g->unwinder);
    spin_free(g->spins);
    symbols_end(g->dwfl);
    profile_free(&g->maps);
}

static void open_modules(gather_t *g, const profile_t *maps)
{
    g->maps = *maps;
    g->dwfl = symbols_dwfl(&g->maps, g->pid, g->symbols);
    g->unwinder = unwinder_new(g->dwfl, g->pid);
    g->spins = spin_new(g->dwfl, g->pid);
    if (g->beside)
        beside_modules(g->beside, g->dwfl);
    else
        g->beside = beside_new(g->dwfl, g->pid);
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
    if (same) {
        profile_free(&now);
        return;
    }
    close_modules(g);
    open_modules(g, &now);
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
    profile_t maps;
    profile_init(&maps);
    if (!symbols_read_maps(&maps, pid)) {
        profile_free(&maps);
        free(g);
        return NULL;
    }
    open_modules(g, &maps);
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
    beside_free(g->beside);
    free(g->places);
    free(g->pending);
    close_modules(g);
    free(g);
}

// ------------------------------------------------------------------------- places
place_t *place_of(gather_t *g, uint64_t key, bool make)
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

// What the kernel wrote over, to see the function return.
static void put_back(record_t *r)
{
    uint64_t at = r->head.back_at - r->regs[REGISTER_SP], back = r->head.back;
    if (r->head.back_at && at + sizeof back <= (uint64_t)r->head.chunks * RECORD_CHUNK)
        memcpy(r->stack + at, &back, sizeof back);
}

void gather_record(gather_t *g, const void *record, size_t bytes)
{
    const record_t *r = record;
    spin_t found;
    if (r->head.kind == RECORD_TICK) {
        work_on_tick(g, r);
        if (!r->head.kernel[0])
            beside_sample(g->beside, r);
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
    memcpy(g->queue[g->queued].record, r, keep);
    if (r->head.kind == RECORD_WAITER)
        put_back(g->queue[g->queued].record);
    g->queued++;
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
    beside_work(g->beside, g->unwinder);
}

void gather_work(gather_t *g)
{
    gather_work_some(g, SIZE_MAX);
}
