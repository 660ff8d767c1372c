/* SPDX-License-Identifier: MIT */
/* Body: lone pairs on the lock in force. */
static __attribute__((noinline, aligned(64))) void LOCK_FN(sections)(void *l, uint64_t pairs)
{
    LOCK_T *lock = l;
    LOCK_ME_T node = { 0 };
    LOCK_ME_SETUP(&node);
    (void)lock;
    for (; pairs; pairs--) {
        LOCK_ENTER(lock, &node);
        __asm__ __volatile__("" ::: "memory");
        LOCK_LEAVE(lock, &node);
    }
}

static __attribute__((noinline, aligned(64), unused)) void LOCK_FN(functions)(void *l,
                                                                              uint64_t pairs)
{
    LOCK_T *lock = l;
    LOCK_ME_T node = { 0 };
    LOCK_ME_SETUP(&node);
    for (; pairs; pairs--)
        LOCK_RUN(lock, &node, pair_empty, NULL);
}
