// SPDX-License-Identifier: MIT
// bpf_kernel.c - `hotlock top -a`: the kernel's locks, from bpf/kernel.bpf.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../cli/cli.h"
#include "bpf_kinds.h"
#include "bpf_spin.h"
#include "bpf_watch.h"
#include "kernel.skel.h"

#define SITES_MOST 16384
#define ROWS_MOST 4096
#define SPINS_MOST 4096

// A lock and call site where the timer saw processors spin.
typedef struct {
    uint64_t lock, user_lock, ticks;
    uint32_t tgid, depth;
    uint64_t frames[SITE_FRAMES];
} spin_site_t;

// One row of the table: a lock, or a class of them that is more telling than its members.
typedef struct {
    char *class;     // NULL: a single lock
    uint64_t lock;   // the first of the class
    size_t at;       // in the profile
    bool several;
} row_t;

typedef struct {
    uint64_t lock;
    const char *class;
} known_t;

struct kernel_watch {
    unsigned hz;
    pid_t pid; // whose locks are joined; 0: nobody's, or whoever's runs the command
    bool command;
    struct kernel_bpf *bpf;
    struct ring_buffer *ring;
    bpf_timers_t timers;
    spin_finder_t *finder;
    spin_site_t *spins;
    size_t spin_count;
    uint64_t spins_dropped;
    row_t *rows;
    size_t row_count;
    known_t *known; // what single addresses are, told by one of their call sites
    size_t known_count;
};

// ------------------------------------------------------------------------- stacks
// Without what belongs to tracing and to the lock itself; the first left is the call site.
static uint32_t plain_stack(const uint64_t *from, uint64_t *frames)
{
    uint32_t n = 0;
    for (size_t i = 0; i < SITE_FRAMES && from[i]; i++) {
        const char *name = symbols_kernel(from[i], NULL);
        if (n == 0 && (!name || kernel_lock_function(name)))
            continue;
        frames[n++] = from[i];
    }
    return n;
}

static int on_spin(void *arg, void *record, size_t bytes)
{
    kernel_watch_t *w = arg;
    const kernel_spin_t *k = record;
    spin_site_t s = {.lock = k->lock, .user_lock = k->user_lock, .tgid = k->tgid, .ticks = 1};
    (void)bytes;
    if (!s.lock)
        s.lock = spin_in_kernel(w->finder, k);
    s.depth = plain_stack((const uint64_t *)k->frames, s.frames);
    for (size_t i = 0; i < w->spin_count; i++) {
        spin_site_t *o = &w->spins[i];
        if (o->lock != s.lock || o->depth != s.depth ||
            memcmp(o->frames, s.frames, s.depth * sizeof *s.frames) != 0)
            continue;
        o->ticks++;
        return 0;
    }
    if (w->spin_count == SPINS_MOST)
        w->spins_dropped++;
    else
        w->spins[w->spin_count++] = s;
    return 0;
}

// ------------------------------------------------------------------------- start and stop
static void load(kernel_watch_t *w, const char *instead)
{
    bpf_collect_complaints();
    w->bpf = kernel_bpf__open();
    if (!w->bpf)
        cli_bad("the BPF programs cannot be opened: %s", bpf_complaint());
    bpf_map__set_max_entries(w->bpf->maps.sites, bpf_entries(sizeof(site_sums_t), SITES_MOST));
    size_t n = 0, most = sizeof w->bpf->rodata->range_start / sizeof(__u64);
    for (size_t i = 0; kernel_spin_function(i) && n < most; i++) {
        uint64_t start, end;
        if (!symbols_kernel_range(kernel_spin_function(i), &start, &end))
            continue;
        w->bpf->rodata->range_start[n] = start;
        w->bpf->rodata->range_end[n++] = end;
    }
    if (n == 0)
        cli_note("no addresses in /proc/kallsyms (kernel.kptr_restrict): no function names, and "
                 "spinning is not seen");
    if (!w->hz)
        bpf_program__set_autoload(w->bpf->progs.tick, false);
    if (kernel_bpf__load(w->bpf) != 0)
        cli_bad("this kernel refuses the BPF programs: %s; %s", bpf_complaint(), instead);
    w->ring = ring_buffer__new(bpf_map__fd(w->bpf->maps.ring), on_spin, w, NULL);
    if (!w->ring)
        cli_bad("no memory for the ring of the BPF programs: %s", bpf_complaint());
}

