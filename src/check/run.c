// SPDX-License-Identifier: MIT
// run.c - runs the program along a graph: first what is in the graph, then beyond it.
//
// Memory of plain data is the real memory. That is right because threads are run in an order that
// extends program order and reads-from, so whatever happens before has been done; a program
// for which it would not be right has a data race, and shadow.c reports it.
//
// A loop that waits is recognised by its state: if a thread comes to the same load with the same
// registers and the same stack, having written nothing in between, one more iteration would do
// the same again. The thread is parked; what it read is part of the graph, so the executions in
// which it reads something newer are explored as alternatives of the load it has made.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

vcpu_t cpu[MAX_THREADS];
int current = -1;
uint32_t run_number;
int run_prefer = -1, run_ordered;
uint8_t run_order[MAX_STAMPS];
static int replayed;          // events of run_order that were done
static int writes_made;       // in this run, beyond the graph

static fiber_t host;
static run_end_t ending;
static bool beyond;           // the whole graph has been replayed

// The program's own variables (the command gives their sections these names), and their copies
// from before main().
extern char __start_hl_data[] __attribute__((weak)), __stop_hl_data[] __attribute__((weak));
extern char __start_hl_bss[] __attribute__((weak)), __stop_hl_bss[] __attribute__((weak));
static char *saved_data, *saved_bss;

static size_t data_bytes(void) { return (size_t)(__stop_hl_data - __start_hl_data); }
static size_t bss_bytes(void) { return (size_t)(__stop_hl_bss - __start_hl_bss); }

// ------------------------------------------------------------------------- switching
static void go(int t) {
    int from = current;
    if (t == from) return;
    current = t;
    fiber_switch(&cpu[from].fiber, &cpu[t].fiber);
}

void run_stop(run_end_t end) {
    int from = current;
    ending = end;
    current = -1;
    fiber_switch(&cpu[from].fiber, &host);
    __builtin_unreachable();
}

// Has what thread t's next event depends on been done?
static bool can_replay(int t) {
    const event_t *e = &g->e[t][cpu[t].pos];
    if (replayed < run_ordered && run_order[replayed] != t) return false;
    if (e->rf == INIT || (e->type != EV_READ && e->type != EV_JOIN && e->type != EV_START))
        return true;
    return cpu[id_thread(e->rf)].pos > id_index(e->rf);
}

bool run_can_extend(int t) {
    const vcpu_t *v = &cpu[t];
    if (!v->started || v->ended || v->parked || v->idle_since >= writes_made) return false;
    return v->joining < 0 || cpu[v->joining].ended;
}

// Sampling, and all are idle: let each look once more, at the newest values; then it is parked.
static int last_chance(void) {
    for (int t = 0; t < MAX_THREADS; t++) {
        vcpu_t *v = &cpu[t];
        if (!v->started || v->ended || v->parked || v->idle_since < 0) continue;
        if (v->eager) {
            v->parked = true;
            continue;
        }
        v->eager = true;
        v->idle_since = -1;
        return t;
    }
    return -1;
}

// Gives the processor up: replay first, then the leftmost thread that can go on. The write half of
// a read-modify-write comes right after its read half.
static void schedule(void) {
    if (!beyond) {
        for (int t = 0; t < MAX_THREADS; t++) {
            if (!cpu[t].started || cpu[t].pos >= g->len[t] || !can_replay(t)) continue;
            go(t);
            return;
        }
        beyond = true;
    }
    for (int t = 0; t < MAX_THREADS; t++) {
        if (!cpu[t].owes_write) continue;
        go(t);
        return;
    }
    if (run_prefer >= 0 && run_can_extend(run_prefer)) {
        go(run_prefer);
        return;
    }
    int next = -1;
    if (options.search != SEARCH_ALL) next = sample_thread();
    for (int t = 0; next < 0 && t < MAX_THREADS; t++)
        if (run_can_extend(t)) next = t;
    if (next < 0) next = last_chance();
    if (next >= 0) {
        go(next);
        return;
    }
    bool all = true;
    for (int t = 0; t < MAX_THREADS; t++) all = all && (!cpu[t].started || cpu[t].ended);
    run_stop(all ? RUN_COMPLETE : RUN_BLOCKED);
}

