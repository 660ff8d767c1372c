// SPDX-License-Identifier: MIT
// sched.c - discrete events, virtual CPUs, and which thread each of them runs.
//
// A CPU runs ahead of the others until something earlier is due; then that happens first, on
// whatever stack is at hand, and only a change of thread switches stacks. What the running CPU
// itself waits for stands outside the heap: mostly it is next. The operating system is
// one run queue per CPU, time slices, wake-ups to an idle CPU near the last one, and idle CPUs that
// take threads from the longest queue: the outline of Linux's fair scheduler.
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "heap.h"
#include "sim.h"

typedef enum { EVENT_RUN, EVENT_COMMIT, EVENT_SERVE, EVENT_TIMER, EVENT_TICK } kind_t;

enum { SEQUENCE_BITS = 16, KIND_SHIFT = 56 };
static heap_t events, timers;   // timers are many and mostly come to nothing: they stand aside
static uint64_t sequence;

cpu_t *cpus, **placement;
int cpu_count, core_count;
thread_t *threads[MAX_THREADS];
int thread_count;
thread_t *self;
static cpu_t outside = {.slice_end = NEVER};
cpu_t *here = &outside;
ps_t horizon = NEVER, ahead = NEVER;
static ps_t grace;            // how far `ahead` lies behind the next event
static fiber_t host;

// ------------------------------------------------------------------------- what is due
static event_t event_of(ps_t t, kind_t kind, uint64_t arg) {
    return (event_t){t << SEQUENCE_BITS | (sequence++ & ((1 << SEQUENCE_BITS) - 1)),
                     (uint64_t)kind << KIND_SHIFT | arg};
}

static void add(heap_t *h, event_t e) {
    if (__builtin_expect(h->count == h->room, 0) && !heap_grow(h))
        report_end("unusable", "out of memory for events");
    heap_push(h, e);
}

// The running CPU may go on no further than until then.
static void no_further(ps_t t) {
    if (t < horizon) horizon = t;
    if (t + grace < ahead) ahead = t + grace;
}

static void happen(ps_t t, kind_t kind, uint64_t arg) {
    add(&events, event_of(t, kind, arg));
    no_further(t);
}

static uint64_t next_key(void) {
    uint64_t event = events.e[0].key, timer = timers.e[0].key;
    return event < timer ? event : timer;
}

// When the running CPU goes on; no key: it does not know yet.
static event_t mine;

void sched_resume(cpu_t *c, ps_t at) {
    if (c->now < at) c->now = at;
    if (c == here) mine = event_of(c->now, EVENT_RUN, (uint64_t)c->id);
    else happen(c->now, EVENT_RUN, (uint64_t)c->id);
}
void sched_committed(cpu_t *c, ps_t at) { happen(at, EVENT_COMMIT, (uint64_t)c->id); }
void sched_serve(line_t *l, ps_t at) { happen(at, EVENT_SERVE, (uintptr_t)l); }

// How far the running CPU may go: `horizon` for all it does; `ahead` for hits in its own cache.
static void look_ahead(void) {
    ps_t next = next_key() >> SEQUENCE_BITS;
    ps_t end = here->slice_end - 1;
    horizon = next < end ? next : end;
    ahead = next + grace < end ? next + grace : end;
}

// A thread's timer is set anew all the time, mostly for later: the event that is there stays, and
// finds out when it comes whether it is too early, or for nothing.
static void set_timer(thread_t *t, ps_t at) {
    t->timer = at;
    if (at >= t->timer_event) return;
    t->timer_event = at;
    add(&timers, event_of(at, EVENT_TIMER, (uint64_t)t->id));
    no_further(at);
}

// ------------------------------------------------------------------------- run queues
static void settle(thread_t *t, cpu_t *c) {
    if (t->cpu) t->cpu->threads--;
    t->cpu = c;
    c->threads++;
}

static void enqueue(cpu_t *c, thread_t *t) {
    t->next = NULL;
    settle(t, c);
    t->state = THREAD_READY;
    *c->queue_end = t;
    c->queue_end = &t->next;
    c->queued++;
}

static thread_t *dequeue(cpu_t *c) {
    thread_t *t = c->queue;
    if (!t) return NULL;
    c->queue = t->next;
    if (!c->queue) c->queue_end = &c->queue;
    c->queued--;
    return t;
}

