// SPDX-License-Identifier: MIT
// sections.c - the rules for sections, and what each thread holds.
//
// Locks are told apart by their address. A lock-order pair (A, x) has two bits: x has been taken
// inside a section of A; a thread that held x has asked for A, or has left it and so perhaps run
// waiting sections. Both together are a deadlock that waits for its moment: the owner of A waits
// for x, whose holder waits for A or is that owner.
#include "debug.h"

#include <errno.h>
#include <time.h>

#include <hotlock/ali_debug.h>

enum { TAKEN_INSIDE = 1, HELD_OUTSIDE = 2, BOTH = 3 };

__thread dbg_thread_t dbg_thread;
static dbg_entry_t pairs[DBG_PAIRS];

// ------------------------------------------------------------------------- what a thread holds
void dbg_held(const volatile void *l) {
    dbg_thread_t *t = &dbg_thread;
    t->waiting = false;
    if (t->holds < DBG_HELD) {
        t->held[t->holds++] = l;
    } else {
        t->lost++;
        dbg_dropped("locks held by a thread that holds very many", 1);
    }
}

// The place of a held lock, or -1: the last taken first.
static int find(const dbg_thread_t *t, const volatile void *l) {
    for (int i = (int)t->holds - 1; i >= 0; i--)
        if (t->held[i] == l) return i;
    return -1;
}

void dbg_release(const volatile void *l, const char *op, const void *site) {
    dbg_thread_t *t = &dbg_thread;
    const dbg_section_t *s = t->inside;
    char name[DBG_NAME];
    int at = find(t, l);
    if (s && !t->lost && (at < 0 || (unsigned)at < s->mark))
        dbg_report("unlock-outside", s, (uintptr_t)site,
                   "calls %s() at %s: it has not taken lock %p itself", op,
                   dbg_name(name, site, true), (const void *)l);
    if (at < 0) {
        if (t->lost) t->lost--;
        return;
    }
    for (t->holds--; (unsigned)at < t->holds; at++) t->held[at] = t->held[at + 1];
    // A section that released one of its owner's locks has not taken any more than before.
    for (dbg_section_t *x = t->inside; x; x = x->outer)
        if (x->mark > t->holds) x->mark = t->holds;
}

// ------------------------------------------------------------------------- lock order
// Adds a bit to the pair; true when it has both.
static bool pair(const volatile void *ali, const volatile void *other, uint32_t bit) {
    uint64_t key = dbg_mix((uintptr_t)ali, (uintptr_t)other);
    uint32_t before = dbg_mark(pairs, DBG_PAIRS, key, bit);
    if (before == DBG_FULL) {
        dbg_dropped("pairs of locks", 1);
        return false;
    }
    return (before | bit) == BOTH;
}

void dbg_wait(const volatile void *l, const char *op, const void *site) {
    dbg_section_t *inside = dbg_thread.inside;
    char name[DBG_NAME];
    for (const dbg_section_t *s = inside; s; s = s->outer) {
        if (s->lock == l)
            dbg_report("self-deadlock", inside, (uintptr_t)site,
                       "calls %s() at %s on lock %p, whose section it is: it waits for itself", op,
                       dbg_name(name, site, true), (const void *)l);
        else if (pair(s->lock, l, TAKEN_INSIDE))
            dbg_report("lock-order", inside, (uintptr_t)site,
                       "calls %s() at %s for lock %p, and threads hold that when they use %p",
                       op, dbg_name(name, site, true), (const void *)l, s->lock);
    }
    dbg_thread.waiting = true;
}

// Asks for an ali lock, or leaves it, with other locks held.
static void use(const volatile void *ali, const char *op, const void *site) {
    dbg_thread_t *t = &dbg_thread;
    char name[DBG_NAME];
    for (unsigned i = 0; i < t->holds; i++)
        if (t->held[i] != ali && pair(ali, t->held[i], HELD_OUTSIDE))
            dbg_report("lock-order", NULL, (uintptr_t)site,
                       "%s() at %s uses lock %p while lock %p is held, which its sections take", op,
                       dbg_name(name, site, true), (const void *)ali, (const void *)t->held[i]);
}

