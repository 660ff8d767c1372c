/* SPDX-License-Identifier: MIT */
/* One turn of each.h: a descriptor, what it left out, the body, and all names free again. */
#include LOCK_DESCRIPTOR

#ifndef LOCK_ME_T
#define LOCK_ME_T struct lock_me_none
#ifndef LOCK_NODE_BYTES
#define LOCK_NODE_BYTES 0
#endif
#endif
#ifndef LOCK_NODE_BYTES
#define LOCK_NODE_BYTES sizeof(LOCK_ME_T)
#endif
#ifndef LOCK_ME_SETUP
#define LOCK_ME_SETUP(me) ((void)(me))
#endif
#ifndef LOCK_SETUP
#define LOCK_SETUP(l, threads) ((void)0)
#endif
#ifndef LOCK_FUTEX_HIDDEN
#define LOCK_FUTEX_HIDDEN 0
#endif
#ifndef LOCK_SHARED
#define LOCK_SHARED 0
#endif
#ifndef LOCK_SHARE
#define LOCK_SHARE(l) ((void)(l))
#endif

#ifdef LOCK_RUN
#define LOCK_COMBINES true
#else
#define LOCK_COMBINES false
#define LOCK_RUN(l, me, fn, arg) \
    do { \
        LOCK_ENTER(l, me); \
        (fn)(arg); \
        LOCK_LEAVE(l, me); \
    } while (0)
#endif
#ifdef LOCK_ENTER
#define LOCK_SECTIONS true
#else /* options.c refuses to run it so */
#define LOCK_SECTIONS false
#define LOCK_ENTER(l, me) __builtin_unreachable()
#define LOCK_LEAVE(l, me) __builtin_unreachable()
#endif

#include LOCK_BODY

#undef LOCK
#undef LOCK_T
#undef LOCK_ME_T
#undef LOCK_ME_SETUP
#undef LOCK_NODE_BYTES
#undef LOCK_ATOMICS
#undef LOCK_SETUP
#undef LOCK_FUTEX_HIDDEN
#undef LOCK_SHARED
#undef LOCK_SHARE
#undef LOCK_ENTER
#undef LOCK_LEAVE
#undef LOCK_RUN
#undef LOCK_COMBINES
#undef LOCK_SECTIONS
#undef LOCK_DESCRIPTOR
