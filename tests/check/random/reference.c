// SPDX-License-Identifier: MIT
// reference.c - the same question answered the slow way, sharing nothing with the checker.
//
// 1. Axioms. Every way to run the threads against each other in which reads read from writes that
//    were made (program order and reads-from have no cycle); for each, every modification order;
//    each such graph is tested against the model's axioms, written as relations over event pairs
//    and closed by brute force. Prints how many graphs are consistent.
// 2. Plain depth-first search, for sc and tso: every interleaving of a machine with one memory and,
//    for tso, a store buffer per thread. Its final states must be those of 1.
//
// If two accesses in a consistent graph, one of them plain and one a write, are not ordered by
// happens-before, the answer is that there is a race, and nothing else.
//
//   reference MODEL [PROGRAM]...   prints "COUNT DEADLOCK" and the final states, sorted; or "race"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "program.h"

enum { EVENTS_MOST = 64, STATES_MOST = 1 << 20 };
typedef enum { SC, TSO, C11 } model_t;
static model_t model;
static program_t program;

// ------------------------------------------------------------------------- final states
typedef struct { int reg[THREADS_MOST][REGISTERS], mem[LOCATIONS]; } final_t;
static final_t *finals[2];   // by axioms, by search
static int final_count[2];

static void add_final(int which, const final_t *f) {
    for (int i = 0; i < final_count[which]; i++)
        if (!memcmp(&finals[which][i], f, sizeof *f)) return;
    finals[which][final_count[which]++] = *f;
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(final_t)); }

// ------------------------------------------------------------------------- events
typedef enum { READ, WRITE, FENCE, HIDDEN } type_t;  // HIDDEN: what a narrow store merges with
typedef struct {
    type_t type;
    int thread, index, x, value, order;
    int rf;       // a read's source: an event, or -1 for the initial value
    bool rmw;     // the next event (of a read) or the one before (of a write) is the other half
    bool locked;  // part of a read-modify-write instruction, successful or not
    bool waiting; // a failed wait: the thread is stuck here
    bool failed;  // a weak compare-exchange that fails for no reason
    int mask;     // the halves of the location it touches
} event_t;
typedef struct {
    int count, pc[THREADS_MOST], length[THREADS_MOST];
    bool stuck[THREADS_MOST];
    bool failed[THREADS_MOST];       // a weak compare-exchange for no reason: once per thread
    int reg[THREADS_MOST][REGISTERS];
    event_t e[EVENTS_MOST];
} exec_t;

static uint64_t *visited;

// A partial execution is known by each thread's events and what its reads read from.
static bool visit(const exec_t *g) {
    uint64_t h = 1469598103934665603ull;
    for (int t = 0; t < program.threads; t++)
        for (int i = 0; i < g->count; i++) {
            const event_t *e = &g->e[i];
            if (e->thread != t) continue;
            int source = e->rf < 0 ? -1 : g->e[e->rf].thread * 100 + g->e[e->rf].index;
            int what = e->index * 1009 + e->type * 17 + e->waiting + 5 * e->failed;
            h = (h ^ (uint64_t)(t * 1000003 + what)) * 1099511628211ull;
            h = (h ^ (uint64_t)(source + 7)) * 1099511628211ull;
            h ^= h >> 31;
        }
    for (size_t i = h % STATES_MOST;; i = (i + 1) % STATES_MOST) {
        if (visited[i] == h) return false;
        if (visited[i]) continue;
        visited[i] = h;
        return true;
    }
}

// ------------------------------------------------------------------------- relations
typedef bool rel_t[EVENTS_MOST][EVENTS_MOST];
static int n;
static const event_t *E;
static int at[EVENTS_MOST];   // a write's place in modification order; reads: their source's

