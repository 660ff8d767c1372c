// SPDX-License-Identifier: MIT
// bpf_beside.c - counts sampled data addresses, and finds those that share a line with a lock.
#include "bpf_beside.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "bpf_code.h"
#include "bpf_kinds.h"
#include "bpf_object.h"
#include "bpf_registers.h"

#define LINE      64
#define DECODED   4096 // instructions, a power of two
#define SETS      512  // of addresses, a power of two
#define WAYS      8
#define FEWEST    5    // samples that make a field worth a word
#define HOT_SHARE 0.01 // of the program's samples, and
#define OF_LINE   0.1  // of those in the line
#define FUNCTIONS 32   // that take one lock
#define WRAPPERS  3    // frames a section may be away from its lock

// An instruction and the one before.
typedef struct {
    uint64_t pc;
    operand_t operand[2];
    bool atomic[2];
} decoded_t;

// One address reached from one instruction.
typedef struct {
    uint64_t address, pc;
    uint64_t count;
    bool atomic, of_libc;
    char *name;        // if it is no variable but a field of what a pointer points to
    uint64_t *function; // beginnings of those in the stack; NULL: not unwound yet
    uint32_t depth;
    record_t *record;  // of a sample, until it is unwound
} touched_t;

struct beside {
    Dwfl *dwfl;
    pid_t pid;
    code_t *code;
    uint64_t samples;
    decoded_t decoded[DECODED];
    touched_t touched[SETS][WAYS];
};

beside_t *beside_new(Dwfl *dwfl, pid_t pid)
{
    code_t *code = code_new(dwfl, pid);
    if (!code)
        return NULL;
    beside_t *b = cli_alloc(sizeof *b);
    b->dwfl = dwfl;
    b->pid = pid;
    b->code = code;
    return b;
}

static void forget(touched_t *t)
{
    free(t->name);
    free(t->function);
    free(t->record);
    *t = (touched_t){0};
}

void beside_free(beside_t *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < SETS * WAYS; i++)
        forget(&b->touched[i / WAYS][i % WAYS]);
    code_free(b->code);
    free(b);
}

void beside_modules(beside_t *b, Dwfl *dwfl)
{
    if (!b)
        return;
    b->dwfl = dwfl;
    code_free(b->code);
    b->code = code_new(dwfl, b->pid);
    memset(b->decoded, 0, sizeof b->decoded);
}

// ------------------------------------------------------------------------- addresses
static bool changes_its_operand(const op_t *op)
{
    const operand_t *m = &op->memory;
    return (m->base != CODE_NONE && op->writes >> m->base & 1) ||
           (m->index != CODE_NONE && op->writes >> m->index & 1);
}

static const decoded_t *decoded_at(beside_t *b, uint64_t pc)
{
    decoded_t *d = &b->decoded[(pc * 0x9e3779b97f4a7c15u >> 40) % DECODED];
    const op_t *ops;
    uint32_t at;
    if (d->pc == pc)
        return d;
    *d = (decoded_t){.pc = pc};
    uint32_t count = b->code ? code_around(b->code, pc, &ops, &at) : 0;
    for (uint32_t k = 0; count && k < 2 && k <= at; k++) {
        const op_t *op = &ops[at - k];
        if (!op->memory.some || op->flags & (OP_ADDRESS | OP_BRANCH) ||
            (k == 1 && changes_its_operand(op)))
            continue;
        d->operand[k] = op->memory;
        d->atomic[k] = op->flags & OP_ATOMIC;
    }
    return d;
}

static uint64_t address_of(const operand_t *m, const record_t *r)
{
    uint64_t base = m->base == CODE_NONE ? 0 : r->regs[m->base];
    uint64_t index = m->index == CODE_NONE ? 0 : r->regs[m->index];
    return base + index * m->scale + (uint64_t)m->displacement;
}

// The least of a full set makes room by and by, so what comes again and again stays.
static touched_t *place_for(beside_t *b, uint64_t address, uint64_t pc)
{
    touched_t *set = b->touched[((address ^ pc << 20) * 0x9e3779b97f4a7c15u >> 40) % SETS];
    touched_t *least = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].address == address && set[i].pc == pc)
            return &set[i];
        if (set[i].count < least->count)
            least = &set[i];
    }
    if (least->count && --least->count)
        return NULL;
    forget(least);
    least->address = address;
    least->pc = pc;
    return least;
}

static void keep_record(touched_t *t, const record_t *r)
{
    size_t bytes = offsetof(record_t, stack) + (size_t)r->head.chunks * RECORD_CHUNK;
    t->record = cli_alloc(bytes);
    memcpy(t->record, r, bytes);
}

void beside_sample(beside_t *b, const record_t *r)
{
    if (!b)
        return;
    b->samples++;
    const decoded_t *d = decoded_at(b, r->regs[REGISTER_PC]);
    uint64_t sp = r->regs[REGISTER_SP], last = 0;
    for (int k = 0; k < 2; k++) {
        uint64_t address = d->operand[k].some ? address_of(&d->operand[k], r) : 0;
        // Its own stack is nobody else's business.
        if (address < 4096 || address == last ||
            (address >= sp - 128 && address < sp + RECORD_SHORT_STACK))
            continue;
        last = address;
        touched_t *t = place_for(b, address, d->pc);
        if (!t)
            continue;
        t->atomic |= d->atomic[k];
        if (++t->count >= 2 && !t->record && !t->function)
            keep_record(t, r);
    }
}

