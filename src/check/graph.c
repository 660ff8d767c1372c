// SPDX-License-Identifier: MIT
// graph.c - building and cutting execution graphs.
#include "graph.h"

#include <string.h>

#include "check.h"

graph_t *g;
location_t locations[MAX_LOCS];
int location_count;

// ------------------------------------------------------------------------- values
vm_value_t block_get(const event_t *e, vm_value_t block) {
    block >>= 8 * e->offset;
    return e->size == sizeof block ? block : block & (((vm_value_t)1 << 8 * e->size) - 1);
}

vm_value_t block_set(const event_t *e, vm_value_t block, vm_value_t value) {
    if (e->size == sizeof value) return value;
    vm_value_t bits = (((vm_value_t)1 << 8 * e->size) - 1) << 8 * e->offset;
    return (block & ~bits) | (value << 8 * e->offset & bits);
}

vm_value_t read_block(const event_t *r) {
    return r->rf == INIT ? locations[r->loc].init : ev(r->rf)->value;
}

bool rmw_result(const event_t *r, vm_value_t *block) {
    vm_value_t old = block_get(r, *block), x = r->arg;
    switch (r->op) {
    case VM_XCHG: break;
    case VM_ADD: x = old + x; break;
    case VM_SUB: x = old - x; break;
    case VM_AND: x = old & x; break;
    case VM_OR: x = old | x; break;
    case VM_XOR: x = old ^ x; break;
    case VM_NAND: x = ~(old & x); break;
    case VM_CAS:
        if (old != r->expected) return false;
        break;
    default: return false;
    }
    *block = block_set(r, *block, x);
    return true;
}

// ------------------------------------------------------------------------- modification order
int co_position(id_t_ w) { return w == INIT ? 0 : ev(w)->copos + 1; }

bool rmw_follows(int loc, int position) {
    const perloc_t *l = &g->loc[loc];
    return position < l->writes && ev(l->co[position])->rmw;
}

// Coherence: not older than any write that happens before, or that a read before has seen.
int lower_bound(int loc, const clk_t *before) {
    const perloc_t *l = &g->loc[loc];
    int bound = 0;
    for (int i = l->writes; i > 0 && !bound; i--)
        if (clk_has(before, l->co[i - 1])) bound = i;
    for (int i = 0; i < l->reads; i++) {
        if (!clk_has(before, l->rd[i])) continue;
        int p = co_position(ev(l->rd[i])->rf);
        if (p > bound) bound = p;
    }
    return bound;
}

void graph_co_insert(id_t_ w, int position) {
    event_t *e = ev(w);
    perloc_t *l = &g->loc[e->loc];
    for (int i = l->writes; i > position; i--) {
        l->co[i] = l->co[i - 1];
        ev(l->co[i])->copos = (uint16_t)i;
    }
    l->co[position] = w;
    l->writes++;
    e->copos = (uint16_t)position;
}

void graph_co_remove(id_t_ w) {
    event_t *e = ev(w);
    if (e->copos == NO_COPOS) return;
    perloc_t *l = &g->loc[e->loc];
    l->writes--;
    for (int i = e->copos; i < l->writes; i++) {
        l->co[i] = l->co[i + 1];
        ev(l->co[i])->copos = (uint16_t)i;
    }
    e->copos = NO_COPOS;
}

// ------------------------------------------------------------------------- events
id_t_ graph_add(int thread, ev_t type, int order, uint32_t pc) {
    id_t_ id = id_of(thread, g->len[thread]++);
    event_t *e = ev(id);
    memset(&e->value, 0, sizeof *e - offsetof(event_t, value));
    e->type = (uint8_t)type;
    e->order = (uint8_t)order;
    e->seq = order == __ATOMIC_SEQ_CST;
    e->pc = pc;
    e->rf = INIT;
    e->copos = NO_COPOS;
    e->stamp = (uint16_t)g->stamps;
    g->order[g->stamps++] = id;
    g->seqs += e->seq;
    return id;
}

void graph_add_read(id_t_ r) {
    perloc_t *l = &g->loc[ev(r)->loc];
    l->rd[l->reads++] = r;
}

static void drop_read(id_t_ r) {
    perloc_t *l = &g->loc[ev(r)->loc];
    int i = --l->reads;
    while (l->rd[i] != r) i--;
    memmove(&l->rd[i], &l->rd[i + 1], (size_t)(l->reads - i) * sizeof *l->rd);
}

static bool acquires(const event_t *e) {
    return e->order == __ATOMIC_ACQUIRE || e->order == __ATOMIC_CONSUME ||
           e->order == __ATOMIC_ACQ_REL || e->order == __ATOMIC_SEQ_CST;
}
static bool releases(const event_t *e) {
    return e->order == __ATOMIC_RELEASE || e->order == __ATOMIC_ACQ_REL ||
           e->order == __ATOMIC_SEQ_CST;
}