kernel_watch_t *kernel_watch_start(const top_options_t *o)
{
    static const char instead[] = "hotlock top -- CMD, which shows a program's own locks, still "
                                  "works, and -p PID where BPF does";
    static const char *const tracepoint[] = {"contention_begin", "contention_end", NULL};
    bpf_check_allowed(tracepoint, instead);
    kernel_watch_t *w = cli_alloc(sizeof *w);
    w->hz = o->sample_hz;
    w->pid = o->pid;
    w->command = o->command != NULL;
    w->finder = spin_new(NULL, 0);
    w->spins = cli_alloc(SPINS_MOST * sizeof *w->spins);
    w->rows = cli_alloc(ROWS_MOST * sizeof *w->rows);
    w->known = cli_alloc(ROWS_MOST * sizeof *w->known);
    load(w, instead);
    if (kernel_bpf__attach(w->bpf) != 0)
        cli_bad("the lock tracepoints cannot be attached to: %s; %s", bpf_complaint(), instead);
    if (w->hz && !bpf_timers_start(&w->timers, w->bpf->progs.tick, w->hz))
        cli_note("no processor clock to sample with (%s): spinning is not seen", bpf_complaint());
    return w;
}

static void forget_rows(kernel_watch_t *w)
{
    for (size_t i = 0; i < w->row_count; i++)
        free(w->rows[i].class);
    w->row_count = 0;
}

void kernel_watch_stop(kernel_watch_t *w)
{
    if (!w)
        return;
    bpf_timers_stop(&w->timers);
    ring_buffer__free(w->ring);
    kernel_bpf__destroy(w->bpf);
    spin_free(w->finder);
    forget_rows(w);
    free(w->rows);
    free(w->known);
    free(w->spins);
    free(w);
}

void kernel_watch_poll(kernel_watch_t *w)
{
    ring_buffer__consume(w->ring);
}

// ------------------------------------------------------------------------- rows
static const char *kind_of(uint32_t flags)
{
    if (flags & SITE_MUTEX)
        return "kernel mutex";
    if (flags & SITE_PERCPU)
        return "kernel percpu rwsem";
    if (flags & SITE_RT)
        return "kernel rtmutex";
    if (flags & SITE_SPIN)
        return flags & (SITE_READ | SITE_WRITE) ? "kernel rwlock" : "kernel spinlock";
    return flags & (SITE_READ | SITE_WRITE) ? "kernel rwsem" : "kernel semaphore";
}

static void ask_slab(const kernel_watch_t *w, uint64_t lock, char name[SLAB_NAME])
{
    slab_query_t q = {.address = lock};
    LIBBPF_OPTS(bpf_test_run_opts, run, .ctx_in = &q, .ctx_size_in = sizeof q);
    // The program writes its answer into the context it was given.
    if (bpf_prog_test_run_opts(bpf_program__fd(w->bpf->progs.name_address), &run) == 0)
        snprintf(name, SLAB_NAME, "%s", q.name);
}

// A lock is taken in many places, and few of them say what it is: what one says holds for all.
static const char *class_of(kernel_watch_t *w, uint64_t lock, const char *caller)
{
    const char *class = kernel_class(caller);
    for (size_t i = 0; lock && i < w->known_count; i++)
        if (w->known[i].lock == lock)
            return w->known[i].class;
    if (class && lock && w->known_count < ROWS_MOST)
        w->known[w->known_count++] = (known_t){lock, class};
    return class;
}

// The name of a single lock, or of the class whose members share a row. Free it.
static char *name_of(kernel_watch_t *w, uint32_t what, const char *slab, const char *comm,
                     uint64_t lock, const char *caller, bool *class)
{
    const char *variable = lock ? symbols_kernel_variable(lock) : NULL;
    const char *known = class_of(w, lock, caller);
    *class = false;
    if (what == SITE_MMAP_LOCK)
        return cli_printf("mmap_lock of %.16s", comm);
    if (what == SITE_SIGLOCK)
        return cli_printf("siglock of %.16s", comm);
    if (variable)
        return cli_printf("%s", variable);
    if (known && strcmp(known, "futex bucket") == 0)
        return cli_printf("%s", known);
    *class = true;
    // Objects of general size, or of merged caches, say nothing; who takes the lock does.
    if (slab[0] && slab[0] != '?' && strncmp(slab, "kmalloc", 7) != 0)
        return cli_printf("%.*s", SLAB_NAME, slab);
    if (known)
        return cli_printf("%s", known);
    *class = slab[0] || lock == 0;
    return caller[0] ? cli_printf("lock in %s()", caller) : NULL;
}

