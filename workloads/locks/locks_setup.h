/* SPDX-License-Identifier: MIT */
/* Body: makes one lock of the kind in force. */
static void LOCK_FN(setup)(void *lock, unsigned threads, bool shared)
{
    LOCK_T *l = lock;
    (void)threads;
    LOCK_SETUP(l, threads);
    if (shared)
        LOCK_SHARE(l);
}
