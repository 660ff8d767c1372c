// SPDX-License-Identifier: MIT
// profile.h - what `hotlock top` found: one model, filled by every collector, read by every report.
//
// How src/trace/ fits together:
//
//   options   -> collect_program()   `top -- CMD`: a recorder preloaded into the program
//                collect_process()   `top -p PID`: BPF, attached from outside
//                collect_system()    `top -a`: BPF, the kernel's own locks
//   profile_t -> profile_finish()    joins, sorts, names; then verdict.c, then src/cli/top_*.c
//
// A collector adds locks, stacks and frames with the functions below, and says in `has` which of
// a lock's figures it could measure: what is not in `has` is shown as "-", never as 0. Times are
// nanoseconds, sums over all threads; a `sampled` figure was already scaled up to the whole.
// Several collectors may fill one profile (`top -a -p PID`): each adds its own locks.
//
// Every list is bounded. A collector that runs out of room counts what it could not keep in
// `dropped`, and every report says so.
#ifndef HOTLOCK_PROFILE_H
#define HOTLOCK_PROFILE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROFILE_BUCKETS 40   // of a log2 histogram: bucket i: 2^i <= ns < 2^(i+1), 0 also 0 ns
#define PROFILE_DEPTH   64   // frames kept of a stack, innermost first
#define PROFILE_EXEC    (1 << 22) // added to a process ID for each program it executed before
#define PROFILE_STACKS  16   // stacks kept per lock and role when a profile is finished

// ------------------------------------------------------------------------- stacks
// One code address, named once however many stacks hold it.
typedef struct {
    pid_t pid;       // 0: the kernel
    uint64_t pc;     // inside the call instruction, that is: return address - 1; exact for a sample
    char *function;  // NULL: not known
    char *file;      // source file as the debug information has it; NULL: not known
    int line;        // 0: not known
    char *module;    // path of the program or library, "[kernel]"; NULL: not known
    bool inlined;    // inlined into the next frame of every stack it is in
} profile_frame_t;

typedef enum {
    STACK_WAITER,  // waited here; ns is how long
    STACK_HOLDER,  // made others wait by holding until here; ns is their waiting, summed
    STACK_SPINNER, // CPU time sampled while spinning; ns is the time the samples stand for
    STACK_INIT,    // initialised the lock; names one that is no variable
    STACK_SLEEPER, // slept on a condition variable with this mutex; none is left when finished
    STACK_ROLES
} profile_role_t;

typedef struct {
    profile_role_t role;
    uint64_t count, ns;
    uint32_t depth;
    uint32_t *frame;  // indices into profile_t.frames, innermost first
} profile_stack_t;

// ------------------------------------------------------------------------- locks
// Which figures of a lock were measured.
enum {
    HAS_ACQUISITIONS = 1 << 0,
    HAS_CONTENDED    = 1 << 1,
    HAS_WAIT         = 1 << 2,  // wait_ns, wait_worst_ns, wait_hist
    HAS_WAIT_SPLIT   = 1 << 3,  // spin_ns and sleep_ns
    HAS_HOLD         = 1 << 4,  // hold_ns; hold_worst_ns, hold_hist if the first is not 0
    HAS_HANDOFF      = 1 << 5,
    HAS_WAITERS      = 1 << 6,
    HAS_OWNERS       = 1 << 7,
    HAS_CPU          = 1 << 8,  // cpu_spin_share
    HAS_PREEMPTED    = 1 << 9,
    HAS_CALLS        = 1 << 10, // calls_ns, calls_most_ns
};

// Something else of the program in a lock's cache line that is used without the lock.
typedef struct {
    uint64_t address, samples; // that reached it; 0: nothing was found
    uint64_t of_line;          // that reached anything in the line, the lock included
    char *name;
} profile_beside_t;

typedef struct {
    pid_t pid;            // 0: a lock of the kernel
    uint64_t address;     // 0: no single address (a home-made loop, a class of kernel locks)
    const char *kind;     // a constant: "mutex", "recursive mutex", "spinlock", "rwlock",
                          // "home-made loop", "kernel spinlock", "kernel mutex", ...
    char *name;           // "db.lock", "struct cache.lock", "dentry"; NULL until it is named
    char *where;          // where it was initialised, or the call site: "open_db (db.c:120)"; may
                          // be NULL
    bool told_by_place;   // no symbol gave it its name, only a file or an address
    uint32_t has;         // HAS_...

    uint64_t acquisitions, contended;
    uint64_t reads, reads_contended;   // of these, by readers of a reader-writer lock
    uint64_t wait_ns, wait_worst_ns;   // spinning and sleeping together
    uint64_t spin_ns, sleep_ns;        // CPU time while waiting; the rest of the wait
    uint64_t hold_ns, hold_worst_ns;   // whole, scaled up from hold_samples
    uint64_t hold_samples;             // how many holds were timed
    uint64_t calls_ns, calls_most_ns;  // inside its own functions, but for waits: all threads
                                       // together, and the one that spent most
    double hold_undisturbed_ns;        // mean of those whose thread kept its processor; 0: unknown
    uint64_t handoff_ns, handoff_worst_ns, handoffs; // freed with somebody waiting -> taken
    uint64_t waiters_sum, waiters_most;// waiters at each hand-off
    uint64_t sleeps, slept_ns, slept_worst_ns; // on condition variables, until profile_finish()
    uint64_t sleep_hist[PROFILE_BUCKETS];
    uint64_t owner_changes;
    uint64_t preempted, preempted_ns;  // waits, and their time, behind a holder that did not run
    double cpu_spin_share;             // of the program's (or machine's) CPU time, 0 to 1
    uint64_t wait_hist[PROFILE_BUCKETS], hold_hist[PROFILE_BUCKETS], handoff_hist[PROFILE_BUCKETS];

    profile_beside_t beside;
    profile_stack_t *stacks;
    size_t stack_count, stack_room;
    uint64_t joined;                   // address of the user lock whose futex this kernel lock is
    pid_t joined_pid;                  // of its process
} profile_lock_t;