static profile_lock_t *row_of(kernel_watch_t *w, profile_t *p, uint64_t lock, const char *kind,
                              char *name, bool class, const char *caller)
{
    for (size_t i = 0; i < w->row_count; i++) {
        row_t *r = &w->rows[i];
        profile_lock_t *l = &p->locks[r->at];
        bool same = class ? r->class && strcmp(l->kind, kind) == 0 &&
                                strcmp(r->class, name ? name : caller) == 0
                          : !r->class && lock && r->lock == lock;
        if (!same)
            continue;
        r->several |= r->lock != lock;
        free(name);
        return l;
    }
    if (w->row_count == ROWS_MOST) {
        free(name);
        return NULL;
    }
    profile_lock_t *l = profile_lock(p, 0, class ? 0 : lock, kind);
    w->rows[w->row_count++] = (row_t){class ? cli_printf("%s", name ? name : caller) : NULL, lock,
                                      (size_t)(l - p->locks), false};
    l->name = name;
    if (caller[0])
        l->where = cli_printf("%s()", caller);
    return l;
}

static void join(const kernel_watch_t *w, profile_lock_t *l, const char *caller,
                 uint64_t user_lock, uint32_t tgid)
{
    const char *class = kernel_class(caller);
    bool ours = w->command ? tgid != 0 : w->pid && tgid == (uint32_t)w->pid;
    if (!ours || !class || strcmp(class, "futex bucket") != 0)
        return;
    l->joined = user_lock;
    l->joined_pid = (pid_t)tgid;
}

static void add_stack(profile_t *p, profile_lock_t *l, profile_role_t role,
                      const uint64_t *from, uint32_t depth, uint64_t count, uint64_t ns)
{
    uint32_t frames[SITE_FRAMES];
    for (uint32_t i = 0; i < depth; i++) // return addresses lie behind the call
        frames[i] = profile_frame(p, 0, from[i] - 1);
    profile_stack(l, role, frames, depth, count, ns);
}

// Who had it while others waited: a mutex and a writer's semaphore tell whose process, not where.
static void add_owner(profile_t *p, profile_lock_t *l, const site_key_t *key,
                      const site_sums_t *s)
{
    char *who = cli_printf("%.16s (process %u)", s->owner[0] ? s->owner : "?", key->owner);
    uint32_t frame = UINT32_MAX;
    for (size_t i = 0; i < l->stack_count && frame == UINT32_MAX; i++)
        if (l->stacks[i].role == STACK_HOLDER &&
            strcmp(p->frames[l->stacks[i].frame[0]].function, who) == 0)
            frame = l->stacks[i].frame[0];
    if (frame == UINT32_MAX) {
        frame = profile_frame(p, 0, 0);
        p->frames[frame].function = cli_printf("%s", who);
    }
    profile_stack(l, STACK_HOLDER, &frame, 1, s->waits, s->wait);
    free(who);
}

// ------------------------------------------------------------------------- sums
static void add_sums(site_sums_t *to, const site_sums_t *s)
{
    to->waits += s->waits;
    to->wait += s->wait;
    if (s->longest > to->longest)
        to->longest = s->longest;
    if (!to->comm[0])
        memcpy(to->comm, s->comm, sizeof to->comm);
    if (!to->owner[0])
        memcpy(to->owner, s->owner, sizeof to->owner);
    if (!to->slab[0])
        memcpy(to->slab, s->slab, sizeof to->slab);
    for (size_t i = 0; i < RECORD_HISTOGRAM; i++)
        to->histogram[i] += s->histogram[i];
}

static uint32_t stack_of(const kernel_watch_t *w, const site_key_t *key,
                         uint64_t frames[SITE_FRAMES])
{
    uint64_t stack[SITE_FRAMES] = {0};
    uint32_t id = (uint32_t)key->stack;
    if (key->stack < 0 || bpf_map_lookup_elem(bpf_map__fd(w->bpf->maps.stacks), &id, stack) != 0)
        return 0;
    return plain_stack(stack, frames);
}

static void fill_site(kernel_watch_t *w, profile_t *p, const site_key_t *key, site_sums_t *s)
{
    uint64_t frames[SITE_FRAMES];
    uint32_t depth = stack_of(w, key, frames);
    bool class;
    if (!depth)
        p->dropped.stacks += s->waits;
    const char *caller = depth ? symbols_kernel(frames[0], NULL) : "";
    char *name = name_of(w, key->what, s->slab, s->comm, key->lock, caller, &class);
    profile_lock_t *l = row_of(w, p, key->lock, kind_of(key->flags), name, class, caller);
    if (!l) {
        p->dropped.locks++;
        p->dropped.wait_ns += s->wait;
        return;
    }
    l->has |= HAS_CONTENDED | HAS_WAIT;
    l->contended += s->waits;
    l->wait_ns += s->wait;
    if (key->flags & SITE_SPIN)
        l->spin_ns += s->wait;
    else
        l->sleep_ns += s->wait;
    if (!(key->flags & SITE_MUTEX)) // a mutex spins first: how long is not told
        l->has |= HAS_WAIT_SPLIT;
    if (s->longest > l->wait_worst_ns)
        l->wait_worst_ns = s->longest;
    for (size_t i = 0; i < PROFILE_BUCKETS && i < RECORD_HISTOGRAM; i++)
        l->wait_hist[i] += s->histogram[i];
    if (depth)
        add_stack(p, l, STACK_WAITER, frames, depth, s->waits, s->wait);
    if (key->owner)
        add_owner(p, l, key, s);
    join(w, l, caller, key->user_lock, key->tgid);
}

