// SPDX-License-Identifier: MIT
/*
 * Watches the kernel's own locks: every wait that the lock tracepoints tell, added up per lock
 * and call site in the kernel, and a timer that sees processors spin.
 *
 * The timer is not only for shares of CPU time: the first waiter of a queued spinlock spins
 * without joining the queue, and for it no tracepoint is called. On two processors that is every
 * wait for a spinlock.
 */
#include "kernel.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define RANGES 16
#define NESTING 4 /* a task, a soft interrupt, an interrupt, one that cannot be masked */

const volatile __u64 range_start[RANGES] = {0}; /* functions that wait spinning */
const volatile __u64 range_end[RANGES] = {0};

typedef struct {
    __u64 begin;
    site_key_t key;
    char owner[16];
} contention_t;

typedef struct {
    __u32 depth;
    contention_t at[NESTING];
} nested_t;

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, nested_t);
} nested SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, contention_t);
} sleeping SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 16384);
    __type(key, site_key_t);
    __type(value, site_sums_t);
} sites SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, site_sums_t);
} zeros SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_STACK_TRACE);
    __uint(max_entries, 16384);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, SITE_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4 << 20);
} ring SEC(".maps");

/* Of every processor's time that was not idle. */
enum { TICKS_ALL, TICKS_SPINNING, TICKS_KINDS };

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, TICKS_KINDS);
    __type(key, __u32);
    __type(value, __u64);
} ticks SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, DROP_REASONS);
    __type(key, __u32);
    __type(value, __u64);
} drops SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kmem_cache {
    const char *name;
    int refcount;
};
#pragma clang attribute pop

extern struct kmem_cache *bpf_get_kmem_cache(__u64 address) __ksym __weak;

static __always_inline void count(void *map, __u32 which)
{
    __u64 *n = bpf_map_lookup_elem(map, &which);
    if (n)
        *n += 1;
}

/* Locks that are part of the task itself can be told by their address. */
static __always_inline __u32 name_of(struct task_struct *task, __u64 lock)
{
    struct mm_struct *mm = task->mm;
    if (mm && lock == (__u64)mm + bpf_core_field_offset(struct mm_struct, mmap_lock))
        return SITE_MMAP_LOCK;
    struct sighand_struct *hand = task->sighand;
    if (hand && lock == (__u64)hand + bpf_core_field_offset(struct sighand_struct, siglock))
        return SITE_SIGLOCK;
    return SITE_UNNAMED;
}

/*
 * A mutex has a word for its owner, and so has a semaphore that a writer holds; the low bits are
 * flags. Of readers only the last is noted, who may be gone: not told.
 */
#define OWNER_FLAGS 7ul
#define OWNER_READS 1ul

static __always_inline void look_at_owner(contention_t *c, __u64 lock, unsigned int flags)
{
    __u64 word = 0, at;
    if (flags & SITE_MUTEX)
        at = lock + bpf_core_field_offset(struct mutex, owner);
    else if (flags & (SITE_READ | SITE_WRITE) && !(flags & (SITE_SPIN | SITE_PERCPU | SITE_RT)))
        at = lock + bpf_core_field_offset(struct rw_semaphore, owner);
    else
        return;
    if (bpf_probe_read_kernel(&word, sizeof word, (const void *)at) != 0)
        return;
    if (!(flags & SITE_MUTEX) && word & OWNER_READS)
        return;
    struct task_struct *task = (struct task_struct *)(word & ~OWNER_FLAGS);
    if (!task || bpf_core_read(&c->key.owner, sizeof c->key.owner, &task->tgid) != 0)
        return;
    bpf_core_read(c->owner, sizeof c->owner, &task->comm);
}