static void close(rel_t r) {
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            if (r[i][k])
                for (int j = 0; j < n; j++) r[i][j] |= r[k][j];
}
static bool acyclic(rel_t r) {
    close(r);
    for (int i = 0; i < n; i++)
        if (r[i][i]) return false;
    return true;
}
static bool po(int a, int b) {
    return E[a].thread == E[b].thread && E[a].index < E[b].index;
}
static bool memory_event(int a) { return E[a].type == READ || E[a].type == WRITE; }
static bool same(int a, int b) { return memory_event(a) && memory_event(b) && E[a].x == E[b].x; }
static bool rf(int a, int b) { return E[b].type == READ && E[b].rf == a; }
static bool co(int a, int b) {
    return same(a, b) && E[a].type == WRITE && E[b].type == WRITE && at[a] < at[b];
}
static bool fr(int a, int b) {
    return same(a, b) && E[a].type == READ && E[b].type == WRITE && at[a] < at[b];
}
static bool acq(int a) {
    return E[a].order == __ATOMIC_ACQUIRE || E[a].order == __ATOMIC_ACQ_REL ||
           E[a].order == __ATOMIC_SEQ_CST;
}
static bool rel(int a) {
    return E[a].order == __ATOMIC_RELEASE || E[a].order == __ATOMIC_ACQ_REL ||
           E[a].order == __ATOMIC_SEQ_CST;
}
static bool sc(int a) { return E[a].order == __ATOMIC_SEQ_CST; }
static bool plain(int a) { return E[a].order == PLAIN; }

static bool coherent(void) {
    static rel_t r;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            r[i][j] = (po(i, j) && same(i, j)) || rf(i, j) || co(i, j) || fr(i, j);
    return acyclic(r);
}

static bool atomic(void) {  // nothing between what a read-modify-write reads and what it writes
    for (int i = 0; i < n; i++)
        if (E[i].type == WRITE && E[i].rmw && at[i] != at[i - 1] + 1) return false;
    return true;
}

static bool sc_holds(void) {
    static rel_t r;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) r[i][j] = po(i, j) || rf(i, j) || co(i, j) || fr(i, j);
    return acyclic(r);
}

// Does something between a and b in program order, ends included, drain the store buffer?
static bool drained(int a, int b) {
    bool merges = E[a].type == WRITE && E[a].rmw && E[a - 1].type == HIDDEN;
    if (E[a].type == WRITE && ((E[a].rmw && !merges) || sc(a))) return true;
    if (E[b].locked) return true;
    for (int k = 0; k < n; k++) {
        if (!po(a, k) || !po(k, b)) continue;
        if (E[k].type == FENCE ? sc(k) : E[k].locked || (E[k].type == WRITE && sc(k))) return true;
    }
    return false;
}

// Does r find w in memory, below what its own thread's narrow stores in the buffer gave it?
static bool from_memory(int w, int r) {
    if (E[r].type != READ) return false;
    int left = E[r].mask, u = E[r].rf;
    for (; u >= 0 && E[u].thread == E[r].thread; u = E[u - 1].rf) {
        left &= ~E[u].mask;
        if (!left) return false;
    }
    return u == w;
}

static bool tso_holds(void) {
    static rel_t r;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            bool ordered = po(i, j) && memory_event(i) && memory_event(j) &&
                           !(E[i].type == WRITE && E[j].type == READ && !drained(i, j));
            r[i][j] = ordered || from_memory(i, j) || co(i, j) || fr(i, j);
        }
    return acyclic(r) && coherent();
}

// Does r see what w wrote: the newest write to one of the halves that r reads?
static bool sees(int w, int r) {
    if (E[r].type != READ) return false;
    int mask = E[r].mask, u = E[r].rf;
    while (u >= 0 && mask) {
        if (u == w) return E[u].mask & mask;
        mask &= ~E[u].mask;
        if (mask) u = E[u - 1].rf;
    }
    return false;
}

// Happens-before, of the graph that was judged last. Under sc and tso every atomic access
// synchronises with who reads from it.
static rel_t hb;
static void strong_hb(void) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            hb[i][j] = po(i, j) || ((rf(i, j) || sees(i, j)) && !plain(i) && !plain(j));
    close(hb);
}