static void fill_sites(kernel_watch_t *w, profile_t *p)
{
    int fd = bpf_map__fd(w->bpf->maps.sites), cpus = libbpf_num_possible_cpus();
    site_sums_t *per_cpu = cli_alloc((size_t)cpus * sizeof *per_cpu);
    site_key_t key, *last = NULL;
    w->known_count = 0;
    while (bpf_map_get_next_key(fd, last, &key) == 0) {
        uint64_t frames[SITE_FRAMES];
        if (stack_of(w, &key, frames))
            class_of(w, key.lock, symbols_kernel(frames[0], NULL));
        last = &key;
    }
    last = NULL;
    while (bpf_map_get_next_key(fd, last, &key) == 0) {
        site_sums_t sum = {0};
        if (bpf_map_lookup_elem(fd, &key, per_cpu) == 0)
            for (int i = 0; i < cpus; i++)
                add_sums(&sum, &per_cpu[i]);
        if (sum.waits)
            fill_site(w, p, &key, &sum);
        last = &key;
    }
    free(per_cpu);
}

static uint64_t read_counter(int fd, uint32_t which)
{
    int cpus = libbpf_num_possible_cpus();
    uint64_t sum = 0, *per_cpu = cli_alloc((size_t)cpus * sizeof *per_cpu);
    if (bpf_map_lookup_elem(fd, &which, per_cpu) == 0)
        for (int i = 0; i < cpus; i++)
            sum += per_cpu[i];
    free(per_cpu);
    return sum;
}

static void fill_spins(kernel_watch_t *w, profile_t *p, uint64_t all)
{
    double tick_ns = 1e9 / w->hz;
    for (size_t i = 0; i < w->spin_count; i++) {
        const spin_site_t *s = &w->spins[i];
        const char *caller = s->depth ? symbols_kernel(s->frames[0], NULL) : "";
        char slab[SLAB_NAME] = "";
        bool class;
        if (s->lock)
            ask_slab(w, s->lock, slab);
        char *name = name_of(w, SITE_UNNAMED, slab, "", s->lock, caller, &class);
        profile_lock_t *l = row_of(w, p, s->lock, "kernel spinlock", name, class, caller);
        if (!l) {
            p->dropped.locks++;
            continue;
        }
        uint64_t ns = (uint64_t)((double)s->ticks * tick_ns);
        double share = (double)s->ticks / (double)all;
        l->cpu_spin_share = isnan(l->cpu_spin_share) ? share : l->cpu_spin_share + share;
        l->has |= HAS_CPU;
        if (!(l->has & HAS_WAIT)) { // no tracepoint told of it: what the timer saw
            l->has |= HAS_WAIT_SPLIT;
            l->wait_ns += ns;
            l->spin_ns += ns;
        }
        if (s->depth)
            add_stack(p, l, STACK_SPINNER, s->frames, s->depth, s->ticks, ns);
        join(w, l, caller, s->user_lock, s->tgid);
    }
}

void kernel_watch_fill(kernel_watch_t *w, profile_t *p)
{
    ring_buffer__consume(w->ring);
    forget_rows(w);
    int ticks = bpf_map__fd(w->bpf->maps.ticks), drops = bpf_map__fd(w->bpf->maps.drops);
    uint64_t all = read_counter(ticks, 0), spinning = read_counter(ticks, 1);
    fill_sites(w, p);
    if (w->hz && all) {
        fill_spins(w, p, all);
        if (!w->pid && !w->command) { // else the share is of the program's time
            p->spin_share = p->kernel_spin_share = (double)spinning / (double)all;
        }
    }
    p->dropped.samples += read_counter(drops, DROP_RECORDS) + w->spins_dropped;
    p->dropped.waits += read_counter(drops, DROP_LOCKS);
    p->dropped.events += read_counter(drops, DROP_WAITERS);
    p->dropped.stacks += read_counter(drops, DROP_STACKS);
}
