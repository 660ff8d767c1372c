/* SPDX-License-Identifier: MIT */
/* Body: the loop of fcntl with its tally under the lock in force. */
static void LOCK_FN(fcntl)(struct run *run, struct worker *me)
{
    struct records *r = run->data;
    LOCK_T *lock = r->tally.lock;
    LOCK_ME_T node = { 0 };
    uint64_t done = 0;
    int fd = open_file(run);
    LOCK_ME_SETUP(&node);
    while (!run_stopping(run)) {
        unsigned count = 0;
        while (count < r->tally.every && !run_stopping(run)) {
            lock_one(run, me, fd);
            run_publish(me, done + ++count);
        }
        LOCK_ENTER(lock, &node);
        *r->tally.count += count;
        LOCK_LEAVE(lock, &node);
        done += count;
    }
    close(fd);
}