static bool has_race(void) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (same(i, j) && E[i].thread != E[j].thread && (plain(i) || plain(j)) &&
                (E[i].type == WRITE || E[j].type == WRITE) && !hb[i][j] && !hb[j][i])
                return true;
    return false;
}

// RC11 as published: release sequences of read-modify-writes only (C++20).
static bool c11_holds(void) {
    static rel_t rs, sw, eco, scb, psc, tmp;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            rs[i][j] = sees(i, j) && E[j].rmw;               // w to the read half of an RMW
            if (E[i].type == READ && E[i].rmw && j == i + 1) rs[i][j] = true;
            eco[i][j] = rf(i, j) || co(i, j) || fr(i, j);
        }
    close(rs);
    close(eco);
    // sw: a release (write, or fence before a write), its sequence, read by an acquire; all atomic
    memset(sw, 0, sizeof sw);
    for (int a = 0; a < n; a++)
        for (int w = 0; w < n; w++) {
            if (E[w].type != WRITE || plain(w) || !rel(a)) continue;
            if (a != w && !(E[a].type == FENCE && po(a, w))) continue;
            for (int v = 0; v < n; v++) {
                if (E[v].type != WRITE || !(v == w || rs[w][v])) continue;
                for (int r = 0; r < n; r++)
                    for (int b = 0; sees(v, r) && !plain(r) && b < n; b++)
                        if ((b == r || (E[b].type == FENCE && po(r, b))) && acq(b)) sw[a][b] = true;
            }
        }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) hb[i][j] = po(i, j) || sw[i][j];
    close(hb);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (hb[i][j] && (i == j || eco[j][i])) return false;
    // psc
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            if ((scb[i][j] = false) || E[i].type == HIDDEN || E[j].type == HIDDEN) continue;
            scb[i][j] = po(i, j) || co(i, j) || fr(i, j) || (hb[i][j] && same(i, j));
            for (int p = 0; p < n && !scb[i][j]; p++)
                for (int q = 0; q < n && !scb[i][j]; q++)
                    scb[i][j] = po(i, p) && !same(i, p) && hb[p][q] && po(q, j) && !same(q, j) &&
                                E[p].type != HIDDEN && E[q].type != HIDDEN;
        }
    memset(psc, 0, sizeof psc);
    for (int i = 0; i < n; i++)  // hb;eco;hb
        for (int j = 0; j < n; j++) {
            tmp[i][j] = false;
            for (int p = 0; p < n; p++)
                for (int q = 0; q < n; q++) tmp[i][j] |= hb[i][p] && eco[p][q] && hb[q][j];
        }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            if (!sc(a) || !sc(b)) continue;
            bool fa = E[a].type == FENCE, fb = E[b].type == FENCE;
            for (int p = 0; p < n; p++)
                for (int q = 0; q < n; q++)
                    psc[a][b] |= scb[p][q] && (p == a || (fa && hb[a][p])) &&
                                 (q == b || (fb && hb[q][b]));
            if (fa && fb) psc[a][b] |= hb[a][b] || tmp[a][b];
        }
    return acyclic(psc);
}

// ------------------------------------------------------------------------- complete executions
static unsigned long long consistent_count;
static bool deadlock, race;

static void judge(const exec_t *g) {
    n = g->count;
    E = g->e;
    for (int i = 0; i < n; i++)
        if (E[i].type == READ || E[i].type == HIDDEN) at[i] = E[i].rf < 0 ? 0 : at[E[i].rf];
    if (!atomic() || !(model == SC ? sc_holds() : model == TSO ? tso_holds() : c11_holds())) return;
    if (model != C11) strong_hb();
    race = race || has_race();
    bool stuck = false, newest = true;
    int last[LOCATIONS] = {0}, most[LOCATIONS] = {0};
    for (int i = 0; i < n; i++)
        if (E[i].type == WRITE && at[i] > most[E[i].x])
            most[E[i].x] = at[i], last[E[i].x] = E[i].value;
    for (int i = 0; i < n; i++)
        if (E[i].waiting) stuck = true, newest = newest && at[i] == most[E[i].x];
    if (stuck) {
        deadlock = deadlock || newest;
        return;
    }
    consistent_count++;
    final_t f;
    memcpy(f.reg, g->reg, sizeof f.reg);
    memcpy(f.mem, last, sizeof f.mem);
    add_final(0, &f);
}

