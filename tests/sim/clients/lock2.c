// SPDX-License-Identifier: MIT
// lock2.c - will-it-scale's lock2_threads: all threads lock and unlock the same byte of one file.
//
// One operation is one fcntl(F_SETLKW). What it touches is Linux's fs/locks.c, read in 6.1:
//
//   - the spin lock and the heads of the file's record locks share one cache line;
//   - all threads have one owner, so locking while a record is there merges with it: it is only
//     read. Locking while there is none puts the caller's own record in; unlocking takes out
//     whichever is there, mostly another thread's;
//   - each record is also on a list of the CPU that made it, under a lock of its own;
//   - after locking, the table of open files is looked at, under the lock all threads share;
//   - a record is of four lines, freed to the slab it came from: if that is another CPU's, by a
//     compare-exchange on that slab.
//
// The rest of the call is THINK_NS, set so that one thread is as fast as published.
#include "bench.h"

#include <string.h>

// What is read of a record lies in three lines of the kernel's, which a core asks for at once. Here
// a thread waits for each line it reads; so that is one line, and three more hold the rest.
typedef struct record {
    _Alignas(64) struct record *next;      // of the file
    const void *owner;
    unsigned char type;
    int cpu;                               // that made it
    struct record *all_next, **all_prev;   // of that CPU
    long from, to;
    _Alignas(64) struct record *free;      // the next one that is free
    char rest[3 * 64 - sizeof(void *)];
} record_t;

enum { SLAB_RECORDS = 37, UNLOCK = 2 };

typedef struct {
    _Alignas(64) _Atomic(record_t *) returned;   // by other CPUs
    _Alignas(64) stock_lock_t lock;              // of the list
    record_t *first;
    _Alignas(64) record_t *local;                // free ones
    atomic_int file_users;
    bool locked;
} processor_t;

static struct {
    _Alignas(64) stock_lock_t lock;
    record_t *first;
} file;
static struct {
    _Alignas(64) void *volatile table;
    _Alignas(64) stock_lock_t lock;
    _Alignas(64) void *volatile open[STOCK_THREADS];
} files;
static processor_t *processor;
static record_t *slabs;

static void setup(int threads) {
    size_t n = (size_t)threads;
    processor = aligned_alloc(64, n * sizeof *processor);
    slabs = aligned_alloc(4096, (n * SLAB_RECORDS * sizeof *slabs + 4095) / 4096 * 4096);
    memset(processor, 0, n * sizeof *processor);
    for (size_t i = 0; i < n * SLAB_RECORDS; i++) {
        processor_t *p = &processor[i / SLAB_RECORDS];
        slabs[i].free = p->local;
        p->local = &slabs[i];
    }
}

// ------------------------------------------------------------------------- records
static record_t *allocate(processor_t *p) {
    if (!p->local)
        p->local = atomic_exchange_explicit(&p->returned, NULL, memory_order_acquire);
    record_t *r = p->local;
    p->local = r->free;
    memset(r, 0, sizeof *r);
    return r;
}

static void give_back(processor_t *p, record_t *r) {
    processor_t *home = &processor[(r - slabs) / SLAB_RECORDS];
    if (home == p) {
        r->free = p->local;
        p->local = r;
        return;
    }
    record_t *seen = atomic_load_explicit(&home->returned, memory_order_relaxed);
    do r->free = seen;
    while (!atomic_compare_exchange_weak_explicit(&home->returned, &seen, r, memory_order_release,
                                                  memory_order_relaxed));
}

static void short_lock(stock_lock_t *l) {
    unsigned seen;
    while (!stock_try(l, &seen)) hl_pause();
}

static void put_in(processor_t *p, int cpu, record_t *r) {
    r->next = file.first;
    file.first = r;
    short_lock(&p->lock);
    r->cpu = cpu;
    r->all_next = p->first;
    if (r->all_next) r->all_next->all_prev = &r->all_next;
    r->all_prev = &p->first;
    p->first = r;
    stock_unlock(&p->lock, cpu);
}

static void take_out(record_t *r) {
    processor_t *maker = &processor[r->cpu];
    short_lock(&maker->lock);
    *r->all_prev = r->all_next;
    if (r->all_next) r->all_next->all_prev = r->all_prev;
    r->all_prev = NULL;
    stock_unlock(&maker->lock, r->cpu);
    file.first = r->next;
    r->next = NULL;
}

// ------------------------------------------------------------------------- the call
// Under the file's lock; gives the record to be freed, of those that were made and the one there.
static record_t *apply(processor_t *p, int cpu, const record_t *request, record_t *made) {
    record_t *there = file.first;
    bool same = there && there->owner == request->owner && there->to >= request->from &&
                there->from <= request->to;
    if (request->type == UNLOCK) {
        if (!same) return made;
        take_out(there);
        give_back(p, made);
        return there;
    }
    if (same) return made;
    made->owner = request->owner;
    made->type = request->type;
    made->from = request->from, made->to = request->to;
    put_in(p, cpu, made);
    return NULL;
}

static void op(worker_t *me) {
    processor_t *p = &processor[me->index];
    p->locked = !p->locked;
    atomic_fetch_add_explicit(&p->file_users, 1, memory_order_relaxed);
    delay(THINK_NS);
    record_t *request = allocate(p), *made = allocate(p), *second = allocate(p);
    request->owner = &files;
    request->type = p->locked ? 1 : UNLOCK;
    stock_lock(&file.lock, me->index);
    record_t *gone = apply(p, me->index, request, made);
    stock_unlock(&file.lock, me->index);
    give_back(p, second);
    if (gone) give_back(p, gone);
    if (p->locked) {
        stock_lock(&files.lock, me->index);
        (void)files.table;
        (void)files.open[me->index];
        stock_unlock(&files.lock, me->index);
    }
    give_back(p, request);
    atomic_fetch_sub_explicit(&p->file_users, 1, memory_order_relaxed);
}
