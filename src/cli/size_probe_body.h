/* SPDX-License-Identifier: MIT */
/* Body: the probes in the form that HL_INLINE_LOCK and its like ask for; PROBES is their table. */
#include <hotlock/hotlock.h>

#include "size_probe.h"

#define PROBE_(name) static __attribute__((noinline)) void name(void *lock, void *node)

/* The node is an argument of mcs alone; the others keep it, too, so that all have one reference. */
#define PROBE(which, ...)                                     \
    PROBE_(which##_lock)                                      \
    {                                                         \
        size_mark(lock, node);                                \
        hl_##which##_lock(lock, ##__VA_ARGS__);               \
        size_mark(lock, node);                                \
    }                                                         \
    PROBE_(which##_unlock)                                    \
    {                                                         \
        size_mark(lock, node);                                \
        hl_##which##_unlock(lock, ##__VA_ARGS__);             \
        size_mark(lock, node);                                \
    }                                                         \
    PROBE_(which##_trylock)                                   \
    {                                                         \
        size_mark(lock, node);                                \
        if (!hl_##which##_trylock(lock, ##__VA_ARGS__))       \
            __builtin_trap();                                 \
        size_mark(lock, node);                                \
    }
PROBE(tas)
PROBE(ticket)
PROBE(mcs, node)
PROBE(nmcs)
PROBE(nmcs4)
PROBE(mcsflag)
PROBE(qspin)
PROBE(park)
PROBE(ali)

PROBE_(nothing)
{
    size_mark(lock, node);
    size_mark(lock, node);
}

#define ROWS(which)                                                                         \
    {"hl_" #which "_lock", which##_lock}, {"hl_" #which "_unlock", which##_unlock},         \
    {"hl_" #which "_trylock", which##_trylock}, {"hl_" #which "_unlock", which##_unlock}

const size_probe_t PROBES[] = {
    {NULL, nothing}, ROWS(tas), ROWS(ticket), ROWS(mcs), ROWS(nmcs), ROWS(nmcs4),
    ROWS(mcsflag), ROWS(qspin), ROWS(park), ROWS(ali),
};
