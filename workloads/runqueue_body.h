/* SPDX-License-Identifier: MIT */
/* Body: a processor of runqueue with locks of the kind in force. */
struct LOCK_FN(processor) {
    struct run *run;
    struct worker *me;
    struct queue *queue;
    LOCK_ME_T node;
    uint64_t received;
};

static struct task *LOCK_FN(schedule)(struct LOCK_FN(processor) *p, struct task *old)
{
    LOCK_T *lock = p->queue->lock;
    uint64_t asked = wait_asked(&p->me->waits);
    LOCK_ENTER(lock, &p->node);
    uint64_t got = wait_got(asked);
    struct task *next = switch_task(p->run, p->queue, old, (int)p->me->index);
    LOCK_LEAVE(lock, &p->node);
    wait_over(&p->me->waits, asked, got);
    p->me->sections++;
    return next;
}

static void LOCK_FN(wake)(struct LOCK_FN(processor) *p, struct task *t)
{
    LOCK_T *lock = p->queue->lock;
    uint64_t asked = wait_asked(&p->me->waits);
    LOCK_ENTER(lock, &p->node);
    uint64_t got = wait_got(asked);
    make_runnable(p->run, p->queue, t);
    LOCK_LEAVE(lock, &p->node);
    wait_over(&p->me->waits, asked, got);
    p->me->sections++;
}

/* The next message goes to the next receiver of the group; false: the sender is blocked. */
static bool LOCK_FN(send)(struct LOCK_FN(processor) *p, struct task *t)
{
    const struct machine *m = p->run->data;
    unsigned group = t->number / (2 * GROUP);
    struct pipe *pipe = m->pipes[group * GROUP + t->sent % GROUP];
    struct task *wake = NULL;
    LOCK_T *lock = pipe->lock;
    LOCK_ENTER(lock, &p->node);
    bool done = pipe_put(pipe, t, t->sent / GROUP, &wake);
    if (done)
        t->sent++, t->left--;
    LOCK_LEAVE(lock, &p->node);
    if (wake)
        LOCK_FN(wake)(p, wake);
    return done;
}

static bool LOCK_FN(receive)(struct LOCK_FN(processor) *p, struct task *t)
{
    struct message message;
    struct task *wake = NULL;
    LOCK_T *lock = t->pipe->lock;
    LOCK_ENTER(lock, &p->node);
    bool done = pipe_get(t->pipe, t, &message, &wake);
    LOCK_LEAVE(lock, &p->node);
    if (!done)
        return false;
    t->left--;
    check_message(p->run, t, &message);
    run_publish(p->me, ++p->received);
    if (wake)
        LOCK_FN(wake)(p, wake);
    return true;
}

/* Runs a task until it blocks, its slice is over, or it has done its share. */
static void LOCK_FN(run_task)(struct LOCK_FN(processor) *p, struct task *t)
{
    bool sends = is_sender(t);
    for (unsigned i = 0; i < SLICE && t->left; i++)
        if (!(sends ? LOCK_FN(send)(p, t) : LOCK_FN(receive)(p, t)))
            return;
    if (t->left == 0)
        t->blocked = true; /* for good */
}

static void LOCK_FN(runqueue)(struct run *run, struct worker *me)
{
    const struct machine *m = run->data;
    struct LOCK_FN(processor) p = { .run = run, .me = me, .queue = m->queue };
    struct task *task = NULL;
    LOCK_ME_SETUP(&p.node);
    while (!run_stopping(run)) {
        task = LOCK_FN(schedule)(&p, task);
        if (task)
            LOCK_FN(run_task)(&p, task);
        for (unsigned spins = 0; !task && !run_stopping(run) &&
             atomic_load_explicit(&p.queue->waiting, memory_order_relaxed) <= 0; spins++)
            spins < IDLE_SPINS ? hl_pause() : hl_yield();
    }
}
