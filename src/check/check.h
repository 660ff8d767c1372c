// SPDX-License-Identifier: MIT
// check.h - what the parts of the model checker share.
//
//   graph.c    execution graphs            explore.c  which graph comes next (TruSt)
//   model.c    memory models               run.c      running the program along a graph
//   access.c   its accesses as events      life.c     its threads, memory, time and choices
//   shadow.c   races and dead memory       report.c   what is told to the command
//   sample.c   single executions           plain.c    depth-first, nothing reduced
//   order.c    few context switches        back.c     going back, not to the beginning
//   main.c     options, and the loop
#ifndef HL_CHECK_H
#define HL_CHECK_H

#include <string.h>

#include "../vm/fiber.h"
#include "graph.h"

enum { SPIN_RING = 16, MAX_CALLS = 200, MAX_FOREIGN = 64, VISITS = 64, WEAK_MOST = 64 };
#define STACK_BYTES ((size_t)256 << 10)
#define HEAP_BYTES  ((size_t)1 << 20)
#define ARENA       ((uintptr_t)0x200000000000)   // stacks, then heaps: addresses never change

typedef enum { SEARCH_ALL, SEARCH_RANDOM, SEARCH_PCT, SEARCH_PLAIN } search_t;
enum { MAX_DEPTH = 32 };

typedef struct {
    search_t search;
    uint64_t more;            // executions to look at after a counterexample, for a shorter one
    uint64_t samples, seed;   // random and pct: how many executions, and from where
    int depth;                // pct: ordering constraints of the bugs looked for
    int preemptions;          // plain: at most so many; -1: any number
    int bound;                // events per thread
    int expiries;             // deadlines that may pass, per thread
    int spurious;             // wake-ups for no reason, per thread
    int sleeps;               // timed sleeps that a wake-up ends, per thread
    int weak_failures;        // weak compare-exchanges that fail for no reason, per thread
    int loops;                // times a thread may come to the same load; 0: any
    bool timers;              // timed sleeps end by their timer
    double seconds;           // stop after; 0: never
    const char *replay;       // a file with one execution
    bool keep_going;          // count deadlocks instead of stopping at the first
    bool sites;               // report every atomic access of the program's text
    bool marks;               // go back to the last choice; false: to the beginning
    int weak_order;           // what the accesses at weak_pc are weakened to
    int weak_count;
    uint32_t weak_pc[WEAK_MOST];
} options_t;
extern options_t options;

// ------------------------------------------------------------------------- virtual threads
// One of the program's atomic instructions; op is -1 for a fence.
typedef struct { uint32_t pc; int op, order, failure; } site_t;
extern site_t sites[];
extern int site_count;

typedef struct { uintptr_t pc, addr, sp; uint64_t hash; uint16_t at; } spin_t;
typedef struct { uintptr_t low; int born; } call_t;   // a frame, and the event count at its birth
typedef struct { uintptr_t addr; uint32_t pc; uint8_t thread; count_t epoch; } foreign_t;
typedef struct { uintptr_t pc, sp; int times; } visit_t;

typedef struct {
    fiber_t fiber;
    void *(*fn)(void *);
    void *arg, *result;
    int pos;                  // its next event
    bool started, ended;
    bool parked;              // in a loop that waits; parked_from: where the iteration began
    bool owes_write;          // between the two halves of a read-modify-write
    int parked_from;
    int idle_since;           // sampling and plain: waits until run_news() is more; or -1
    bool pending, chosen;     // its next step is an access; it was chosen to make it
    bool eager;               // sampling: its next reads take the newest write
    int joining;              // the thread it waits for, or -1
    id_t_ creator;            // the event that created it
    uintptr_t low;            // the program's own stack pointer, at the last hook
    int spins, calls, foreigns, visits;     // how much there is of the lists at the end
    int effects;              // its last side effect in the graph: no wait is over before
    int plain_loc;            // a plain write to this atomic location is under way; -1: none
    uint32_t plain_pc;
    uintptr_t heap;           // next free byte of its heap
    struct { uintptr_t pc, sp; uint64_t hash; int pos, delays, looks; } clock;
    int expired, spurious, slept, failed;   // choices spent
    bool dozing;              // in a timed sleep: nobody need wake it
    uint64_t now;
    spin_t spin[SPIN_RING];   // loads since its last side effect
    call_t call[MAX_CALLS];
    foreign_t foreign[MAX_FOREIGN];  // other threads' accesses to this stack
    visit_t visit[VISITS];
} vcpu_t;
extern vcpu_t cpu[MAX_THREADS];
extern int current;           // -1: the host runs, not the program

typedef struct copy copy_t;

// ------------------------------------------------------------------------- run.c
typedef enum { RUN_COMPLETE, RUN_BLOCKED, RUN_STOPPED, RUN_BOUND, RUN_BAD } run_end_t;
void run_init(int argc, char **argv);
run_end_t run_once(void);
void run_flush(void);                    // ends a plain write to an atomic location
extern int run_prefer;                      // a replay: who goes on after the last event, or -1
extern uint8_t run_order[MAX_STAMPS];       // and whose event comes when
extern int run_ordered;
_Noreturn void run_stop(run_end_t end);     // from within the program: ends this run
extern uint32_t run_number;                 // of the run that began at the beginning
// One more than the last thread there is.
static inline int run_threads(void) { return 32 - __builtin_clz(g->threads); }