// Returns the event to replay, or NULL when this thread is to make a new one.
static event_t *arrive(vm_site_t at) {
    vcpu_t *v = &cpu[current];
    v->low = at.sp + 16;
    bool drawn = false;
    if (v->plain_loc >= 0) run_flush();
    for (;;) {
        if (v->pos < g->len[current]) {
            if (can_replay(current)) {
                replayed++;
                return &g->e[current][v->pos++];
            }
        } else if (beyond) {
            if (options.search == SEARCH_ALL || drawn) return NULL;
            drawn = true;  // who comes first is drawn anew for each event
        }
        schedule();
    }
}

static void expect(bool same, const char *what, vm_site_t at) {
    if (same) return;
    char text[160];
    snprintf(text, sizeof text, "the program does not repeat itself (%s): it depends on something "
             "other than its schedule", what);
    check_unusable(text, (uint32_t)at.pc);
}

// ------------------------------------------------------------------------- loops that wait
static uint64_t stack_hash(uintptr_t sp, const char *base) {
    const uint64_t k = 0x9E3779B97F4A7C15ull;
    uint64_t a = 1, b = 2, c = 3, d = 4;
    const uint64_t *p = (const uint64_t *)sp, *end = (const uint64_t *)base;
    for (; p + 4 <= end; p += 4) {
        a = (a ^ p[0]) * k;
        b = (b ^ p[1]) * k;
        c = (c ^ p[2]) * k;
        d = (d ^ p[3]) * k;
        a ^= a >> 32;
        b ^= b >> 29;
        c ^= c >> 31;
        d ^= d >> 30;
    }
    for (; p < end; p++) a = (a ^ *p) * k, a ^= a >> 32;
    return (((a * k) ^ b) * k ^ c) * k ^ d;
}

// True: this load has been made before in the very same state, so the thread waits.
static bool waits(uintptr_t a, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    bool newest = v->pos >= g->len[current];
    if (v->pos < v->effects) return false;  // a side effect will follow in any case
    spin_t s = {at.pc, a, at.sp, stack_hash(at.sp, v->fiber.base), (uint16_t)v->pos};
    for (int i = 0; newest && i < v->spins; i++) {
        const spin_t *o = &v->spin[i];
        if (o->pc != s.pc || o->addr != a || o->sp != s.sp || o->hash != s.hash) continue;
        v->parked_from = o->at;
        return true;
    }
    if (v->spins == SPIN_RING) memmove(v->spin, v->spin + 1, --v->spins * sizeof *v->spin);
    v->spin[v->spins++] = s;
    return false;
}

// A loop that is no wait: how often may it go round?
static void count_visit(vm_site_t at) {
    vcpu_t *v = &cpu[current];
    int i = 0;
    while (i < v->visits && (v->visit[i].pc != at.pc || v->visit[i].sp != at.sp)) i++;
    if (i == VISITS) return;  // the bound on events holds in any case
    if (i == v->visits) {
        v->visit[i].pc = at.pc;
        v->visit[i].sp = at.sp;
        v->visit[i].times = 0;
        v->visits++;
    }
    if (++v->visit[i].times > options.loops && v->pos >= g->len[current]) {
        bound_now = (spot_t){(uint32_t)at.pc, current};
        run_stop(RUN_BOUND);
    }
}

static void park(void) {
    vcpu_t *v = &cpu[current];
    if (options.search != SEARCH_ALL) {  // somebody else first; then look again
        v->idle_since = writes_made;
        v->spins = 0;
        schedule();
        v->idle_since = -1;
        return;
    }
    v->parked = true;
    for (;;) schedule();
}

// ------------------------------------------------------------------------- atomic accesses
static void shape(event_t *e, int loc, uintptr_t a, unsigned size) {
    e->loc = (uint16_t)loc;
    e->size = (uint8_t)size;
    e->offset = (uint8_t)(a - locations[loc].addr);
    e->mask = (uint8_t)(((1u << size) - 1) << e->offset);
}

