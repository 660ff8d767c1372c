// SPDX-License-Identifier: MIT
// graph.h - execution graphs: events, clocks, modification orders.
//
// An execution is a graph: its nodes are the events of each thread in program order, its edges say
// which write each read reads from and in which order the writes to a location came. Happens-
// before is kept as vector clocks, one component per thread, computed when an event is added or
// its source changes; so "x is before y" is one comparison.
//
// A location is the smallest aligned block of 1 to 16 bytes that holds every atomic access to it:
// where a program uses a word and its bytes, the word is the location, and a narrow access
// carries a mask. A narrow store changes its bytes of the block at its place in modification
// order; in the graph it is a read that synchronises with nothing, followed by a write.
#ifndef HL_CHECK_GRAPH_H
#define HL_CHECK_GRAPH_H

#include "../vm/vm.h"

enum { MAX_THREADS = 16, MAX_LOCS = 255 };

// The engine is built twice: small for the searches that run millions of executions, wide for
// single executions of programs too big for those.
#ifdef HL_WIDE
enum {
    MAX_EVENTS = 4000,    // per thread
    MAX_STAMPS = 40000,   // events of one execution
    MAX_PER_LOC = 20000,  // writes, or reads, of one location
    MAX_FRAMES = 2        // nested backward revisits: there are none
};
typedef uint16_t count_t; // of a thread's events
typedef uint32_t id_t_;
#define ID_BITS 16
#else
enum { MAX_EVENTS = 250, MAX_STAMPS = 1024, MAX_PER_LOC = 250, MAX_FRAMES = 512 };
typedef uint8_t count_t;
typedef uint16_t id_t_;
#define ID_BITS 8
#endif

// One component per thread: how many of its events are included.
#ifdef __SSE2__
typedef char bytes_t __attribute__((vector_size(16)));
#endif
typedef count_t clk_t __attribute__((vector_size(MAX_THREADS * sizeof(count_t))));

static inline clk_t clk_max(clk_t a, clk_t b) {
#if defined(__SSE2__) && !defined(HL_WIDE)
    return (clk_t)__builtin_ia32_pmaxub128((bytes_t)a, (bytes_t)b);
#endif
    clk_t more = (clk_t)(a > b);
    return (a & more) | (b & ~more);
}

// An event's name: thread and index in program order. INIT is the write before all others.
#define INIT ((id_t_)~0u)
static inline id_t_ id_of(int thread, int index) { return (id_t_)(thread << ID_BITS | index); }
static inline int id_thread(id_t_ e) { return (int)(e >> ID_BITS); }
static inline int id_index(id_t_ e) { return (int)(e & ((1u << ID_BITS) - 1)); }
static inline bool clk_has(const clk_t *c, id_t_ e) { return (*c)[id_thread(e)] > id_index(e); }

typedef enum {
    EV_READ = 1, EV_WRITE, EV_FENCE, EV_CREATE, EV_START, EV_END, EV_JOIN, EV_CHOICE
} ev_t;
enum { ORDER_NA = 9 };        // a plain write to a location that is otherwise atomic

typedef struct {
    clk_t hb;                 // happens before or is this event
    clk_t porf;               // the same through program order and reads-from alone
    clk_t acq;                // what an acquire fence would add
    clk_t frel;               // what the last release fence published
    clk_t rel;                // a write: what its readers acquire
    vm_value_t value;         // the location's whole block after it (write) or read by it
    vm_value_t arg, expected; // of a read-modify-write; a choice: its kind and size
    uint32_t pc;
    id_t_ rf;                 // a read's source; a start's create; a join's end
    uint16_t stamp;           // when it was added
    uint16_t copos;           // a write's place in modification order
    uint16_t loc;
    uint16_t mask;            // the bytes it touches
    uint8_t type, op, order, success, failure, size, offset;
    uint8_t rmw;              // this read has a write part, or this write a read part
    uint8_t hidden;           // the reading half of a narrow store
    uint8_t child;            // a create: the thread
    uint8_t seq;              // asked for sequential consistency
} event_t;

#define NO_COPOS 0xffff

typedef struct {
    uint16_t writes, reads;
    id_t_ co[MAX_PER_LOC];    // the writes in modification order
    id_t_ rd[MAX_PER_LOC];
} perloc_t;

typedef struct graph {
    int stamps, seqs;
    uint16_t threads;         // bit per thread that exists
    count_t len[MAX_THREADS];
    id_t_ order[MAX_STAMPS];  // by stamp
    perloc_t loc[MAX_LOCS];
    event_t e[MAX_THREADS][MAX_EVENTS + 2];
} graph_t;

extern graph_t *g;            // the graph at hand

static inline event_t *ev(id_t_ id) { return &g->e[id_thread(id)][id_index(id)]; }

// What is known of locations, for the whole exploration.
typedef struct { uintptr_t addr; uint8_t size; uint32_t run; vm_value_t init; } location_t;
extern location_t locations[];
extern int location_count;

int co_position(id_t_ w);     // 0 for INIT, 1 for the first write
vm_value_t read_block(const event_t *r);                  // what r's source left there
vm_value_t block_get(const event_t *e, vm_value_t block);   // the bytes e touches, as a number
vm_value_t block_set(const event_t *e, vm_value_t block, vm_value_t value);
bool rmw_result(const event_t *r, vm_value_t *block);   // false: a failed compare-exchange
int lower_bound(int loc, const clk_t *before);          // oldest write coherence allows to read
bool rmw_follows(int loc, int position);                // is the write at this index an RMW's?

id_t_ graph_add(int thread, ev_t type, int order, uint32_t pc);
void graph_clocks(id_t_ id);  // computes the clocks of an event from its predecessors
void graph_co_insert(id_t_ w, int position);
void graph_co_remove(id_t_ w);
void graph_add_read(id_t_ r);
void graph_cut(int stamp);    // forgets everything after that stamp
void graph_clear(graph_t *to);
// Fills `to` with the events of `from` stamped up to `stamp` or contained in `keep`.
void graph_copy(graph_t *to, const graph_t *from, int stamp, const clk_t *keep);

// model.c
typedef enum { MODEL_SC, MODEL_TSO, MODEL_C11 } model_t;
extern model_t model;
// Graphs of more events than that are not tested: what would need the test is not taken. The test
// of c11 takes the cube of them, for every draw.
enum { TESTED_MOST = 1024, DRAWN_MOST = 250 };
bool graph_consistent(void);

#endif