// A thread computes slower while its core's other hardware thread computes too.
static void set_pace(const cpu_t *c) {
    cpu_t *s = &cpus[c->sibling];
    if (s != c) s->block = c->running && !c->running->parked ? machine.block_smt : machine.block;
}

static void run_on(cpu_t *c, thread_t *t, ps_t at) {
    c->running = t;
    set_pace(c);
    settle(t, c);
    t->state = THREAD_RUNNING;
    if (c->now < at) c->now = at;
    c->now += machine.switch_;
    c->run_since = c->now;
    c->slice_end = c->now + machine.slice;
    if (c->queued) happen(c->slice_end, EVENT_TICK, (uint64_t)c->id);
    sched_resume(c, c->now);
}

// A thread that may run, on this CPU: at once, or in the queue, with the running one cut short if
// it has had its least share.
static void make_ready(cpu_t *c, thread_t *t, ps_t at) {
    if (!c->running) {
        run_on(c, t, at);
        return;
    }
    enqueue(c, t);
    ps_t end = c->run_since + machine.granularity;
    if (end < at) end = at;
    if (end < c->slice_end) c->slice_end = end;
    happen(c->slice_end, EVENT_TICK, (uint64_t)c->id);
    if (c == here) look_ahead();
}

static cpu_t *idle_near(const thread_t *t) {
    const cpu_t *c = t->cpu;
    cpu_t *best = NULL;
    int best_rank = 4;
    for (int i = 0; i < cpu_count && best_rank > 1; i++) {
        cpu_t *o = placement[i];
        if (o->running || !may_run_on(t, o)) continue;
        int rank = o->l3 == c->l3 ? 1 : o->socket == c->socket ? 2 : 3;
        if (rank < best_rank) best = o, best_rank = rank;
    }
    return best;
}

// Threads that sleep count: those that wait for the others to be made do not stay on one CPU.
static cpu_t *least_loaded(const thread_t *t) {
    cpu_t *best = NULL;
    for (int i = 0; i < cpu_count; i++) {
        cpu_t *c = placement[i];
        if (may_run_on(t, c) && (!best || c->threads < best->threads)) best = c;
    }
    return best;
}

static bool take_from(cpu_t *c, thread_t *t) {
    thread_t **link = &c->queue;
    while (*link && *link != t) link = &(*link)->next;
    if (!*link) return false;
    *link = t->next;
    if (c->queue_end == &t->next) c->queue_end = link;
    c->queued--;
    return true;
}

// The first of a queue that may run on c.
static thread_t *first_for(const cpu_t *from, const cpu_t *c) {
    thread_t *t = from->queue;
    while (t && !may_run_on(t, c)) t = t->next;
    return t;
}

static thread_t *steal(cpu_t *c) {
    cpu_t *from = NULL;
    for (int i = 0; i < cpu_count; i++)
        if (cpus[i].queued > (from ? from->queued : 0) && first_for(&cpus[i], c)) from = &cpus[i];
    if (!from) return NULL;
    counts.migrated++;
    c->now += machine.migrate;
    thread_t *t = first_for(from, c);
    take_from(from, t);
    return t;
}

// The thread that runs here leaves the CPU; it has drained its stores.
static void run_next(cpu_t *c) {
    self->ran += c->now - c->run_since;
    c->running = NULL;
    set_pace(c);
    thread_t *t = dequeue(c);
    if (!t) t = steal(c);
    if (t) run_on(c, t, c->now);
}

// The running thread gives its CPU away and stays ready, here or, if it must leave, elsewhere.
static void give_way(void) {
    cpu_t *c = self->cpu, *to = may_run_on(self, c) ? c : least_loaded(self);
    ps_t at = c->now;
    self->ran += c->now - c->run_since;
    c->running = NULL;
    set_pace(c);
    thread_t *t = dequeue(c);
    if (to == c) enqueue(c, self);
    if (!t && to != c) t = steal(c);
    if (t) run_on(c, t, at);
    if (to != c) {
        counts.migrated++;
        make_ready(to, self, at + machine.migrate);
    }
    sched_wait();
}

static void preempt(void) {
    engine_drain();
    if (may_run_on(self, here) && !here->queued) {
        here->slice_end = here->now + machine.slice;
        return;
    }
    counts.preempted += here->queued > 0;
    self->preempted += here->queued > 0;
    give_way();
}