// ------------------------------------------------------------------------- the run
// What was mapped where, to name addresses after a process is gone.
typedef struct {
    pid_t pid;
    uint64_t start, end, offset; // as in /proc/PID/maps
    bool executable;
    char *path;
} profile_map_t;

typedef struct {
    uint64_t locks;          // that found no room (0 also if only their acquisitions are known)
    uint64_t acquisitions;   // of such locks
    uint64_t wait_ns;        // of such locks
    uint64_t waits;          // for such locks, where acquisitions are not counted
    uint64_t gone_locks, gone_acquisitions; // destroyed without ever being waited for
    uint64_t stacks;         // counted without their stack
    uint64_t samples, events;// CPU samples and trace events the kernel could not deliver
} profile_dropped_t;

typedef struct {
    char *what;              // "kyotest -th 2" or "PID 4711 (mysqld)" or "this machine"
    const char *how;         // one line on what was measured and how, for the foot of a report
    pid_t pid;               // of the first process; 0: the machine
    double wall_s, user_s, system_s; // of the time watched; CPU NaN: not known
    double spin_share;       // CPU time spent spinning for locks / CPU time; NaN: not known.
                             // What `perf top` would show as the share of the slow paths
    double kernel_spin_share;// of it, in the kernel's own spinlocks; NaN: not known
    uint64_t samples;        // CPU samples spin_share was told from; 0: from clocks
    unsigned processors;     // this machine's
    unsigned threads;        // the most seen; 0: not known
    bool stripped;           // most of its code has no symbols
    bool partial;            // interrupted, or the program had not ended
    int exit_code;           // of CMD; -1: none
    int exit_signal;

    profile_lock_t *locks;
    size_t lock_count, lock_room;
    uint32_t *lock_index;    // hash of (pid, address) -> index + 1; until profile_finish()
    size_t lock_index_room;
    profile_frame_t *frames;
    size_t frame_count, frame_room;
    uint32_t *frame_index;   // hash of (pid, pc) -> index + 1
    size_t frame_index_room;
    profile_map_t *maps;
    size_t map_count, map_room;
    char **notes;            // one line each: what could not be measured, and the mend
    size_t note_count;
    profile_dropped_t dropped;
} profile_t;

// ------------------------------------------------------------------------- what was asked
typedef struct {
    pid_t pid;               // -p; 0: none
    bool all;                // -a
    bool uprobes;            // --uprobes: with -p, count every lock call
    char **command;          // -- CMD; NULL: none
    const char *lock;        // --lock: run CMD under this lock; NULL: its own
    const char *preload;     // --preload: another lock library
    double seconds;          // --time; 0: until the end, or Ctrl-C
    const char *symbols;     // --symbols: directory of debug files; NULL: the usual places
    unsigned sample_hz;      // --frequency of CPU samples; 0: none
    // Called about every second while collecting, with a profile of the time so far (not yet
    // finished: profile_finish() has not run), which it may keep by leaving an empty one; and often
    // in between with NULL, to answer keys. NULL: nobody looks. False: stop.
    bool (*look)(profile_t *so_far, void *looker);
    void *looker;
} top_options_t;

// Collectors: 0, or an exit code after one line on stderr (cli_bad() for bad input). Ctrl-C ends
// the collecting, sets `partial`, and is no failure (child_interrupted(), src/cli/child.h).
int collect_program(const top_options_t *o, profile_t *p);
int collect_process(const top_options_t *o, profile_t *p);
int collect_system(const top_options_t *o, profile_t *p);

// ------------------------------------------------------------------------- filling
void profile_init(profile_t *p);
void profile_free(profile_t *p);

// The lock of this process at this address, made if it is new. Pointers into the list are good
// until the next new lock. Address 0: always a new one.
profile_lock_t *profile_lock(profile_t *p, pid_t pid, uint64_t address, const char *kind);

// The same if it is there; NULL if not.
profile_lock_t *profile_find(const profile_t *p, pid_t pid, uint64_t address);

// Index of a frame, made if new. For an address, or (pc 0) for one known by name only.
uint32_t profile_frame(profile_t *p, pid_t pid, uint64_t pc);

// Adds to the stack with these frames, made if new. The frames are copied.
void profile_stack(profile_lock_t *l, profile_role_t role, const uint32_t *frames, uint32_t depth,
                   uint64_t count, uint64_t ns);

void profile_map(profile_t *p, pid_t pid, uint64_t start, uint64_t end, uint64_t offset,
                 bool executable, const char *path);
const profile_map_t *profile_map_at(const profile_t *p, pid_t pid, uint64_t address);
void profile_note(profile_t *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline unsigned profile_bucket(uint64_t ns) {
    unsigned b = ns ? 63u - (unsigned)__builtin_clzll(ns) : 0;
    return b < PROFILE_BUCKETS ? b : PROFILE_BUCKETS - 1;
}

// Tells locks that are made of a condition variable from waits for work (made.c), sorts locks by
// what they cost (waiting, then spinning, then acquisitions) and stacks by time, names what is not
// named yet: call symbols_resolve() first.
void profile_finish(profile_t *p);

// A percentile of a histogram, by linear interpolation in its bucket; NaN if it is empty.
double profile_percentile(const uint64_t hist[PROFILE_BUCKETS], double percent);

#endif
