// SPDX-License-Identifier: MIT
// bpf_spin.c - tells a thread that spins from one that works, by the loop it is in.
#include "bpf_spin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "../cli/cli.h"
#include "bpf_code.h"
#include "bpf_registers.h"

#define SEEN_SLOTS 8192   // program counters known not to spin
#define LOOP_LONGEST 512  // bytes: a loop longer than that does something else too
#define PAUSED_MOST 40    // instructions of a loop that waits
#define CALLERS 3         // frames a pause may be away from its loop

struct spin_finder {
    Dwfl *dwfl;
    pid_t pid;
    code_t *code;
    uint64_t seen[SEEN_SLOTS];
};

// One loop: ops[first..last], last being the branch back.
typedef struct {
    const op_t *ops;
    uint32_t first, last;
} loop_t;

typedef struct {
    uint32_t flags, loads, writes, count;
} summary_t;

// ------------------------------------------------------------------------- loops
// The next larger loop around ops[at] than WITHIN bytes; false if there is none.
static bool find_loop(const op_t *ops, uint32_t count, uint32_t at, uint64_t within, loop_t *loop)
{
    uint64_t best = LOOP_LONGEST + 1;
    for (uint32_t b = at; b < count; b++) {
        uint64_t target = ops[b].target, bytes = ops[b].pc - target;
        if (!target || target > ops[at].pc || bytes <= within || bytes >= best)
            continue;
        uint32_t first = at;
        while (first > 0 && ops[first].pc > target)
            first--;
        if (ops[first].pc != target)
            continue;
        *loop = (loop_t){ops, first, b};
        best = bytes;
    }
    return best <= LOOP_LONGEST;
}

static uint64_t loop_bytes(const loop_t *l)
{
    return l->ops[l->last].pc - l->ops[l->first].pc;
}

static summary_t summarize(const loop_t *l)
{
    summary_t s = {0};
    for (uint32_t i = l->first; i <= l->last; i++) {
        const op_t *op = &l->ops[i];
        s.flags |= op->flags;
        if ((op->flags & OP_LOAD) && op->memory.some)
            s.loads++;
        if (op->flags & (OP_COMPUTE | OP_ADDRESS))
            s.writes |= op->writes;
        s.count++;
    }
    return s;
}

// Does a load in the loop follow a pointer that the loop itself changes, as a list walk does?
static bool follows_pointers(const loop_t *l)
{
    uint32_t written = 0;
    for (uint32_t i = l->first; i <= l->last; i++)
        written |= l->ops[i].writes;
    for (uint32_t i = l->first; i <= l->last; i++) {
        const operand_t *m = &l->ops[i].memory;
        if (m->some && ((m->base != CODE_NONE && written >> m->base & 1) ||
                        (m->index != CODE_NONE && written >> m->index & 1)))
            return true;
    }
    return false;
}

static bool loop_waits(const loop_t *l)
{
    summary_t s = summarize(l);
    if (s.flags & OP_PAUSE) // in a long loop it may be for a case that never comes
        return s.count <= PAUSED_MOST;
    if (s.flags & (OP_CALL | OP_STORE))
        return false;
    if (s.flags & OP_ATTEMPT) // a lock taken by trying; computing what to write is an update
        return s.count <= 8 && s.writes == 0;
    return !(s.flags & OP_ATOMIC) && s.loads > 0 && s.count <= 6 && s.writes == 0 &&
           !follows_pointers(l);
}

// ------------------------------------------------------------------------- addresses
typedef struct {
    const spin_finder_t *finder;
    const record_t *record;
    const unwound_t *frame; // NULL: the innermost, whose registers are all in the record
    uint64_t pc;
    bool by_pointer;        // only what a register points to
} view_t;

static bool register_value(const view_t *v, uint8_t place, uint64_t *value)
{
    if (place == CODE_NONE)
        return false;
    if (!v->frame) {
        *value = v->record->regs[place];
        return true;
    }
    for (unsigned i = 0; i < REGISTER_DWARF; i++)
        if (register_of_dwarf[i] == place) {
            *value = v->frame->reg[i];
            return v->frame->known >> i & 1;
        }
    return false;
}

