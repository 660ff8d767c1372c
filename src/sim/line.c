// SPDX-License-Identifier: MIT
// line.c - who holds which cache line, what moving one costs, and who waits for it.
//
// One core may hold a line to write, or several share it to read. Every line serves one request at
// a time, in order of arrival: a transfer keeps it for its whole length, a shared read for a
// short while. Latencies depend on state and distance only (V. Schweizer, M. Besta and T. Hoefler,
// PACT 2015; T. David, R. Guerraoui and V. Trigonakis, SOSP 2013); caches have no capacity.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

char **line_leaves;
int line_scale = LINE_SHIFT;
static ps_t bus_free;
static uint64_t arbiter;
static uint8_t l3_near[MAX_L3][MAX_L3];   // between L3 domains
static uint8_t *core_l3;
static size_t share_bytes;                // of line_t.share that this machine uses

static void *reserve(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) report_end("unusable", "out of memory for cache lines");
    return p;
}

void line_init(void) {
    line_leaves = reserve(LINE_TOP * sizeof *line_leaves);
    core_l3 = calloc((size_t)core_count, 1);
    share_bytes = (size_t)(core_count + 63) / 64 * sizeof(uint64_t);
    while ((size_t)1 << line_scale < sizeof(line_t) + share_bytes) line_scale++;
    arbiter = settings.seed * 0x9e3779b97f4a7c15u | 1;
    for (int i = 0; i < cpu_count; i++) {
        const cpu_t *a = &cpus[i];
        core_l3[a->core] = (uint8_t)a->l3;
        for (int j = 0; j < cpu_count; j++) {
            const cpu_t *b = &cpus[j];
            l3_near[a->l3][b->l3] = a->l3 == b->l3           ? NEAR_L3
                                    : a->socket == b->socket ? NEAR_SOCKET
                                    : a->group == b->group   ? NEAR_REMOTE
                                                             : NEAR_FAR;
        }
    }
}

line_t *line_new(uintptr_t a) {
    line_leaves[(a >> LEAF_SHIFT) & (LINE_TOP - 1)] = reserve((size_t)LEAF_LINES << line_scale);
    return line_of(a);
}

// ------------------------------------------------------------------------- what a move costs
typedef struct { ps_t latency, keeps; near_t near; bool moved; } cost_t;

static ps_t jittered(ps_t t, cpu_t *c) {
    if (settings.jitter <= 0) return t;
    double u = (double)(draw(&c->random) >> 11) * 0x1p-52 - 1;   // -1 .. 1
    return (ps_t)((double)t * (1 + settings.jitter * u));
}

// Distance to the nearest L3 domain in the set.
static near_t nearest_of(uint64_t set, int l3) {
    near_t best = NEAR_FAR;
    for (; set; set &= set - 1) {
        near_t n = l3_near[l3][__builtin_ctzll(set)];
        if (n < best) best = n;
    }
    return best;
}

static near_t furthest_of(uint64_t set, int l3) {
    near_t worst = NEAR_L3;
    for (; set; set &= set - 1) {
        near_t n = l3_near[l3][__builtin_ctzll(set)];
        if (n > worst) worst = n;
    }
    return worst;
}

static void share(line_t *l, int core) {
    if (line_shared_by(l, core)) return;
    l->share[core >> 6] |= (uint64_t)1 << (core & 63);
    l->sharers++;
    l->in_l3 |= (uint64_t)1 << core_l3[core];
}

static void hold(line_t *l, cpu_t *c) {
    if (l->sharers) {
        memset(l->share, 0, share_bytes);
        l->sharers = 0;
    }
    l->in_l3 = 0;
    l->holder = (uint16_t)(c->core + 1);
    l->user = (uint16_t)c->id;
    share(l, c->core);
}

static cost_t read_from_holder(line_t *l, cpu_t *c) {
    int holder = l->holder - 1;
    near_t near = l3_near[c->l3][core_l3[holder]];
    ps_t t = machine.dirty[near];
    if (machine.migratory && l->migrates && !l->moved) {
        hold(l, c);
        l->kept = false;
        l->moved = true;
    } else {
        l->migrates = l->migrates && !l->moved;
        l->moved = false;
        l->holder = 0;
        share(l, c->core);
    }
    return (cost_t){t, t, near, true};
}

static cost_t read_cost(line_t *l, cpu_t *c) {
    if (line_shared_by(l, c->core)) return (cost_t){machine.hit, 0, NEAR_CORE, false};
    if (l->holder) return read_from_holder(l, c);
    if (!l->sharers) {   // alone with it, it could write at once
        hold(l, c);
        l->kept = false;
        counts.fetched++;
        return (cost_t){machine.memory, 0, NEAR_CORE, false};
    }
    near_t near = nearest_of(l->in_l3, c->l3);
    share(l, c->core);
    return (cost_t){machine.clean[near], machine.serve[near], near, true};
}

