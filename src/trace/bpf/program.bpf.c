// SPDX-License-Identifier: MIT
/*
 * Watches the slow paths of the locks of one program, from outside.
 *
 * A thread that finds a lock taken ends in a futex call and is switched out: the scheduler's
 * tracepoints see that, and the registers it entered the kernel with name the address. Nothing
 * is added to system calls, nor to a lock that is free. The one that wakes it, in a futex call
 * on the same address, is the thread that held the lock; its stack is the unlock that let go.
 * Spinning never enters the kernel: a timer on each processor looks what the program executes.
 */
#include "kernel.h"
#include "records.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile __u32 target = 0;      /* the program */
const volatile bool uprobes = false; /* calls.bpf.c is there too */
const volatile __u32 stack_rate = 16; /* stacks per processor and tenth of a second */

typedef struct {
    __u64 begin;
    __u64 woken;
    __u64 address;
    __u64 id; /* 0: not one of the sample */
    __u32 waker;
    __u32 weight;
    __u32 owner;      /* the thread that held the mutex; 0: not known */
    __u32 spare;
    __u64 preempted;  /* of the owner's time, when the wait began */
    __u64 blocked;
} waiting_t;

enum { THREAD_RUNS = 1, THREAD_PREEMPTED, THREAD_BLOCKED };

/* How long a thread was off its processor, against its will or asleep. */
typedef struct {
    __u32 state;
    __u32 spare;
    __u64 since;
    __u64 preempted;
    __u64 blocked;
} thread_t;

typedef struct {
    __u64 window; /* the tenth of a second that is running */
    __u64 serial;
    __u32 taken;
    __u32 shift; /* one of 1 << shift is taken */
    __u64 first_window;
    __u32 firsts; /* addresses shown for the first time in that window */
    __u32 spare;
} chance_t;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, waiting_t);
} waiting SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, thread_t);
} threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, futex_sums_t);
} sums SEC(".maps");

/* Threads that want a lock now, woken but not running yet included; read by the command. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, __u32);
} wanted SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, chance_t);
} chances SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, DROP_REASONS);
    __type(key, __u32);
    __type(value, __u64);
} drops SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, futex_sums_t);
} zeros SEC(".maps"); /* a new entry: too large for the stack */

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, call_t);
} calling SEC(".maps");

static __always_inline void drop(__u32 reason)
{
    __u64 *count = bpf_map_lookup_elem(&drops, &reason);
    if (count)
        *count += 1;
}

/*
 * Draws whether this event is one of the sample; *weight is then what it stands for. The chance
 * halves when a window took more than its share and doubles when it took little, so the rate is
 * bounded and each event's chance is known: sums of weights have no bias.
 */
static __always_inline __u64 draw(__u64 now, __u32 *weight)
{
    __u32 zero = 0;
    chance_t *c = bpf_map_lookup_elem(&chances, &zero);
    if (!c)
        return 0;
    __u64 window = now / 100000000;
    if (window != c->window) {
        if (c->taken < stack_rate / 4 && c->shift > 0)
            c->shift--;
        c->window = window;
        c->taken = 0;
    } else if (c->taken >= stack_rate && c->shift < 24) {
        c->shift++;
        c->taken = 0;
    }
    *weight = 1u << c->shift;
    if (bpf_get_prandom_u32() & (*weight - 1))
        return 0;
    c->taken++;
    c->serial++;
    return c->serial << 16 | (bpf_get_smp_processor_id() & 0x7fff) << 1 | 1;
}

/* May an address that is new be shown now? What it is must be known once; not all at once. */
static __always_inline bool may_show(futex_sums_t *s, __u64 now)
{
    __u32 zero = 0;
    chance_t *c = bpf_map_lookup_elem(&chances, &zero);
    if (s->shown || !c)
        return false;
    if (now / 100000000 != c->first_window) {
        c->first_window = now / 100000000;
        c->firsts = 0;
    }
    if (c->firsts >= stack_rate * 2)
        return false;
    c->firsts++;
    s->shown = 1;
    return true;
}

/* Copies the registers and the stack of the current thread. */
static __always_inline void snapshot(record_short_t *r, __u32 most,
                                     const __u64 regs[USER_REGISTERS])
{
    __builtin_memcpy(r->regs, regs, USER_REGISTERS * 8);
    r->head.chunks = 0;
#pragma unroll
    for (__u32 i = 0; i < most; i++) {
        if (bpf_probe_read_user(r->stack + i * RECORD_CHUNK, RECORD_CHUNK,
                                (const void *)(regs[STACK_REGISTER] + i * RECORD_CHUNK)))
            break;
        r->head.chunks = i + 1;
    }
}