// ------------------------------------------------------------------------- who was there
// Where the function begins; 0 for libc's, which are in every stack.
static uint64_t function_of(Dwfl *dwfl, uint64_t pc)
{
    GElf_Off offset;
    GElf_Sym sym;
    Dwfl_Module *m = dwfl ? dwfl_addrmodule(dwfl, pc) : NULL;
    if (!m || kind_of_libc(dwfl, pc) ||
        !dwfl_module_addrinfo(m, pc, &offset, &sym, NULL, NULL, NULL))
        return 0;
    return pc - offset;
}

static void unwind_one(beside_t *b, unwinder_t *u, touched_t *t)
{
    unwound_t frames[PROFILE_DEPTH];
    uint32_t depth = unwind(u, t->record, frames);
    t->of_libc = b->dwfl && depth && kind_of_libc(b->dwfl, frames[0].pc);
    t->function = cli_alloc((depth + 1) * sizeof *t->function);
    for (uint32_t i = 0; i < depth; i++)
        t->function[i] = function_of(b->dwfl, frames[i].pc);
    t->depth = depth;
    if (!b->dwfl || !dwfl_addrmodule(b->dwfl, t->address))
        t->name = object_name(b->dwfl, b->pid, t->record, frames, depth, t->address);
    free(t->record);
    t->record = NULL;
}

void beside_work(beside_t *b, unwinder_t *u)
{
    for (size_t i = 0; b && i < SETS * WAYS; i++) {
        touched_t *t = &b->touched[i / WAYS][i % WAYS];
        if (t->record && t->count >= FEWEST)
            unwind_one(b, u, t);
    }
}

// ------------------------------------------------------------------------- beside a lock
// Of libc's locks; 0: how large this one is, and so what is beside it, is not known.
static uint64_t size_of(const char *kind)
{
    if (strstr(kind, "mutex"))
        return sizeof(pthread_mutex_t);
    if (strcmp(kind, "rwlock") == 0)
        return sizeof(pthread_rwlock_t);
    return strcmp(kind, "spinlock") == 0 ? sizeof(pthread_spinlock_t) : 0;
}

// A function around the lock's own, as lock_table(): the sections are its callers'.
static bool is_wrapper(const beside_t *b, uint64_t pc)
{
    static const char *const words[] = {"lock", "mutex", "acquire", "release", "enter", "leave"};
    const char *name = b->dwfl ? symbols_function(b->dwfl, pc) : NULL;
    for (size_t i = 0; name && i < sizeof words / sizeof *words; i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

// Who takes or frees this lock.
static uint32_t its_functions(const beside_t *b, const profile_t *p, const profile_lock_t *l,
                              uint64_t function[FUNCTIONS])
{
    uint32_t count = 0;
    for (size_t i = 0; i < l->stack_count; i++) {
        const profile_stack_t *s = &l->stacks[i];
        if (s->role == STACK_INIT)
            continue;
        for (uint32_t k = 0; k < WRAPPERS && k < s->depth && count < FUNCTIONS; k++) {
            uint64_t pc = p->frames[s->frame[k]].pc, begin = function_of(b->dwfl, pc);
            bool known = begin == 0;
            for (uint32_t f = 0; f < count; f++)
                known |= function[f] == begin;
            if (!known)
                function[count++] = begin;
            if (!is_wrapper(b, pc))
                break;
        }
    }
    return count;
}

// Libc's own are parts of other locks and of condition variables, which belong there.
static bool from_outside(const touched_t *t, const uint64_t *function, uint32_t count)
{
    if (!t->function || t->of_libc)
        return false;
    if (t->atomic)
        return true;
    for (uint32_t i = 0; i < t->depth; i++)
        for (uint32_t f = 0; f < count; f++)
            if (t->function[i] == function[f])
                return false;
    return count != 0; // else nothing is known of the sections: no accusation
}

static uint64_t count_of(const beside_t *b, uint64_t address, const uint64_t *function,
                         uint32_t functions)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < SETS * WAYS; i++) {
        const touched_t *t = &b->touched[i / WAYS][i % WAYS];
        if (t->count && t->address == address && from_outside(t, function, functions))
            sum += t->count;
    }
    return sum;
}

void beside_fill(const beside_t *b, const profile_t *p, profile_lock_t *l)
{
    uint64_t function[FUNCTIONS], all = 0, most = 0, size = size_of(l->kind);
    const touched_t *hot = NULL;
    if (!b || !l->address || !size)
        return;
    uint32_t functions = its_functions(b, p, l, function);
    for (size_t i = 0; i < SETS * WAYS; i++) {
        const touched_t *t = &b->touched[i / WAYS][i % WAYS];
        if (!t->count || t->address / LINE != l->address / LINE)
            continue;
        all += t->count;
        uint64_t count = t->address - l->address < size || !from_outside(t, function, functions)
                             ? 0 : count_of(b, t->address, function, functions);
        if (count > most) {
            most = count;
            hot = t;
        }
    }
    if (!hot || most < FEWEST || (double)most < HOT_SHARE * (double)b->samples ||
        (double)most < OF_LINE * (double)all)
        return;
    free(l->beside.name);
    l->beside = (profile_beside_t){hot->address, most, all, NULL};
    if (hot->name)
        l->beside.name = cli_printf("%s", hot->name);
}
