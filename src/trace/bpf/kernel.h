/* SPDX-License-Identifier: MIT */
/*
 * The few kernel structures the BPF programs look into.
 *
 * Only the members that are read are named; preserve_access_index makes the loader find their
 * real offsets in the running kernel's type information (CO-RE). So the programs build on a
 * machine whose kernel has none, and one build serves every kernel from 5.19.
 */
#ifndef HOTLOCK_TRACE_KERNEL_H
#define HOTLOCK_TRACE_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/types.h>

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Only their places in others are asked for. */
struct owner_word {
    int none;
};

struct rw_semaphore {
    struct owner_word owner;
};

struct mutex {
    struct owner_word owner;
};

struct spinlock {
    int none;
};

struct mm_struct {
    struct rw_semaphore mmap_lock;
};

struct sighand_struct {
    struct spinlock siglock;
};

struct task_struct {
    unsigned int __state;
    int pid;
    int tgid;
    struct mm_struct *mm;
    struct sighand_struct *sighand;
    char comm[16];
};

#pragma clang attribute pop

/* What a thread asked of the futex system call, if it is in one. */
typedef struct {
    __u64 address;
    __u32 operation;
} futex_call_t;

#if defined(__TARGET_ARCH_x86)

#define USER_REGISTERS 21 /* struct pt_regs is that many words, unchanged since the 64-bit port */
#define STACK_REGISTER 19
#define FUTEX_CALL 202

static __always_inline bool futex_of(const __u64 regs[USER_REGISTERS], futex_call_t *call)
{
    call->address = regs[14];                /* di */
    call->operation = (__u32)regs[13] & 127; /* si, without the private and clock flags */
    return regs[15] == FUTEX_CALL;           /* orig_ax */
}

#elif defined(__TARGET_ARCH_arm64)

#define USER_REGISTERS 36 /* x0..x30, sp, pc, pstate, orig_x0, syscallno */
#define STACK_REGISTER 31
#define FUTEX_CALL 98

static __always_inline bool futex_of(const __u64 regs[USER_REGISTERS], futex_call_t *call)
{
    call->address = regs[34];
    call->operation = (__u32)regs[1] & 127;
    return (__s32)regs[35] == FUTEX_CALL;
}

#else
#error "the BPF programs know the registers of x86-64 and arm64 only"
#endif

enum { FUTEX_OP_WAIT = 0, FUTEX_OP_LOCK_PI = 6, FUTEX_OP_WAIT_BITSET = 9,
       FUTEX_OP_WAIT_REQUEUE_PI = 11, FUTEX_OP_LOCK_PI2 = 13 };

static __always_inline bool futex_waits(__u32 operation)
{
    return operation == FUTEX_OP_WAIT || operation == FUTEX_OP_WAIT_BITSET ||
           operation == FUTEX_OP_LOCK_PI || operation == FUTEX_OP_LOCK_PI2 ||
           operation == FUTEX_OP_WAIT_REQUEUE_PI;
}

static __always_inline bool user_registers(struct task_struct *task, __u64 regs[USER_REGISTERS])
{
    const void *saved = (const void *)bpf_task_pt_regs(task);
    return saved && bpf_probe_read_kernel(regs, USER_REGISTERS * 8, saved) == 0;
}

/* The bucket of a log2 histogram, without a loop the verifier must walk. */
static __always_inline __u32 log2_of(__u64 v)
{
    __u32 r = 0;
    if (v >> 32) { r += 32; v >>= 32; }
    if (v >> 16) { r += 16; v >>= 16; }
    if (v >> 8) { r += 8; v >>= 8; }
    if (v >> 4) { r += 4; v >>= 4; }
    if (v >> 2) { r += 2; v >>= 2; }
    if (v >> 1) { r += 1; }
    return r;
}

#endif
