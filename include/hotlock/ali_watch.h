// SPDX-License-Identifier: MIT
// ali_watch.h - the debug build of ali, second half: each lock operation that the program calls
// from here on tells libhotlock-debug. See ali_debug.h; ali.h includes both.
//
// A macro inside its own expansion is not expanded again, so op(...) below is the function. The
// lock is evaluated once. Locks are told apart by their address.
#ifndef HOTLOCK_ALI_WATCH_H
#define HOTLOCK_ALI_WATCH_H

#ifdef HL_DEBUG
#include "ali.h"
#include "mcs.h"
#include "mcsflag.h"
#include "nmcs.h"
#include "nmcs4.h"
#include "park.h"
#include "qspin.h"
#include "tas.h"
#include "ticket.h"

// The second argument and what follows it, as op() takes it: `, ## ` drops the comma of none.
#define HL_WATCH_LOCK(before, op, l, ...) \
    (__extension__({                      \
        __typeof__(l) hl_watched_ = (l);  \
        before(hl_watched_, #op);         \
        op(hl_watched_, ##__VA_ARGS__);   \
        hl_debug_held(hl_watched_);       \
    }))
#define HL_WATCH_UNTIL(before, op, l, ...)                         \
    (__extension__({                                               \
        __typeof__(l) hl_watched_ = (l);                           \
        before(hl_watched_, #op);                                  \
        hl_debug_got(hl_watched_, op(hl_watched_, ##__VA_ARGS__)); \
    }))
#define HL_WATCH_TRY(op, l, ...)                                   \
    (__extension__({                                               \
        __typeof__(l) hl_watched_ = (l);                           \
        hl_debug_got(hl_watched_, op(hl_watched_, ##__VA_ARGS__)); \
    }))
#define HL_WATCH_UNLOCK(op, l, ...)         \
    (__extension__({                        \
        __typeof__(l) hl_watched_ = (l);    \
        hl_debug_release(hl_watched_, #op); \
        op(hl_watched_, ##__VA_ARGS__);     \
    }))
#define HL_WATCH_REQUEST(op, l, ...)        \
    (__extension__({                        \
        __typeof__(l) hl_watched_ = (l);    \
        hl_debug_request(hl_watched_, #op); \
        op(hl_watched_, __VA_ARGS__);       \
        hl_debug_served();                  \
    }))
#define HL_WATCH_SERVE(op, l, ...)        \
    (__extension__({                      \
        __typeof__(l) hl_watched_ = (l);  \
        hl_debug_serve(hl_watched_, #op); \
        op(hl_watched_, __VA_ARGS__);     \
    }))

#define hl_tas_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_tas_lock, l)
#define hl_tas_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_tas_lock_until, l, t)
#define hl_tas_trylock(l)       HL_WATCH_TRY(hl_tas_trylock, l)
#define hl_tas_unlock(l)        HL_WATCH_UNLOCK(hl_tas_unlock, l)

#define hl_ticket_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_ticket_lock, l)
#define hl_ticket_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_ticket_lock_until, l, t)
#define hl_ticket_trylock(l)       HL_WATCH_TRY(hl_ticket_trylock, l)
#define hl_ticket_unlock(l)        HL_WATCH_UNLOCK(hl_ticket_unlock, l)

#define hl_mcs_lock(l, n)          HL_WATCH_LOCK(hl_debug_wait, hl_mcs_lock, l, n)
#define hl_mcs_lock_until(l, n, t) HL_WATCH_UNTIL(hl_debug_wait, hl_mcs_lock_until, l, n, t)
#define hl_mcs_trylock(l, n)       HL_WATCH_TRY(hl_mcs_trylock, l, n)
#define hl_mcs_unlock(l, n)        HL_WATCH_UNLOCK(hl_mcs_unlock, l, n)

#define hl_nmcs_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_nmcs_lock, l)
#define hl_nmcs_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_nmcs_lock_until, l, t)
#define hl_nmcs_trylock(l)       HL_WATCH_TRY(hl_nmcs_trylock, l)
#define hl_nmcs_unlock(l)        HL_WATCH_UNLOCK(hl_nmcs_unlock, l)

#define hl_nmcs4_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_nmcs4_lock, l)
#define hl_nmcs4_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_nmcs4_lock_until, l, t)
#define hl_nmcs4_trylock(l)       HL_WATCH_TRY(hl_nmcs4_trylock, l)
#define hl_nmcs4_unlock(l)        HL_WATCH_UNLOCK(hl_nmcs4_unlock, l)

#define hl_mcsflag_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_mcsflag_lock, l)
#define hl_mcsflag_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_mcsflag_lock_until, l, t)
#define hl_mcsflag_trylock(l)       HL_WATCH_TRY(hl_mcsflag_trylock, l)
#define hl_mcsflag_unlock(l)        HL_WATCH_UNLOCK(hl_mcsflag_unlock, l)

#define hl_qspin_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_qspin_lock, l)
#define hl_qspin_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_qspin_lock_until, l, t)
#define hl_qspin_trylock(l)       HL_WATCH_TRY(hl_qspin_trylock, l)
#define hl_qspin_unlock(l)        HL_WATCH_UNLOCK(hl_qspin_unlock, l)

#define hl_park_lock(l)          HL_WATCH_LOCK(hl_debug_wait, hl_park_lock, l)
#define hl_park_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_wait, hl_park_lock_until, l, t)
#define hl_park_trylock(l)       HL_WATCH_TRY(hl_park_trylock, l)
#define hl_park_unlock(l)        HL_WATCH_UNLOCK(hl_park_unlock, l)

#define hl_ali_lock(l)          HL_WATCH_LOCK(hl_debug_request, hl_ali_lock, l)
#define hl_ali_lock_until(l, t) HL_WATCH_UNTIL(hl_debug_request, hl_ali_lock_until, l, t)
#define hl_ali_trylock(l)       HL_WATCH_TRY(hl_ali_trylock, l)
#define hl_ali_unlock(l)                                \
    (__extension__({                                    \
        __typeof__(l) hl_watched_ = (l);                \
        hl_debug_release(hl_watched_, "hl_ali_unlock"); \
        hl_debug_serve(hl_watched_, "hl_ali_unlock");   \
        hl_ali_unlock(hl_watched_);                     \
    }))
// A section may be a lambda with commas in it.
#define hl_ali_run(l, ...)      HL_WATCH_REQUEST(hl_ali_run, l, __VA_ARGS__)
#define hl_ali_submit(l, ...)   HL_WATCH_SERVE(hl_ali_submit, l, __VA_ARGS__)
#define hl_ali_done(l, r)       HL_WATCH_SERVE(hl_ali_done, l, r)
#define hl_ali_wait(l, r)       HL_WATCH_REQUEST(hl_ali_wait, l, r)

#endif
#endif
