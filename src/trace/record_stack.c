// SPDX-License-Identifier: MIT
// record_stack.c - stacks of waiters and holders, and what is mapped where.
//
// Unwinding costs microseconds, so a thread remembers which stack belonged to a call site and stack
// pointer: the same two mean the same stack, all but always. Every 64th use is unwound again.
#include <fcntl.h>
#include <string.h>
#include <unwind.h>

#include "record_internal.h"

enum { TAKE_AGAIN = 64, PROBES = 32 };

// ------------------------------------------------------------------------- unwinding
typedef struct {
    uint64_t pc[RECORD_PCS];
    unsigned depth;
    bool begun;              // the frames of the recorder itself lie behind us
    uint64_t return_address;
} walk_t;

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *arg) {
    walk_t *w = arg;
    int exact = 0;
    uint64_t pc = _Unwind_GetIPInfo(context, &exact);
    if (!pc) return _URC_END_OF_STACK;
    if (pc == w->return_address) w->begun = true;
    if (!w->begun) return _URC_NO_REASON;
    w->pc[w->depth++] = exact ? pc : pc - 1;
    return w->depth < RECORD_PCS ? _URC_NO_REASON : _URC_END_OF_STACK;
}

// ------------------------------------------------------------------------- the table
static uint64_t hash_of(const walk_t *w, uint32_t slot, unsigned role) {
    uint64_t h = slot * 8u + role + 1;
    for (unsigned i = 0; i < w->depth; i++) h = (h ^ w->pc[i]) * 0x9e3779b97f4a7c15u ^ h >> 29;
    return h | 1;
}

static record_stack_t *find_stack(const walk_t *w, uint32_t slot, unsigned role) {
    uint64_t hash = hash_of(w, slot, role);
    record_stack_t *all = rec_stacks(), *found = NULL;
    bool new_code = false;
    size_t at = (hash >> 20) & (RECORD_STACKS - 1);
    for (unsigned i = 0; i < PROBES; i++) {
        record_stack_t *s = &all[(at + i) & (RECORD_STACKS - 1)];
        if (hl_load_acq(&s->hash) == hash) return s;  // pairs with the store below
        if (!hl_load(&s->hash)) break;
    }
    rec_insert_begin();
    for (unsigned i = 0; i < PROBES && !found; i++) {
        record_stack_t *s = &all[(at + i) & (RECORD_STACKS - 1)];
        if (hl_load(&s->hash) && hl_load(&s->hash) != hash) continue;
        found = s;
        if (hl_load(&s->hash)) break;
        s->slot = slot;
        s->role = (uint16_t)role;
        s->depth = (uint16_t)w->depth;
        memcpy(s->pc, w->pc, w->depth * sizeof *w->pc);
        (void)hl_fetch_add(&rec_head->stacks_used, 1);
        hl_store_rel(&s->hash, hash);
        for (unsigned k = 0; k < w->depth; k++) new_code = new_code || !rec_map_known(w->pc[k]);
    }
    rec_insert_end();
    if (new_code) rec_note_maps();
    return found;
}

record_stack_t *rec_stack(record_slot_t *s, unsigned role, void *return_address) {
    uint32_t slot = (uint32_t)(s - rec_slots());
    uint64_t pc = (uint64_t)(uintptr_t)__builtin_extract_return_addr(return_address);
    uint64_t key = (pc ^ (uint64_t)(uintptr_t)__builtin_frame_address(0) << 17) *
                       0x9e3779b97f4a7c15u + slot * 8u + role;
    rec_cached_t *c = &rec_me.cached[key >> 58];
    if (c->key == key && c->left) {
        c->left--;
        return c->stack;
    }
    walk_t w = {.return_address = pc};
    rec_me.busy = true;
    _Unwind_Backtrace(step, &w);
    rec_me.busy = false;
    if (!w.depth) {  // no unwind information: the call site at least
        w.pc[0] = pc - 1;
        w.depth = 1;
    }
    *c = (rec_cached_t){key, find_stack(&w, slot, role), TAKE_AGAIN};
    return c->stack;
}

void rec_charge(record_stack_t *stack, uint64_t count, uint64_t ns) {
    if (!stack) {
        (void)hl_fetch_add(&rec_head->lost_stacks, count);
        return;
    }
    (void)hl_fetch_add(&stack->count, count);
    (void)hl_fetch_add(&stack->ns, ns);
}

// ------------------------------------------------------------------------- maps
bool rec_map_known(uint64_t pc) {
    uint32_t used = hl_load_acq(&rec_head->maps_used);
    for (uint32_t i = 0; i < used; i++)
        if (pc >= rec_head->map[i].start && pc < rec_head->map[i].end) return true;
    return false;
}

static const char *hex(const char *at, uint64_t *value) {
    for (*value = 0;; at++) {
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a' + 10) : 99;
        if (digit == 99) return at;
        *value = *value << 4 | digit;
    }
}

// One line of /proc/self/maps: start-end perms offset device inode path. Files only, and the
// anonymous memory right behind one, where its zeroed variables live.
static void keep_map(const char *line) {
    record_map_t m = {0}, *last;
    uint32_t used = hl_load(&rec_head->maps_used);
    const char *at = hex(line, &m.start);
    at = hex(at + 1, &m.end);
    m.executable = at[3] == 'x';
    at = hex(at + 6, &m.offset);
    at = strpbrk(at, "/[");
    last = used ? &rec_head->map[used - 1] : NULL;
    if (rec_map_known(m.start)) return;
    if (!at) {
        if (!last || last->end != m.start || last->path[0] != '/') return;
        m.offset = last->offset + (last->end - last->start);
        at = last->path;
    }
    if (strlen(at) >= sizeof m.path || used == RECORD_MAPS) return;
    strcpy(m.path, at);
    rec_head->map[used] = m;
    hl_store_rel(&rec_head->maps_used, used + 1);  // pairs with rec_map_known()
}

// Reads the maps without the heap, the loader's lock, or a cancellation point.
void rec_note_maps(void) {
    char text[4096];
    size_t used = 0;
    int saved = errno, fd = rec_open("/proc/self/maps", O_RDONLY);
    if (fd < 0) return;
    rec_insert_begin();
    for (ssize_t n; (n = syscall(SYS_read, fd, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)n;
        text[used] = '\0';
        char *line = text, *end;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            keep_map(line);
        }
        used = strlen(line);
        if (used >= sizeof text - 1) used = 0;  // a path longer than any
        memmove(text, line, used + 1);
    }
    rec_insert_end();
    syscall(SYS_close, fd);
    errno = saved;
}
