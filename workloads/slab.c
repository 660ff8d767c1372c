/* SPDX-License-Identifier: MIT */
/*
 * slab: a user-space model of the SLAB allocator that Linux had until 6.8, around its hot lock.
 *
 * Each processor (here: thread) keeps a stack of free objects, its array cache. When it runs empty
 * it is refilled, when it is full it is flushed, a batch at a time, from and to the slabs of the
 * memory node: pages of objects on three lists (full, partial, free) under one lock, the node's
 * list_lock. That lock is the one under test. It is the lock Ling Ma converted to a combining
 * one (linux-kernel, January and February 2016): reading big directories allocates thousands of
 * small objects and frees them together, as the bursts here do.
 *
 * --form lock takes the lock around refill and flush; --form run hands them over as functions.
 */
#include <stdlib.h>

#include "../src/cli/cli.h"
#include "common/run.h"

enum { SLAB_BYTES = 4096, OBJECT_BYTES = 128, OBJECTS = SLAB_BYTES / OBJECT_BYTES - 1 };
enum { LIMIT_MOST = 1024, BURST_MOST = 1 << 20 };
enum { FULL, PARTIAL, FREE, LISTS };

/* One page: this header in place of the first object, then the objects. */
struct slab {
    struct slab *next, *previous;
    unsigned in_use;
    uint8_t free[OBJECTS]; /* stack of the numbers of free objects; in_use are taken */
};

struct node {
    _Alignas(128) struct slab list[LISTS]; /* heads; everything here is under list_lock */
    uint64_t free_objects, slabs;
    volatile uint64_t sections;
    volatile bool busy; /* somebody is inside: nobody may find it set */
    void *list_lock;
};

struct cache {
    unsigned available, limit, batch;
    void *entry[LIMIT_MOST];
};

struct slabs {
    struct node *node;
    unsigned limit, batch, burst;
};

/* What a section needs, so that it can run as a function on another thread. */
struct request {
    struct run *run;
    struct node *node;
    struct cache *cache;
    struct slab *fresh; /* add_slab() only */
};

/* ---------------------------------------------------------------- under list_lock */

static void enter(const struct request *r)
{
    if (r->node->busy)
        run_broken(r->run, "two threads are inside list_lock");
    r->node->busy = true;
    r->node->sections++;
}

static void leave(const struct request *r)
{
    if (!r->node->busy)
        run_broken(r->run, "another thread was inside list_lock and left");
    r->node->busy = false;
}

static void unlink_slab(struct slab *s)
{
    s->previous->next = s->next;
    s->next->previous = s->previous;
}

static void push_slab(struct slab *head, struct slab *s)
{
    s->next = head->next;
    s->previous = head;
    head->next->previous = s;
    head->next = s;
}

static void file_slab(struct node *n, struct slab *s)
{
    push_slab(&n->list[s->in_use == 0 ? FREE : s->in_use == OBJECTS ? FULL : PARTIAL], s);
}

static struct slab *slab_with_room(struct node *n)
{
    for (int i = PARTIAL; i <= FREE; i++)
        if (n->list[i].next != &n->list[i])
            return n->list[i].next;
    return NULL;
}

static void refill(void *arg)
{
    const struct request *r = arg;
    struct cache *c = r->cache;
    struct slab *s;
    enter(r);
    while (c->available < c->batch && (s = slab_with_room(r->node))) {
        unlink_slab(s);
        while (s->in_use < OBJECTS && c->available < c->batch) {
            unsigned number = s->free[s->in_use++];
            c->entry[c->available++] = (char *)s + (number + 1) * OBJECT_BYTES;
            r->node->free_objects--;
        }
        file_slab(r->node, s);
    }
    leave(r);
}

/* Gives back the oldest of the cache. */
static void flush(void *arg)
{
    const struct request *r = arg;
    struct cache *c = r->cache;
    unsigned count = c->available < c->batch ? c->available : c->batch;
    enter(r);
    for (unsigned i = 0; i < count; i++) {
        struct slab *s = (struct slab *)((uintptr_t)c->entry[i] & ~(uintptr_t)(SLAB_BYTES - 1));
        unsigned number = (unsigned)((char *)c->entry[i] - (char *)s) / OBJECT_BYTES - 1;
        if (s->in_use == 0)
            run_broken(r->run, "an object came back to a slab that had given none away");
        unlink_slab(s);
        s->free[--s->in_use] = (uint8_t)number;
        r->node->free_objects++;
        file_slab(r->node, s);
    }
    leave(r);
    c->available -= count;
    for (unsigned i = 0; i < c->available; i++)
        c->entry[i] = c->entry[i + count];
}

