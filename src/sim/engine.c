// SPDX-License-Identifier: MIT
// engine.c - the program's accesses on the virtual machine: what each costs, and loops that wait.
//
// Stores go through a buffer: the thread goes on, the value arrives when the line does, in order.
// The values of plain stores are in memory at once (the compiler puts them there), only their
// time is buffered: programs without data races cannot tell.
//
// A loop that only reads the same values again is a wait. It is not run but parked until one of its
// lines changes. Whether it will do the same again is decided by its state: the registers and the
// stack at two visits. If it also looks at the clock, it is let look at it now and then; when
// looking made a difference is remembered per loop, so that a deadline is soon known and met.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

// Declared by nobody: the compiler knows them by name.
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { STATE_BYTES = 512, PATIENCES = 256 };
#define LIKELY(x) __builtin_expect(!!(x), 1)

// Everything earlier happens first.
static inline void turn(void) {
    if (!LIKELY(here->now <= horizon)) sched_turn();
}

// The line is in the core's cache, this hardware thread used it last, and nobody is on the way to
// it: using it once more is a hit, and seen by nobody before it is asked for. To write, the core
// must hold it alone.
static inline bool hits(const line_t *l, const cpu_t *c, bool write) {
    if (l->holder == c->core + 1) return l->user == c->id && l->busy <= c->now && !l->waiting;
    return !write && !l->holder && line_shared_by(l, c->core);
}

// ------------------------------------------------------------------------- values
static inline uint64_t peek(uintptr_t a, unsigned size) {
    switch (size) {
    case 1: return *(const volatile uint8_t *)a;
    case 2: return *(const volatile uint16_t *)a;
    case 4: return *(const volatile uint32_t *)a;
    default: return *(const volatile uint64_t *)a;
    }
}
static inline void poke(uintptr_t a, unsigned size, uint64_t v) {
    switch (size) {
    case 1: *(volatile uint8_t *)a = (uint8_t)v; break;
    case 2: *(volatile uint16_t *)a = (uint16_t)v; break;
    case 4: *(volatile uint32_t *)a = (uint32_t)v; break;
    default: *(volatile uint64_t *)a = v;
    }
}

// What the thread itself sees: its buffered stores over what is in memory.
static inline uint64_t peek_through(const cpu_t *c, uintptr_t a, unsigned size) {
    uint64_t v = peek(a, size);
    for (unsigned i = c->head; i != c->tail; i++) {
        const pending_t *p = &c->buffer[i % MAX_BUFFER];
        if (!p->size || p->a >= a + size || a >= p->a + p->size) continue;
        for (unsigned b = 0; b < p->size; b++)
            if (p->a + b >= a && p->a + b < a + size)
                memcpy((char *)&v + (p->a + b - a), (const char *)&p->value + b, 1);
    }
    return v;
}

static bool buffered(const cpu_t *c, uintptr_t a, size_t size) {
    for (unsigned i = c->head; i != c->tail; i++) {
        const pending_t *p = &c->buffer[i % MAX_BUFFER];
        if (p->size && p->a < a + size && a < p->a + p->size) return true;
    }
    return false;
}

// ------------------------------------------------------------------------- the store buffer
static void issue(cpu_t *c, ps_t at) {
    if (c->storing || c->head == c->tail) return;
    pending_t *p = &c->buffer[c->head % MAX_BUFFER];
    c->storing = true;
    if (p->line->holder == c->core + 1) {
        ps_t t = (p->line->busy > at ? p->line->busy : at) + machine.cycle;
        p->line->busy = t;
        sched_committed(c, t);
    } else {
        line_ask(&c->store, c, ASK_STORE, p->line, p->pc, at);
    }
}

static void arrive(cpu_t *c, pending_t *p, ps_t at) {
    if (p->size) poke(p->a, p->size, p->value);
    p->line->user = (uint16_t)c->id;
    c->head++;
    if (p->line->watchers) line_wake(p->line, at);
}

