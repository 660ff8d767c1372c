// SPDX-License-Identifier: MIT
// c11.c - C11 mtx_* and cnd_*: the same objects under other names.
//
// libc's mtx_t is its mutex and cnd_t its condition variable, but its mtx_lock reaches its own
// mutex code directly, past any preload. mtx_init and cnd_init stay libc's: what they leave
// behind (zero bytes and a kind) is an unlocked mutex, or an empty queue, of ours as well.
#include <errno.h>
#include <threads.h>

#include "preload.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is no pthread mutex");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t is no pthread condition");

static pthread_mutex_t *mutex(mtx_t *m) { return (pthread_mutex_t *)(void *)m; }
static pthread_cond_t *cond(cnd_t *c) { return (pthread_cond_t *)(void *)c; }

static int result(int error) {
    switch (error) {
    case 0: return thrd_success;
    case EBUSY: return thrd_busy;
    case ETIMEDOUT: return thrd_timedout;
    case ENOMEM: return thrd_nomem;
    default: return thrd_error;
    }
}

HLP_EXPORT int mtx_lock(mtx_t *m) {
    return result(hlp_mutex_lock_from(mutex(m), __builtin_return_address(0)));
}
HLP_EXPORT int mtx_trylock(mtx_t *m) { return result(hlp_mutex_trylock(mutex(m))); }
HLP_EXPORT int mtx_unlock(mtx_t *m) { return result(hlp_mutex_unlock(mutex(m))); }
HLP_EXPORT void mtx_destroy(mtx_t *m) { hlp_mutex_destroy(mutex(m)); }

HLP_EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict at) {
    return result(hlp_mutex_timedlock(mutex(m), at));
}

HLP_EXPORT int cnd_wait(cnd_t *c, mtx_t *m) { return result(hlp_cond_wait(cond(c), mutex(m))); }
HLP_EXPORT int cnd_signal(cnd_t *c) { return result(hlp_cond_signal(cond(c))); }
HLP_EXPORT int cnd_broadcast(cnd_t *c) { return result(hlp_cond_broadcast(cond(c))); }
HLP_EXPORT void cnd_destroy(cnd_t *c) { hlp_cond_destroy(cond(c)); }

HLP_EXPORT int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m,
                             const struct timespec *restrict at) {
    return result(hlp_cond_timedwait(cond(c), mutex(m), at));
}
