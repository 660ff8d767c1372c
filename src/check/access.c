// SPDX-License-Identifier: MIT
// access.c - the program's accesses become events of the graph, replayed or new.
//
// A loop that waits is recognised by its state: if a thread comes to the same load with the same
// registers and the same stack, having written nothing in between, one more iteration would do
// the same again. The thread is parked; what it read is part of the graph, so the executions in
// which it reads something newer are explored as alternatives of the load it has made.
#include <errno.h>
#include <string.h>

#include "check.h"

// ------------------------------------------------------------------------- loops that wait
uint64_t stack_hash(uintptr_t sp, const char *base) {
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
        v->idle_since = run_news(current);
        v->spins = 0;
        v->pending = true;
        run_schedule();
        v->pending = false;
        v->chosen = true;
        v->idle_since = -1;
        return;
    }
    v->parked = true;
    for (;;) run_schedule();
}

// ------------------------------------------------------------------------- atomic accesses
static void shape(event_t *e, int loc, uintptr_t a, unsigned size) {
    e->loc = (uint16_t)loc;
    e->size = (uint8_t)size;
    e->offset = (uint8_t)(a - locations[loc].addr);
    e->mask = (uint16_t)(((1u << size) - 1) << e->offset);
}

static void add_write(const event_t *like, vm_value_t block, int order, bool rmw) {
    id_t_ w = new_event(EV_WRITE, order, like->pc);
    event_t *e = ev(w);
    e->loc = like->loc;
    e->size = like->size;
    e->offset = like->offset;
    e->mask = like->mask;
    e->value = block;
    e->rmw = rmw;
    if (!explore_write(w)) run_stop(RUN_STOPPED);
}

// What a read, or the reading half of something, is to be.
typedef struct {
    vm_value_t arg, expected;
    uint8_t op, size, order, success, failure, hidden;
} request_t;

// May the search branch off before an access to loc? Any read may be revisited; a write may go
// before another.
static bool branches(int loc, bool write) {
    if (!options.marks) return false;
    clk_t c = clk_of(current);
    return !write || lower_bound(loc, &c) < g->loc[loc].writes;
}

// The read half. Returns the event.
static event_t *add_read(uintptr_t a, const request_t *q, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    if (v->plain_loc >= 0) run_flush();
    if (!q->hidden && waits(a, at)) park();
    if (options.loops && !q->hidden) count_visit(at);
    event_t *e = run_arrive(at);
    int loc = shadow_location(a, q->size);
    if (!e && branches(loc, false) && back_mark()) e = run_arrive(at);
    if (e) {
        run_expect(e->type == EV_READ && e->loc == loc && e->op == q->op, "a read", at);
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
static void add_write_half(event_t *r, vm_value_t block, vm_site_t at) {
    vcpu_t *v = &cpu[current];
    r->rmw = 1;
    bool silent = block == r->value;  // writing back what was there changes nothing
    if (v->pos < g->len[current]) {
        event_t *w = &g->e[current][v->pos++];
        run_replayed++;
        run_expect(w->type == EV_WRITE && w->value == block, "a write", at);
    } else {
        v->owes_write = true;
        while (!run_beyond) run_schedule();
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

vm_value_t engine_load(uintptr_t a, unsigned size, int order, vm_site_t at) {
    if (current < 0) {
        vm_value_t x = 0;
        memcpy(&x, (void *)a, size);
        return x;
    }
    order = order_here(VM_LOAD, order, 0, at);
    request_t q = {.op = VM_LOAD, .size = (uint8_t)size, .order = (uint8_t)order};
    event_t *e = add_read(a, &q, at);
    return block_get(e, e->value);
}

vm_value_t engine_rmw(uintptr_t a, unsigned size, vm_op_t op, vm_value_t value,
                      vm_value_t expected, int order, int failure, vm_site_t at) {
    int asked = order;
    order = order_here(op, order, failure, at);
    if (order != asked) failure = failure_here(failure, order);
    if (current < 0) {
        event_t like = {.op = (uint8_t)op, .size = (uint8_t)size, .arg = value,
                        .expected = expected};
        vm_value_t block = 0, old;
        memcpy(&block, (void *)a, size);
        old = block;
        if (rmw_result(&like, &block)) memcpy((void *)a, &block, size);
        return old;
    }
    request_t q = {value, expected, (uint8_t)op, (uint8_t)size, (uint8_t)order, (uint8_t)order,
                   (uint8_t)failure, 0};
    event_t *r = add_read(a, &q, at);
    vm_value_t block = r->value, old = block_get(r, block);
    if (rmw_result(r, &block)) add_write_half(r, block, at);
    return old;
}

// On x86 none does; elsewhere the reservation may be lost at any time. It has then only read.
bool engine_weak_fails(uintptr_t a, unsigned size, int order, int failure, vm_value_t *old,
                       vm_site_t at) {
    if (current < 0 || model != MODEL_C11 || !engine_choose(VM_CHOICE_WEAK, 2, at)) return false;
    int asked = order;
    order = order_here(VM_CAS, order, failure, at);
    if (order != asked) failure = failure_here(failure, order);
    request_t q = {.op = VM_LOAD, .size = (uint8_t)size, .order = (uint8_t)failure};
    event_t *e = add_read(a, &q, at);
    *old = block_get(e, e->value);
    cpu[current].spins = 0;  // the next try is another: one failure fewer is left
    return true;
}

void engine_store(uintptr_t a, unsigned size, vm_value_t value, int order, vm_site_t at) {
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
        vm_value_t block = r->value;
        rmw_result(r, &block);
        add_write_half(r, block, at);
        return;
    }
    event_t *e = run_arrive(at);
    loc = shadow_location(a, size);     // others may have run since: note the initial value now
    if (!e && branches(loc, true) && back_mark()) e = run_arrive(at);
    if (e) {
        run_expect(e->type == EV_WRITE && e->loc == loc && e->value == value, "a store", at);
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
    event_t *e = run_arrive_alone(at);
    if (e) run_expect(e->type == EV_FENCE, "a fence", at);
    else graph_clocks(new_event(EV_FENCE, order, (uint32_t)at.pc));
}

void engine_plain(uintptr_t a, size_t size, bool write, vm_site_t at) {
    if (current < 0) return;
    vcpu_t *v = &cpu[current];
    if (v->plain_loc >= 0) run_flush();
    v->low = at.sp + 16;
    // The own stack is part of the state already, and errno is as good as that.
    bool own = a < (uintptr_t)v->fiber.base && a >= (uintptr_t)v->fiber.low;
    if (write && !own && a != (uintptr_t)&errno) v->spins = 0;
    shadow_plain(a, size, write, (uint32_t)at.pc);
}

// A plain write to an atomic location has been done by now: give it its place in the graph.
void run_flush(void) {
    vcpu_t *v = &cpu[current];
    int loc = v->plain_loc;
    v->plain_loc = -1;
    vm_value_t value = 0;
    memcpy(&value, (void *)locations[loc].addr, locations[loc].size);
    vm_site_t at = {v->plain_pc, v->low - 16};
    event_t *e = run_arrive(at);
    if (e) {
        run_expect(e->type == EV_WRITE && e->loc == loc && e->value == value, "a plain write", at);
        return;
    }
    event_t like = {.pc = v->plain_pc};
    shape(&like, loc, locations[loc].addr, locations[loc].size);
    add_write(&like, value, ORDER_NA, false);
}