static void add_write(const event_t *like, uint64_t block, int order, bool rmw) {
    id_t_ w = new_event(EV_WRITE, order, like->pc);
    event_t *e = ev(w);
    e->loc = like->loc;
    e->size = like->size;
    e->offset = like->offset;
    e->mask = like->mask;
    e->value = block;
    e->rmw = rmw;
    writes_made++;
    if (!explore_write(w)) run_stop(RUN_STOPPED);
}

// What a read, or the reading half of something, is to be.
typedef struct {
    uint64_t arg, expected;
    uint8_t op, size, order, success, failure, hidden;
} request_t;

// The read half. Returns the event.
static event_t *add_read(uintptr_t a, const request_t *q, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    if (v->plain_loc >= 0) run_flush();
    if (!q->hidden && waits(a, at)) park();
    if (options.loops && !q->hidden) count_visit(at);
    event_t *e = arrive(at);
    int loc = shadow_location(a, q->size);
    if (e) {
        expect(e->type == EV_READ && e->loc == loc && e->op == q->op, "a read", at);
    } else {
        id_t_ r = new_event(EV_READ, q->order, (uint32_t)at.pc);
        e = ev(r);
        shape(e, loc, a, q->size);
        e->op = q->op;
        e->arg = q->arg;
        e->expected = q->expected;
        e->success = q->success;
        e->failure = q->failure;
        e->hidden = q->hidden;
        explore_read(r);
    }
    e->value = read_block(e);
    if (!e->hidden) shadow_atomic(loc, e->mask, false, (uint32_t)at.pc);
    return e;
}

// The write half of r, the thread's newest event.
static void add_write_half(event_t *r, uint64_t block, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    r->rmw = 1;
    bool silent = block == r->value;  // writing back what was there changes nothing
    if (v->pos < g->len[current]) {
        event_t *w = &g->e[current][v->pos++];
        replayed++;
        expect(w->type == EV_WRITE && w->value == block, "a write", at);
    } else {
        v->owes_write = true;
        while (!beyond) schedule();
        v->owes_write = false;
        add_write(r, block, r->success, true);
    }
    if (!silent) v->spins = 0;
    shadow_atomic(r->loc, r->mask, true, (uint32_t)at.pc);
}

// ------------------------------------------------------------------------- orders
enum { SITES_MOST = 1024 };
site_t sites[SITES_MOST];
int site_count;

static void note_site(int op, int order, int failure, vm_site_t at) {
    for (int i = 0; i < site_count; i++)
        if (sites[i].pc == (uint32_t)at.pc) return;
    if (site_count == SITES_MOST) check_bound("atomic instructions", SITES_MOST);
    sites[site_count++] = (site_t){(uint32_t)at.pc, op, order, failure};
}

// The order this access is to have: its own, or a weaker one that is being tried.
static int order_here(int op, int order, int failure, vm_site_t at) {
    if (options.sites) note_site(op, order, failure, at);
    for (int i = 0; i < options.weak_count; i++)
        if (options.weak_pc[i] == (uint32_t)at.pc) return options.weak_order;
    return order;
}

// A failed compare-exchange is never stronger than a successful one.
static int failure_here(int failure, int success) {
    if (success == __ATOMIC_SEQ_CST) return failure;
    bool acquires = success == __ATOMIC_ACQUIRE || success == __ATOMIC_ACQ_REL;
    return failure != __ATOMIC_RELAXED && acquires ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
}

uint64_t engine_load(uintptr_t a, unsigned size, int order, vm_site_t at) {
    if (current < 0) {
        uint64_t x = 0;
        memcpy(&x, (void *)a, size);
        return x;
    }
    order = order_here(VM_LOAD, order, 0, at);
    request_t q = {.op = VM_LOAD, .size = (uint8_t)size, .order = (uint8_t)order};
    event_t *e = add_read(a, &q, at);
    return block_get(e, e->value);
}

