/* SPDX-License-Identifier: MIT */
/*
 * What the BPF programs hand to the command: both sides include this.
 *
 * Totals are exact and are added up in the kernel, per processor. Stacks are a random sample of
 * the same events, one of WEIGHT, sent as the registers and the top of the stack: the command
 * unwinds them by debug or exception tables, so no frame pointers are needed.
 */
#ifndef HOTLOCK_TRACE_RECORDS_H
#define HOTLOCK_TRACE_RECORDS_H

#include <linux/types.h>

#define RECORD_STACK 8192
#define RECORD_CHUNK 1024 /* copied in pieces, so that a snapshot may end where the stack does */
#define RECORD_REGISTERS 36
#define RECORD_KERNEL_FRAMES 8
#define RECORD_HISTOGRAM 40 /* log2 of nanoseconds */

typedef enum {
    RECORD_WAITER = 1, /* a thread goes to sleep in a futex call */
    RECORD_HOLDER,     /* the thread that wakes it */
    RECORD_END,        /* it runs again: no stack */
    RECORD_TICK        /* the timer found a thread of the program on a processor */
} record_kind_t;

typedef struct {
    __u32 kind;   /* record_kind_t */
    __u32 chunks; /* of the stack that could be read */
    __u32 tid;
    __u32 weight; /* events this one stands for; 0: only to learn what the address is */
    __u64 id;     /* the same in the three records of one wait */
    __u64 address;
    __u64 wait;    /* RECORD_END: nanoseconds off the processor */
    __u64 handoff; /* RECORD_END: of these, from being woken to running */
    __u64 time;
    __u64 back, back_at; /* RECORD_WAITER: what belongs there on the stack; 0: what is there */
    __u64 kernel[RECORD_KERNEL_FRAMES]; /* RECORD_TICK in the kernel: its frames; 0 ends them */
} record_head_t;

typedef struct {
    record_head_t head;
    __u64 regs[RECORD_REGISTERS]; /* of the user program, as struct pt_regs lies */
    __u8 stack[RECORD_STACK];     /* from its stack pointer upwards */
} record_t;

/* A tick needs less: a loop is named by its function and its callers. The same up to the stack. */
#define RECORD_SHORT_STACK 2048

typedef struct {
    record_head_t head;
    __u64 regs[RECORD_REGISTERS];
    __u8 stack[RECORD_SHORT_STACK];
} record_short_t;

/* Per futex address and processor. */
typedef struct {
    __u64 waits;
    __u64 wait;
    __u64 handoff;
    __u64 longest;
    __u64 woken;           /* waits ended by a wake-up of the same program */
    __u64 waiters;            /* at each of these wake-ups, summed */
    __u64 owner_seen;         /* waits whose holder is known */
    __u64 owner_off;          /* of these: it was preempted while they lasted */
    __u64 owner_off_time;     /* for so long */
    __u64 owner_blocked_time; /* and slept for so long, holding the lock */
    __u64 owner_changes;   /* the waker is another than the last one */
    __u32 last_waker;
    __u32 waiters_most;
    __u32 shown; /* a stack of this address was sent from this processor */
    __u32 spare;
    __u64 handoff_longest;
    __u64 histogram[RECORD_HISTOGRAM];
    __u64 handoff_histogram[RECORD_HISTOGRAM];
} futex_sums_t;

/* Per lock and processor, where every call traps: exact. */
typedef struct {
    __u64 acquisitions;
    __u64 reads;
    __u64 holds; /* that were begun and ended while watched */
    __u64 hold;
    __u64 longest;
    __u64 kind; /* CALL_MUTEX... */
    __u64 histogram[RECORD_HISTOGRAM];
} call_sums_t;

/* The call of a lock that a thread is inside, where calls trap. The kernel then writes another
 * address to return to onto the stack. */
typedef struct {
    __u64 lock;
    __u64 cookie;        /* CALL_... */
    __u64 back, back_at; /* 0: not known */
} call_t;

/* What a probe is of. */
enum { CALL_MUTEX = 0, CALL_RWLOCK = 1, CALL_KIND = 1, CALL_READS = 2, CALL_WAITS = 4 };
#define CALL_OWNER_DIED 130 /* EOWNERDEAD: taken all the same */

/* Events that were not kept, by reason. */
enum {
    DROP_WAITERS, /* too many threads wait at once */
    DROP_LOCKS,   /* too many addresses */
    DROP_RECORDS, /* the ring was full */
    DROP_STACKS,  /* too many kernel call sites */
    DROP_REASONS
};

/* Kernel locks: per lock, call site and processor. */
#define SITE_FRAMES 20

typedef enum { SITE_UNNAMED, SITE_MMAP_LOCK, SITE_SIGLOCK } site_name_t;

typedef struct {
    __u64 lock;
    __u64 user_lock; /* in a futex call of program TGID: its address */
    __u32 tgid;      /* 0: not in one */
    __s32 stack;     /* in the map of stacks; negative: could not be kept */
    __u32 flags;     /* SITE_SPIN..., without what differs from wait to wait */
    __u32 what;      /* site_name_t */
    __u32 owner;     /* process of the task that had the mutex or rwsem; 0: not known */
    __u32 spare;
} site_key_t;

/* The flags of the tracepoint, and those that are the lock's kind. */
enum { SITE_SPIN = 1, SITE_READ = 2, SITE_WRITE = 4, SITE_RT = 8, SITE_PERCPU = 16,
       SITE_MUTEX = 32 };

#define SLAB_NAME 32

typedef struct {
    __u64 address;
    char name[SLAB_NAME];
} slab_query_t;

typedef struct {
    __u64 waits;
    __u64 wait;
    __u64 longest;
    char slab[SLAB_NAME]; /* the objects the lock is part of */
    char comm[16]; /* of one that waited */
    char owner[16]; /* of one that had it */
    __u64 histogram[RECORD_HISTOGRAM];
} site_sums_t;

/* The timer found the kernel spinning: where, and the code it is in, to tell the lock. */
#define SPIN_CODE 512

typedef struct {
    __u64 lock; /* 0: not told by the tracepoint */
    __u64 user_lock;
    __u32 tgid;
    __u32 code_bytes;
    __u64 code_start;
    __u64 regs[RECORD_REGISTERS];
    __u64 frames[SITE_FRAMES];
    __u8 code[SPIN_CODE];
} kernel_spin_t;

#endif
