// SPDX-License-Identifier: MIT
// record_read.c - reads what recorded programs counted (record.h) into a profile.
#include "record_read.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hotlock/wait.h"
#include "record.h"

typedef struct {
    const record_head_t *head;
    size_t size;
    pid_t pid;
    double scale; // true nanoseconds / those the recorder took them for
} recording_t;

static const char *const kinds[RECORD_KINDS] = {
    "mutex", "recursive mutex", "errorcheck mutex", "adaptive mutex", "spinlock", "rwlock"};

// ------------------------------------------------------------------------- one file
// The recorder measured its clock for some microseconds; from begin to end it is known far better.
static double true_scale(const record_head_t *h) {
    uint64_t ticks1 = h->ticks1, ns1 = h->ns1;
    if (!ns1) ns1 = hl_clock_pair(&ticks1);
    double taken = (double)(ticks1 - h->ticks0) * (double)h->mult / 4294967296.0;
    double truth = (double)(ns1 - h->ns0);
    return truth > 1e6 && taken > 0 ? truth / taken : 1;
}

static bool map_recording(int directory, const char *name, recording_t *r) {
    struct stat st;
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    void *at = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)record_size(1))
        at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return false;
    *r = (recording_t){.head = at, .size = (size_t)st.st_size};
    const record_head_t *h = r->head;
    bool good = __atomic_load_n(&h->magic, __ATOMIC_ACQUIRE) == RECORD_MAGIC &&
                record_size(h->slots) <= r->size;
    if (!good) munmap(at, r->size);
    return good;
}

static const void *part(const recording_t *r, size_t at) { return (const char *)r->head + at; }

static uint64_t scaled(const recording_t *r, uint64_t ns) {
    return (uint64_t)((double)ns * r->scale + 0.5);
}

static void copy_hist(uint64_t *to, const uint32_t *from) {
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) to[i] += from[i];
}

// ------------------------------------------------------------------------- one lock
static void read_hold(profile_lock_t *l, const record_slot_t *s, const recording_t *r) {
    if (!s->holds) return;
    l->has |= HAS_HOLD;
    l->hold_samples = s->holds;
    l->hold_ns = (uint64_t)((double)scaled(r, s->hold) / (double)s->hold_weight *
                            (double)l->acquisitions);
    l->hold_worst_ns = scaled(r, s->hold_worst);
    if (s->undisturbed_weight)
        l->hold_undisturbed_ns = (double)s->undisturbed * r->scale / (double)s->undisturbed_weight;
    copy_hist(l->hold_hist, s->hold_hist);
}

static void read_wait(profile_lock_t *l, const record_slot_t *s, const recording_t *r) {
    l->has |= HAS_WAIT;
    l->wait_ns = scaled(r, s->wait + hl_load(&s->gave_up_wait));
    l->wait_worst_ns = scaled(r, s->wait_worst);
    copy_hist(l->wait_hist, s->wait_hist);
    if (!s->clocked_wait && s->contended) return;
    double spinning = s->clocked_wait ? (double)s->clocked_cpu / (double)s->clocked_wait : 0;
    l->has |= HAS_WAIT_SPLIT;
    l->spin_ns = (uint64_t)((double)l->wait_ns * spinning);
    l->sleep_ns = l->wait_ns - l->spin_ns;
}

static void read_slot(profile_t *p, const recording_t *r, const record_slot_t *s) {
    uint64_t address = hl_load(&s->address);
    uint64_t gave_up = hl_load(&s->gave_up);
    if (address <= 1 || s->kind >= RECORD_KINDS || !(s->acquisitions + s->contended + gave_up))
        return;
    profile_lock_t *l = profile_lock(p, r->pid, address, kinds[s->kind]);
    l->has |= HAS_ACQUISITIONS | HAS_CONTENDED | HAS_HANDOFF | HAS_WAITERS | HAS_OWNERS;
    if (s->kind != RECORD_RWLOCK) l->has |= HAS_PREEMPTED;
    l->acquisitions = record_acquisitions(s);
    l->contended = s->contended + gave_up;
    if (s->kind == RECORD_RWLOCK) l->reads = l->acquisitions - s->writes;
    l->reads_contended = s->reads_contended;
    l->handoff_ns = scaled(r, s->handoff);
    l->handoff_worst_ns = scaled(r, s->handoff_worst);
    l->handoffs = s->handoffs;
    copy_hist(l->handoff_hist, s->handoff_hist);
    l->waiters_sum = s->waiters_sum;
    l->waiters_most = s->waiters_most;
    l->owner_changes = s->owner_changes;
    l->has |= hl_load(&s->calls) ? HAS_CALLS : 0;
    l->calls_ns = scaled(r, hl_load(&s->calls));
    l->calls_most_ns = scaled(r, hl_load(&s->calls_most));
    l->preempted = s->preempted;
    l->preempted_ns = scaled(r, s->preempted_wait);
    l->sleeps = s->sleeps;
    l->slept_ns = scaled(r, s->slept);
    l->slept_worst_ns = scaled(r, s->slept_worst);
    copy_hist(l->sleep_hist, s->sleep_hist);
    read_wait(l, s, r);
    read_hold(l, s, r);
}