static __always_inline void send_stack(record_kind_t kind, __u32 tid, const waiting_t *w,
                                       const __u64 regs[USER_REGISTERS])
{
    record_t *r = bpf_ringbuf_reserve(&ring, sizeof *r, 0);
    if (!r) {
        drop(DROP_RECORDS);
        return;
    }
    __builtin_memset(&r->head, 0, sizeof r->head);
    r->head.kind = kind;
    r->head.tid = tid;
    r->head.weight = w->weight;
    r->head.id = w->id;
    r->head.address = w->address;
    r->head.time = kind == RECORD_WAITER ? w->begin : w->woken;
    const call_t *c = uprobes ? bpf_map_lookup_elem(&calling, &tid) : 0;
    if (c && kind == RECORD_WAITER) {
        r->head.back = c->back;
        r->head.back_at = c->back_at;
    }
    snapshot((record_short_t *)r, RECORD_STACK / RECORD_CHUNK, regs);
    bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
}

/* Time off the processor up to now, of a thread that may be off it. */
static __always_inline bool time_off(__u32 tid, __u64 now, __u64 *preempted, __u64 *blocked)
{
    const thread_t *t = bpf_map_lookup_elem(&threads, &tid);
    if (!t)
        return false;
    __u64 more = now > t->since ? now - t->since : 0;
    *preempted = t->preempted + (t->state == THREAD_PREEMPTED ? more : 0);
    *blocked = t->blocked + (t->state == THREAD_BLOCKED ? more : 0);
    return true;
}

/* Who holds the mutex; glibc keeps its thread id two words behind the lock. */
static __always_inline void look_at_owner(waiting_t *w, __u32 self)
{
    __u32 owner = 0;
    if (bpf_probe_read_user(&owner, sizeof owner, (const void *)(w->address + 8)) == 0 && owner &&
        owner != self && time_off(owner, w->begin, &w->preempted, &w->blocked))
        w->owner = owner;
}

/* What the owner did until it let go. */
static __always_inline void add_owner(futex_sums_t *s, const waiting_t *w, __u64 until)
{
    __u64 preempted, blocked;
    if (!w->owner || !time_off(w->owner, until, &preempted, &blocked))
        return;
    s->owner_seen++;
    if (preempted > w->preempted) {
        s->owner_off++;
        s->owner_off_time += preempted - w->preempted;
    }
    if (blocked > w->blocked)
        s->owner_blocked_time += blocked - w->blocked;
}

static __always_inline void thread_is(__u32 tid, __u32 state, __u64 now)
{
    thread_t *t = bpf_map_lookup_elem(&threads, &tid);
    if (!t) {
        thread_t new = {.state = state, .since = now};
        bpf_map_update_elem(&threads, &tid, &new, BPF_ANY);
        return;
    }
    if (t->state == THREAD_PREEMPTED)
        t->preempted += now - t->since;
    else if (t->state == THREAD_BLOCKED)
        t->blocked += now - t->since;
    t->state = state;
    t->since = now;
}

static __always_inline futex_sums_t *sums_of(__u64 address)
{
    futex_sums_t *s = bpf_map_lookup_elem(&sums, &address);
    if (s)
        return s;
    __u32 zero = 0;
    const futex_sums_t *empty = bpf_map_lookup_elem(&zeros, &zero);
    if (!empty || bpf_map_update_elem(&sums, &address, empty, BPF_NOEXIST)) {
        drop(DROP_LOCKS);
        return 0;
    }
    return bpf_map_lookup_elem(&sums, &address);
}

static __always_inline void wants(__u64 address, int change)
{
    __u32 *threads_now = bpf_map_lookup_elem(&wanted, &address);
    if (threads_now) {
        __sync_fetch_and_add(threads_now, change);
    } else if (change > 0) {
        __u32 one = 1;
        bpf_map_update_elem(&wanted, &address, &one, BPF_NOEXIST);
    }
}

static __always_inline void goes_to_sleep(struct task_struct *task, __u32 tid, __u64 now)
{
    __u64 regs[USER_REGISTERS];
    futex_call_t call;
    if (!user_registers(task, regs) || !futex_of(regs, &call) || !futex_waits(call.operation))
        return;
    futex_sums_t *s = sums_of(call.address);
    if (!s)
        return;
    waiting_t w = {.begin = now, .address = call.address};
    w.id = draw(now, &w.weight);
    if (!w.id)
        w.weight = 0;
    look_at_owner(&w, tid);
    if (bpf_map_update_elem(&waiting, &tid, &w, BPF_ANY)) {
        drop(DROP_WAITERS);
        return;
    }
    wants(call.address, 1);
    if (w.id || may_show(s, now))
        send_stack(RECORD_WAITER, tid, &w, regs);
}