uint64_t engine_rmw(uintptr_t a, unsigned size, vm_op_t op, uint64_t value, uint64_t expected,
                    int order, int failure, vm_site_t at) {
    int asked = order;
    order = order_here(op, order, failure, at);
    if (order != asked) failure = failure_here(failure, order);
    if (current < 0) {
        event_t like = {.op = (uint8_t)op, .size = (uint8_t)size, .arg = value, .expected = expected};
        uint64_t block = 0, old;
        memcpy(&block, (void *)a, size);
        old = block;
        if (rmw_result(&like, &block)) memcpy((void *)a, &block, size);
        return old;
    }
    request_t q = {value, expected, (uint8_t)op, (uint8_t)size, (uint8_t)order, (uint8_t)order,
                   (uint8_t)failure, 0};
    event_t *r = add_read(a, &q, at);
    uint64_t block = r->value, old = block_get(r, block);
    if (rmw_result(r, &block)) add_write_half(r, block, at);
    return old;
}

void engine_store(uintptr_t a, unsigned size, uint64_t value, int order, vm_site_t at) {
    if (current < 0) {
        memcpy((void *)a, &value, size);
        return;
    }
    order = order_here(VM_STORE, order, 0, at);
    if (cpu[current].plain_loc >= 0) run_flush();
    int loc = shadow_location(a, size);
    if (locations[loc].size != size) {  // a narrow store: see graph.h
        request_t q = {.op = VM_XCHG, .size = (uint8_t)size, .arg = value, .hidden = 1,
                       .success = (uint8_t)order};
        event_t *r = add_read(a, &q, at);
        uint64_t block = r->value;
        rmw_result(r, &block);
        add_write_half(r, block, at);
        return;
    }
    event_t *e = arrive(at);
    loc = shadow_location(a, size);     // others may have run since: note the initial value now
    if (e) {
        expect(e->type == EV_WRITE && e->loc == loc && e->value == value, "a store", at);
    } else {
        event_t like = {.pc = (uint32_t)at.pc};
        shape(&like, loc, a, size);
        add_write(&like, value, order, false);
    }
    cpu[current].spins = 0;
    shadow_atomic(loc, (1u << size) - 1, true, (uint32_t)at.pc);
}

void engine_fence(int order, vm_site_t at) {
    if (current < 0) return;
    order = order_here(-1, order, 0, at);
    if (order == __ATOMIC_RELAXED) return;
    event_t *e = arrive(at);
    if (e) expect(e->type == EV_FENCE, "a fence", at);
    else graph_clocks(new_event(EV_FENCE, order, (uint32_t)at.pc));
}

void engine_plain(uintptr_t a, size_t size, bool write, vm_site_t at) {
    if (current < 0) return;
    vcpu_t *v = &cpu[current];
    if (v->plain_loc >= 0) run_flush();
    v->low = at.sp + 16;
    // The own stack is part of the state already, and errno is as good as that.
    bool own = (a < (uintptr_t)v->fiber.base && a >= (uintptr_t)v->fiber.low) ||
               a == (uintptr_t)&errno;
    if (write && !own) v->spins = 0;
    shadow_plain(a, size, write, (uint32_t)at.pc);
}

// A plain write to an atomic location has been done by now: give it its place in the graph.
void run_flush(void) {
    vcpu_t *v = &cpu[current];
    int loc = v->plain_loc;
    v->plain_loc = -1;
    uint64_t value = 0;
    memcpy(&value, (void *)locations[loc].addr, locations[loc].size);
    vm_site_t at = {v->plain_pc, v->low - 16};
    event_t *e = arrive(at);
    if (e) {
        expect(e->type == EV_WRITE && e->loc == loc && e->value == value, "a plain write", at);
        return;
    }
    event_t like = {.pc = v->plain_pc};
    shape(&like, loc, locations[loc].addr, locations[loc].size);
    add_write(&like, value, ORDER_NA, false);
}