// For access.c and life.c.
extern bool run_beyond;                     // the whole graph has been replayed
extern int run_replayed;                    // events of run_order that were done
void run_schedule(void);                    // gives the processor up
event_t *run_arrive(vm_site_t at);          // the event to replay; NULL: make a new one
event_t *run_arrive_alone(vm_site_t at);    // the same, where no other thread sees the event
int run_news(int t);
bool run_can_extend(int t);
void run_expect(bool same, const char *what, vm_site_t at);
void life_begin(void);                      // where a thread's fiber begins
uint64_t stack_hash(uintptr_t sp, const char *base);
static inline uintptr_t heap_of(int t) {
    return ARENA + MAX_THREADS * STACK_BYTES + (size_t)t * HEAP_BYTES;
}

static inline clk_t clk_of(int t) {         // what happens before thread t's next event
    return cpu[t].pos ? g->e[t][cpu[t].pos - 1].hb : (clk_t){0};
}

void run_copy(copy_t *c);                   // the program's variables
size_t run_bytes(void);

// ------------------------------------------------------------------------- back.c
struct copy { char *at; bool save; };       // into the store, or back from it
static inline void copy_bytes(copy_t *c, void *p, size_t n) {
    if (c->save) memcpy(c->at, p, n);
    else memcpy(p, c->at, n);
    c->at += n;
}
void back_begin(void);
void back_no_more(void);                    // from now on, begin at the beginning
void back_ran(int t);                       // what is known of that thread may have changed
// Copies the program as it is before the current thread's next event. True: a later run has come
// back here, and that event may be in its graph.
bool back_mark(void);
void back_cut(int frame, int stamp);        // that event is about to change, in that frame
void back_branch(int frame, int stamp);     // the frame begins as its parent does, up to there
int back_restore(void);                     // how many threads are back; 0: no mark fits

// ------------------------------------------------------------------------- explore.c
extern int explore_frame;                   // of the graph at hand
extern int explore_stamp;                   // what comes before is as it was in the run before
void explore_begin(void);
bool explore_next(void);                    // prepares the next graph; false: none is left
void explore_read(id_t_ r);                 // a new read: newest source now, the others later
bool explore_write(id_t_ w);                // a new write: places it; false: no place exists
void explore_choice(id_t_ c, unsigned n);
id_t_ new_event(ev_t type, int order, uint32_t pc);

// ------------------------------------------------------------------------- sample.c
void sample_begin(uint64_t number);
int sample_thread(void);
unsigned sample_below(unsigned n);
bool sample_rarely(void);

// ------------------------------------------------------------------------- plain.c
void plain_begin(int preemptions);
bool plain_next(void);
int plain_allowed(void);                    // preemptions, in the search that is on
int plain_thread(void);
bool plain_known(unsigned *value);          // a choice that was made before, again
unsigned plain_first(const uint16_t *list, int n);     // a new one among these: the first

// ------------------------------------------------------------------------- shadow.c
void shadow_init(void);
int shadow_location(uintptr_t a, unsigned size);       // of an atomic access
void shadow_atomic(int loc, unsigned mask, bool write, uint32_t pc);
void shadow_plain(uintptr_t a, size_t size, bool write, uint32_t pc);
void shadow_leave(uintptr_t low, uintptr_t high, uint32_t pc);
void shadow_free(uintptr_t a, size_t size, uint32_t pc);
void shadow_restore(uintptr_t a, unsigned size);        // a location known from a trace
void shadow_save(copy_t *c);                // what has changed since the last mark
void shadow_copy(copy_t *c);                // which of it a mark has
size_t shadow_bytes(void), shadow_most(void);
extern bool layout_changed;                 // a location grew: begin again

// ------------------------------------------------------------------------- order.c
// Fills run_order with an order of the graph's events. 2: it is an interleaving; less: only weak
// memory leads there. *fewest: no other has fewer context switches.
int order_events(bool *fewest);

// ------------------------------------------------------------------------- report.c
typedef enum {
    BAD_RACE, BAD_ASSERT, BAD_DEADLOCK, BAD_FREED, BAD_STACK, BAD_EXIT, BAD_CRASH, BAD_MISUSE
} bad_t;
typedef struct {
    uint64_t runs, complete, blocked, stopped, bounded, moot, clashes, revisits, deadlocks, cut;
    int frames;
} counts_t;
extern counts_t counts;
extern bool found_bad;
typedef struct { uint32_t pc; int thread; } spot_t;
extern spot_t bound_spot, bound_now;        // a loop that met the bound: the first, the last

void report_init(void);
// A counterexample: what, and the two accesses it is about (pc 0: none). Ends the run.
_Noreturn void report_bad(bad_t kind, const char *text, uint32_t pc, int other, uint32_t other_pc);
void report_bad_here(bad_t kind, const char *text);    // after the run, by the host
bool report_wants_more(void);
void report_outcome(bool complete);                    // the program's output of this run
void hl_check_found(const char *text);                 // where a debugger stops
void report_copy(copy_t *c);                           // what the program has printed so far
size_t report_bytes(void);
void report_reset(void);                               // the exploration begins again
void report_load(const char *file);                    // the execution to replay, into the graph
void report_end(const char *why, double seconds);
// The check cannot go on: prints why and ends the process with that exit code.
_Noreturn void check_bound(const char *what, int limit);
_Noreturn void check_unusable(const char *text, uint32_t pc);

#endif
