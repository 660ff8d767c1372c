/* SPDX-License-Identifier: MIT */
/* Body: allocation and freeing with list_lock of the kind in force. */
struct LOCK_FN(slab_thread) {
    struct run *run;
    struct worker *me;
    LOCK_T *lock;
    LOCK_ME_T node;
    struct request request;
};

static inline __attribute__((always_inline)) void
LOCK_FN(slab_section)(struct LOCK_FN(slab_thread) *t, void (*fn)(void *))
{
    uint64_t asked = wait_asked(&t->me->waits), got;
    if (t->run->closures) {
        LOCK_RUN(t->lock, &t->node, fn, &t->request);
        got = wait_got(asked); /* the wait includes the section: it may run elsewhere */
    } else {
        LOCK_ENTER(t->lock, &t->node);
        got = wait_got(asked);
        fn(&t->request);
        LOCK_LEAVE(t->lock, &t->node);
    }
    wait_over(&t->me->waits, asked, got);
    t->me->sections++;
}

static void *LOCK_FN(slab_alloc)(struct LOCK_FN(slab_thread) *t)
{
    struct cache *c = t->request.cache;
    while (c->available == 0) {
        LOCK_FN(slab_section)(t, refill);
        if (c->available)
            break;
        t->request.fresh = new_slab(t->run);
        LOCK_FN(slab_section)(t, add_slab);
    }
    return c->entry[--c->available];
}

static void LOCK_FN(slab_free)(struct LOCK_FN(slab_thread) *t, void *object)
{
    struct cache *c = t->request.cache;
    if (c->available == c->limit)
        LOCK_FN(slab_section)(t, flush);
    c->entry[c->available++] = object;
}

static void LOCK_FN(slab)(struct run *run, struct worker *me)
{
    struct slabs *s = run->data;
    struct cache *cache = lines_new(sizeof(*cache));
    cache->limit = s->limit;
    cache->batch = s->batch;
    struct LOCK_FN(slab_thread) t = {
        .run = run, .me = me, .lock = s->node->list_lock,
        .request = { .run = run, .node = s->node, .cache = cache },
    };
    uint64_t **burst = cli_alloc(s->burst * sizeof(*burst)), done = 0;
    LOCK_ME_SETUP(&t.node);
    while (!run_stopping(run)) {
        for (unsigned i = 0; i < s->burst; i++) {
            burst[i] = LOCK_FN(slab_alloc)(&t);
            *burst[i] = i;
        }
        for (unsigned i = 0; i < s->burst; i++) {
            if (*burst[i] != i)
                run_broken(run, "two threads were given the same object");
            LOCK_FN(slab_free)(&t, burst[i]);
        }
        run_publish(me, done += s->burst);
    }
    while (cache->available)
        LOCK_FN(slab_section)(&t, flush);
    free(burst);
}