// The store at head has its line: it arrives, and with it those that follow and need no other.
void engine_commit(cpu_t *c, ps_t at) {
    arrive(c, &c->buffer[c->head % MAX_BUFFER], at);
    c->storing = false;
    while (c->head != c->tail) {
        pending_t *p = &c->buffer[c->head % MAX_BUFFER];
        if (p->line->holder != c->core + 1 || p->line->busy > at) break;
        arrive(c, p, at);
    }
    issue(c, at);
    if (!c->stalled) return;
    c->stalled = false;
    sched_resume(c, at);
}

static void stall(cpu_t *c) {
    c->stalled = true;
    sched_wait();
}

void engine_drain(void) {
    cpu_t *c = here;
    while (c->head != c->tail) stall(c);
}

bool engine_wants(const cpu_t *c, unsigned place, const line_t *l) {
    for (unsigned i = c->head; i != c->tail; i++)
        if (i % MAX_BUFFER == place) return c->buffer[place].line == l;
    return false;
}

// Asks for the line early unless a store in front of this one does.
static void prefetch(cpu_t *c, unsigned at) {
    pending_t *p = &c->buffer[at];
    if (at == c->head % MAX_BUFFER || p->line->holder == c->core + 1 || c->asked[at]) return;
    for (unsigned i = c->head; i != c->tail - 1; i++)
        if (c->buffer[i % MAX_BUFFER].line == p->line) return;
    c->asked[at] = true;
    line_ask(&c->prefetch[at], c, ASK_PREFETCH, p->line, p->pc, c->now);
}

static void store(uintptr_t a, uint8_t size, uint64_t value, uintptr_t pc) {
    turn();
    cpu_t *c = here;
    line_t *l = line_of(a);
    if (c->head == c->tail && l->holder == c->core + 1 && l->busy <= c->now) {
        if (size) poke(a, size, value);
        c->now += machine.cycle;
        l->user = (uint16_t)c->id;
        l->moved = false;
        if (l->watchers) line_wake(l, c->now);
        return;
    }
    while (c->tail - c->head >= (unsigned)machine.buffer) stall(c);
    unsigned at = c->tail++ % MAX_BUFFER;
    c->buffer[at] = (pending_t){l, a, pc, value, size};
    c->now += machine.cycle;
    prefetch(c, at);
    issue(c, c->now);
}

// ------------------------------------------------------------------------- loops that wait
static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

// Registers and frame of whoever reads in a loop.
static uint64_t state_of(uintptr_t sp) {
    uintptr_t end = sp + STATE_BYTES, base = (uintptr_t)self->fiber.base;
    uint64_t h[4] = {0, 1, 2, 3};   // side by side: a chain of multiplications is slow
    if (end > base) end = base;
    for (; sp + 32 <= end; sp += 32)
        for (int i = 0; i < 4; i++) h[i] = mix(h[i], ((const uint64_t *)sp)[i]);
    for (; sp + 8 <= end; sp += 8) h[0] = mix(h[0], *(const uint64_t *)sp);
    return mix(mix(h[0], h[1]), mix(h[2], h[3]));
}

static void add_line(loop_t *loop, line_t *l) {
    for (int i = 0; i < loop->line_count; i++)
        if (loop->lines[i] == l) return;
    if (loop->line_count < LOOP_LINES) loop->lines[loop->line_count++] = l;
    else loop->acted = true;   // too many to watch
}

void engine_acts(void) {
    self->loop.acted = true;
    self->acts++;
}

// How long a loop goes on whatever the clock says, and after how long it no longer does.
static struct { uintptr_t pc; ps_t goes_on, ends; } patience[PATIENCES];

static ps_t next_look(uintptr_t pc, ps_t waited, ps_t period) {
    unsigned p = (unsigned)(pc * 0x9e3779b1u >> 16) % PATIENCES;
    if (patience[p].pc != pc) {
        patience[p].pc = pc;
        patience[p].goes_on = 0;
        patience[p].ends = NEVER;
    }
    ps_t on = patience[p].goes_on, end = patience[p].ends;
    if (waited + period < on) return on;
    ps_t step = end != NEVER && end > waited ? (end - waited) / 2 : waited / 8;
    return waited + (step > period ? step : period);
}

static void went_on(uintptr_t pc, ps_t waited) {
    unsigned p = (unsigned)(pc * 0x9e3779b1u >> 16) % PATIENCES;
    if (waited > patience[p].goes_on) patience[p].goes_on = waited;
    if (waited >= patience[p].ends) patience[p].ends = NEVER;
}