// ------------------------------------------------------------------------- events
static void check_limits(ps_t t) {
    static struct timespec begin;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!begin.tv_sec) begin = now;
    double took = (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) / 1e9;
    if (settings.limit && t > settings.limit) report_end("limit", "the limit of simulated time");
    if (settings.seconds > 0 && took > settings.seconds) report_end("time", "the time limit");
}

static void timer(thread_t *t, ps_t at) {
    if (at != t->timer_event) return;   // an earlier one has come in its place
    t->timer_event = NEVER;
    if (at < t->timer) {
        set_timer(t, t->timer);
        return;
    }
    t->timer = NEVER;
    t->timed_out = true;
    if (t->parked) sched_unpark(t, at);
    else if (t->state == THREAD_ASLEEP) sched_wake(t, at);
}

static void tick(cpu_t *c, ps_t at) {
    if (!c->running || at < c->slice_end) return;
    if (!c->queued && may_run_on(c->running, c)) return;
    if (c->running->parked) sched_unpark(c->running, at);   // it will see that its time is over
}

static void handle(event_t e) {
    ps_t at = e.key >> SEQUENCE_BITS;
    uint64_t arg = e.arg & (((uint64_t)1 << KIND_SHIFT) - 1);
    switch ((kind_t)(e.arg >> KIND_SHIFT)) {
    case EVENT_RUN: break;
    case EVENT_COMMIT: engine_commit(&cpus[arg], at); break;
    case EVENT_SERVE: line_next((line_t *)(uintptr_t)arg, at); break;
    case EVENT_TIMER: timer(threads[arg], at); break;
    case EVENT_TICK: tick(&cpus[arg], at); break;
    }
}

// Lets everything happen until a thread goes on; gives its CPU.
static cpu_t *next_cpu(void) {
    for (;;) {
        uint64_t next = next_key();
        if (!(++counts.events & 0xfff)) check_limits(next >> SEQUENCE_BITS);
        if (mine.key && mine.key < next) {
            mine.key = 0;
            return here;
        }
        if (next == HEAP_EMPTY) report_end("deadlock", "no thread can go on");
        event_t e = events.e[0];
        if (e.key != next) {
            handle(heap_pop(&timers));
        } else if (e.arg >> KIND_SHIFT != EVENT_RUN) {
            handle(heap_pop(&events));
        } else {
            if (mine.key) heap_replace_first(&events, mine);
            else heap_pop(&events);
            mine.key = 0;
            return &cpus[e.arg];
        }
    }
}

void sched_wait(void) {
    thread_t *me = self;
    here = next_cpu();
    look_ahead();
    if (here->running == me) return;
    counts.switches++;
    self = here->running;
    fiber_switch(&me->fiber, &self->fiber);
}

void sched_turn(void) {
    if (here->now >= here->slice_end) preempt();
    if (next_key() >> SEQUENCE_BITS < here->now) {
        mine = event_of(here->now, EVENT_RUN, (uint64_t)here->id);
        sched_wait();
    } else {
        look_ahead();
    }
}

void sched_leave(void) {
    self = NULL;
    here = &outside;
}

// ------------------------------------------------------------------------- waiting and waking
void sched_park(ps_t until) {
    self->parked = true;
    self->timed_out = false;
    set_pace(self->cpu);
    set_timer(self, until);
    sched_wait();
}

void sched_unpark(thread_t *t, ps_t at) {
    for (int i = 0; i < t->watches; i++) {
        watch_t *w = &t->watch[i];
        *w->link = w->next;
        if (w->next) w->next->link = w->link;
    }
    t->watches = 0;
    t->parked = false;
    t->timer = NEVER;
    set_pace(t->cpu);
    // where in its loop it was when the line changed
    if (!t->timed_out && t->loop.period) at += draw(&t->cpu->random) % (t->loop.period + 1);
    sched_resume(t->cpu, at);
}

void sched_sleep(ps_t until) {
    engine_drain();
    self->state = THREAD_ASLEEP;
    self->slept++;
    self->timed_out = false;
    set_timer(self, until);
    run_next(self->cpu);
    sched_wait();
}

