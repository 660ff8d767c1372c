// SPDX-License-Identifier: MIT
// sim.h - what the parts of the simulator share.
//
//   main.c     settings, one process per seed     sched.c   events, CPUs, threads, the OS model
//   line.c     who holds which cache line         engine.c  the program's accesses, spin loops
//   libc.c     time, sleep, exit, futexes         locks.h   pthread's locks over futexes
//   report.c   what is told to the command    wide.c    16-byte atomics
//   files.c    system calls on files          affinity.c  on which CPUs a thread may run
//   delay.c    loops that look at the clock
//   hot.c      the parts that every access goes through, compiled as one
//
// Time is in picoseconds. A virtual CPU is a hardware thread of the machine; a thread of the
// program runs on one as an operating system would let it.
#ifndef HL_SIM_H
#define HL_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../vm/fiber.h"
#include "../vm/vm.h"

typedef uint64_t ps_t;
#define NEVER UINT64_MAX
#define CLOCK_BEGIN_NS 1000000000000u   // what the virtual clocks show at the start

enum { MAX_CPUS = 1024, MAX_THREADS = 2048, MAX_L3 = 64, MAX_BUFFER = 64 };
#define STACK_BYTES ((size_t)1 << 20)
#define MAIN_STACK_BYTES ((size_t)8 << 20)

// How far apart two holders of a line are.
typedef enum { NEAR_CORE, NEAR_L3, NEAR_SOCKET, NEAR_REMOTE, NEAR_FAR, NEARS } near_t;

// ------------------------------------------------------------------------- the machine
// The numbers of a machine file, in ps; docs/simulator.md says what each means.
typedef struct {
    ps_t cycle, block, block_smt, hit, rmw, pause, clock, smt, call;
    ps_t dirty[NEARS];        // a line that another holds modified
    ps_t clean[NEARS];        // a line that others share
    ps_t memory;              // a line nobody holds
    ps_t upgrade;             // shared to modified, nobody else shares
    ps_t invalidate;          // more, per other sharer
    ps_t serve[NEARS];        // how long serving a reader keeps the line
    ps_t bus;                 // one bus for all transfers: how long each keeps it; 0: none
    double disorder, nearest; // chances that any waiter, or the nearest, is served, not the first
    int buffer;               // stores that may wait; at most MAX_BUFFER
    bool home;                // requests wait at the line's home
    bool migratory;           // reading what another just changed takes the line over
    ps_t syscall, futex_wake, wake, switch_, migrate, slice, granularity;
} machine_t;
extern machine_t machine;

typedef struct {
    uint64_t seed;
    double jitter;            // latencies vary by up to this share either way
    ps_t limit;               // simulated time after which the program is stopped; 0: none
    double seconds;           // real time after which it is
    int lock;                 // which of our locks stands in for pthread's; -1: none
    bool skip_main;           // what the main thread moves is not counted: it only reports
    const char *report;
} settings_t;
extern settings_t settings;

// ------------------------------------------------------------------------- cache lines
typedef struct line line_t;
typedef struct cpu cpu_t;
typedef struct thread thread_t;

typedef enum { ASK_LOAD, ASK_RMW, ASK_STORE, ASK_PREFETCH } ask_kind_t;
typedef struct ask {
    ask_kind_t kind;
    cpu_t *cpu;
    line_t *line;
    uintptr_t pc;
    ps_t at;                  // when
} ask_t;

// A thread whose loop waits for a line to change.
typedef struct watch {
    thread_t *thread;
    line_t *line;
    struct watch *next, **link;
} watch_t;

// As long as one line of the real machine, if 64 cores or fewer share it.
struct line {
    ps_t busy;                // until when it is on its way or serving
    ask_t **asks;             // who waits for it, in order of arrival, from `first` on
    watch_t *watchers;
    uint32_t first, waiting, room;
    uint16_t holder;          // 1 + the core that may write it; 0: none
    uint16_t user;            // the CPU of that core that used it last
    uint16_t sharers;         // how many cores have a copy
    bool armed;               // an event will serve the next waiter
    bool moved, migrates;     // the owner got it by reading; it changes right after being read
    bool kept;                // the holder had a copy when it asked to write: it goes on reading it
    uint64_t in_l3;           // L3 domains with a copy
    uint64_t share[];         // cores with a copy
};

