// SPDX-License-Identifier: MIT
// spin.c - pthread_spin_*: straight to the chosen lock, which is one that fits four bytes.
#include "preload.h"

HLP_EXPORT int pthread_spin_init(pthread_spinlock_t *s, int shared) {
    return hlp_op(spin_init)((pthread_spinlock_t *)s, shared);
}
HLP_EXPORT int pthread_spin_destroy(pthread_spinlock_t *s) { return hlp_op(spin_destroy)(s); }
HLP_EXPORT int pthread_spin_lock(pthread_spinlock_t *s) { return hlp_op(spin_lock)(s); }
HLP_EXPORT int pthread_spin_trylock(pthread_spinlock_t *s) { return hlp_op(spin_trylock)(s); }
HLP_EXPORT int pthread_spin_unlock(pthread_spinlock_t *s) { return hlp_op(spin_unlock)(s); }