static void ended(uintptr_t pc, ps_t waited) {
    unsigned p = (unsigned)(pc * 0x9e3779b1u >> 16) % PATIENCES;
    if (waited < patience[p].ends) patience[p].ends = waited;
    if (waited <= patience[p].goes_on) patience[p].goes_on = 0;
}

static void loop_begin(loop_t *loop, uintptr_t a, uint64_t value, line_t *l, vm_site_t at) {
    ps_t now = here->now;
    if (loop->looked) ended(loop->pc, loop->looked);
    loop->pc = at.pc, loop->a = a, loop->sp = at.sp;
    loop->value = value, loop->seen = loop->last_seen = loop->state = 0;
    loop->loads = loop->turns = 0;
    loop->lines[0] = l;
    loop->line_count = 1;
    loop->clock = loop->acted = false;
    loop->begin = loop->last = now;
    loop->period = loop->looked = 0;
}

// The thread has spun from then to now; loops inside loops are counted once.
static void note_spun(ps_t from) {
    thread_t *t = self;
    if (from < t->spun_to) from = t->spun_to;
    t->spun += here->now - from;
    t->spun_to = here->now;
}

// One more turn of the same loop has read the same.
static void loop_goes_round(loop_t *loop) {
    ps_t now = here->now;
    if (loop->looked) went_on(loop->pc, loop->looked);
    loop->looked = 0;
    note_spun(loop->last);
    loop->period = now - loop->last;
    loop->last = now;
    loop->last_seen = loop->seen;
    loop->seen = 0;
    loop->loads = 0;
    loop->turns++;
}

// Notes a read; true: a turn of a waiting loop is over and may be waited out, until then.
static bool loop_turn(uintptr_t a, uint64_t value, line_t *l, vm_site_t at, ps_t *until) {
    loop_t *loop = &self->loop;
    bool full = loop->acted || loop->loads >= LOOP_LOADS;
    if (!full && (at.pc != loop->pc || a != loop->a || at.sp != loop->sp)) {
        loop->loads++;
        loop->seen = mix(mix(loop->seen, a), value);
        add_line(loop, l);
        return false;
    }
    if (full || value != loop->value || (loop->turns && loop->seen != loop->last_seen)) {
        loop_begin(loop, a, value, l, at);
        return false;
    }
    loop_goes_round(loop);
    if (loop->turns < 2) return false;
    for (int i = 0; i < loop->line_count; i++)
        if (!line_shared_by(loop->lines[i], here->core)) return false;
    if (loop->clock) {
        *until = loop->begin + next_look(at.pc, loop->last - loop->begin, loop->period);
        return true;
    }
    uint64_t state = state_of(at.sp);
    bool same = state == loop->state && loop->turns > 2;
    loop->state = state;
    *until = NEVER;
    return same;
}

static void watch_lines(void) {
    loop_t *loop = &self->loop;
    self->watches = loop->line_count;
    for (int i = 0; i < loop->line_count; i++) {
        watch_t *w = &self->watch[i];
        line_t *l = loop->lines[i];
        *w = (watch_t){self, l, l->watchers, &l->watchers};
        if (w->next) w->next->link = &w->next;
        l->watchers = w;
    }
}

// Waits the loop out: until a line changes (then look again: true), or its clock must be looked at.
static bool wait_out(ps_t until) {
    loop_t *loop = &self->loop;
    ps_t begin = here->now, period = loop->period ? loop->period : machine.cycle;
    watch_lines();
    sched_park(until);
    ps_t waited = here->now - begin;
    note_spun(begin);
    counts.skipped += waited / period;
    loop->last = here->now;
    if (self->timed_out) loop->looked = loop->last - loop->begin;
    return !self->timed_out;
}

// ------------------------------------------------------------------------- reading
// After this the CPU has a copy of the line. The time is that of a first use, or of one more.
static void fetch(line_t *l, uintptr_t pc, ps_t hit) {
    cpu_t *c = here;
    if (line_shared_by(l, c->core) && (l->busy <= c->now || !l->holder || l->kept)) {
        bool sibling = l->holder && l->user != c->id;
        c->now += sibling ? machine.smt : hit;
        if (l->holder) l->user = (uint16_t)c->id;
        return;
    }
    line_ask(&c->load, c, ASK_LOAD, l, pc, c->now);
    sched_wait();
}