static cost_t write_cost(line_t *l, cpu_t *c) {
    cost_t k = {0, 0, NEAR_CORE, false};
    if (l->holder == c->core + 1) {
        l->moved = false;
        return k;
    }
    bool mine = l->kept = line_shared_by(l, c->core);
    int others = l->sharers - mine;
    if (l->holder) {
        k.near = l3_near[c->l3][core_l3[l->holder - 1]];
        k.latency = machine.dirty[k.near];
        k.moved = true;
    } else if (!l->sharers) {
        k.latency = machine.memory;
        counts.fetched++;
    } else if (!others) {
        k.latency = machine.upgrade;
    } else {
        k.near = furthest_of(l->in_l3 & ~((uint64_t)(others == 0) << c->l3), c->l3);
        k.latency = machine.dirty[k.near] + machine.invalidate * (ps_t)(others - 1);
        k.moved = true;
    }
    l->migrates = l->migrates || (mine && others == 1);
    hold(l, c);
    l->moved = false;
    return k;
}

// ------------------------------------------------------------------------- serving
static ps_t when_bus_is_free(ps_t at) {
    if (!machine.bus) return at;
    if (bus_free < at) bus_free = at;
    ps_t begin = bus_free;
    bus_free += machine.bus;
    return begin;
}

// Requests for a line that is under way wait at its home: there, those that waited have the way to it
// behind them, half of what a clean line costs there and back.
static ps_t left_of(const cost_t *k, ps_t latency, ps_t waited) {
    if (!k->moved || !machine.home) return latency;
    ps_t way = machine.clean[k->near] / 2;
    if (way > latency / 2) way = latency / 2;
    return latency - (waited < way ? waited : way);
}

static void serve(ask_t *a, ps_t asked) {
    line_t *l = a->line;
    cpu_t *c = a->cpu;
    if (a->kind == ASK_PREFETCH) {
        unsigned place = (unsigned)(a - c->prefetch);
        c->asked[place] = false;
        if (!engine_wants(c, place, l)) return;
    }
    cost_t k = a->kind == ASK_LOAD ? read_cost(l, c) : write_cost(l, c);
    ps_t at = k.moved ? when_bus_is_free(asked) : asked;
    ps_t latency = k.latency ? jittered(k.latency, c) : 0;
    latency = left_of(&k, latency, asked - a->at);
    bool counts_not = settings.skip_main && c->running == threads[0];
    if (k.moved && !counts_not) report_move(a->pc, k.near, at - asked + latency);
    switch (a->kind) {
    case ASK_LOAD:
        l->busy = at + (k.keeps == k.latency ? latency : k.keeps);
        sched_resume(c, at + latency);
        break;
    case ASK_RMW:
        l->busy = at + latency + machine.rmw;
        sched_resume(c, l->busy);
        break;
    case ASK_STORE:
        l->busy = at + latency + machine.cycle;
        sched_committed(c, l->busy);
        break;
    case ASK_PREFETCH:
        if (latency) l->busy = at + latency;
        break;
    }
}

static void arm(line_t *l, ps_t at) {
    if (l->armed || !l->waiting) return;
    l->armed = true;
    sched_serve(l, l->busy > at ? l->busy : at);
}

static void append(line_t *l, ask_t *a) {
    if (l->first + l->waiting == l->room && l->first) {
        memmove(l->asks, l->asks + l->first, l->waiting * sizeof *l->asks);
        l->first = 0;
    } else if (l->first + l->waiting == l->room) {
        l->room = l->room ? l->room * 2 : 8;
        l->asks = realloc(l->asks, l->room * sizeof *l->asks);
        if (!l->asks) report_end("unusable", "out of memory for cache lines");
    }
    l->asks[l->first + l->waiting++] = a;
}

static ask_t *take(line_t *l, uint32_t which) {
    ask_t **at = l->asks + l->first, *a = at[which];
    memmove(at + 1, at, which * sizeof *at);
    l->first++;
    if (!--l->waiting) l->first = 0;
    return a;
}

void line_ask(ask_t *a, cpu_t *cpu, ask_kind_t kind, line_t *l, uintptr_t pc, ps_t at) {
    *a = (ask_t){kind, cpu, l, pc, at};
    if (l->busy <= at && !l->waiting) {
        serve(a, at);
        return;
    }
    append(l, a);
    arm(l, at);
}

static bool chance(double p) { return p > 0 && (double)(draw(&arbiter) >> 11) * 0x1p-53 < p; }

static uint32_t nearest_to_holder(const line_t *l) {
    ask_t *const *asks = l->asks + l->first;
    const uint8_t *near = l3_near[core_l3[l->holder - 1]];
    uint32_t best = 0;
    for (uint32_t i = 1; i < l->waiting; i++)
        if (near[asks[i]->cpu->l3] < near[asks[best]->cpu->l3]) best = i;
    return best;
}

// The first in line, mostly. Caches do not queue requests strictly; if they did, loops of read and
// compare-exchange could fail for ever in step with a thread that changes the line in between.
static uint32_t choose(const line_t *l) {
    if (l->holder && chance(machine.nearest)) return nearest_to_holder(l);
    return chance(machine.disorder) ? (uint32_t)(draw(&arbiter) % l->waiting) : 0;
}

void line_next(line_t *l, ps_t at) {
    l->armed = false;
    if (l->waiting && l->busy <= at) serve(take(l, choose(l)), at);
    arm(l, at);
}

void line_wake(line_t *l, ps_t at) {
    while (l->watchers) sched_unpark(l->watchers->thread, at);
}
