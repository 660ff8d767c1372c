// SPDX-License-Identifier: MIT
// model.c - is an execution graph consistent with the memory model?
//
// Coherence and the atomicity of read-modify-writes hold by construction (a new event is never
// placed below lower_bound()). What is left is one acyclicity test per model:
//   sc    program order, reads-from, modification order, from-read (Lamport, IEEE TC 1979)
//   tso   the same without write-to-read program order and without reading one's own store
//         buffer (Alglave, Maranget, Tautschnig, TOPLAS 2014)
//   c11   RC11's psc, over the sequentially consistent accesses and fences (Lahav et al., PLDI
//         2017). Its other axiom, no cycle in program order and reads-from, holds by construction.
// Adding the newest event with the newest choice keeps a consistent graph consistent in all three,
// so only alternatives are tested.
#include "graph.h"

#include <string.h>

#include "check.h"

model_t model = MODEL_C11;

// ------------------------------------------------------------------------- sc and tso
// Program-order predecessors of each event: the last read, write and barrier before it.
typedef struct { id_t_ read, write, barrier; } before_t;
static before_t before[MAX_THREADS][MAX_EVENTS + 2];
static uint8_t colour[MAX_THREADS][MAX_EVENTS + 2];

// A compare-exchange is one whether it succeeds or not.
static bool is_locked_read(const event_t *e) { return e->type == EV_READ && e->op != VM_LOAD; }

// A locked instruction, a full fence and whatever starts or ends a thread drain the store buffer.
static bool is_barrier(const event_t *e) {
    if (e->type == EV_READ) return is_locked_read(e);
    if (e->type == EV_CHOICE) return false;
    if (e->type == EV_WRITE) return (e->rmw && !e[-1].hidden) || e->seq;
    return e->type != EV_FENCE || e->seq;
}

static void program_order(int t) {
    before_t last = {INIT, INIT, INIT};
    for (int i = 0; i < g->len[t]; i++) {
        event_t *e = &g->e[t][i];
        id_t_ me = id_of(t, i);
        before[t][i] = last;
        if (e->hidden) continue;  // no processor reads there
        if (model == MODEL_TSO && e->type == EV_READ && !is_locked_read(e))
            before[t][i].write = INIT;      // the one order TSO gives up
        if (e->type == EV_READ) last.read = me;
        else if (e->type == EV_WRITE) last.write = me;
        if (model == MODEL_SC || is_barrier(e)) last.barrier = me;
    }
}

static bool acyclic_from(id_t_ x);

static bool visit(id_t_ p) {
    if (p == INIT) return true;
    uint8_t c = colour[id_thread(p)][id_index(p)];
    return c == 2 || (c == 0 && acyclic_from(p));
}

// Which write must have reached memory for this read? Under tso not the thread's own, which it
// reads out of its store buffer; but a narrow one gives only its bytes, and the rest come from
// below it.
static id_t_ reached(const event_t *e, int thread) {
    id_t_ w = e->rf;
    unsigned mask = e->mask;
    while (model == MODEL_TSO && w != INIT && id_thread(w) == thread) {
        mask &= ~(unsigned)ev(w)->mask;
        if (!mask) return INIT;
        w = ev(w)[-1].rf;
    }
    return w;
}

static bool acyclic_from(id_t_ x) {
    int t = id_thread(x), i = id_index(x);
    event_t *e = ev(x);
    colour[t][i] = 1;
    const before_t *b = &before[t][i];
    bool ok = e->hidden || (visit(b->read) && visit(b->write) && visit(b->barrier));
    if (ok && e->type == EV_READ && !e->hidden) ok = visit(reached(e, t));
    if (ok && (e->type == EV_START || e->type == EV_JOIN)) ok = visit(e->rf);
    if (ok && e->type == EV_WRITE && e->copos != NO_COPOS) {
        const perloc_t *l = &g->loc[e->loc];
        if (e->copos) ok = visit(l->co[e->copos - 1]);
        for (int j = 0; ok && j < l->reads; j++)  // from-read
            if (co_position(ev(l->rd[j])->rf) == e->copos && !ev(l->rd[j])->hidden)
                ok = visit(l->rd[j]);
    }
    colour[t][i] = 2;
    return ok;
}

static bool global_order_exists(void) {
    for (int t = 0; t < MAX_THREADS; t++) {
        if (!g->len[t]) continue;
        memset(colour[t], 0, g->len[t]);
        program_order(t);
    }
    for (int i = 0; i < g->stamps; i++)
        if (!visit(g->order[i])) return false;
    return true;
}

// ------------------------------------------------------------------------- c11
enum { WORDS = TESTED_MOST / 64, MAX_SEQS = 256 };
typedef uint64_t row_t[WORDS];
static row_t hb[TESTED_MOST], scb[TESTED_MOST], eco[TESTED_MOST];  // by stamp

static inline void set(row_t *m, int i, int j) { m[i][j >> 6] |= 1ull << (j & 63); }
static inline bool get(row_t *m, int i, int j) { return m[i][j >> 6] >> (j & 63) & 1; }
static inline void join(uint64_t *to, const uint64_t *from, int words) {
    for (int k = 0; k < words; k++) to[k] |= from[k];
}