// ------------------------------------------------------------------------- stacks and maps
static void read_stacks(profile_t *p, const recording_t *r) {
    const record_stack_t *all = part(r, record_stacks_at());
    const record_slot_t *slots = part(r, record_slots_at());
    uint32_t frames[RECORD_PCS];
    for (size_t i = 0; i < RECORD_STACKS; i++) {
        const record_stack_t *s = &all[i];
        if (!hl_load_acq(&s->hash) || s->slot >= r->head->slots || s->role >= STACK_ROLES) continue;
        uint64_t address = hl_load(&slots[s->slot].address);
        profile_lock_t *l = address > 1 ? profile_find(p, r->pid, address) : NULL;
        if (!l) continue;
        uint32_t depth = s->depth < RECORD_PCS ? s->depth : RECORD_PCS;
        for (uint32_t k = 0; k < depth; k++) frames[k] = profile_frame(p, r->pid, s->pc[k]);
        profile_stack(l, s->role, frames, depth, hl_load(&s->count), scaled(r, hl_load(&s->ns)));
    }
}

static void read_maps(profile_t *p, const recording_t *r) {
    uint32_t used = hl_load_acq(&r->head->maps_used);
    for (uint32_t i = 0; i < used && i < RECORD_MAPS; i++) {
        const record_map_t *m = &r->head->map[i];
        if (memchr(m->path, '\0', sizeof m->path))
            profile_map(p, r->pid, m->start, m->end, m->offset, m->executable, m->path);
    }
}

// ------------------------------------------------------------------------- all of a directory
static void read_one(profile_t *p, const recording_t *r) {
    const record_head_t *h = r->head;
    const record_slot_t *slots = part(r, record_slots_at());
    size_t before = p->lock_count;
    uint32_t used = hl_load(&h->used);
    for (uint32_t i = 1; i < used && i < h->slots; i++) read_slot(p, r, &slots[i]);
    if (p->lock_count > before) {
        p->threads += hl_load(&h->threads);
        read_maps(p, r);
        read_stacks(p, r);
    }
    p->dropped.acquisitions += hl_load(&h->lost_acquisitions);
    p->dropped.stacks += hl_load(&h->lost_stacks);
    p->dropped.gone_locks += hl_load(&h->gone_locks);
    p->dropped.gone_acquisitions += hl_load(&h->gone_acquisitions);
    if (!p->pid || (pid_t)h->pid < p->pid) p->pid = (pid_t)h->pid;
}

// A process that executed another program keeps its number but not its addresses, so what each
// program of it did is kept apart: the number of the program stands above the largest process ID.
static pid_t identity(const char *name, pid_t pid) {
    const char *dot = strchr(name, '.');
    return pid + (pid_t)(dot ? atoi(dot + 1) % 256 : 0) * PROFILE_EXEC;
}

size_t record_read(const char *directory, profile_t *p) {
    size_t count = 0;
    DIR *d = opendir(directory);
    if (!d) return 0;
    for (struct dirent *e; (e = readdir(d));) {
        recording_t r;
        if (e->d_name[0] == '.' || !map_recording(dirfd(d), e->d_name, &r)) continue;
        r.pid = identity(e->d_name, (pid_t)r.head->pid);
        r.scale = true_scale(r.head);
        read_one(p, &r);
        munmap((void *)(uintptr_t)r.head, r.size);
        count++;
    }
    closedir(d);
    return count;
}
