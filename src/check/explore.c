// SPDX-License-Identifier: MIT
// explore.c - every consistent execution graph once, without remembering which were seen.
//
// The algorithm is TruSt (Kokologiannakis, Marmanis, Gladstein, Vafeiadis, POPL 2022). A run
// extends the graph, always the leftmost thread that can go on, always with the newest choice:
// a read takes the newest write, a write goes last in modification order. The other choices are
// put on a stack:
//   SOURCE  a read takes an older write: cut the graph back to the read, change its source
//   PLACE   a write goes earlier in modification order: cut back to the write, move it
//   REVISIT an existing read takes this newer write: keep what was there before the read and
//           what the write depends on, drop the rest, in a new frame
//   CHOICE  another value of a nondeterministic choice
// A revisit is offered only if the read and everything dropped were "maximally added", that is
// had taken the newest choice as seen from the write; this makes each graph come up once.
#include <string.h>
#include <sys/mman.h>

#include "check.h"

typedef enum { SOURCE, PLACE, REVISIT, CHOICE } kind_t;
typedef struct {
    uint8_t kind;
    id_t_ a, b;         // SOURCE: read, write; PLACE: write, index; REVISIT: read, write
    uint16_t stamp;     // where to cut
    int frame;
} item_t;

enum { MAX_ITEMS = 1 << 20 };
static item_t *items;
static int item_count;
int explore_frame, explore_stamp;
static graph_t *frames;

static void push(kind_t kind, id_t_ a, id_t_ b, uint16_t stamp) {
    if (item_count == MAX_ITEMS) check_bound("alternatives", MAX_ITEMS);
    items[item_count++] = (item_t){(uint8_t)kind, a, b, stamp, explore_frame};
}

static void *reserve(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) check_unusable("not enough address space", 0);
    return p;
}

void explore_begin(void) {
    if (!items) {
        items = reserve(MAX_ITEMS * sizeof *items);
        frames = reserve(MAX_FRAMES * sizeof *frames);
    }
    item_count = explore_frame = explore_stamp = 0;
    back_begin();
    g = &frames[0];
    graph_clear(g);
}

id_t_ new_event(ev_t type, int order, uint32_t pc) {
    if (g->len[current] >= options.bound || g->stamps >= MAX_STAMPS - 2) {
        bound_now = (spot_t){pc, current};
        run_stop(RUN_BOUND);
    }
    id_t_ id = graph_add(current, type, order, pc);
    cpu[current].pos++;
    return id;
}

// ------------------------------------------------------------------------- revisits
static clk_t before(id_t_ x) {
    return id_index(x) ? ev(x)[-1].hb : (clk_t){0};
}

// Was x, which the revisit of a read by w drops, added with the newest choice? `kept` is what w
// depends on: those events count as earlier than x.
static bool maximally_added(id_t_ x, const clk_t *kept) {
    const event_t *e = ev(x);
    if (e->type == EV_CHOICE) return e->value == 0;
    if (e->type != EV_READ && e->type != EV_WRITE) return true;
    const perloc_t *l = &g->loc[e->loc];
#define EARLIER(y) (ev(y)->stamp <= e->stamp || clk_has(kept, y))
    id_t_ w = x;
    if (e->type == EV_READ) {
        w = e->rf;
        if (w != INIT && !EARLIER(w)) return false;
    } else {
        for (int i = 0; i < l->reads; i++)
            if (ev(l->rd[i])->rf == x && EARLIER(l->rd[i])) return false;
    }
    for (int i = co_position(w); i < l->writes; i++)
        if (EARLIER(l->co[i])) return false;
#undef EARLIER
    return true;
}

static void offer_revisits(id_t_ w) {
    const perloc_t *l = &g->loc[ev(w)->loc];
    clk_t kept = ev(w)->porf;
    kept[id_thread(w)]--;
    int from = g->stamps, first = from;
    for (int i = 0; i < l->reads; i++) {
        int stamp = ev(l->rd[i])->stamp;
        if (stamp < first && !clk_has(&kept, l->rd[i])) first = stamp;
    }
    for (; from > first; from--) {  // from there on, all that would be dropped may be
        id_t_ x = g->order[from - 1];
        if (x != w && !clk_has(&kept, x) && !maximally_added(x, &kept)) break;
    }
    for (int i = 0; i < l->reads; i++)
        if (ev(l->rd[i])->stamp >= from && !clk_has(&kept, l->rd[i]))
            push(REVISIT, l->rd[i], w, ev(w)->stamp);
}

