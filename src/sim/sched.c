// SPDX-License-Identifier: MIT
// sched.c - discrete events, virtual CPUs, and which thread each of them runs.
//
// A CPU runs ahead of the others until something earlier is due; then that happens first, on
// whatever stack is at hand, and only a change of thread switches stacks. The operating system is
// one run queue per CPU, time slices, wake-ups to an idle CPU near the last one, and idle CPUs that
// take threads from the longest queue: the outline of Linux's fair scheduler.
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "sim.h"

typedef enum { EVENT_RUN, EVENT_COMMIT, EVENT_SERVE, EVENT_TIMER, EVENT_TICK } kind_t;
typedef struct { uint64_t key, arg; } event_t;   // time and sequence; kind and whose

enum { SEQUENCE_BITS = 16, KIND_SHIFT = 56, TIMER_SHIFT = 16 };
static event_t *heap;
static size_t heap_count, heap_room;
static uint64_t sequence;

cpu_t *cpus, **placement;
int cpu_count, core_count;
thread_t *threads[MAX_THREADS];
int thread_count;
thread_t *self;
static fiber_t host;

// ------------------------------------------------------------------------- the heap: 4-ary
static void push(ps_t t, kind_t kind, uint64_t arg) {
    if (heap_count == heap_room) {
        heap_room = heap_room ? heap_room * 2 : 4096;
        heap = realloc(heap, heap_room * sizeof *heap);
    }
    event_t e = {t << SEQUENCE_BITS | (sequence++ & ((1 << SEQUENCE_BITS) - 1)),
                 (uint64_t)kind << KIND_SHIFT | arg};
    size_t i = heap_count++;
    while (i) {
        size_t up = (i - 1) >> 2;
        if (heap[up].key <= e.key) break;
        heap[i] = heap[up];
        i = up;
    }
    heap[i] = e;
}

static event_t pop(void) {
    event_t top = heap[0], e = heap[--heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 4 * i + 1, end = child + 4 < heap_count ? child + 4 : heap_count;
        if (child >= heap_count) break;
        size_t least = child;
        for (size_t k = child + 1; k < end; k++)
            if (heap[k].key < heap[least].key) least = k;
        if (heap[least].key >= e.key) break;
        heap[i] = heap[least];
        i = least;
    }
    heap[i] = e;
    return top;
}

void sched_resume(cpu_t *c, ps_t at) {
    if (c->now < at) c->now = at;
    push(c->now, EVENT_RUN, (uint64_t)c->id);
}
void sched_committed(cpu_t *c, ps_t at) { push(at, EVENT_COMMIT, (uint64_t)c->id); }
void sched_serve(line_t *l, ps_t at) { push(at, EVENT_SERVE, (uintptr_t)l); }

static void set_timer(thread_t *t, ps_t at) {
    t->timer++;
    if (at == NEVER) return;
    push(at, EVENT_TIMER, (uint64_t)t->timer << TIMER_SHIFT | (uint64_t)t->id);
}

