// SPDX-License-Identifier: MIT
// profile.c - filling, joining and ordering what the collectors of `hotlock top` found.
#include "profile.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "made.h"
#include "name.h"

// ------------------------------------------------------------------------- begin and end
void profile_init(profile_t *p) {
    *p = (profile_t){.how = "", .exit_code = -1};
    p->user_s = p->system_s = p->spin_share = p->kernel_spin_share = NAN;
}

static void free_lock(profile_lock_t *l) {
    for (size_t i = 0; i < l->stack_count; i++) free(l->stacks[i].frame);
    free(l->stacks);
    free(l->name);
    free(l->where);
    free(l->beside.name);
}

void profile_free(profile_t *p) {
    for (size_t i = 0; i < p->lock_count; i++) free_lock(&p->locks[i]);
    for (size_t i = 0; i < p->frame_count; i++) {
        free(p->frames[i].function);
        free(p->frames[i].file);
        free(p->frames[i].module);
    }
    for (size_t i = 0; i < p->map_count; i++) free(p->maps[i].path);
    for (size_t i = 0; i < p->note_count; i++) free(p->notes[i]);
    free(p->locks);
    free(p->frames);
    free(p->frame_index);
    free(p->lock_index);
    free(p->maps);
    free(p->notes);
    free(p->what);
    profile_init(p);
}

// Room for one more of a list.
#define MAKE_ROOM(list, count, room)                                         \
    do {                                                                     \
        if ((count) == (room)) {                                             \
            (room) = (room) ? 2 * (room) : 16;                               \
            (list) = cli_grow((list), (room), sizeof *(list));               \
        }                                                                    \
    } while (0)

// ------------------------------------------------------------------------- locks
static size_t hash_of(pid_t pid, uint64_t address) {
    return (size_t)((address ^ (uint64_t)pid << 40) * 0x9e3779b97f4a7c15u >> 32);
}

static size_t lock_slot(const profile_t *p, pid_t pid, uint64_t address) {
    size_t at = hash_of(pid, address) & (p->lock_index_room - 1);
    for (;; at = (at + 1) & (p->lock_index_room - 1)) {
        uint32_t i = p->lock_index[at];
        if (!i || (p->locks[i - 1].address == address && p->locks[i - 1].pid == pid)) return at;
    }
}

static void grow_lock_index(profile_t *p) {
    free(p->lock_index);
    p->lock_index_room = p->lock_index_room ? 2 * p->lock_index_room : 256;
    p->lock_index = cli_alloc(p->lock_index_room * sizeof *p->lock_index);
    for (size_t i = 0; i < p->lock_count; i++)
        if (p->locks[i].address)
            p->lock_index[lock_slot(p, p->locks[i].pid, p->locks[i].address)] = (uint32_t)i + 1;
}

profile_lock_t *profile_find(const profile_t *p, pid_t pid, uint64_t address) {
    if (!p->lock_index_room) return NULL;
    uint32_t i = p->lock_index[lock_slot(p, pid, address)];
    return i ? &p->locks[i - 1] : NULL;
}

profile_lock_t *profile_lock(profile_t *p, pid_t pid, uint64_t address, const char *kind) {
    if (2 * (p->lock_count + 1) > p->lock_index_room) grow_lock_index(p);
    size_t slot = lock_slot(p, pid, address);
    if (address && p->lock_index[slot]) return &p->locks[p->lock_index[slot] - 1];
    MAKE_ROOM(p->locks, p->lock_count, p->lock_room);
    profile_lock_t *l = &p->locks[p->lock_count++];
    *l = (profile_lock_t){.pid = pid, .address = address, .kind = kind, .cpu_spin_share = NAN};
    if (address) p->lock_index[slot] = (uint32_t)p->lock_count;
    return l;
}

// ------------------------------------------------------------------------- frames
static size_t frame_slot(const profile_t *p, pid_t pid, uint64_t pc) {
    size_t at = hash_of(pid, pc) & (p->frame_index_room - 1);
    for (;; at = (at + 1) & (p->frame_index_room - 1)) {
        uint32_t i = p->frame_index[at];
        if (!i || (p->frames[i - 1].pc == pc && p->frames[i - 1].pid == pid)) return at;
    }
}

static void grow_frame_index(profile_t *p) {
    free(p->frame_index);
    p->frame_index_room = p->frame_index_room ? 2 * p->frame_index_room : 1024;
    p->frame_index = cli_alloc(p->frame_index_room * sizeof *p->frame_index);
    for (size_t i = 0; i < p->frame_count; i++)
        if (p->frames[i].pc)
            p->frame_index[frame_slot(p, p->frames[i].pid, p->frames[i].pc)] = (uint32_t)i + 1;
}

