// SPDX-License-Identifier: MIT
// bpf_object.c - evaluates the pointers a waiting thread holds, and finds the one to the lock.
#include "bpf_object.h"

#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "../cli/cli.h"

#define FRAMES_MOST 6 // calls away from the lock

typedef struct {
    pid_t pid;
    const record_t *record;
    const unwound_t *frame;
    const unwound_t *caller; // whose stack pointer is this frame's base; NULL: not known
    Dwarf_Addr bias;
    uint64_t lock;
} view_t;

#if defined(__x86_64__)
enum { DWARF_SP = 7 };
#else
enum { DWARF_SP = 31 };
#endif

// ------------------------------------------------------------------------- values
static bool read_word(const void *view, uint64_t address, uint64_t *value)
{
    const view_t *v = view;
    if (v->record && unwind_read(v->record, address, value, sizeof *value))
        return true;
    struct iovec here = {value, sizeof *value};
    struct iovec there = {(void *)(uintptr_t)address, sizeof *value};
    return process_vm_readv(v->pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof *value;
}

static bool reg(const view_t *v, unsigned number, uint64_t *value)
{
    if (number >= 32 || !(v->frame->known >> number & 1))
        return false;
    *value = v->frame->reg[number];
    return true;
}

// The plain forms a compiler uses for a variable; the rest is for debuggers.
static bool evaluate(const view_t *v, const Dwarf_Op *op, size_t count, uint64_t *value)
{
    uint64_t at;
    if (count == 0)
        return false;
    bool itself = count == 2 && op[1].atom == DW_OP_stack_value;
    if (count > 1 && !itself)
        return false;
    if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
        return reg(v, op->atom - DW_OP_reg0, value);
    if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
        if (!reg(v, op->atom - DW_OP_breg0, &at))
            return false;
        at += op->number;
    } else if (op->atom == DW_OP_fbreg && v->caller && (v->caller->known >> DWARF_SP & 1)) {
        at = v->caller->reg[DWARF_SP] + op->number;
    } else if (op->atom == DW_OP_addr) {
        at = op->number + v->bias;
    } else {
        return false;
    }
    *value = at;
    return itself || read_word(v, at, value);
}

// ------------------------------------------------------------------------- types
static bool is_c(Dwarf_Die *die)
{
    Dwarf_Die cu;
    if (!dwarf_diecu(die, &cu, NULL, NULL))
        return true;
    switch (dwarf_srclang(&cu)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
        return true;
    default:
        return false;
    }
}

static char *name_in(Dwarf_Die *type, uint64_t offset)
{
    char field[256] = "";
    const char *name = dwarf_diename(type);
    if (!name || !symbols_field(type, offset, field, sizeof field) || !field[0])
        return NULL;
    return cli_printf("%s%s%s", is_c(type) ? "struct " : "", name, field);
}

static char *try_variable(const view_t *v, Dwarf_Die *variable)
{
    Dwarf_Die type;
    Dwarf_Word bytes;
    Dwarf_Attribute a;
    Dwarf_Op *op;
    size_t count;
    uint64_t value;
    if (!symbols_pointee(variable, &type) || dwarf_aggregate_size(&type, &bytes) != 0)
        return NULL;
    if (!dwarf_attr_integrate(variable, DW_AT_location, &a) ||
        dwarf_getlocation_addr(&a, v->frame->pc - v->bias, &op, &count, 1) != 1 ||
        !evaluate(v, op, count, &value))
        return NULL;
    if (v->lock < value || v->lock - value >= bytes)
        return NULL;
    return name_in(&type, v->lock - value);
}

// ------------------------------------------------------------------------- scopes
static char *try_scope(const view_t *v, Dwarf_Die *scope)
{
    Dwarf_Die die;
    char *name = NULL;
    if (dwarf_child(scope, &die) != 0)
        return NULL;
    do {
        int tag = dwarf_tag(&die);
        if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter)
            name = try_variable(v, &die);
    } while (!name && dwarf_siblingof(&die, &die) == 0);
    return name;
}

static char *try_frame(Dwfl *dwfl, view_t *v)
{
    Dwarf_Die *scopes, *cu;
    Dwfl_Module *m = dwfl_addrmodule(dwfl, v->frame->pc);
    char *name = NULL;
    if (!m || !(cu = dwfl_module_addrdie(m, v->frame->pc, &v->bias)))
        return NULL;
    int count = dwarf_getscopes(cu, v->frame->pc - v->bias, &scopes);
    for (int i = 0; i < count && !name; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_compile_unit && tag != DW_TAG_partial_unit)
            name = try_scope(v, &scopes[i]);
    }
    if (count > 0)
        free(scopes);
    return name;
}

char *object_name(Dwfl *dwfl, pid_t pid, const record_t *r, const unwound_t *frames,
                  uint32_t depth, uint64_t address)
{
    char *name = NULL;
    view_t v = {.pid = pid, .record = r, .lock = address};
    for (uint32_t i = 0; dwfl && i < depth && i < FRAMES_MOST && !name; i++) {
        v.frame = &frames[i];
        v.caller = i + 1 < depth ? &frames[i + 1] : NULL;
        name = try_frame(dwfl, &v);
        // The lock's own functions point to it too, and say nothing about what it is part of.
        if (name &&
            (strncmp(name, "struct __pthread", 16) == 0 || strncmp(name, "std::", 5) == 0)) {
            free(name);
            name = NULL;
        }
    }
    return name;
}

static bool read_live(void *arg, uint64_t address, uint64_t *value)
{
    return read_word(arg, address, value);
}

char *object_name_global(Dwfl *dwfl, pid_t pid, uint64_t address)
{
    view_t v = {.pid = pid};
    return symbols_pointer_to(dwfl, address, read_live, &v);
}