// ------------------------------------------------------------------------- run queues
static void enqueue(cpu_t *c, thread_t *t) {
    t->next = NULL;
    t->cpu = c;
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

static void run_on(cpu_t *c, thread_t *t, ps_t at) {
    c->running = t;
    t->cpu = c;
    t->state = THREAD_RUNNING;
    if (c->now < at) c->now = at;
    c->now += machine.switch_;
    c->run_since = c->now;
    c->block = machine.block;
    c->slice_end = c->now + machine.slice;
    if (c->queued) push(c->slice_end, EVENT_TICK, (uint64_t)c->id);
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
    push(c->slice_end, EVENT_TICK, (uint64_t)c->id);
}

static cpu_t *idle_near(cpu_t *c) {
    cpu_t *best = NULL;
    int best_rank = 4;
    for (int i = 0; i < cpu_count && best_rank > 1; i++) {
        cpu_t *o = placement[i];
        if (o->running) continue;
        int rank = o->l3 == c->l3 ? 1 : o->socket == c->socket ? 2 : 3;
        if (rank < best_rank) best = o, best_rank = rank;
    }
    return best;
}

static cpu_t *least_loaded(void) {
    cpu_t *best = placement[0];
    for (int i = 0; i < cpu_count; i++) {
        cpu_t *c = placement[i];
        int load = c->queued + (c->running != NULL);
        if (load < best->queued + (best->running != NULL)) best = c;
    }
    return best;
}

static thread_t *steal(cpu_t *c) {
    cpu_t *from = NULL;
    for (int i = 0; i < cpu_count; i++)
        if (cpus[i].queued > (from ? from->queued : 0)) from = &cpus[i];
    if (!from) return NULL;
    counts.migrated++;
    c->now += machine.migrate;
    return dequeue(from);
}

// The thread that runs here leaves the CPU; it has drained its stores.
static void run_next(cpu_t *c) {
    self->ran += c->now - c->run_since;
    c->running = NULL;
    thread_t *t = dequeue(c);
    if (!t) t = steal(c);
    if (t) run_on(c, t, c->now);
}

static void preempt(void) {
    cpu_t *c = self->cpu;
    engine_drain();
    if (!c->queued) {
        c->slice_end = c->now + machine.slice;
        return;
    }
    counts.preempted++;
    self->ran += c->now - c->run_since;
    c->running = NULL;
    thread_t *t = dequeue(c);
    enqueue(c, self);
    run_on(c, t, c->now);
    sched_wait();
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

static void timer(uint64_t arg, ps_t at) {
    thread_t *t = threads[arg & ((1 << TIMER_SHIFT) - 1)];
    if (arg >> TIMER_SHIFT != t->timer) return;   // it no longer counts
    t->timed_out = true;
    if (t->parked) sched_unpark(t, at);
    else if (t->state == THREAD_ASLEEP) sched_wake(t, at);
}

static void tick(cpu_t *c, ps_t at) {
    if (!c->queued || !c->running || at < c->slice_end) return;
    if (c->running->parked) sched_unpark(c->running, at);   // it will see that its time is over
}

// Handles one event; gives the CPU whose thread goes on, or NULL.
static cpu_t *step(void) {
    if (!heap_count) report_end("deadlock", "no thread can go on");
    event_t e = pop();
    ps_t at = e.key >> SEQUENCE_BITS;
    uint64_t arg = e.arg & (((uint64_t)1 << KIND_SHIFT) - 1);
    if (!(++counts.events & 0xffff)) check_limits(at);
    switch ((kind_t)(e.arg >> KIND_SHIFT)) {
    case EVENT_RUN: return &cpus[arg];
    case EVENT_COMMIT: engine_commit(&cpus[arg], at); break;
    case EVENT_SERVE: line_next((line_t *)(uintptr_t)arg, at); break;
    case EVENT_TIMER: timer(arg, at); break;
    case EVENT_TICK: tick(&cpus[arg], at); break;
    }
    return NULL;
}

void sched_wait(void) {
    thread_t *me = self;
    cpu_t *c;
    while (!(c = step())) {}
    if (c->running == me) return;
    counts.switches++;
    self = c->running;
    fiber_switch(&me->fiber, &self->fiber);
}

void sched_turn(void) {
    if (self->cpu->now >= self->cpu->slice_end) preempt();
    cpu_t *c = self->cpu;
    const cpu_t *s = &cpus[c->sibling];
    c->block = s != c && s->running && !s->running->parked ? machine.block_smt : machine.block;
    if (!heap_count || heap[0].key >> SEQUENCE_BITS >= c->now) return;
    push(c->now, EVENT_RUN, (uint64_t)c->id);
    sched_wait();
}

// ------------------------------------------------------------------------- waiting and waking
void sched_park(ps_t until) {
    self->parked = true;
    self->timed_out = false;
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
    t->timer++;
    // where in its loop it was when the line changed
    if (!t->timed_out && t->loop.period) at += draw(&t->cpu->random) % (t->loop.period + 1);
    sched_resume(t->cpu, at);
}

void sched_sleep(ps_t until) {
    engine_drain();
    self->state = THREAD_ASLEEP;
    self->timed_out = false;
    set_timer(self, until);
    run_next(self->cpu);
    sched_wait();
}

bool sched_wake(thread_t *t, ps_t at) {
    if (t->state != THREAD_ASLEEP) return false;
    t->timer++;
    t->state = THREAD_READY;
    cpu_t *c = t->cpu->running ? idle_near(t->cpu) : t->cpu;
    if (!c) c = t->cpu;
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

// ------------------------------------------------------------------------- threads
static void entry(void) { sched_end(vm_thread_body(self->fn, self->arg)); }

thread_t *sched_create(void *(*fn)(void *), void *arg) {
    if (thread_count == MAX_THREADS) report_end("unusable", "more than 2048 threads");
    thread_t *t = calloc(1, sizeof *t);
    size_t bytes = thread_count ? STACK_BYTES : MAIN_STACK_BYTES;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!t || stack == MAP_FAILED) report_end("unusable", "out of memory for threads");
    fiber_make(&t->fiber, stack, bytes);
    fiber_reset(&t->fiber, entry);
    t->id = thread_count;
    t->fn = fn;
    t->arg = arg;
    threads[thread_count++] = t;
    if (self) make_ready(least_loaded(), t, self->cpu->now + machine.wake);
    else run_on(placement[cpu_count - 1], t, 0);   // where it is least in the way
    return t;
}

void sched_end(void *result) {
    engine_drain();
    self->result = result;
    self->state = THREAD_ENDED;
    if (self->joiner) sched_wake(self->joiner, self->cpu->now);
    run_next(self->cpu);
    sched_wait();
    __builtin_unreachable();   // nobody runs an ended thread
}

void sched_init(void) {
    for (int i = 0; i < cpu_count; i++) {
        cpus[i].queue_end = &cpus[i].queue;
        cpus[i].random =
            (settings.seed * 0x9e3779b97f4a7c15u) ^ ((uint64_t)(i + 1) * 0xbf58476d1ce4e5b9u);
        for (int k = 0; k < 4; k++) draw(&cpus[i].random);
    }
}

void sched_run(void) {
    fiber_host(&host);
    self = threads[0];
    // thread 0's first event
    cpu_t *c;
    while (!(c = step())) {}
    fiber_switch(&host, &self->fiber);
    __builtin_unreachable();
}