uint32_t profile_frame(profile_t *p, pid_t pid, uint64_t pc) {
    size_t slot = 0;
    if (2 * (p->frame_count + 1) > p->frame_index_room) grow_frame_index(p);
    if (pc) {
        slot = frame_slot(p, pid, pc);
        if (p->frame_index[slot]) return p->frame_index[slot] - 1;
    }
    MAKE_ROOM(p->frames, p->frame_count, p->frame_room);
    p->frames[p->frame_count] = (profile_frame_t){.pid = pid, .pc = pc};
    if (pc) p->frame_index[slot] = (uint32_t)p->frame_count + 1;
    return (uint32_t)p->frame_count++;
}

// ------------------------------------------------------------------------- stacks
void profile_stack(profile_lock_t *l, profile_role_t role, const uint32_t *frames, uint32_t depth,
                   uint64_t count, uint64_t ns) {
    if (depth > PROFILE_DEPTH) depth = PROFILE_DEPTH;
    for (size_t i = 0; i < l->stack_count; i++) {
        profile_stack_t *s = &l->stacks[i];
        if (s->role != role || s->depth != depth ||
            memcmp(s->frame, frames, depth * sizeof *frames) != 0)
            continue;
        s->count += count;
        s->ns += ns;
        return;
    }
    MAKE_ROOM(l->stacks, l->stack_count, l->stack_room);
    profile_stack_t *s = &l->stacks[l->stack_count++];
    *s = (profile_stack_t){.role = role, .count = count, .ns = ns, .depth = depth};
    s->frame = cli_alloc(depth * sizeof *frames);
    memcpy(s->frame, frames, depth * sizeof *frames);
}

// ------------------------------------------------------------------------- maps and notes
void profile_map(profile_t *p, pid_t pid, uint64_t start, uint64_t end, uint64_t offset,
                 bool executable, const char *path) {
    MAKE_ROOM(p->maps, p->map_count, p->map_room);
    p->maps[p->map_count++] = (profile_map_t){pid, start, end, offset, executable,
                                              cli_printf("%s", path)};
}

const profile_map_t *profile_map_at(const profile_t *p, pid_t pid, uint64_t address) {
    for (size_t i = 0; i < p->map_count; i++) {
        const profile_map_t *m = &p->maps[i];
        if (m->pid == pid && address >= m->start && address < m->end) return m;
    }
    return NULL;
}

void profile_note(profile_t *p, const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) cli_bad("out of memory");
    va_end(args);
    p->notes = cli_grow(p->notes, p->note_count + 1, sizeof *p->notes);
    p->notes[p->note_count++] = text;
}

// ------------------------------------------------------------------------- order
static int by_size(uint64_t a, uint64_t b) { return a < b ? 1 : a > b ? -1 : 0; }

static int compare_locks(const void *a, const void *b) {
    const profile_lock_t *x = a, *y = b;
    int order = by_size(x->wait_ns, y->wait_ns);
    double sx = isnan(x->cpu_spin_share) ? 0 : x->cpu_spin_share;
    double sy = isnan(y->cpu_spin_share) ? 0 : y->cpu_spin_share;
    if (!order) order = sx < sy ? 1 : sx > sy ? -1 : 0;
    if (!order) order = by_size(x->contended, y->contended);
    if (!order) order = by_size(x->acquisitions, y->acquisitions);
    return order ? order : x->address < y->address ? -1 : x->address > y->address;
}

static int compare_stacks(const void *a, const void *b) {
    const profile_stack_t *x = a, *y = b;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    return x->ns != y->ns ? by_size(x->ns, y->ns) : by_size(x->count, y->count);
}

// The largest PROFILE_STACKS of each role stay; what goes is counted.
static void keep_largest(profile_t *p, profile_lock_t *l) {
    size_t kept = 0, of_role[STACK_ROLES] = {0};
    qsort(l->stacks, l->stack_count, sizeof *l->stacks, compare_stacks);
    for (size_t i = 0; i < l->stack_count; i++) {
        if (of_role[l->stacks[i].role]++ < PROFILE_STACKS) {
            l->stacks[kept++] = l->stacks[i];
            continue;
        }
        p->dropped.stacks += l->stacks[i].count;
        free(l->stacks[i].frame);
    }
    l->stack_count = kept;
}

void profile_finish(profile_t *p) {
    made_find(p);
    for (size_t i = 0; i < p->lock_count; i++) {
        profile_lock_t *l = &p->locks[i];
        if (l->stack_count) keep_largest(p, l);
        name_lock(p, l);
    }
    free(p->lock_index);
    p->lock_index = NULL;
    p->lock_index_room = 0;
    if (p->lock_count) qsort(p->locks, p->lock_count, sizeof *p->locks, compare_locks);
}

double profile_percentile(const uint64_t hist[PROFILE_BUCKETS], double percent) {
    double total = 0, seen = 0;
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) total += (double)hist[i];
    if (total == 0) return NAN;
    double want = total * percent / 100;
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) {
        double here = (double)hist[i];
        if (here > 0 && seen + here >= want)
            return ldexp(1 + (want - seen) / here, (int)i);
        seen += here;
    }
    return ldexp(1, PROFILE_BUCKETS);
}