static void add_slab(void *arg)
{
    const struct request *r = arg;
    enter(r);
    r->node->slabs++;
    r->node->free_objects += OBJECTS;
    file_slab(r->node, r->fresh);
    leave(r);
}

/* ---------------------------------------------------------------- outside it */

static struct slab *new_slab(struct run *run)
{
    struct slab *s = aligned_alloc(SLAB_BYTES, SLAB_BYTES);
    if (!s)
        run_failed(run, "cannot allocate a slab");
    s->in_use = 0;
    for (unsigned i = 0; i < OBJECTS; i++)
        s->free[i] = (uint8_t)i;
    return s;
}

#define LOCK_BODY "../slab_body.h"
#include "locks/each.h"

#define LOOP slab
#define LOCK_BODY "loop_row.h"
static const struct loop loops[] = {
#include "locks/each.h"
};

enum { KEY_BURST = 0x1000, KEY_LIMIT, KEY_BATCH };

static const struct argp_option options[] = {
    { "burst", KEY_BURST, "N", 0, "objects a thread allocates before it frees them (default 256)",
      0 },
    { "limit", KEY_LIMIT, "N", 0, "objects an array cache holds (default 120, as Linux)", 0 },
    { "batch", KEY_BATCH, "N", 0, "objects moved per section (default 60, as Linux)", 0 },
    { 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct run *run = state->input;
    struct slabs *s = run->data;
    switch (key) {
    case KEY_BURST:
        s->burst = (unsigned)cli_long("--burst", arg, 1, BURST_MOST);
        return 0;
    case KEY_LIMIT:
        s->limit = (unsigned)cli_long("--limit", arg, 1, LIMIT_MOST);
        return 0;
    case KEY_BATCH:
        s->batch = (unsigned)cli_long("--batch", arg, 1, LIMIT_MOST);
        return 0;
    case ARGP_KEY_END:
        if (s->batch > s->limit)
            cli_bad("--batch %u is more than --limit %u; a cache cannot take it", s->batch,
                    s->limit);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void setup(struct run *run)
{
    struct slabs *s = run->data;
    s->node = lines_new(sizeof(*s->node));
    s->node->list_lock = lock_new(run->lock, run->threads, false);
    for (int i = 0; i < LISTS; i++)
        s->node->list[i].next = s->node->list[i].previous = &s->node->list[i];
}

static void check(struct run *run)
{
    struct node *n = ((struct slabs *)run->data)->node;
    uint64_t sections = run_sections(run), found = 0;
    if (n->sections != sections)
        run_broken(run, "list_lock counted %llu sections of %llu", (unsigned long long)n->sections,
                   (unsigned long long)sections);
    if (n->list[FULL].next != &n->list[FULL] || n->list[PARTIAL].next != &n->list[PARTIAL])
        run_broken(run, "all objects came back, yet a slab is not free");
    for (struct slab *s = n->list[FREE].next, *next; s != &n->list[FREE]; s = next, found++) {
        next = s->next;
        free(s);
    }
    if (found != n->slabs || n->free_objects != found * OBJECTS)
        run_broken(run, "%llu slabs hold %llu free objects, %llu slabs are on the list",
                   (unsigned long long)n->slabs, (unsigned long long)n->free_objects,
                   (unsigned long long)found);
}

static const struct workload workload = {
    .name = "slab",
    .about = "A model of the kernel's SLAB allocator: array caches over one node's list_lock.",
    .unit = "objects",
    .options = options,
    .option = on_option,
    .loops = loops,
    .loop_count = sizeof(loops) / sizeof(loops[0]),
    .setup = setup,
    .check = check,
    .forms = true,
};

int main(int argc, char **argv)
{
    struct slabs slabs = { .limit = 120, .batch = 60, .burst = 256 };
    return workload_main(&workload, &slabs, argc, argv);
}
