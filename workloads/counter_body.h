/* SPDX-License-Identifier: MIT */
/* Body: the loop of counter around the lock in force. */
static void LOCK_FN(counter)(struct run *run, struct worker *me)
{
    struct counter *c = ((struct counter *)run->data)->own[me->index];
    LOCK_T *lock = c->lock;
    LOCK_ME_T node = { 0 };
    uint64_t done = 0;
    LOCK_ME_SETUP(&node);
    while (!run_stopping(run)) {
        uint64_t asked = wait_asked(&me->waits), got;
        if (run->closures) {
            LOCK_RUN(lock, &node, section_fn, c);
            got = wait_got(asked); /* the wait includes the section: it may run elsewhere */
        } else {
            LOCK_ENTER(lock, &node);
            got = wait_got(asked);
            section(c);
            LOCK_LEAVE(lock, &node);
        }
        wait_over(&me->waits, asked, got);
        run_publish(me, ++done);
        think(c, me);
    }
    me->sections = done;
}
