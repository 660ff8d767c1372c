/* SPDX-License-Identifier: MIT */
/* Body: the loop of stat with its tally under the lock in force. */
static void LOCK_FN(stat)(struct run *run, struct worker *me)
{
    struct stats *s = run->data;
    LOCK_T *lock = s->tally.lock;
    LOCK_ME_T node = { 0 };
    struct reader reader;
    uint64_t done = 0;
    LOCK_ME_SETUP(&node);
    reader_begin(&reader, run, me->index);
    while (!run_stopping(run)) {
        unsigned count = 0;
        while (count < s->tally.every && !run_stopping(run)) {
            read_one(&reader);
            run_publish(me, done + ++count);
        }
        uint64_t asked = wait_asked(&me->waits);
        LOCK_ENTER(lock, &node);
        uint64_t got = wait_got(asked);
        *s->tally.count += count;
        LOCK_LEAVE(lock, &node);
        wait_over(&me->waits, asked, got);
        done += count;
        me->sections++;
    }
    reader_end(&reader);
}