static bool accesses(const event_t *e) {
    return (e->type == EV_READ && !e->hidden) || e->type == EV_WRITE;
}
static bool same_place(const event_t *a, const event_t *b) {
    return accesses(a) && accesses(b) && a->loc == b->loc;
}
static int place(const event_t *e) {
    return e->type == EV_WRITE ? e->copos + 1 : co_position(e->rf);
}

// Extended coherence order: reads-from, modification order, from-read and what follows from them.
static bool eco_before(const event_t *a, const event_t *b) {
    int pa = place(a), pb = place(b);
    return a->type == EV_WRITE && b->type == EV_READ ? pa <= pb : pa < pb;
}

static void base_relations(int n, int words) {
    for (int i = 0; i < n; i++) {
        memset(hb[i], 0, (size_t)words * 8);
        memset(scb[i], 0, (size_t)words * 8);
        memset(eco[i], 0, (size_t)words * 8);
    }
    for (int i = 0; i < n; i++) {
        id_t_ x = g->order[i];
        event_t *a = ev(x);
        for (int j = 0; j < n; j++) {
            if (i == j) continue;
            id_t_ y = g->order[j];
            event_t *b = ev(y);
            bool same = same_place(a, b), hb_xy = clk_has(&b->hb, x);
            if (hb_xy) set(hb, i, j);
            if (same && eco_before(a, b)) set(eco, i, j);
            if (same && b->type == EV_WRITE && place(a) < place(b)) set(scb, i, j);  // mo, fr
            if (hb_xy && (id_thread(x) == id_thread(y) || same)) set(scb, i, j);
        }
    }
}

// scb's third part: program order to another location, happens-before, program order again.
static void add_detours(int n) {
    for (int i = 0; i < n; i++) {
        id_t_ x = g->order[i];
        for (int pi = id_index(x) + 1; pi < g->len[id_thread(x)]; pi++) {
            id_t_ p = id_of(id_thread(x), pi);
            if (same_place(ev(x), ev(p)) || ev(p)->hidden) continue;
            int sp = ev(p)->stamp;
            for (int j = 0; j < n; j++) {
                id_t_ q = g->order[j];
                if (id_thread(q) == id_thread(x) || !get(hb, sp, j)) continue;
                for (int k = id_index(q) + 1; k < g->len[id_thread(q)]; k++) {
                    event_t *y = &g->e[id_thread(q)][k];
                    if (!same_place(ev(q), y) && !y->hidden) set(scb, i, y->stamp);
                }
            }
        }
    }
}

static bool psc_acyclic(void) {
    static uint64_t psc[MAX_SEQS][MAX_SEQS / 64];
    int n = g->stamps, words = (n + 63) / 64, s[MAX_SEQS], count = 0;
    base_relations(n, words);
    add_detours(n);
    for (int i = 0; i < n; i++) {
        if (!ev(g->order[i])->seq) continue;
        if (count == MAX_SEQS) check_bound("sequentially consistent events", MAX_SEQS);
        s[count++] = i;
    }
    memset(psc, 0, sizeof psc);
    for (int a = 0; a < count; a++) {
        bool fence = ev(g->order[s[a]])->type == EV_FENCE;
        row_t reach = {0}, around = {0};  // ([E] u [F];hb?);scb  and  [F];(hb u hb;eco;hb)
        join(reach, scb[s[a]], words);
        if (fence) {
            join(around, hb[s[a]], words);
            for (int j = 0; j < n; j++) {
                if (!get(hb, s[a], j)) continue;
                join(reach, scb[j], words);
                for (int m = 0; m < n; m++)
                    if (get(eco, j, m)) join(around, hb[m], words);
            }
        }
        for (int b = 0; b < count; b++) {
            bool to_fence = ev(g->order[s[b]])->type == EV_FENCE;
            bool hit = reach[s[b] >> 6] >> (s[b] & 63) & 1;
            for (int j = 0; to_fence && !hit && j < n; j++)
                hit = (reach[j >> 6] >> (j & 63) & 1) && get(hb, j, s[b]);
            if (!hit && fence && to_fence) hit = around[s[b] >> 6] >> (s[b] & 63) & 1;
            if (hit) psc[a][b >> 6] |= 1ull << (b & 63);
        }
    }
    for (int k = 0; k < count; k++)
        for (int i = 0; i < count; i++)
            if (psc[i][k >> 6] >> (k & 63) & 1) join(psc[i], psc[k], MAX_SEQS / 64);
    for (int i = 0; i < count; i++)
        if (psc[i][i >> 6] >> (i & 63) & 1) return false;
    return true;
}

bool graph_consistent(void) {
    if (model == MODEL_C11 && g->seqs < 2) return true;
    bool drawn = options.search == SEARCH_RANDOM || options.search == SEARCH_PCT;
    if (g->stamps > (drawn && model == MODEL_C11 ? DRAWN_MOST : TESTED_MOST)) return false;
    return model == MODEL_C11 ? psc_acyclic() : global_order_exists();
}