static uint64_t load(uintptr_t a, unsigned size, vm_site_t at, ps_t hit) {
    line_t *l = line_of(a);
    for (;;) {
        ps_t until;
        // a line others share may have been changed: that must happen first
        if (here->now <= ahead && l->holder && hits(l, here, false)) {
            here->now += hit;
        } else {
            turn();
            fetch(l, at.pc, hit);
        }
        uint64_t value = peek_through(here, a, size);
        if (!loop_turn(a, value, l, at, &until) || !wait_out(until)) return value;
    }
}

uint64_t engine_load(uintptr_t a, unsigned size, int order, vm_site_t at) {
    (void)order;
    if (!self) return peek(a, size);
    counts.loads++;
    return load(a, size, at, machine.hit);
}

void engine_volatile_read(uintptr_t a, size_t size, vm_site_t at) {
    if (!self) return;
    counts.loads++;
    if (size > 8 || buffered(here, a, size)) engine_plain(a, size, false, at);
    else (void)load(a, (unsigned)size, at, machine.hit);
}

// ------------------------------------------------------------------------- changing
void engine_store(uintptr_t a, unsigned size, uint64_t value, int order, vm_site_t at) {
    if (!self) {
        poke(a, size, value);
        return;
    }
    if (order == __ATOMIC_SEQ_CST) {   // compiled to an exchange
        engine_rmw(a, size, VM_XCHG, value, 0, order, order, at);
        return;
    }
    counts.stores++;
    engine_acts();
    self->rmw_pc = 0;
    store(a, (uint8_t)size, value, at.pc);
}

static uint64_t combine(vm_op_t op, uint64_t old, uint64_t x) {
    switch (op) {
    case VM_ADD: return old + x;
    case VM_SUB: return old - x;
    case VM_AND: return old & x;
    case VM_OR: return old | x;
    case VM_XOR: return old ^ x;
    case VM_NAND: return ~(old & x);
    default: return x;
    }
}

// The same change of the same line again, with nothing in between: a loop that waits by writing.
static void note_change(uintptr_t a, uintptr_t pc) {
    thread_t *t = self;
    if (t->rmw_pc == pc && t->rmw_line == a >> 6) note_spun(t->rmw_at);
    t->rmw_pc = pc;
    t->rmw_line = a >> 6;
    t->rmw_at = t->cpu->now;
}

uint64_t engine_rmw(uintptr_t a, unsigned size, vm_op_t op, uint64_t value, uint64_t expected,
                    int order, int failure, vm_site_t at) {
    (void)order;
    (void)failure;
    if (self) {
        counts.changes++;
        engine_acts();
        turn();
        if (here->head != here->tail) engine_drain();
        cpu_t *c = here;
        line_t *l = line_of(a);
        if (l->holder == c->core + 1 && l->busy <= c->now && !l->waiting) {
            c->now += machine.rmw + (l->user != c->id ? machine.smt : 0);
        } else {
            line_ask(&c->load, c, ASK_RMW, l, at.pc, c->now);
            sched_wait();
        }
        l->user = (uint16_t)c->id;
        note_change(a, at.pc);
        if (l->watchers) line_wake(l, c->now);
    }
    uint64_t old = peek(a, size), mask = size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << size * 8) - 1;
    if (op != VM_CAS || old == (expected & mask)) poke(a, size, combine(op, old, value));
    return old;
}

void engine_fence(int order, vm_site_t at) {
    (void)at;
    if (!self || order != __ATOMIC_SEQ_CST) return;
    engine_drain();
    here->now += machine.rmw;
}

// ------------------------------------------------------------------------- plain accesses
static __attribute__((noinline)) void plain(uintptr_t a, size_t size, bool write, uintptr_t pc) {
    if (here->head != here->tail && buffered(here, a, size)) engine_drain();
    for (uintptr_t p = a & ~(uintptr_t)63; p < a + size; p += 64) {
        if (write) {
            store(p > a ? p : a, 0, 0, pc);
        } else {
            turn();
            fetch(line_of(p), pc, p > a ? machine.cycle : machine.hit);   // the rest streams
        }
    }
}