enum { LINE_SHIFT = 6, LEAF_SHIFT = 21, LEAF_LINES = 1 << (LEAF_SHIFT - LINE_SHIFT) };
#define LINE_TOP ((size_t)1 << (47 - LEAF_SHIFT))
extern char **line_leaves;    // the lines of 2 MiB each
extern int line_scale;        // a line takes so many bytes, as a power of two

void line_init(void);
line_t *line_new(uintptr_t a);
static inline line_t *line_of(uintptr_t a) {
    char *leaf = line_leaves[(a >> LEAF_SHIFT) & (LINE_TOP - 1)];
    if (__builtin_expect(!leaf, 0)) return line_new(a);
    return (line_t *)(leaf + (((a >> LINE_SHIFT) & (LEAF_LINES - 1)) << line_scale));
}
void line_ask(ask_t *a, cpu_t *cpu, ask_kind_t kind, line_t *l, uintptr_t pc, ps_t at);
void line_next(line_t *l, ps_t at);           // the event of an armed line
void line_wake(line_t *l, ps_t at);           // its value changed: watchers look again

static inline bool line_shared_by(const line_t *l, int core) {
    return l->share[core >> 6] >> (core & 63) & 1;
}

// ------------------------------------------------------------------------- CPUs and threads
typedef struct {
    line_t *line;
    uintptr_t a, pc;
    uint64_t value;
    uint8_t size;             // 0: a plain store, its value is in memory already
} pending_t;

struct cpu {
    int id, core, l3, socket, group, sibling;
    ps_t now;
    thread_t *running;        // NULL: idle
    thread_t *queue, **queue_end;
    int queued;
    int threads;              // that run here, or ran here last and sleep
    ps_t slice_end, run_since;
    ps_t block;               // what a basic block takes now
    uint64_t random;
    ask_t load, store, prefetch[MAX_BUFFER];
    pending_t buffer[MAX_BUFFER];
    bool asked[MAX_BUFFER];   // the prefetch of that place is on its way
    unsigned head, tail;      // of the buffer: stores are added at tail, leave at head
    bool storing;             // the store at head is on its way
    bool stalled;             // the thread waits for the buffer
};
extern cpu_t *cpus;
extern int cpu_count, core_count;
extern cpu_t **placement;     // CPUs in the order threads are placed

enum { LOOP_LOADS = 8, LOOP_LINES = 4, MAX_CALLS = 64 };
typedef struct {              // the loop a thread may be waiting in
    uintptr_t pc, a, sp;
    uint64_t value, seen, last_seen, state;
    int loads, turns;
    line_t *lines[LOOP_LINES];
    int line_count;
    bool clock;               // it looks at the clock
    bool acted;               // it did something that others can see
    ps_t begin, last, period; // of the wait, of this turn; how long a turn takes
    ps_t looked;              // it is letting the clock decide, so long after begin
} loop_t;

enum { DELAY_WORDS = 64 };
typedef struct { ps_t now, spun, spun_to, pause_at; } delay_pace_t;
typedef struct {              // the loop of looks at the clock a thread may be in
    uintptr_t pc, sp;
    int turns;
    bool cut;                 // its beginning was not seen
    uint64_t base, before, last;   // what the clock showed: before it, at the last two looks
    uint64_t deeds;           // what was done until then
    delay_pace_t pace[2];     // at the last two looks
    uint64_t word[DELAY_WORDS], kept_at;   // registers and stack, and what the clock had shown
} delay_t;

