// SPDX-License-Identifier: MIT
// order.c - the order in which a graph's events are shown and replayed: few context switches.
//
// Shortest path over the states "how far each thread is, and who ran last", where a switch costs 1
// and a step nothing: breadth first by number of switches.
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct { count_t pos[MAX_THREADS]; uint8_t last; int from; } state_t;
enum { STATES_MOST = 1 << 20 };
static int strictness;        // 2: reads-from, modification order, from-read; 1: two; 0: the first

static bool passed(const state_t *s, id_t_ e) {
    return e == INIT || s->pos[id_thread(e)] > id_index(e);
}

static bool ready(const state_t *s, id_t_ x) {
    const event_t *e = ev(x);
    if ((e->type == EV_READ || e->type == EV_START || e->type == EV_JOIN) && !passed(s, e->rf))
        return false;
    if (e->type != EV_WRITE || e->copos == NO_COPOS) return true;
    const perloc_t *l = &g->loc[e->loc];
    if (strictness >= 1 && e->copos && !passed(s, l->co[e->copos - 1])) return false;
    for (int i = 0; strictness == 2 && i < l->reads; i++)
        if (co_position(ev(l->rd[i])->rf) == e->copos && !passed(s, l->rd[i]) &&
            id_thread(l->rd[i]) != id_thread(x))
            return false;
    return true;
}

// The table's entry for the state: 0 if it is new, else 1 + its index.
static int *slot(const state_t *states, int *table, size_t size, const state_t *s) {
    uint64_t h = 0;
    for (int i = 0; i < MAX_THREADS; i++) h = (h ^ s->pos[i]) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    for (size_t k = h % size;; k = (k + 1) % size)
        if (!table[k] || !memcmp(states[table[k] - 1].pos, s->pos, sizeof s->pos)) return &table[k];
}

static bool finished(const state_t *s) { return !memcmp(s->pos, g->len, sizeof s->pos); }

// Any sequence that obeys this strictness, a thread running as long as it can; false: none does.
static bool any_order(void) {
    state_t s;
    int t = 0;
    memset(&s, 0, sizeof s);
    for (run_ordered = 0; t < MAX_THREADS;) {
        while (s.pos[t] < g->len[t] && ready(&s, id_of(t, s.pos[t]))) {
            s.pos[t]++;
            run_order[run_ordered++] = (uint8_t)t;
        }
        for (t = 0; t < MAX_THREADS; t++)
            if (s.pos[t] < g->len[t] && ready(&s, id_of(t, s.pos[t]))) break;
    }
    return run_ordered == g->stamps;
}

// The sequence of threads that has fewest switches; false: there are too many states to look at.
static bool best_order(void) {
    size_t size = 2 * STATES_MOST + 1;
    state_t *states = malloc(STATES_MOST * sizeof *states);
    int *table = calloc(size, sizeof *table), count = 1, i = 0;
    if (!states || !table) check_unusable("not enough memory", 0);
    memset(&states[0], 0, sizeof states[0]);
    states[0].from = -1;
    for (; i < count && !finished(&states[i]); i++) {
        for (int t = 0; t < MAX_THREADS; t++) {
            state_t s = states[i];
            s.last = (uint8_t)t;
            s.from = i;
            while (s.pos[t] < g->len[t] && ready(&s, id_of(t, s.pos[t])) && count < STATES_MOST) {
                s.pos[t]++;  // every stop on the way is a state of its own
                int *entry = slot(states, table, size, &s);
                if (*entry) continue;
                states[count] = s;
                *entry = ++count;
            }
        }
    }
    int goal = i < count ? i : -1;
    if (goal >= 0) {
        run_ordered = 0;
        static int path[MAX_STAMPS];
        int n = 0;
        for (i = goal; states[i].from >= 0; i = states[i].from) path[n++] = i;
        while (n--) {
            const state_t *s = &states[path[n]], *p = &states[s->from];
            for (int k = p->pos[s->last]; k < s->pos[s->last]; k++)
                run_order[run_ordered++] = s->last;
        }
    }
    free(states);
    free(table);
    return goal >= 0;
}

int order_events(bool *fewest) {
    strictness = 2;
    while (!any_order() && strictness) strictness--;
    *fewest = g->stamps <= TESTED_MOST && best_order();
    return strictness;
}