// Every modification order: places the writes of location x one by one.
static void order_writes(const exec_t *g, int x) {
    if (x == LOCATIONS) {
        judge(g);
        return;
    }
    int w[EVENTS_MOST], count = 0;
    for (int i = 0; i < g->count; i++)
        if (g->e[i].type == WRITE && g->e[i].x == x) w[count++] = i;
    int perm[EVENTS_MOST] = {0}, k = 0;
    for (int i = 0; i < count; i++) at[w[i]] = i + 1;
    order_writes(g, x + 1);
    while (k < count) {  // Heap's algorithm
        if (perm[k] < k) {
            int other = k % 2 ? perm[k] : 0, swap = w[other];
            w[other] = w[k];
            w[k] = swap;
            for (int i = 0; i < count; i++) at[w[i]] = i + 1;
            order_writes(g, x + 1);
            perm[k]++;
            k = 0;
        } else {
            perm[k++] = 0;
        }
    }
}

// ------------------------------------------------------------------------- the threads
static bool is_half(const op_t *o) { return o->kind == 'B' || o->kind == 'H' || o->kind == 'Y'; }
static int get(const op_t *o, int block) {
    return is_half(o) ? (int)((unsigned)block >> 16 * o->h & 0xffff) : block;
}
static int put(const op_t *o, int block, int v) {
    if (!is_half(o)) return v;
    return (int)(((unsigned)block & ~(0xffffu << 16 * o->h)) | (unsigned)v << 16 * o->h);
}

static event_t *new_event(exec_t *g, int t, type_t type, const op_t *o, int order) {
    event_t *e = &g->e[g->count++];
    *e = (event_t){.type = type, .thread = t, .index = g->length[t]++, .x = o->x, .order = order,
                   .rf = -1, .mask = is_half(o) ? 1 << o->h : 3};
    return e;
}

static void extend(const exec_t *g);

// To the next operation that makes an event.
static void advance(const program_t *p, int t, int *pc, const int *reg, int steps) {
    *pc += steps;
    while (*pc < p->ops[t] && p->op[t][*pc].kind == 'I') {
        const op_t *o = &p->op[t][*pc];
        *pc += reg[o->r] == o->v ? 1 : 1 + o->x;
    }
}

// Adds a read by thread t of source s (-1: initial) and what follows from it. `fails`: a weak
// compare- exchange, for no reason.
static void read_from(const exec_t *from, int t, const op_t *o, int s, bool fails) {
    exec_t g = *from;
    int block = s < 0 ? 0 : g.e[s].value, value = get(o, block);
    bool exchange = o->kind == 'C' || o->kind == 'K', stores = o->kind == 'B';
    bool writes = o->kind == 'A' || o->kind == 'X' || o->kind == 'Y' || stores ||
                  (exchange && !fails && value == o->e);
    event_t *r = new_event(&g, t, stores ? HIDDEN : READ, o,
                           exchange && !writes ? o->failure : o->order);
    r->rf = s;
    r->failed = fails;
    g.failed[t] = g.failed[t] || fails;
    if (stores) r->order = __ATOMIC_RELAXED;
    r->value = value;
    r->rmw = writes;
    r->locked = !strchr("LWHQ", o->kind) && !stores;
    r->waiting = o->kind == 'W' && value != o->v;
    if (writes) {
        event_t *w = new_event(&g, t, WRITE, o, o->order);
        w->value = put(o, block, o->kind == 'A' ? value + o->v : o->v);
        w->rmw = true;
    }
    if (o->kind != 'W' && !stores) g.reg[t][o->r] = value;
    g.stuck[t] = r->waiting;
    if (!r->waiting) advance(&program, t, &g.pc[t], g.reg[t], 1);
    extend(&g);
}