typedef struct { uint64_t word[MAX_CPUS / 64]; } cpu_mask_t;
typedef enum { THREAD_READY, THREAD_RUNNING, THREAD_ASLEEP, THREAD_ENDED } thread_state_t;
struct thread {
    int id;
    fiber_t fiber;
    size_t stack_bytes;       // from the stack's lowest address to where the program's part begins
    thread_state_t state;
    cpu_t *cpu;
    void *(*fn)(void *);
    void *arg, *result;
    thread_t *joiner, *next, *waiter;   // in a run queue; asleep on the same futex
    ps_t timer, timer_event;  // when its timer fires; when that is looked at next
    bool bound;               // to the CPUs in `allowed`
    cpu_mask_t allowed;
    const void *futex;        // what it sleeps on
    uint32_t futex_mask;
    bool timed_out;
    watch_t watch[LOOP_LINES];
    int watches;
    bool parked;
    loop_t loop;
    delay_t delay;
    uintptr_t rmw_pc, rmw_line;   // the last atomic change, to see a loop of them
    ps_t rmw_at;
    ps_t ran, spun, spun_to;  // time on a CPU; of that, in loops that wait, the last until then
    long slept, preempted;    // how often
    uint64_t acts, pause_acts;    // what others can see; how much of it at the last pause
    ps_t pause_at;
    uintptr_t calls[MAX_CALLS];
    int depth;
};
extern thread_t *threads[MAX_THREADS];
extern int thread_count;
extern thread_t *self;        // NULL: outside the program
extern cpu_t *here;           // self->cpu; outside the program one of its own
extern ps_t horizon, ahead;   // until when this CPU, and its hits, need not look at the others

void sched_init(void);
thread_t *sched_create(void *(*fn)(void *), void *arg);
_Noreturn void sched_run(void);               // begins with thread 0; never returns
void sched_leave(void);                       // from here on it is outside the program
void sched_turn(void);                        // everything earlier happens first
void sched_wait(void);                        // until this CPU's event
void sched_resume(cpu_t *c, ps_t at);         // that event
void sched_serve(line_t *l, ps_t at);         // an event for an armed line
void sched_committed(cpu_t *c, ps_t at);      // the store at head arrives then
void sched_park(ps_t until);                  // until a watched line changes, or that time
void sched_unpark(thread_t *t, ps_t at);
void sched_sleep(ps_t until);                 // give the CPU away; until woken or that time
bool sched_wake(thread_t *t, ps_t at);        // false: it was not asleep
void sched_yield_cpu(void);
void sched_obey(thread_t *t);                 // it may have to leave its CPU
void sched_bind_next(const cpu_mask_t *mask); // the next thread that is made
static inline bool may_run_on(const thread_t *t, const cpu_t *c) {
    return !t->bound || (t->allowed.word[c->id / 64] >> (c->id % 64) & 1);
}
_Noreturn void sched_end(void *result);

void engine_commit(cpu_t *c, ps_t at);        // the store at head has arrived
bool engine_wants(const cpu_t *c, unsigned place, const line_t *l);   // is a store still waiting?
void engine_passes(ps_t time);                // time spent in the kernel
void engine_acts(void);                       // whatever loop this is, it does something
uint32_t engine_kernel_load(uint32_t *word);  // the kernel's look at a futex
void engine_drain(void);                      // waits until the buffer is empty

static inline uint64_t draw(uint64_t *state) {   // xorshift (G. Marsaglia, JSS 8(14), 2003)
    uint64_t x = *state;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return *state = x;
}

// ------------------------------------------------------------------------- what is counted
typedef struct { uintptr_t pc; uint64_t moves[NEARS]; ps_t time; } place_t;   // of a source line
typedef struct {
    uint64_t loads, stores, changes, plain;   // accesses of the program
    uint64_t skipped;                         // turns of waiting loops that were not run
    uint64_t events, switches, preempted, migrated, wakes;
    uint64_t moves[NEARS], fetched;           // lines, by distance; from memory
    uint64_t waits;                           // for pthread's locks
    ps_t wait_most;
} counts_t;
extern counts_t counts;
void report_move(uintptr_t pc, near_t how, ps_t time);
ps_t report_asks(void);                       // a thread asks for one of pthread's locks
void report_got(ps_t asked);                  // and has it
_Noreturn void report_exit(int status);
_Noreturn void report_end(const char *end, const char *what);
_Noreturn void report_crash(const char *what, uintptr_t pc);   // where it happened

#endif