static __always_inline void runs_again(__u32 tid, __u64 now)
{
    waiting_t *w = bpf_map_lookup_elem(&waiting, &tid);
    if (!w)
        return;
    wants(w->address, -1);
    futex_sums_t *s = sums_of(w->address);
    __u64 wait = now - w->begin;
    __u64 handoff = w->woken && now > w->woken ? now - w->woken : 0;
    if (s) {
        s->waits++;
        s->wait += wait;
        if (wait > s->longest)
            s->longest = wait;
        if (w->owner && !w->woken)
            add_owner(s, w, now); /* else when it was woken */
        __u32 bucket = log2_of(wait);
        if (bucket < RECORD_HISTOGRAM)
            s->histogram[bucket]++;
        if (handoff > s->handoff_longest)
            s->handoff_longest = handoff;
        if (w->waker) {
            s->woken++;
            s->handoff += handoff;
            bucket = log2_of(handoff);
            if (bucket < RECORD_HISTOGRAM)
                s->handoff_histogram[bucket]++;
            if (w->waker != s->last_waker)
                s->owner_changes++;
            s->last_waker = w->waker;
        }
    }
    if (w->id) {
        record_head_t *r = bpf_ringbuf_reserve(&ring, sizeof *r, 0);
        if (r) {
            __builtin_memset(r, 0, sizeof *r);
            r->kind = RECORD_END;
            r->tid = tid;
            r->weight = w->weight;
            r->id = w->id;
            r->address = w->address;
            r->wait = wait;
            r->handoff = handoff;
            r->time = now;
            bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
        } else {
            drop(DROP_RECORDS);
        }
    }
    bpf_map_delete_elem(&waiting, &tid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switched, bool preempted, struct task_struct *prev, struct task_struct *next)
{
    bool leaves = (__u32)prev->tgid == target, comes = (__u32)next->tgid == target;
    if (!leaves && !comes)
        return 0;
    __u64 now = bpf_ktime_get_ns();
    if (leaves) {
        __u32 tid = prev->pid;
        __u32 state = preempted || prev->__state == 0 ? THREAD_PREEMPTED : THREAD_BLOCKED;
        thread_is(tid, state, now);
        if (state == THREAD_BLOCKED)
            goes_to_sleep(prev, tid, now);
    }
    if (comes) {
        thread_is(next->pid, THREAD_RUNS, now);
        runs_again(next->pid, now);
    }
    return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(waking, struct task_struct *task)
{
    if ((__u32)task->tgid != target)
        return 0;
    __u32 tid = task->pid;
    waiting_t *w = bpf_map_lookup_elem(&waiting, &tid);
    if (!w || w->woken)
        return 0;
    w->woken = bpf_ktime_get_ns();
    __u64 address = w->address;
    futex_sums_t *s = bpf_map_lookup_elem(&sums, &address);
    if (s)
        add_owner(s, w, w->woken);
    __u64 self = bpf_get_current_pid_tgid();
    if (self >> 32 != target)
        return 0;
    __u64 regs[USER_REGISTERS];
    futex_call_t call;
    if (!user_registers(bpf_get_current_task_btf(), regs) || !futex_of(regs, &call) ||
        call.address != w->address || futex_waits(call.operation))
        return 0;
    w->waker = (__u32)self;
    const __u32 *threads_now = bpf_map_lookup_elem(&wanted, &address);
    if (s && threads_now) {
        s->waiters += *threads_now;
        if (*threads_now > s->waiters_most)
            s->waiters_most = *threads_now;
    }
    if (w->id)
        send_stack(RECORD_HOLDER, w->waker, w, regs);
    return 0;
}

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
    __u64 self = bpf_get_current_pid_tgid();
    if (self >> 32 != target)
        return 0;
    record_short_t *r = bpf_ringbuf_reserve(&ring, sizeof *r, 0);
    if (!r) {
        drop(DROP_RECORDS);
        return 0;
    }
    __builtin_memset(&r->head, 0, sizeof r->head);
    r->head.kind = RECORD_TICK;
    r->head.tid = (__u32)self;
    r->head.weight = 1;
    r->head.time = bpf_ktime_get_ns();
    __u64 regs[USER_REGISTERS];
    if (!user_registers(bpf_get_current_task_btf(), regs)) {
        bpf_ringbuf_discard(r, BPF_RB_NO_WAKEUP);
        return 0;
    }
    if ((__s64)PT_REGS_IP(&ctx->regs) < 0)
        bpf_get_stack(ctx, r->head.kernel, sizeof r->head.kernel, 0);
    futex_call_t call;
    if (futex_of(regs, &call))
        r->head.address = call.address;
    snapshot(r, RECORD_SHORT_STACK / RECORD_CHUNK, regs);
    bpf_ringbuf_submit(r, BPF_RB_NO_WAKEUP);
    return 0;
}