/* The program's lock that is being worked on, if this is a futex call. */
static __always_inline void in_futex(struct task_struct *task, __u64 *address, __u32 *tgid)
{
    __u64 regs[USER_REGISTERS];
    futex_call_t call;
    if (!task->mm || !user_registers(task, regs) || !futex_of(regs, &call))
        return;
    *address = call.address;
    *tgid = task->tgid;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(begins, void *lock, unsigned int flags)
{
    struct task_struct *task = bpf_get_current_task_btf();
    contention_t *c, new = {0};
    bool spins = (flags & SITE_SPIN) && !(flags & SITE_MUTEX);
    if (spins) {
        __u32 zero = 0;
        nested_t *n = bpf_map_lookup_elem(&nested, &zero);
        if (!n)
            return 0;
        __u32 depth = n->depth++;
        if (depth >= NESTING)
            return 0;
        c = &n->at[depth & (NESTING - 1)];
    } else {
        c = bpf_task_storage_get(&sleeping, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
        if (!c) {
            count(&drops, DROP_WAITERS);
            return 0;
        }
        if (c->key.lock == (__u64)lock)
            return 0; /* it spun, and now it sleeps: the same wait */
    }
    new.key.lock = (__u64)lock;
    new.key.flags = flags & (SITE_MUTEX | SITE_PERCPU | SITE_RT | SITE_READ | SITE_WRITE);
    if (spins)
        new.key.flags |= SITE_SPIN;
    new.key.what = name_of(task, (__u64)lock);
    new.key.stack = bpf_get_stackid(ctx, &stacks, 0);
    if (new.key.stack < 0) {
        if (new.key.stack != -17) /* EEXIST: another stack has the place */
            count(&drops, DROP_STACKS);
        new.key.stack = -1;
    }
    in_futex(task, &new.key.user_lock, &new.key.tgid);
    look_at_owner(&new, (__u64)lock, flags);
    new.begin = bpf_ktime_get_ns();
    *c = new;
    return 0;
}

/*
 * Since 6.14 the kernel can be asked which kind of objects an address is among. Caches of one size
 * are merged under the name of the first, which then says nothing: "?".
 */
static __always_inline void name_slab(char name[SLAB_NAME], __u64 address)
{
    if (!bpf_get_kmem_cache)
        return;
    struct kmem_cache *cache = bpf_get_kmem_cache(address);
    if (!cache)
        return;
    if (cache->refcount > 1)
        name[0] = '?';
    else
        bpf_probe_read_kernel_str(name, SLAB_NAME, cache->name);
}

/* The same for a lock that only the timer saw, asked by the command. */
SEC("syscall")
int name_address(slab_query_t *q)
{
    char name[SLAB_NAME] = {0};
    name_slab(name, q->address);
    __builtin_memcpy(q->name, name, SLAB_NAME);
    return 0;
}

static __always_inline void add(const site_key_t *key, const char *owner, __u64 wait)
{
    site_sums_t *s = bpf_map_lookup_elem(&sites, key);
    if (!s) {
        __u32 zero = 0;
        const site_sums_t *empty = bpf_map_lookup_elem(&zeros, &zero);
        if (empty && bpf_map_update_elem(&sites, key, empty, BPF_NOEXIST))
            count(&drops, DROP_LOCKS);
        s = bpf_map_lookup_elem(&sites, key);
        if (!s)
            return;
    }
    if (s->waits == 0) {
        name_slab(s->slab, key->lock);
        bpf_get_current_comm(s->comm, sizeof s->comm);
        __builtin_memcpy(s->owner, owner, sizeof s->owner);
    }
    s->waits++;
    s->wait += wait;
    if (wait > s->longest)
        s->longest = wait;
    __u32 bucket = log2_of(wait);
    if (bucket < RECORD_HISTOGRAM)
        s->histogram[bucket]++;
}

SEC("tp_btf/contention_end")
int BPF_PROG(ends, void *lock, int result)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 zero = 0;
    contention_t *c;
    site_key_t key;
    nested_t *n = bpf_map_lookup_elem(&nested, &zero);
    if (n && n->depth > 0) {
        __u32 depth = n->depth - 1;
        c = &n->at[depth & (NESTING - 1)];
        if (depth < NESTING && c->key.lock == (__u64)lock) {
            key = c->key;
            n->depth = depth;
            add(&key, c->owner, now - c->begin);
            c->key.lock = 0;
            return 0;
        }
        if (depth >= NESTING) {
            n->depth = depth;
            return 0;
        }
    }
    c = bpf_task_storage_get(&sleeping, bpf_get_current_task_btf(), 0, 0);
    if (!c || c->key.lock != (__u64)lock)
        return 0; /* it began before we did */
    key = c->key;
    add(&key, c->owner, now - c->begin);
    c->key.lock = 0;
    return 0;
}

static __always_inline bool waits_spinning(__u64 ip)
{
    for (int i = 0; i < RANGES; i++)
        if (ip >= range_start[i] && ip < range_end[i])
            return true;
    return false;
}

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
    __u64 ip = PT_REGS_IP(&ctx->regs);
    __u32 zero = 0;
    count(&ticks, TICKS_ALL);
    if ((__s64)ip > 0 || !waits_spinning(ip))
        return 0;
    count(&ticks, TICKS_SPINNING);
    kernel_spin_t *r = bpf_ringbuf_reserve(&ring, sizeof *r, 0);
    if (!r) {
        count(&drops, DROP_RECORDS);
        return 0;
    }
    __builtin_memset(r, 0, offsetof(kernel_spin_t, code));
    nested_t *n = bpf_map_lookup_elem(&nested, &zero);
    if (n && n->depth > 0 && n->depth <= NESTING)
        r->lock = n->at[(n->depth - 1) & (NESTING - 1)].key.lock;
    in_futex(bpf_get_current_task_btf(), &r->user_lock, &r->tgid);
    const __u64 *regs = (const __u64 *)&ctx->regs;
#pragma unroll
    for (int i = 0; i < USER_REGISTERS && i < (int)(sizeof ctx->regs / 8); i++)
        r->regs[i] = regs[i];
    bpf_get_stack(ctx, r->frames, sizeof r->frames, 0);
    r->code_start = ip - SPIN_CODE / 2;
    if (bpf_probe_read_kernel(r->code, SPIN_CODE, (const void *)r->code_start) == 0)
        r->code_bytes = SPIN_CODE;
    bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
    return 0;
}
