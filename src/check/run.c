// SPDX-License-Identifier: MIT
// run.c - runs the program along a graph: first what is in the graph, then beyond it.
//
// Memory of plain data is the real memory. That is right because threads are run in an order that
// extends program order and reads-from, so whatever happens before has been done; a program
// for which it would not be right has a data race, and shadow.c reports it.
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
int run_replayed;             // events of run_order that were done

static fiber_t host;
static run_end_t ending;
bool run_beyond;              // the whole graph has been replayed

// The program's own variables (the command gives their sections these names), and their copies
// from before main().
extern char __start_hl_data[] __attribute__((weak)), __stop_hl_data[] __attribute__((weak));
extern char __start_hl_bss[] __attribute__((weak)), __stop_hl_bss[] __attribute__((weak));
static char *saved_data, *saved_bss;

static size_t data_bytes(void) { return (size_t)(__stop_hl_data - __start_hl_data); }
static size_t bss_bytes(void) { return (size_t)(__stop_hl_bss - __start_hl_bss); }

size_t run_bytes(void) { return data_bytes() + bss_bytes(); }

void run_copy(copy_t *c) {
    copy_bytes(c, __start_hl_data, data_bytes());
    copy_bytes(c, __start_hl_bss, bss_bytes());
}

// ------------------------------------------------------------------------- switching
static void go(int t) {
    int from = current;
    if (t == from) return;
    current = t;
    back_ran(t);
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
    if (run_replayed < run_ordered && run_order[run_replayed] != t) return false;
    if (e->rf == INIT || (e->type != EV_READ && e->type != EV_JOIN && e->type != EV_START))
        return true;
    return cpu[id_thread(e->rf)].pos > id_index(e->rf);
}

// How many writes there are of what thread t read in the iteration that made it wait.
int run_news(int t) {
    int n = 0;
    for (int i = cpu[t].parked_from; i < g->len[t]; i++)
        if (g->e[t][i].type == EV_READ) n += g->loc[g->e[t][i].loc].writes;
    return n;
}

bool run_can_extend(int t) {
    const vcpu_t *v = &cpu[t];
    if (!v->started || v->ended || v->parked) return false;
    if (v->idle_since >= 0 && v->idle_since >= run_news(t)) return false;
    return v->joining < 0 || cpu[v->joining].ended;
}

// All are idle. Sampling lets each look once more, at the newest values; then it is parked. In the
// plain search an execution in which it looked at them comes anyway.
static int last_chance(void) {
    for (int t = 0; t < MAX_THREADS; t++) {
        vcpu_t *v = &cpu[t];
        if (!v->started || v->ended || v->parked || v->idle_since < 0) continue;
        if (v->eager || options.search == SEARCH_PLAIN) {
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
void run_schedule(void) {
    int threads = run_threads();
    if (!run_beyond) {
        for (int t = 0; t < threads; t++) {
            if (!cpu[t].started || cpu[t].pos >= g->len[t] || !can_replay(t)) continue;
            go(t);
            return;
        }
        run_beyond = true;
    }
    for (int t = 0; t < threads; t++) {
        if (!cpu[t].owes_write) continue;
        go(t);
        return;
    }
    if (run_prefer >= 0 && run_can_extend(run_prefer)) {
        go(run_prefer);
        return;
    }
    int next = -1;
    if (options.search == SEARCH_PLAIN) next = plain_thread();
    else if (options.search != SEARCH_ALL) next = sample_thread();
    for (int t = 0; next < 0 && t < threads; t++)
        if (run_can_extend(t)) next = t;
    if (next < 0) next = last_chance();
    if (next >= 0) {
        go(next);
        return;
    }
    bool all = true;
    for (int t = 0; t < threads; t++) all = all && (!cpu[t].started || cpu[t].ended);
    run_stop(all ? RUN_COMPLETE : RUN_BLOCKED);
}

// Waits until this thread's next event can be replayed, or is to be made; `shared`: others may see
// it, so who comes first is chosen anew.
static event_t *arrive(vm_site_t at, bool shared) {
    vcpu_t *v = &cpu[current];
    v->low = at.sp + 16;
    if (v->plain_loc >= 0) run_flush();
    for (;;) {
        if (v->pos < g->len[current]) {
            if (can_replay(current)) {
                run_replayed++;
                return &g->e[current][v->pos++];
            }
        } else if (run_beyond) {
            if (options.search == SEARCH_ALL || !shared || v->chosen) {
                v->chosen = false;
                return NULL;
            }
            v->chosen = true;
        }
        v->pending = shared;
        run_schedule();
        v->pending = false;
    }
}

event_t *run_arrive(vm_site_t at) { return arrive(at, true); }
event_t *run_arrive_alone(vm_site_t at) { return arrive(at, false); }

void run_expect(bool same, const char *what, vm_site_t at) {
    if (same) return;
    char text[160];
    snprintf(text, sizeof text, "the program does not repeat itself (%s): it depends on something "
             "other than its schedule", what);
    check_unusable(text, (uint32_t)at.pc);
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
    for (int t = 0; t < MAX_THREADS; t++)
        fiber_make(&cpu[t].fiber, arena + t * STACK_BYTES, STACK_BYTES);
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

static void reset_threads(int from) {
    static bool all_are;      // those that have not started
    for (int t = from; t < MAX_THREADS; t++) {
        vcpu_t *v = &cpu[t];
        if (all_are && !v->started) continue;
        back_ran(t);
        fiber_reset(&v->fiber, life_begin);
        v->pos = v->spins = v->calls = v->foreigns = v->visits = 0;
        v->expired = v->spurious = v->slept = v->failed = 0;
        v->dozing = v->pending = v->chosen = false;
        v->started = v->ended = v->parked = v->owes_write = false;
        v->joining = v->plain_loc = -1;
        v->clock.pc = 0;
        v->idle_since = -1;
        v->eager = false;
        v->now = 1000000000000ull;
        v->heap = heap_of(t);
        v->low = (uintptr_t)v->fiber.base;
    }
    all_are = true;
}

// The program as it was before main().
static void reset(void) {
    static uint32_t last;
    run_number = ++last;
    memcpy(__start_hl_data, saved_data, data_bytes());
    memcpy(__start_hl_bss, saved_bss, bss_bytes());
    reset_threads(0);
    current = 0;
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
    counts.runs++;
    run_beyond = false;
    run_replayed = 0;
    int kept = back_restore();
    if (kept) reset_threads(kept);
    else reset();
    for (int t = 0, threads = run_threads(); t < threads; t++) cpu[t].effects = effects(t);
    fiber_switch(&host, &cpu[current].fiber);
    if (ending == RUN_BLOCKED && stuck_for_good()) {
        if (options.keep_going) {
            counts.deadlocks++;
            return ending;
        }
        report_bad_here(BAD_DEADLOCK,
                        "deadlock or lost wake-up: every thread waits, and nobody will write");
        return RUN_BAD;
    }
    return ending;
}