bool sched_wake(thread_t *t, ps_t at) {
    if (t->state != THREAD_ASLEEP) return false;
    t->timer = NEVER;
    t->state = THREAD_READY;
    bool here_it_may = may_run_on(t, t->cpu);
    cpu_t *c = t->cpu->running || !here_it_may ? idle_near(t) : t->cpu;
    if (!c) c = here_it_may ? t->cpu : least_loaded(t);
    if (c != t->cpu) counts.migrated++;
    make_ready(c, t, at + machine.wake);
    return true;
}

void sched_yield_cpu(void) {
    cpu_t *c = self->cpu;
    c->now += machine.syscall;
    if (c->queued) {
        c->slice_end = c->now;
        sched_turn();
    }
}

void sched_obey(thread_t *t) {
    cpu_t *c = t->cpu;
    if (may_run_on(t, c)) return;
    if (t == self) {
        engine_drain();
        give_way();
    } else if (t->state == THREAD_READY && take_from(c, t)) {
        counts.migrated++;
        make_ready(least_loaded(t), t, here->now + machine.migrate);
    } else if (t->state == THREAD_RUNNING) {   // at its next turn, or now if it waits in a loop
        c->slice_end = here->now;
        if (t->parked) sched_unpark(t, here->now);
    }
}

// ------------------------------------------------------------------------- threads
static cpu_mask_t next_mask;
static bool next_is_bound;

void sched_bind_next(const cpu_mask_t *mask) {
    next_mask = *mask;
    next_is_bound = true;
}

static void entry(void) { sched_end(vm_thread_body(self->fn, self->arg)); }

enum { COLOUR_BYTES = 1088 };
thread_t *sched_create(void *(*fn)(void *), void *arg) {
    if (thread_count == MAX_THREADS) report_end("unusable", "more than 2048 threads");
    thread_t *t = calloc(1, sizeof *t);
    size_t bytes = thread_count ? STACK_BYTES : MAIN_STACK_BYTES;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!t || stack == MAP_FAILED) report_end("unusable", "out of memory for threads");
    // Tops a power of two apart would all meet in the same few sets of the host's caches.
    size_t apart = (size_t)thread_count * (COLOUR_BYTES + 4096) % (COLOUR_BYTES * 64);
    fiber_make(&t->fiber, stack, bytes - apart / 64 * 64);
    fiber_reset(&t->fiber, entry);
    t->stack_bytes = (size_t)(t->fiber.base - t->fiber.low);
    t->id = thread_count;
    t->timer = t->timer_event = NEVER;
    t->fn = fn;
    t->arg = arg;
    t->bound = next_is_bound || (self && self->bound);   // inherited, if nothing was said
    t->allowed = next_is_bound ? next_mask : self ? self->allowed : t->allowed;
    next_is_bound = false;
    threads[thread_count++] = t;
    if (self) make_ready(least_loaded(t), t, self->cpu->now + machine.wake);
    else run_on(placement[cpu_count - 1], t, 0);   // where it is least in the way
    return t;
}

void sched_end(void *result) {
    engine_drain();
    self->result = result;
    self->state = THREAD_ENDED;
    self->cpu->threads--;
    if (self->joiner) sched_wake(self->joiner, self->cpu->now);
    run_next(self->cpu);
    sched_wait();
    __builtin_unreachable();   // nobody runs an ended thread
}

// A request needs half its transfer to reach the core that holds the line; until then that core
// goes on using it. So a hit may come that much before what is due elsewhere.
static ps_t half_a_transfer(void) {
    ps_t least = NEVER;
    for (int i = NEAR_L3; i < NEARS; i++)
        if (machine.dirty[i] && machine.dirty[i] < least) least = machine.dirty[i];
    return least == NEVER ? 0 : least / 2;
}

void sched_init(void) {
    grace = half_a_transfer();
    if (!heap_grow(&events) || !heap_grow(&timers))
        report_end("unusable", "out of memory for events");
    for (int i = 0; i < cpu_count; i++) {
        cpus[i].block = machine.block;
        cpus[i].queue_end = &cpus[i].queue;
        cpus[i].random =
            (settings.seed * 0x9e3779b97f4a7c15u) ^ ((uint64_t)(i + 1) * 0xbf58476d1ce4e5b9u);
        for (int k = 0; k < 4; k++) draw(&cpus[i].random);
    }
}

void sched_run(void) {
    fiber_host(&host);
    here = next_cpu();
    look_ahead();
    self = here->running;
    fiber_switch(&host, &self->fiber);
    __builtin_unreachable();
}