// ------------------------------------------------------------------------- choices and time
unsigned engine_choose(vm_choice_t kind, unsigned n, vm_site_t at) {
    if (current < 0) return 0;
    vcpu_t *v = &cpu[current];
    if (kind == VM_CHOICE_TIME && v->expired >= options.expiries) n = 1;
    if (kind == VM_CHOICE_SPURIOUS && v->spurious >= options.spurious) n = 1;
    if (kind == VM_CHOICE_SLEEP && v->slept >= options.sleeps) n = 1;
    if (n < 2) return 0;
    event_t *e = arrive(at);
    if (e) {
        expect(e->type == EV_CHOICE && e->op == kind, "a choice", at);
    } else {
        id_t_ c = new_event(EV_CHOICE, __ATOMIC_RELAXED, (uint32_t)at.pc);
        e = ev(c);
        e->op = (uint8_t)kind;
        e->arg = n;
        explore_choice(c, n);
    }
    if (e->value && kind == VM_CHOICE_TIME) v->expired++;
    if (e->value && kind == VM_CHOICE_SPURIOUS) v->spurious++;
    if (e->value && kind == VM_CHOICE_SLEEP) v->slept++;
    return (unsigned)e->value;
}

// Time stands still, except that it may pass every deadline at once (a bounded choice), and
// that a loop which only looks at the clock sees it go on until it leaves.
uint64_t engine_clock(vm_site_t at) {
    vcpu_t *v = &cpu[current];
    const uint64_t hour = 3600000000000ull;
    uint64_t hash = stack_hash(at.sp, v->fiber.base);
    bool again = v->clock.pc == at.pc && v->clock.sp == at.sp && v->clock.pos == v->pos;
    if (again && (v->clock.hash == hash || v->clock.looks++ > 16)) {
        int shift = v->clock.delays < 40 ? v->clock.delays++ : 40;
        return v->now + (1000ull << shift);
    }
    if (!again) v->clock.looks = v->clock.delays = 0;
    if (engine_choose(VM_CHOICE_TIME, 2, at)) v->now += hour;
    v->clock.pc = at.pc;
    v->clock.sp = at.sp;
    v->clock.hash = hash;
    v->clock.pos = v->pos;
    return v->now;
}

void engine_doze(bool timed) { cpu[current].dozing = timed; }
bool engine_timers_fire(void) { return options.timers; }
void engine_pause(vm_site_t at) { (void)at; }
int engine_self(void) { return current; }

// ------------------------------------------------------------------------- frames
void engine_enter(vm_site_t at) {
    if (current < 0) return;
    vcpu_t *v = &cpu[current];
    v->low = at.sp + 16;
    if (v->calls < MAX_CALLS) v->call[v->calls] = (call_t){v->low, v->pos};
    v->calls++;
}

void engine_leave(vm_site_t at) {
    if (current < 0) return;
    vcpu_t *v = &cpu[current];
    if (v->plain_loc >= 0) run_flush();
    v->low = at.sp + 16;
    if (v->calls) v->calls--;
    if (v->foreigns) {
        uintptr_t high = v->calls ? v->call[v->calls - 1].low : (uintptr_t)v->fiber.base;
        shadow_leave(v->low, high, (uint32_t)at.pc);
    }
}

// ------------------------------------------------------------------------- threads
static void thread_end(void) {
    vcpu_t *v = &cpu[current];
    event_t *e = arrive((vm_site_t){0, (uintptr_t)v->low - 16});
    if (!e) graph_clocks(new_event(EV_END, __ATOMIC_RELAXED, 0));
    if (v->foreigns) shadow_leave((uintptr_t)v->fiber.low, (uintptr_t)v->fiber.base, 0);
    v->ended = true;
    for (;;) schedule();
}

static void thread_main(void) {
    vcpu_t *v = &cpu[current];
    vm_site_t at = {0, (uintptr_t)v->fiber.base - 64};
    event_t *e = arrive(at);
    if (!e) {
        id_t_ s = new_event(EV_START, __ATOMIC_RELAXED, 0);
        ev(s)->rf = v->creator;
        graph_clocks(s);
    }
    v->spins = 0;
    v->result = vm_thread_body(v->fn, v->arg);
    thread_end();
}

