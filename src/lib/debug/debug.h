// SPDX-License-Identifier: MIT
// debug.h - libhotlock-debug: what its parts share.
//
//   sections.c  the rules: what a thread holds, what a section may do
//   calls.c     the C library's calls that a section may not make, or that take a lock
//   modules.c   what is loaded: names of addresses, thread-locals
//   report.c    one line for each place that breaks a rule, and the count at exit
//
// Nothing here allocates: every table has a fixed size, and what does not fit is counted and said.
#ifndef HOTLOCK_DEBUG_H
#define HOTLOCK_DEBUG_H

#include <hotlock/atomic.h>

enum {
    DBG_HELD = 32,         // locks a thread holds at once
    DBG_SITES = 512,       // reports, each printed once
    DBG_PAIRS = 2048,      // pairs of locks of which one was taken under the other
    DBG_MODULES = 128,     // loaded objects
    DBG_TLS_BYTES = 16384, // of thread-locals that are compared
    DBG_COPIES = 64,       // sections that run at the same time, nested ones included
    DBG_NAME = 160         // bytes of a name in a report
};

typedef enum { DBG_REPORT, DBG_ABORT, DBG_OFF } dbg_mode_t;
extern dbg_mode_t dbg_mode;
extern uint64_t dbg_long_us;  // of processor time, the longest section; 0: any

// A section that is being run: on the stack of hl_debug_call().
typedef struct dbg_section {
    const void *lock;
    void (*fn)(void *);
    bool foreign, returned;
    bool waiting;     // dbg_thread.waiting as it was
    unsigned mark;    // dbg_thread.holds as it was
    const char *frame;
    unsigned char *copy;  // of the thread-locals
    struct dbg_section *outer;
} dbg_section_t;

typedef struct {
    dbg_section_t *inside;       // the innermost section
    const volatile void *held[DBG_HELD];
    unsigned holds, lost;        // lost: did not fit
    bool waiting;                // in a lock operation of hotlock's
} dbg_thread_t;
extern __thread dbg_thread_t dbg_thread;

// ------------------------------------------------------------------------- sections.c
// A call of `name`, which may block, from the code at `site`.
void dbg_blocking(const char *name, const void *site);
// About to wait for the lock, taken, about to be released: for hooks of every kind of lock.
void dbg_wait(const volatile void *l, const char *op, const void *site);
void dbg_held(const volatile void *l);
void dbg_release(const volatile void *l, const char *op, const void *site);
// Sections whose frame lies below `frame` are gone without a return.
void dbg_left(const char *frame, const char *how);

// ------------------------------------------------------------------------- modules.c
void dbg_modules_start(void);
// "name+0x1f (module)" or "module+0x1f", for code; `call`: an address to return to.
const char *dbg_name(char out[DBG_NAME], const void *at, bool call);
// Copies this thread's thread-locals; NULL: no room. The copy is given back by dbg_tls_drop().
unsigned char *dbg_tls_copy(void);
// Reports what differs from the section's copy, and renews the copies of the sections around it.
void dbg_tls_compare(dbg_section_t *s);
void dbg_tls_drop(unsigned char *copy);

// ------------------------------------------------------------------------- report.c
// A table of 64-bit keys, each with bits; gives the bits as they were, or DBG_FULL.
typedef struct {
    HL_ATOMIC(uint64_t) key;
    HL_ATOMIC(uint32_t) bits;
} dbg_entry_t;
#define DBG_FULL 0x80000000u
uint32_t dbg_mark(dbg_entry_t *table, unsigned entries, uint64_t key, uint32_t bits);
uint64_t dbg_mix(uint64_t a, uint64_t b);

// Something that was not checked, for want of room or sight: `what` is a constant.
void dbg_dropped(const char *what, unsigned many);

// One line, the first time this rule is broken by this function at this place (`detail`).
void dbg_report(const char *rule, const dbg_section_t *s, uintptr_t detail, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

#endif