// Puts write w, not yet in modification order, at its newest place and offers the others. `r` is
// the read being revisited, or INIT. False: nowhere.
static bool place(id_t_ w, id_t_ r) {
    const event_t *e = ev(w);
    clk_t c = before(w);
    int bound = lower_bound(e->loc, &c);
    if (r != INIT) {
        clk_t d = before(r);
        int b = lower_bound(e->loc, &d);
        if (b > bound) bound = b;
    }
    if (e->rmw) {  // right after what its read half read
        int p = co_position(e[-1].rf);
        if (p < bound || rmw_follows(e->loc, p)) return false;
        graph_co_insert(w, p);
        return true;
    }
    int newest = -1;
    for (int p = g->loc[e->loc].writes; p >= bound; p--) {
        if (rmw_follows(e->loc, p)) continue;
        if (newest < 0) newest = p;
        else push(PLACE, w, (id_t_)p, e->stamp);
    }
    graph_co_insert(w, newest);
    return true;
}

static void revisit(id_t_ r, id_t_ w) {
    if (explore_frame + 1 == MAX_FRAMES) check_bound("nested revisits", MAX_FRAMES);
    graph_cut(ev(w)->stamp);
    graph_co_remove(w);
    clk_t kept = ev(w)->porf;
    graph_t *to = &frames[explore_frame + 1];
    graph_copy(to, g, ev(r)->stamp, &kept);
    explore_frame++;
    back_branch(explore_frame, ev(r)->stamp);
    explore_stamp = MAX_STAMPS;
    if (explore_frame > counts.frames) counts.frames = explore_frame;
    g = to;
    ev(r)->rf = w;
    ev(r)->rmw = 0;
    graph_clocks(r);
}

// ------------------------------------------------------------------------- new events
// Makes position p of its location read r's source; false: that is inconsistent.
static bool take_source(id_t_ r, int p) {
    event_t *e = ev(r);
    const perloc_t *l = &g->loc[e->loc];
    e->rf = p ? l->co[p - 1] : INIT;
    graph_clocks(r);
    vm_value_t block = read_block(e);
    if (e->op != VM_LOAD && rmw_result(e, &block) && rmw_follows(e->loc, p)) return false;
    return p == l->writes || graph_consistent();
}

static bool take_place(id_t_ w, int p) {
    if (rmw_follows(ev(w)->loc, p)) return false;
    bool last = p == g->loc[ev(w)->loc].writes;
    graph_co_insert(w, p);
    return last || graph_consistent();
}

// Sampling: any consistent source, mostly the newest.
static void draw_source(id_t_ r) {
    event_t *e = ev(r);
    const perloc_t *l = &g->loc[e->loc];
    clk_t c = before(r);
    int bound = lower_bound(e->loc, &c);
    if (bound == l->writes || cpu[current].eager || !sample_rarely()) return;
    int p = bound + (int)sample_below((unsigned)(l->writes - bound));
    if (!take_source(r, p)) take_source(r, l->writes);
}

// Sampling: any consistent place in modification order, mostly the last.
static bool draw_place(id_t_ w) {
    const event_t *e = ev(w);
    clk_t c = before(w);
    int bound = lower_bound(e->loc, &c), last = g->loc[e->loc].writes;
    if (e->rmw) return place(w, INIT) && (e->copos == last || graph_consistent());
    int p = sample_rarely() ? bound + (int)sample_below((unsigned)(last - bound + 1)) : last;
    if (rmw_follows(e->loc, p)) p = last;
    graph_co_insert(w, p);
    if (p == last || graph_consistent()) return true;
    graph_co_remove(w);
    graph_co_insert(w, last);
    return true;
}

// Plain search: all consistent sources, and all consistent places, the newest first. Under sc an
// older one is another interleaving, which comes by itself.
static void every_source(id_t_ r, int bound) {
    uint16_t list[MAX_PER_LOC + 1];
    int n = 0;
    unsigned p;
    if (model == MODEL_SC) return;
    if (!plain_known(&p)) {
        for (int i = g->loc[ev(r)->loc].writes; i >= bound; i--)
            if (take_source(r, i)) list[n++] = (uint16_t)i;
        p = plain_first(list, n);
    }
    take_source(r, (int)p);
}