int engine_create(void *(*fn)(void *), void *arg, vm_site_t at) {
    if (current < 0) check_unusable("a thread is created before main()", (uint32_t)at.pc);
    event_t *e = arrive(at);
    cpu[current].spins = 0;
    if (!e) {
        if (g->threads == 0xffff) check_bound("threads at a time", MAX_THREADS);
        id_t_ c = new_event(EV_CREATE, __ATOMIC_RELAXED, (uint32_t)at.pc);
        e = ev(c);
        e->child = (uint8_t)__builtin_ctz(~(unsigned)g->threads);
        g->threads |= (uint16_t)(1u << e->child);
        graph_clocks(c);
    }
    expect(e->type == EV_CREATE, "a thread's creation", at);
    vcpu_t *v = &cpu[e->child];
    v->fn = fn;
    v->arg = arg;
    v->started = true;
    v->creator = id_of(current, cpu[current].pos - 1);
    return e->child;
}

void *engine_join(int t, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    v->low = at.sp + 16;
    if (v->plain_loc >= 0) run_flush();
    if (v->pos >= g->len[current]) v->joining = t;
    event_t *e;
    while (!(e = arrive(at)) && !cpu[t].ended) schedule();
    v->joining = -1;
    v->spins = 0;
    if (!e) {
        id_t_ j = new_event(EV_JOIN, __ATOMIC_RELAXED, (uint32_t)at.pc);
        ev(j)->rf = id_of(t, g->len[t] - 1);
        graph_clocks(j);
    }
    return cpu[t].result;
}

void engine_exit(void *result) {
    cpu[current].result = result;
    thread_end();
    __builtin_unreachable();
}

// ------------------------------------------------------------------------- memory
// One heap per thread, a bump of it per allocation, nothing reused: addresses do not depend on
// the schedule, and freed memory stays recognisable.
typedef struct { size_t size; uint64_t live; } block_t;
#define LIVE 0x6c6976656c697665ull
#define FREED 0x6672656566726565ull

void *engine_alloc(size_t size, size_t align, vm_site_t at) {
    if (align < 16) align = 16;
    vcpu_t *v = &cpu[current];
    uintptr_t end = ARENA + MAX_THREADS * STACK_BYTES + (size_t)(current + 1) * HEAP_BYTES;
    uintptr_t a = (v->heap + sizeof(block_t) + align - 1) & ~(align - 1);
    if (size > HEAP_BYTES || a + size > end)
        check_unusable("the program allocates more than 1 MiB in one thread", (uint32_t)at.pc);
    v->heap = a + ((size + 15) & ~(size_t)15) + 16;
    memset((void *)a, 0, size);
    ((block_t *)a)[-1] = (block_t){size, LIVE};
    return (void *)a;
}

size_t engine_size(void *p) { return ((block_t *)p)[-1].size; }

void engine_free(void *p, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    if (v->plain_loc >= 0) run_flush();
    uintptr_t a = (uintptr_t)p, heaps = ARENA + MAX_THREADS * STACK_BYTES;
    bool ours = a >= heaps + sizeof(block_t) && a < heaps + MAX_THREADS * HEAP_BYTES && !(a & 15);
    block_t *b = (block_t *)p - 1;
    if (!ours || (b->live != LIVE && b->live != FREED))
        report_bad(BAD_MISUSE, "free() of something that was not allocated", (uint32_t)at.pc, -1, 0);
    if (b->live == FREED)
        report_bad(BAD_MISUSE, "memory freed twice", (uint32_t)at.pc, -1, 0);
    b->live = FREED;
    shadow_free(a, b->size, (uint32_t)at.pc);
}

// ------------------------------------------------------------------------- one run
void engine_fail(vm_failure_t kind, const char *text, vm_site_t at) {
    static const bad_t bad[] = {BAD_ASSERT, BAD_EXIT, BAD_CRASH, BAD_MISUSE};
    if (current < 0) check_unusable(text, (uint32_t)at.pc);
    report_bad(bad[kind], text, (uint32_t)at.pc, -1, 0);
}