// What a reader of the bytes in `mask` acquires from write w. A narrow write shows through to
// what lies below it where it did not overwrite.
static clk_t released(id_t_ w, unsigned mask) {
    clk_t c = {0};
    while (w != INIT && mask) {
        const event_t *e = ev(w);
        if (e->mask & mask) c = clk_max(c, e->rel);
        mask &= ~(unsigned)e->mask;
        if (!mask) break;
        w = e[-1].rf;  // only a narrow write leaves bytes, and it always has a read part
    }
    return c;
}

// A compare-exchange has the order of its success or of its failure, whichever its source makes.
static void settle_order(event_t *e) {
    vm_value_t block = read_block(e);
    g->seqs -= e->seq;
    e->order = rmw_result(e, &block) ? e->success : e->failure;
    e->seq = e->order == __ATOMIC_SEQ_CST;
    g->seqs += e->seq;
}

void graph_clocks(id_t_ id) {
    int t = id_thread(id), i = id_index(id);
    event_t *e = ev(id);
    if (e->type == EV_READ && e->op == VM_CAS) settle_order(e);
    if (i) {
        const event_t *p = e - 1;
        e->hb = p->hb;
        e->porf = p->porf;
        e->acq = p->acq;
        e->frel = p->frel;
    } else {
        memset(e, 0, offsetof(event_t, value));
    }
    if ((e->type == EV_START || e->type == EV_JOIN) && e->rf != INIT) {
        e->hb = clk_max(e->hb, ev(e->rf)->hb);
        e->porf = clk_max(e->porf, ev(e->rf)->porf);
    }
    if (e->type == EV_READ && e->rf != INIT) {
        e->porf = clk_max(e->porf, ev(e->rf)->porf);
        if (!e->hidden) {
            clk_t message = released(e->rf, e->mask);
            e->acq = clk_max(e->acq, message);
            if (model != MODEL_C11 || acquires(e)) e->hb = clk_max(e->hb, message);
        }
    }
    bool strong = model != MODEL_C11;  // on SC and TSO every atomic access synchronises
    if (e->type == EV_FENCE && (strong || acquires(e))) e->hb = clk_max(e->hb, e->acq);
    e->hb[t] = e->porf[t] = (count_t)(i + 1);
    if (e->type == EV_FENCE && (strong || releases(e))) e->frel = e->hb;
    if (e->type == EV_WRITE) {
        e->rel = strong || releases(e) ? e->hb : e->frel;
        if (e->rmw && !e[-1].hidden)
            e->rel = clk_max(e->rel, released(e[-1].rf, e->mask));  // a release sequence goes on
    }
}

static void forget(id_t_ x) {
    event_t *e = ev(x);
    g->len[id_thread(x)]--;
    g->seqs -= e->seq;
    if (e->type == EV_READ) drop_read(x);
    if (e->type == EV_WRITE) graph_co_remove(x);
    if (e->type == EV_CREATE) g->threads &= (uint16_t)~(1u << e->child);
}

void graph_cut(int stamp) {
    while (g->stamps > stamp + 1) forget(g->order[--g->stamps]);
}

void graph_clear(graph_t *to) {
    to->stamps = to->seqs = 0;
    to->threads = 1;
    memset(to->len, 0, sizeof to->len);
    for (int i = 0; i < location_count; i++) to->loc[i].writes = to->loc[i].reads = 0;
}

static void copy_location(graph_t *to, const perloc_t *l, perloc_t *m) {
    m->reads = m->writes = 0;
    for (int i = 0; i < l->reads; i++) {
        m->rd[m->reads] = l->rd[i];
        m->reads += id_index(l->rd[i]) < to->len[id_thread(l->rd[i])];
    }
    for (int i = 0; i < l->writes; i++) {
        id_t_ x = l->co[i];
        int t = id_thread(x), k = id_index(x);
        if (k >= to->len[t]) continue;
        to->e[t][k].copos = m->writes;
        m->co[m->writes++] = x;
    }
}

// What is kept is a beginning of each thread.
void graph_copy(graph_t *to, const graph_t *from, int stamp, const clk_t *keep) {
    int n = stamp + 1;
    memcpy(to->len, from->len, sizeof to->len);
    memcpy(to->order, from->order, (size_t)n * sizeof *to->order);
    to->threads = from->threads;
    to->seqs = from->seqs;
    for (int i = n; i < from->stamps; i++) {
        id_t_ x = from->order[i];
        const event_t *e = &from->e[id_thread(x)][id_index(x)];
        if (clk_has(keep, x)) {
            to->order[n++] = x;
            continue;
        }
        to->len[id_thread(x)]--;
        to->seqs -= e->seq;
        if (e->type == EV_CREATE) to->threads &= (uint16_t)~(1u << e->child);
    }
    to->stamps = n;
    for (int t = 0; t < MAX_THREADS; t++)
        if (to->len[t]) memcpy(to->e[t], from->e[t], to->len[t] * sizeof *to->e[t]);
    for (int i = stamp + 1; i < n; i++)
        to->e[id_thread(to->order[i])][id_index(to->order[i])].stamp = (uint16_t)i;
    for (int k = 0; k < location_count; k++) copy_location(to, &from->loc[k], &to->loc[k]);
}