// ------------------------------------------------------------------------- one section
void dbg_blocking(const char *name, const void *site) {
    const dbg_section_t *s = dbg_thread.inside;
    char at[DBG_NAME];
    if (dbg_mode == DBG_OFF || !s || dbg_thread.waiting) return;
    dbg_report("blocking-call", s, (uintptr_t)site, "calls %s() at %s: all who wait, wait longer",
               name, dbg_name(at, site, true));
}

static void leave(dbg_section_t *s, const char *how) {
    if (how) dbg_report("left-section", s, 0, "is left %s: its lock stays held", how);
    dbg_thread.inside = s->outer;
    dbg_thread.waiting = s->waiting;
    if (s->copy) dbg_tls_drop(s->copy);
}

void dbg_left(const char *frame, const char *how) {
    while (dbg_thread.inside && dbg_thread.inside->frame < frame) leave(dbg_thread.inside, how);
}

// At the end of hl_debug_call(), however that comes about.
static void on_end(dbg_section_t *s) {
    if (dbg_thread.inside == s)
        leave(s, s->returned ? NULL : "by an exception, a cancellation or pthread_exit()");
}

static uint64_t cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void check_held(const dbg_section_t *s) {
    for (unsigned i = s->mark; i < dbg_thread.holds; i++)
        dbg_report("lock-kept", s, 0, "returns holding lock %p, on whichever thread ran it",
                   (const void *)dbg_thread.held[i]);
}

HL_EXPORT void hl_debug_call(void *l, void (*fn)(void *), void *arg, bool foreign) {
    if (dbg_mode == DBG_OFF) {
        fn(arg);
        return;
    }
    dbg_left(__builtin_frame_address(0), "by a jump");
    int before = errno;
    __attribute__((cleanup(on_end))) dbg_section_t s = {
        .lock = l, .fn = fn, .foreign = foreign, .waiting = dbg_thread.waiting,
        .mark = dbg_thread.holds, .frame = __builtin_frame_address(0), .copy = dbg_tls_copy(),
        .outer = dbg_thread.inside};
    dbg_thread.inside = &s;
    dbg_thread.waiting = false;
    uint64_t begin = cpu_us();

    errno = before;
    fn(arg);
    int after = errno;
    s.returned = true;

    uint64_t spent = cpu_us() - begin;
    if (after != before)
        dbg_report("errno", &s, 0, "changes errno, which is the running thread's (%d to %d)",
                   before, after);
    dbg_tls_compare(&s);
    check_held(&s);
    if (dbg_long_us && spent > dbg_long_us)
        dbg_report("long-section", &s, 0, "runs for %llu us of processor time, the limit is %llu",
                   (unsigned long long)spent, (unsigned long long)dbg_long_us);
    errno = after;
}

// ------------------------------------------------------------------------- the program's calls
#define SITE __builtin_return_address(0)
#define FRAME ((const char *)__builtin_frame_address(0))

HL_EXPORT void hl_debug_wait(const volatile void *l, const char *op) {
    if (dbg_mode == DBG_OFF) return;
    dbg_left(FRAME, "by a jump");
    dbg_wait(l, op, SITE);
}

HL_EXPORT void hl_debug_request(const volatile void *l, const char *op) {
    if (dbg_mode == DBG_OFF) return;
    dbg_left(FRAME, "by a jump");
    use(l, op, SITE);
    dbg_wait(l, op, SITE);
}

HL_EXPORT void hl_debug_serve(const volatile void *l, const char *op) {
    if (dbg_mode == DBG_OFF) return;
    dbg_left(FRAME, "by a jump");
    use(l, op, SITE);
}

HL_EXPORT void hl_debug_held(const volatile void *l) {
    if (dbg_mode != DBG_OFF) dbg_held(l);
}

HL_EXPORT bool hl_debug_got(const volatile void *l, bool got) {
    if (got) hl_debug_held(l);
    else dbg_thread.waiting = false;
    return got;
}

HL_EXPORT void hl_debug_served(void) { dbg_thread.waiting = false; }

HL_EXPORT void hl_debug_release(const volatile void *l, const char *op) {
    if (dbg_mode == DBG_OFF) return;
    dbg_left(FRAME, "by a jump");
    dbg_release(l, op, SITE);
}