static void extend(const exec_t *g) {
    bool all = true;
    if (!visit(g)) return;
    for (int t = 0; t < program.threads; t++) {
        if (g->stuck[t] || g->pc[t] >= program.ops[t]) continue;
        all = false;
        const op_t *o = &program.op[t][g->pc[t]];
        if (o->kind == 'F' || o->kind == 'S' || o->kind == 'D' || o->kind == 'P') {
            exec_t next = *g;
            event_t *e = new_event(&next, t, o->kind == 'F' ? FENCE : WRITE, o, o->order);
            e->value = o->kind == 'D' ? g->reg[t][o->r] + 1 : o->v;
            advance(&program, t, &next.pc[t], next.reg[t], 1);
            extend(&next);
            continue;
        }
        int ways = o->kind == 'K' && model == C11 && !g->failed[t] ? 2 : 1;
        for (int way = 0; way < ways; way++) {
            read_from(g, t, o, -1, way);
            for (int s = 0; s < g->count; s++)
                if (g->e[s].type == WRITE && g->e[s].x == o->x) read_from(g, t, o, s, way);
        }
    }
    if (all) order_writes(g, 0);
}

// ------------------------------------------------------------------------- 2: plain search
typedef struct {
    int pc[THREADS_MOST], waiting[THREADS_MOST];
    final_t now;
    struct { int x, v; } buffer[THREADS_MOST][OPS_MOST];
    int buffered[THREADS_MOST];
} machine_t;
static machine_t *states;
static int state_count, *state_index;

static bool new_state(const machine_t *m) {
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof *m; i++) h = (h ^ ((const uint8_t *)m)[i]) * 1099511628211ull;
    for (size_t i = h % STATES_MOST;; i = (i + 1) % STATES_MOST) {
        if (!state_index[i]) {
            states[state_count] = *m;
            state_index[i] = ++state_count;
            return true;
        }
        if (!memcmp(&states[state_index[i] - 1], m, sizeof *m)) return false;
    }
}

static int seen_by(const machine_t *m, int t, int x) {
    for (int i = m->buffered[t]; i-- > 0;)
        if (m->buffer[t][i].x == x) return m->buffer[t][i].v;
    return m->now.mem[x];
}

static bool needs_empty_buffer(const op_t *o) {
    if (o->kind == 'A' || o->kind == 'X' || o->kind == 'C') return true;
    if (o->kind == 'K' || o->kind == 'Y') return true;
    return (o->kind == 'F' || o->kind == 'S' || o->kind == 'D') && o->order == __ATOMIC_SEQ_CST;
}

static void search(const machine_t *from);

static void flush(const machine_t *from, int t) {
    machine_t m = *from;
    m.now.mem[m.buffer[t][0].x] = m.buffer[t][0].v;
    m.buffered[t]--;
    memmove(&m.buffer[t][0], &m.buffer[t][1], sizeof m.buffer[t] - sizeof m.buffer[t][0]);
    memset(&m.buffer[t][OPS_MOST - 1], 0, sizeof m.buffer[t][0]);
    search(&m);
}

static void run_op(const machine_t *from, int t) {
    machine_t m = *from;
    const op_t *o = &program.op[t][m.pc[t]];
    int *reg = m.now.reg[t], old = seen_by(&m, t, o->x);
    if (needs_empty_buffer(o) && m.buffered[t]) return;
    switch (o->kind) {
    case 'S':
    case 'P':
    case 'D': {
        int v = o->kind == 'D' ? reg[o->r] + 1 : o->v;
        if (model == SC || o->order == __ATOMIC_SEQ_CST) {
            m.now.mem[o->x] = v;
        } else {
            m.buffer[t][m.buffered[t]].x = o->x;
            m.buffer[t][m.buffered[t]++].v = v;
        }
        break;
    }
    case 'L':
    case 'Q': reg[o->r] = old; break;
    case 'H': reg[o->r] = get(o, old); break;
    case 'B': m.now.mem[o->x] = put(o, old, o->v); break;  // sc only
    case 'Y': m.now.mem[o->x] = put(o, old, o->v); reg[o->r] = get(o, old); break;
    case 'W':
        if (old != o->v) return;
        break;
    case 'A': m.now.mem[o->x] = old + o->v; reg[o->r] = old; break;
    case 'X': m.now.mem[o->x] = o->v; reg[o->r] = old; break;
    case 'C':
    case 'K':
        if (old == o->e) m.now.mem[o->x] = o->v;
        reg[o->r] = old;
        break;
    }
    advance(&program, t, &m.pc[t], reg, 1);
    search(&m);
}