static bool every_place(id_t_ w) {
    const event_t *e = ev(w);
    uint16_t list[MAX_PER_LOC + 1];
    int n = 0, last = g->loc[e->loc].writes;
    unsigned p;
    clk_t c = before(w);
    if (e->rmw) return place(w, INIT) && (e->copos == last || graph_consistent());
    if (model == MODEL_SC) {
        graph_co_insert(w, last);
        return true;
    }
    if (!plain_known(&p)) {
        for (int i = last, bound = lower_bound(e->loc, &c); i >= bound; i--) {
            if (take_place(w, i)) list[n++] = (uint16_t)i;
            graph_co_remove(w);
        }
        p = plain_first(list, n);
    }
    graph_co_insert(w, (int)p);
    return true;
}

static unsigned every_choice(unsigned n) {
    uint16_t list[256];
    unsigned k;
    if (n > 256) check_bound("alternatives of one choice", 256);
    for (unsigned i = 0; i < n; i++) list[i] = (uint16_t)i;
    return plain_known(&k) ? k : plain_first(list, (int)n);
}

void explore_read(id_t_ r) {
    event_t *e = ev(r);
    const perloc_t *l = &g->loc[e->loc];
    if (l->reads == MAX_PER_LOC) check_bound("reads of one location", MAX_PER_LOC);
    clk_t c = before(r);
    for (int p = lower_bound(e->loc, &c); options.search == SEARCH_ALL && p < l->writes; p++)
        push(SOURCE, r, p ? l->co[p - 1] : INIT, e->stamp);
    e->rf = l->writes ? l->co[l->writes - 1] : INIT;
    graph_add_read(r);
    graph_clocks(r);
    if (options.search == SEARCH_PLAIN) every_source(r, lower_bound(e->loc, &c));
    else if (options.search != SEARCH_ALL) draw_source(r);
}

bool explore_write(id_t_ w) {
    if (g->loc[ev(w)->loc].writes == MAX_PER_LOC)
        check_bound("writes to one location", MAX_PER_LOC);
    graph_clocks(w);
    if (options.search == SEARCH_PLAIN) return every_place(w);
    if (options.search != SEARCH_ALL) return draw_place(w);
    offer_revisits(w);
    if (!place(w, INIT)) return false;
    // A read-modify-write was tested when its read half took its source; nobody tests what a narrow
    // store merges with.
    const event_t *e = ev(w);
    bool narrow = e->rmw && e[-1].hidden;
    return !narrow || e->copos + 1 == g->loc[e->loc].writes || graph_consistent();
}

void explore_choice(id_t_ c, unsigned n) {
    if (options.search == SEARCH_PLAIN) ev(c)->value = every_choice(n);
    else if (options.search != SEARCH_ALL) ev(c)->value = sample_rarely() ? sample_below(n) : 0;
    for (unsigned k = n; options.search == SEARCH_ALL && --k > 0;)
        push(CHOICE, c, (id_t_)k, ev(c)->stamp);
    graph_clocks(c);
}

// ------------------------------------------------------------------------- the next graph
// A read-modify-write that reads what another already read has no place for its write half.
// Only the revisits by that half matter, and they need no run.
static bool clash(id_t_ r) {
    event_t *e = ev(r);
    vm_value_t block = read_block(e);
    if (e->op == VM_LOAD || !rmw_result(e, &block)) return false;
    if (!rmw_follows(e->loc, co_position(e->rf))) return false;
    e->rmw = 1;
    e->value = read_block(e);
    id_t_ w = graph_add(id_thread(r), EV_WRITE, e->success, e->pc);
    event_t *we = ev(w);
    we->loc = e->loc;
    we->mask = e->mask;
    we->size = e->size;
    we->offset = e->offset;
    we->value = block;
    we->rmw = 1;
    graph_clocks(w);
    offer_revisits(w);
    counts.clashes++;
    return true;
}

static bool apply(const item_t *it) {
    switch ((kind_t)it->kind) {
    case SOURCE:
        graph_cut(it->stamp);
        ev(it->a)->rf = it->b;
        ev(it->a)->rmw = 0;
        graph_clocks(it->a);
        return graph_consistent() && !clash(it->a);
    case PLACE:
        graph_cut(it->stamp);
        graph_co_remove(it->a);
        graph_co_insert(it->a, it->b);
        return graph_consistent();
    case CHOICE:
        graph_cut(it->stamp);
        ev(it->a)->value = it->b;
        return true;
    case REVISIT:
        counts.revisits++;
        revisit(it->a, it->b);
        return place(it->b, it->a) && graph_consistent();
    }
    return false;
}

bool explore_next(void) {
    while (item_count) {
        item_t it = items[--item_count];
        explore_frame = it.frame;
        g = &frames[explore_frame];
        explore_stamp = it.stamp;
        back_cut(it.frame, it.stamp);
        if (apply(&it)) return true;
        counts.moot++;
    }
    return false;
}
