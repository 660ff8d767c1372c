// SPDX-License-Identifier: MIT
// life.c - the rest of what a program does: choices, time, frames, threads, memory.
#include <string.h>

#include "check.h"

// ------------------------------------------------------------------------- choices and time
unsigned engine_choose(vm_choice_t kind, unsigned n, vm_site_t at) {
    if (current < 0) return 0;
    vcpu_t *v = &cpu[current];
    if (kind == VM_CHOICE_TIME && v->expired >= options.expiries) n = 1;
    if (kind == VM_CHOICE_SPURIOUS && v->spurious >= options.spurious) n = 1;
    if (kind == VM_CHOICE_SLEEP && v->slept >= options.sleeps) n = 1;
    if (kind == VM_CHOICE_WEAK && v->failed >= options.weak_failures) n = 1;
    if (n < 2) return 0;
    event_t *e = run_arrive_alone(at);
    if (e) {
        run_expect(e->type == EV_CHOICE && e->op == kind, "a choice", at);
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
    if (e->value && kind == VM_CHOICE_WEAK) v->failed++;
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
    event_t *e = run_arrive_alone((vm_site_t){0, (uintptr_t)v->low - 16});
    if (!e) graph_clocks(new_event(EV_END, __ATOMIC_RELAXED, 0));
    if (v->foreigns) shadow_leave((uintptr_t)v->fiber.low, (uintptr_t)v->fiber.base, 0);
    v->ended = true;
    for (;;) run_schedule();
}

void life_begin(void) {
    vcpu_t *v = &cpu[current];
    vm_site_t at = {0, (uintptr_t)v->fiber.base - 64};
    event_t *e = run_arrive_alone(at);
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
    event_t *e = run_arrive_alone(at);
    cpu[current].spins = 0;
    if (!e) {
        if (g->threads == 0xffff) check_bound("threads at a time", MAX_THREADS);
        id_t_ c = new_event(EV_CREATE, __ATOMIC_RELAXED, (uint32_t)at.pc);
        e = ev(c);
        e->child = (uint8_t)__builtin_ctz(~(unsigned)g->threads);
        g->threads |= (uint16_t)(1u << e->child);
        graph_clocks(c);
    }
    run_expect(e->type == EV_CREATE, "a thread's creation", at);
    vcpu_t *v = &cpu[e->child];
    back_ran(e->child);
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
    while (!(e = run_arrive_alone(at)) && !cpu[t].ended) run_schedule();
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
        report_bad(BAD_MISUSE, "free() of something that was not allocated", (uint32_t)at.pc, -1,
                   0);
    if (b->live == FREED)
        report_bad(BAD_MISUSE, "memory freed twice", (uint32_t)at.pc, -1, 0);
    b->live = FREED;
    shadow_free(a, b->size, (uint32_t)at.pc);
}