static bool read_word(const view_t *v, uint64_t address, uint64_t *value)
{
    if (unwind_read(v->record, address, value, sizeof *value))
        return true;
    struct iovec here = {value, sizeof *value};
    struct iovec there = {(void *)(uintptr_t)address, sizeof *value};
    return process_vm_readv(v->finder->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof *value;
}

static bool operand_address(const view_t *v, const loop_t *l, uint32_t at, uint64_t *address,
                            int depth);

// What a register holds when ops[at] is executed, from what it held at the sample.
static bool value_at(const view_t *v, const loop_t *l, uint32_t at, uint8_t place, uint64_t *value,
                     int depth)
{
    uint32_t here = l->first, writer = UINT32_MAX;
    while (here < l->last && l->ops[here].pc < v->pc)
        here++;
    uint32_t low = here <= at ? here : at, high = here <= at ? at : here;
    bool between = false;
    for (uint32_t i = low; i < high; i++)
        between |= l->ops[i].writes >> place & 1;
    if (!between)
        return register_value(v, place, value);
    for (uint32_t i = l->first; i < at; i++)
        if (l->ops[i].writes >> place & 1)
            writer = i;
    if (writer == UINT32_MAX || depth > 3)
        return false;
    uint64_t from;
    const op_t *op = &l->ops[writer];
    if (!(op->flags & (OP_LOAD | OP_ADDRESS)) || !op->memory.some ||
        !operand_address(v, l, writer, &from, depth + 1))
        return false;
    if (op->flags & OP_ADDRESS) {
        *value = from;
        return true;
    }
    return read_word(v, from, value);
}

static bool operand_address(const view_t *v, const loop_t *l, uint32_t at, uint64_t *address,
                            int depth)
{
    const operand_t *m = &l->ops[at].memory;
    uint64_t base = 0, index = 0;
    if (!m->some || (m->base != CODE_NONE && !value_at(v, l, at, m->base, &base, depth)) ||
        (m->index != CODE_NONE && !value_at(v, l, at, m->index, &index, depth)))
        return false;
    *address = base + index * m->scale + (uint64_t)m->displacement;
    return true;
}

static bool on_stack(const operand_t *m)
{
    return m->base == REGISTER_SP;
}

// The operand this loop waits for: of an atomic, else of a comparison, else of a load.
static bool loop_address(const view_t *v, const loop_t *l, uint64_t *address)
{
    static const uint32_t order[] = {OP_ATOMIC, OP_COMPARE, OP_LOAD};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        for (uint32_t i = l->first; i <= l->last; i++) {
            const op_t *op = &l->ops[i];
            uint64_t sp = v->record->regs[REGISTER_SP];
            if (!(op->flags & order[k]) || !op->memory.some || on_stack(&op->memory) ||
                (v->by_pointer && op->memory.base == CODE_NONE) ||
                !operand_address(v, l, i, address, 0))
                continue;
            // Below the stack's visible part are locals: nothing others wait for.
            if (*address >= sp - 128 && *address < sp + RECORD_SHORT_STACK &&
                !(op->flags & OP_ATOMIC))
                continue;
            return true;
        }
    return false;
}

// ------------------------------------------------------------------------- frames
static bool pauses_near(const op_t *ops, uint32_t count, uint32_t at)
{
    uint32_t low = at > 2 ? at - 2 : 0, high = at + 2 < count ? at + 2 : count - 1;
    for (uint32_t i = low; i <= high; i++)
        if (ops[i].flags & OP_PAUSE)
            return true;
    return false;
}

static bool yields(const spin_finder_t *s, uint64_t pc)
{
    const char *name = s->dwfl ? symbols_function(s->dwfl, pc) : NULL;
    return name && (strcmp(name, "sched_yield") == 0 || strcmp(name, "__sched_yield") == 0);
}

static uint64_t *slot_of(spin_finder_t *s, uint64_t pc)
{
    return &s->seen[(pc * 0x9e3779b97f4a7c15u >> 40) % SEEN_SLOTS];
}

// Widens from the innermost loop that waits until one names an address.
static bool search(const view_t *v, const op_t *ops, uint32_t count, uint32_t at, bool must_wait,
                   spin_t *found)
{
    loop_t l;
    uint64_t within = 0;
    bool any = false;
    while (find_loop(ops, count, at, within, &l)) {
        within = loop_bytes(&l);
        if (within == 0)
            within = 1;
        if (!any && must_wait && !loop_waits(&l))
            return false;
        if (!any || !found->address)
            found->loop = ops[l.first].pc;
        any = true;
        if (loop_address(v, &l, &found->address))
            return true;
        found->address = 0;
    }
    return any;
}

bool spin_at(spin_finder_t *s, const record_t *r, const unwound_t *frames, uint32_t depth,
             spin_t *found)
{
    const op_t *ops;
    uint32_t at, count;
    uint64_t pc = r->regs[REGISTER_PC];
    *found = (spin_t){0};
    if (!s->code || *slot_of(s, pc) == pc)
        return false;
    count = code_around(s->code, pc, &ops, &at);
    view_t v = {s, r, NULL, pc, false};
    if (count && search(&v, ops, count, at, true, found)) {
        if (found->address || !frames)
            return true;
    } else if (yields(s, pc) || (count && pauses_near(ops, count, at))) {
        found->loop = 0;
        if (!frames)
            return true;
    } else {
        *slot_of(s, pc) = pc;
        return false;
    }
    // A pause out of line, as in a delay function: the loop that waits is a caller's.
    spin_t own = *found;
    for (uint32_t i = 1; i < depth && i <= CALLERS; i++) {
        view_t w = {s, r, &frames[i], frames[i].pc, false};
        count = code_around(s->code, frames[i].pc, &ops, &at);
        spin_t outer = {.frame = i};
        if (count && search(&w, ops, count, at, false, &outer) && outer.address) {
            *found = outer;
            return true;
        }
    }
    *found = own;
    return own.loop != 0;
}

uint64_t spin_in_kernel(spin_finder_t *s, const kernel_spin_t *k)
{
    static record_t r; // no stack to look at, only registers
    const op_t *ops;
    spin_t found = {0};
    uint32_t at, count;
    memcpy(r.regs, k->regs, sizeof r.regs);
    code_give(s->code, k->code_start, k->code, k->code_bytes);
    count = s->code ? code_around(s->code, k->regs[REGISTER_PC], &ops, &at) : 0;
    view_t v = {s, &r, NULL, k->regs[REGISTER_PC], true}; // a lock is an argument there
    if (!count || !search(&v, ops, count, at, false, &found) || (int64_t)found.address >= 0)
        return 0;
    return found.address;
}

spin_finder_t *spin_new(Dwfl *dwfl, pid_t pid)
{
    spin_finder_t *s = cli_alloc(sizeof *s);
    s->dwfl = dwfl;
    s->pid = pid;
    s->code = code_new(dwfl, pid);
    return s;
}

void spin_free(spin_finder_t *s)
{
    if (!s)
        return;
    code_free(s->code);
    free(s);
}