static void search(const machine_t *m) {
    if (!new_state(m)) return;
    bool ended = true;
    for (int t = 0; t < program.threads; t++) {
        if (m->pc[t] < program.ops[t]) run_op(m, t);
        if (m->buffered[t]) flush(m, t);
        ended = ended && m->pc[t] >= program.ops[t] && !m->buffered[t];
    }
    if (ended) add_final(1, &m->now);
}

// A store buffer may hold two halves of one location; the models put them in order
// (docs/checker.md).
static bool has_halves(void) {
    for (int t = 0; t < program.threads; t++)
        for (int i = 0; i < program.ops[t]; i++)
            if (is_half(&program.op[t][i])) return true;
    return false;
}

static bool search_agrees(void) {
    machine_t m;
    memset(&m, 0, sizeof m);
    for (int t = 0; t < program.threads; t++) advance(&program, t, &m.pc[t], m.now.reg[t], 0);
    memset(state_index, 0, STATES_MOST * sizeof *state_index);
    state_count = 0;
    search(&m);
    qsort(finals[1], (size_t)final_count[1], sizeof *finals[1], by_bytes);
    return final_count[0] == final_count[1] &&
           !memcmp(finals[0], finals[1], (size_t)final_count[0] * sizeof *finals[0]);
}

// ------------------------------------------------------------------------- one program
static void print_final(const final_t *f) {
    for (int t = 0; t < program.threads; t++) {
        for (int r = 0; r < REGISTERS; r++) printf("%d ", f->reg[t][r]);
        printf("| ");
    }
    for (int x = 0; x < LOCATIONS; x++) printf("%d ", f->mem[x]);
    printf("\n");
}

static int answer(char *text) {
    memset(&program, 0, sizeof program);
    parse_program(text, &program);
    memset(visited, 0, STATES_MOST * sizeof *visited);
    consistent_count = 0;
    deadlock = race = false;
    final_count[0] = final_count[1] = 0;
    exec_t g;
    memset(&g, 0, sizeof g);
    for (int t = 0; t < program.threads; t++) advance(&program, t, &g.pc[t], g.reg[t], 0);
    extend(&g);
    qsort(finals[0], (size_t)final_count[0], sizeof *finals[0], by_bytes);
    if ((model == SC || (model == TSO && !has_halves())) && !search_agrees()) {
        printf("the two references differ: %d and %d final states\n", final_count[0],
               final_count[1]);
        return 1;
    }
    if (race) {
        printf("race\n\n");
        return 0;
    }
    printf("%llu %d\n", consistent_count, deadlock);
    for (int i = 0; i < final_count[0]; i++) print_final(&finals[0][i]);
    printf("\n");
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    model = !strcmp(argv[1], "sc") ? SC : !strcmp(argv[1], "tso") ? TSO : C11;
    visited = calloc(STATES_MOST, sizeof *visited);
    state_index = calloc(STATES_MOST, sizeof *state_index);
    states = malloc(STATES_MOST * sizeof *states);
    for (int i = 0; i < 2; i++) finals[i] = malloc((1 << 16) * sizeof **finals);
    if (!visited || !state_index || !states || !finals[0] || !finals[1]) return 2;
    for (int i = 2; i < argc; i++)
        if (answer(argv[i])) return 1;
    return 0;
}
