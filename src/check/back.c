// SPDX-License-Identifier: MIT
// back.c - a run begins where its graph first differs from an earlier one, not at the beginning.
//
// Before a thread makes an event from which the search may branch off, the state of the program is
// copied: stacks, thread-local variables, variables, heaps, and what the checker knows of threads
// and memory. Such a mark is good for every graph that has the same events up to there. The search
// is depth-first, so the marks are a stack as well; the graph of a revisit begins with events of
// the graph it was copied from, and so with its marks.
//
// What the program keeps elsewhere (in memory of libraries) is not brought back, as little as it
// is when a run begins at the beginning.
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

typedef struct {
    int frame, stamp;         // the graph's events before that stamp have happened, and no others
    int thread, threads;      // who makes the next; how many there are
    uint32_t run;
    size_t at, end;           // the copy in the store
} mark_t;

enum { MARKS_MOST = 1 << 14 };
#define STORE_BYTES ((size_t)64 << 20)
static mark_t mark[MARKS_MOST];
static int marks;
static int branched[MAX_FRAMES];  // a frame shares its parent's events before that stamp
static char *store;
static bool came_back;

static size_t used(void) { return marks ? mark[marks - 1].end : 0; }

void back_begin(void) {
    marks = 0;
    branched[0] = 0;
    if (fiber_by_threads) options.marks = false;  // their stacks are in use all the time
    if (store || !options.marks) return;
    store = mmap(NULL, STORE_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (store == MAP_FAILED) check_unusable("not enough address space", 0);
}

void back_no_more(void) {
    options.marks = false;
    marks = 0;
}

void back_cut(int frame, int stamp) {
    for (; marks; marks--) {
        const mark_t *m = &mark[marks - 1];
        if (m->frame < frame || (m->frame == frame && m->stamp <= stamp)) return;
    }
}

void back_branch(int frame, int stamp) { branched[frame] = stamp; }

// ------------------------------------------------------------------------- copying
// What only the thread itself changes, and the checker where it calls back_ran(): copied if the
// thread has run since it was copied last.
static void copy_own(copy_t *c, vcpu_t *v) {
    size_t size;
    void *locals = fiber_locals(&v->fiber, &size);
    copy_bytes(c, locals, size);
    copy_bytes(c, fiber_theirs(&v->fiber, &errno), sizeof errno);
    copy_bytes(c, v, offsetof(vcpu_t, spin));
    copy_bytes(c, v->spin, (size_t)v->spins * sizeof *v->spin);
    int calls = v->calls < MAX_CALLS ? v->calls : MAX_CALLS;
    copy_bytes(c, v->call, (size_t)calls * sizeof *v->call);
    if (v->foreigns) copy_bytes(c, v->foreign, (size_t)v->foreigns * sizeof *v->foreign);
    if (v->visits) copy_bytes(c, v->visit, (size_t)v->visits * sizeof *v->visit);
}

// What others may have written to, by library calls that nobody sees.
static void copy_memory(copy_t *c, const vcpu_t *v, int t) {
    copy_bytes(c, v->fiber.sp, (size_t)(v->fiber.base - (char *)v->fiber.sp));
    if (v->heap != heap_of(t)) copy_bytes(c, (void *)heap_of(t), v->heap - heap_of(t));
}

static char *kept[MAX_THREADS];   // the newest copy of what is a thread's own, while it is right

void back_ran(int t) { kept[t] = NULL; }

static void save_own(copy_t *c, int threads) {
    for (int t = 0; t < threads; t++) {
        if (kept[t]) continue;
        kept[t] = c->at;
        copy_own(c, &cpu[t]);
    }
}

static void copy_threads(copy_t *c, int threads) {
    for (int t = 0; t < threads; t++) {
        char *copy = kept[t];
        copy_bytes(c, &copy, sizeof copy);
        if (kept[t] != copy) {
            copy_t from = {copy, false};
            copy_own(&from, &cpu[t]);
            kept[t] = copy;
        }
        copy_memory(c, &cpu[t], t);
    }
}

static size_t state_bytes(int threads) {
    size_t n = run_bytes() + shadow_bytes() + report_bytes();
    for (int t = 0; t < threads; t++) {
        const vcpu_t *v = &cpu[t];
        const char *sp = t == current ? __builtin_frame_address(0) : v->fiber.sp;
        n += (size_t)(v->fiber.base - sp) + (v->heap - heap_of(t));
    }
    return n;
}

// Is a mark worth its bytes, and is there room? To copy a kilobyte takes as long as to go over an
// event again.
static bool worth(void) {
    enum { PER_EVENT = 1024 };
    const mark_t *last = marks ? &mark[marks - 1] : NULL;
    int since = last && last->frame == explore_frame ? last->stamp : branched[explore_frame];
    size_t bytes = state_bytes(run_threads());
    if (bytes > PER_EVENT * (size_t)(g->stamps - since)) return false;
    size_t most = bytes + shadow_most() + MAX_THREADS * (sizeof *cpu + 4096);
    return marks < MARKS_MOST && used() + most < STORE_BYTES;
}

// ------------------------------------------------------------------------- marks
static void copy_state(copy_t *c, int threads) {
    shadow_copy(c);
    copy_threads(c, threads);
    run_copy(c);
    report_copy(c);
    back_ran(current);        // it goes on
}

static void save(void) {
    mark_t *m = &mark[marks];
    copy_t c = {store + used(), true};
    *m = (mark_t){explore_frame, g->stamps, current, run_threads(), run_number, 0, 0};
    shadow_save(&c);
    save_own(&c, m->threads);
    m->at = (size_t)(c.at - store);
    copy_state(&c, m->threads);
    m->end = (size_t)(c.at - store);
    marks++;
}

bool back_mark(void) {
    if (!worth()) return false;
    came_back = false;
    fiber_keep_(&cpu[current].fiber.sp, save);
    return came_back;
}

// The newest mark that holds nothing but what the graph at hand begins with.
static const mark_t *find(void) {
    int frame = explore_frame, stamp = explore_stamp;
    for (int i = marks; i-- > 0;) {
        for (; mark[i].frame < frame; frame--)
            if (branched[frame] < stamp) stamp = branched[frame];
        if (mark[i].stamp <= stamp) return &mark[i];
    }
    return NULL;
}

int back_restore(void) {
    const mark_t *m = find();
    if (!m) return 0;
    copy_t c = {store + m->at, false};
    run_number = m->run;
    current = m->thread;
    copy_state(&c, m->threads);
    came_back = true;
    return m->threads;
}
