/* SPDX-License-Identifier: MIT */
/*
 * Counts the lock calls of one program, from outside: every lock, unlock and condition wait traps.
 * For programs that may be slow while they are watched; hotlock top -p --uprobes asks for it.
 */
#include "kernel.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile __u32 target = 0;
bool counting = false; /* attaching takes long: all is counted from one moment */

/* What a thread is inside; shared with program.bpf.c. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, call_t);
} calling SEC(".maps");

typedef struct {
    __u64 lock;
    __u32 tid; /* readers hold it together */
    __u32 spare;
} hold_key_t;

typedef struct {
    __u64 begin;
    __u64 depth; /* of a recursive mutex */
} hold_t;

/* The oldest go first: a thread may end with a lock in its hands. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, hold_key_t);
    __type(value, hold_t);
} holding SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, call_sums_t);
} taken SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, call_sums_t);
} zeros SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} lost SEC(".maps"); /* acquisitions of locks beyond the most that are kept */

static __always_inline bool of_target(__u32 *tid)
{
    __u64 self = bpf_get_current_pid_tgid();
    *tid = (__u32)self;
    return self >> 32 == target;
}

static __always_inline call_sums_t *sums_of(__u64 lock)
{
    call_sums_t *s = bpf_map_lookup_elem(&taken, &lock);
    if (s)
        return s;
    __u32 zero = 0;
    const call_sums_t *empty = bpf_map_lookup_elem(&zeros, &zero);
    if (empty)
        bpf_map_update_elem(&taken, &lock, empty, BPF_NOEXIST);
    return bpf_map_lookup_elem(&taken, &lock);
}

/* glibc keeps the kind of a mutex four words behind its lock. */
static __always_inline bool taken_again(const call_t *c, const hold_t *h)
{
    __u32 kind = 0;
    return h && h->depth && ((c->cookie & CALL_KIND) == CALL_RWLOCK ||
           (bpf_probe_read_user(&kind, sizeof kind, (const void *)(c->lock + 16)) == 0 &&
            (kind & 3) == 1));
}

static __always_inline void take(const call_t *c, __u32 tid)
{
    hold_key_t key = {.lock = c->lock, .tid = tid};
    hold_t *h = bpf_map_lookup_elem(&holding, &key);
    if (taken_again(c, h)) {
        h->depth++;
        return;
    }
    hold_t new = {.begin = bpf_ktime_get_ns(), .depth = 1};
    bpf_map_update_elem(&holding, &key, &new, BPF_ANY);
    if (!counting)
        return;
    call_sums_t *s = sums_of(c->lock);
    if (!s) {
        __u32 zero = 0;
        __u64 *count = bpf_map_lookup_elem(&lost, &zero);
        if (count)
            *count += 1;
        return;
    }
    s->acquisitions++;
    s->reads += (c->cookie & CALL_READS) != 0;
    s->kind = c->cookie & CALL_KIND;
}

static __always_inline void give(__u64 lock, __u32 tid)
{
    __u64 now = bpf_ktime_get_ns();
    hold_key_t key = {.lock = lock, .tid = tid};
    hold_t *h = bpf_map_lookup_elem(&holding, &key);
    if (!h || --h->depth)
        return; /* taken before it was watched; or more than once */
    __u64 ns = now - h->begin;
    bpf_map_delete_elem(&holding, &key);
    call_sums_t *s = bpf_map_lookup_elem(&taken, &lock);
    if (!s || !counting)
        return;
    s->holds++;
    s->hold += ns;
    if (ns > s->longest)
        s->longest = ns;
    __u32 bucket = log2_of(ns);
    if (bucket < RECORD_HISTOGRAM)
        s->histogram[bucket]++;
}

static __always_inline void enter(struct pt_regs *ctx, __u32 tid, __u64 lock)
{
    call_t c = {.lock = lock, .cookie = bpf_get_attach_cookie(ctx)};
#if defined(__TARGET_ARCH_x86) /* elsewhere it is in a register, and who knows where next */
    c.back_at = PT_REGS_SP(ctx);
    if (bpf_probe_read_user(&c.back, sizeof c.back, (const void *)c.back_at))
        c.back_at = 0;
#endif
    bpf_map_update_elem(&calling, &tid, &c, BPF_ANY);
}

SEC("uprobe")
int lock_begins(struct pt_regs *ctx)
{
    __u32 tid;
    if (of_target(&tid))
        enter(ctx, tid, PT_REGS_PARM1(ctx));
    return 0;
}

/* Gives the mutex back and takes it again, whatever it returns. */
SEC("uprobe")
int wait_begins(struct pt_regs *ctx)
{
    __u32 tid;
    if (!of_target(&tid))
        return 0;
    give(PT_REGS_PARM2(ctx), tid);
    enter(ctx, tid, PT_REGS_PARM2(ctx));
    return 0;
}

SEC("uretprobe")
int lock_ends(struct pt_regs *ctx)
{
    __u32 tid;
    if (!of_target(&tid))
        return 0;
    const call_t *there = bpf_map_lookup_elem(&calling, &tid);
    if (!there)
        return 0;
    call_t c = *there;
    int result = (int)PT_REGS_RC(ctx);
    bpf_map_delete_elem(&calling, &tid);
    if (result == 0 || result == CALL_OWNER_DIED || c.cookie & CALL_WAITS)
        take(&c, tid);
    return 0;
}

SEC("uprobe")
int unlock_begins(struct pt_regs *ctx)
{
    __u32 tid;
    if (of_target(&tid))
        give(PT_REGS_PARM1(ctx), tid);
    return 0;
}