void engine_unsupported(const char *what, vm_site_t at) { check_unusable(what, (uint32_t)at.pc); }

static int arg_count;
static char **arg_values;

static void *run_main(void *arg) {
    (void)arg;
    extern char **environ;
    int status = vm_program_main(arg_count, arg_values, environ);
    if (status != 0) {
        char text[64];
        snprintf(text, sizeof text, "main() returned %d", status);
        report_bad(BAD_EXIT, text, 0, -1, 0);
    }
    return NULL;
}

void run_init(int argc, char **argv) {
    arg_count = argc;
    arg_values = argv;
    size_t bytes = MAX_THREADS * (STACK_BYTES + HEAP_BYTES);
    char *arena = mmap((void *)ARENA, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (arena != (char *)ARENA) check_unusable("the address range of the stacks is taken", 0);
    for (int t = 0; t < MAX_THREADS; t++) fiber_make(&cpu[t].fiber, arena + t * STACK_BYTES, STACK_BYTES);
    fiber_host(&host);
    saved_data = malloc(data_bytes() + 1);
    saved_bss = malloc(bss_bytes() + 1);
    if (!saved_data || !saved_bss) check_unusable("not enough memory", 0);
    memcpy(saved_data, __start_hl_data, data_bytes());
    memcpy(saved_bss, __start_hl_bss, bss_bytes());
}

// How many of thread t's events it takes to see its last side effect in the graph.
static int effects(int t) {
    for (int i = g->len[t]; i-- > 0;) {
        const event_t *e = &g->e[t][i];
        bool silent = e->type != EV_WRITE || (e->rmw && e->value == e[-1].value);
        if (!silent) return i;
    }
    return 0;
}

static void reset(void) {
    run_number++;
    beyond = false;
    replayed = writes_made = 0;
    memcpy(__start_hl_data, saved_data, data_bytes());
    memcpy(__start_hl_bss, saved_bss, bss_bytes());
    for (int t = 0; t < MAX_THREADS; t++) {
        vcpu_t *v = &cpu[t];
        v->effects = effects(t);
        if (run_number > 1 && !v->started) continue;
        fiber_reset(&v->fiber, thread_main);
        v->pos = v->spins = v->calls = v->foreigns = v->expired = v->spurious = v->slept = v->visits = 0;
        v->dozing = false;
        v->started = v->ended = v->parked = v->owes_write = false;
        v->joining = v->plain_loc = -1;
        v->clock.pc = 0;
        v->idle_since = -1;
        v->eager = false;
        v->now = 1000000000000ull;
        v->heap = ARENA + MAX_THREADS * STACK_BYTES + (size_t)t * HEAP_BYTES;
        v->low = (uintptr_t)v->fiber.base;
    }
    cpu[0].fn = run_main;
    cpu[0].started = true;
    cpu[0].creator = INIT;
}

// Nothing can go on. Is that for good? It is if every waiting thread has seen the newest values; a
// thread that waits for a deadline will be released by it, which is another execution.
static bool stuck_for_good(void) {
    for (int t = 0; t < MAX_THREADS; t++) {
        const vcpu_t *v = &cpu[t];
        if (!v->started || v->ended || !v->parked) continue;
        if (v->dozing) return false;
        for (int i = v->parked_from; i < g->len[t]; i++) {
            const event_t *e = &g->e[t][i];
            if (e->type == EV_READ && !e->hidden && co_position(e->rf) != g->loc[e->loc].writes)
                return false;
            if (e->type == EV_CHOICE && e->op == VM_CHOICE_TIME) return false;
        }
    }
    return true;
}

run_end_t run_once(void) {
    reset();
    counts.runs++;
    current = 0;
    fiber_switch(&host, &cpu[0].fiber);
    if (ending == RUN_BLOCKED && stuck_for_good()) {
        if (options.keep_going) {
            counts.deadlocks++;
            return ending;
        }
        report_bad_here(BAD_DEADLOCK, "deadlock or lost wake-up: every thread waits, and nobody will "
                        "write");
        return RUN_BAD;
    }
    return ending;
}