// Hits come without a look at the others, as far as they may; a write only with nothing buffered.
void engine_plain(uintptr_t a, size_t size, bool write, vm_site_t at) {
    if (!self || !size) return;
    cpu_t *c = here;
    line_t *l = line_of(a);
    bool stack = a - (uintptr_t)self->fiber.low < self->stack_bytes;
    counts.plain++;
    if (write && !stack) {
        engine_acts();
        self->rmw_pc = 0;
    }
    bool seen = c->head == c->tail || (!write && !buffered(c, a, size));
    if (LIKELY(c->now <= ahead || stack) && LIKELY(hits(l, c, write)) &&
        LIKELY((a & 63) + size <= 64) && LIKELY(seen) && !(write && l->watchers)) {
        c->now += write ? machine.cycle : machine.hit;
        if (write) l->moved = false;
        return;
    }
    if (write && stack) engine_acts();
    plain(a, size, write, at.pc);
}

// ------------------------------------------------------------------------- time that passes
// One basic block of the program, with -fsanitize-coverage=trace-pc.
void __sanitizer_cov_trace_pc(void) {
    cpu_t *c = here;
    c->now += c->block;
    if (!LIKELY(c->now < c->slice_end)) sched_turn();
}

void engine_pause(vm_site_t at) {
    (void)at;
    thread_t *t = self;
    t->cpu->now += machine.pause;
    // a delay between two looks, not counted with a loop of reads
    if (t->pause_acts == t->acts && !t->loop.turns) note_spun(t->pause_at);
    t->pause_acts = t->acts;
    t->pause_at = t->cpu->now;
}

uint64_t engine_clock(vm_site_t at) {
    cpu_t *c = here;
    c->now += machine.clock;
    self->loop.clock = true;
    if (c->now >= c->slice_end) sched_turn();
    if (at.pc) delay_look(at);
    return clock_shows();
}

// ------------------------------------------------------------------------- calls and threads
void engine_enter(vm_site_t at) {
    if (!self) return;
    if (self->depth < MAX_CALLS) self->calls[self->depth] = at.pc;
    self->depth++;
    here->now += machine.call;
}
void engine_leave(vm_site_t at) {
    (void)at;
    if (self && self->depth) self->depth--;
}

void engine_passes(ps_t time) {
    engine_acts();
    self->rmw_pc = 0;
    here->now += time;
    sched_turn();
}

uint32_t engine_kernel_load(uint32_t *word) {
    engine_drain();
    fetch(line_of((uintptr_t)word), 0, machine.hit);
    return *word;
}

int engine_self(void) { return self ? self->id : -1; }

int engine_create(void *(*fn)(void *), void *arg, vm_site_t at) {
    (void)at;
    engine_acts();
    engine_drain();
    here->now += machine.syscall + machine.wake;
    sched_turn();
    return sched_create(fn, arg)->id;
}

void *engine_join(int thread, vm_site_t at) {
    (void)at;
    engine_acts();
    thread_t *t = threads[thread];
    sched_turn();
    t->joiner = self;
    while (t->state != THREAD_ENDED) sched_sleep(NEVER);
    return t->result;
}

_Noreturn void engine_exit(void *result) { sched_end(result); }

void *engine_alloc(size_t size, size_t align, vm_site_t at) {
    (void)at;
    void *p = aligned_alloc(align, (size + align - 1) / align * align);
    return p ? memset(p, 0, size) : NULL;
}
size_t engine_size(void *p) { return malloc_usable_size(p); }
void engine_free(void *p, vm_site_t at) {
    (void)at;
    free(p);
}

_Noreturn void engine_fail(vm_failure_t kind, const char *text, vm_site_t at) {
    (void)kind;
    (void)at;
    report_end("crashed", text);
}
_Noreturn void engine_unsupported(const char *what, vm_site_t at) {
    if (self && self->depth < MAX_CALLS) self->calls[self->depth++] = at.pc;
    report_end("unusable", what);
}
