// SPDX-License-Identifier: MIT
// symbols_data.c - names for data: the variable at an address, and the field in it.
#include <dwarf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "symbols.h"

// ------------------------------------------------------------------------- types
// The type behind names and qualifiers; *NAMED is the last name passed, NULL if none.
static bool strip_type(Dwarf_Die *type, const char **named)
{
    Dwarf_Attribute a;
    *named = NULL;
    for (int i = 0; i < 64; i++) {
        int tag = dwarf_tag(type);
        if (tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type &&
            tag != DW_TAG_atomic_type)
            return true;
        if (tag == DW_TAG_typedef)
            *named = dwarf_diename(type);
        if (!dwarf_attr_integrate(type, DW_AT_type, &a) || !dwarf_formref_die(&a, type))
            return false;
    }
    return false;
}

static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
    Dwarf_Attribute a;
    return dwarf_attr_integrate(die, DW_AT_type, &a) && dwarf_formref_die(&a, type);
}

// Types a user thinks of as one lock: what is inside has no name worth showing.
static bool is_lock_type(const char *name)
{
    static const char *const exact[] = {
        "mutex", "recursive_mutex", "timed_mutex", "recursive_timed_mutex", "shared_mutex",
        "shared_timed_mutex", "condition_variable", "__mutex_base", "__recursive_mutex_base",
        "__condvar", "mtx_t", "cnd_t", "sem_t", NULL};
    static const char *const starts[] = {"pthread_", "__pthread_", "hl_", NULL};
    for (int i = 0; name && exact[i]; i++)
        if (strcmp(name, exact[i]) == 0)
            return true;
    for (int i = 0; name && starts[i]; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static void append(char *text, size_t size, const char *format, const char *name,
                   unsigned long long index)
{
    size_t have = strlen(text);
    if (name)
        snprintf(text + have, size - have, format, name);
    else
        snprintf(text + have, size - have, format, index);
}

static bool member_offset(Dwarf_Die *member, Dwarf_Word *offset)
{
    Dwarf_Attribute a;
    *offset = 0; // members of a union have none
    if (!dwarf_attr(member, DW_AT_data_member_location, &a))
        return dwarf_attr(member, DW_AT_data_bit_offset, &a) == NULL;
    return dwarf_formudata(&a, offset) == 0;
}

static bool field_in(Dwarf_Die *type, uint64_t offset, char *text, size_t size, int depth);

static bool field_of_struct(Dwarf_Die *type, uint64_t offset, char *text, size_t size, int depth)
{
    Dwarf_Die member, its;
    if (dwarf_child(type, &member) != 0)
        return true;
    do {
        int tag = dwarf_tag(&member);
        Dwarf_Word at, bytes;
        if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
            dwarf_attr(&member, DW_AT_external, &(Dwarf_Attribute){0}) ||
            !member_offset(&member, &at) || !type_of(&member, &its) ||
            dwarf_aggregate_size(&its, &bytes) != 0 || offset < at || offset - at >= bytes)
            continue;
        const char *name = tag == DW_TAG_member ? dwarf_diename(&member) : NULL;
        if (name)
            append(text, size, ".%s", name, 0);
        return field_in(&its, offset - at, text, size, depth + 1);
    } while (dwarf_siblingof(&member, &member) == 0);
    return true; // padding: the whole is named
}

static bool field_of_array(Dwarf_Die *type, uint64_t offset, char *text, size_t size, int depth)
{
    Dwarf_Die element;
    Dwarf_Word bytes;
    if (!type_of(type, &element) || dwarf_aggregate_size(&element, &bytes) != 0 || bytes == 0)
        return false;
    append(text, size, "[%llu]", NULL, offset / bytes);
    return field_in(&element, offset % bytes, text, size, depth + 1);
}

static bool field_in(Dwarf_Die *type, uint64_t offset, char *text, size_t size, int depth)
{
    const char *named;
    Dwarf_Word bytes;
    if (depth > 32 || !strip_type(type, &named))
        return false;
    if (dwarf_aggregate_size(type, &bytes) == 0 && offset >= bytes)
        return false;
    if (is_lock_type(named) || is_lock_type(dwarf_diename(type)))
        return true;
    switch (dwarf_tag(type)) {
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
        return field_of_struct(type, offset, text, size, depth);
    case DW_TAG_array_type:
        return field_of_array(type, offset, text, size, depth);
    default:
        return true;
    }
}

bool symbols_field(Dwarf_Die *type, uint64_t offset, char *text, size_t size)
{
    Dwarf_Die copy = *type;
    return field_in(&copy, offset, text, size, 0);
}

// ------------------------------------------------------------------------- variables
typedef struct {
    uint64_t start, end; // in the process
    Dwarf_Die die;
    const char *in;      // function or namespace it belongs to; NULL: neither
    bool in_function;
} variable_t;

typedef struct {
    variable_t *list;
    size_t count, room;
} variables_t;

static void add_variable(variables_t *v, Dwarf_Die *die, uint64_t bias, Dwarf_Die *outer)
{
    Dwarf_Attribute a;
    Dwarf_Op *op;
    size_t ops;
    Dwarf_Die type;
    Dwarf_Word bytes;
    if (!dwarf_attr(die, DW_AT_location, &a) || dwarf_getlocation(&a, &op, &ops) != 0 ||
        ops != 1 || op->atom != DW_OP_addr)
        return;
    if (!type_of(die, &type) || dwarf_aggregate_size(&type, &bytes) != 0)
        return;
    if (v->count == v->room) {
        v->room = v->room ? 2 * v->room : 256;
        v->list = cli_grow(v->list, v->room, sizeof *v->list);
    }
    v->list[v->count++] = (variable_t){
        op->number + bias, op->number + bias + bytes, *die, outer ? dwarf_diename(outer) : NULL,
        outer && dwarf_tag(outer) == DW_TAG_subprogram};
}

static void find_variables(variables_t *v, Dwarf_Die *parent, uint64_t bias, Dwarf_Die *outer,
                           int depth)
{
    Dwarf_Die die;
    if (depth > 16 || dwarf_child(parent, &die) != 0)
        return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_variable:
            add_variable(v, &die, bias, outer);
            break;
        case DW_TAG_namespace:
        case DW_TAG_subprogram:
            find_variables(v, &die, bias, &die, depth + 1);
            break;
        case DW_TAG_lexical_block:
            find_variables(v, &die, bias, outer, depth + 1);
            break;
        default:
            break;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

// The list of a module, made at the first question and kept with it.
static variables_t *variables_of(Dwfl_Module *m)
{
    void **kept = NULL;
    dwfl_module_info(m, &kept, NULL, NULL, NULL, NULL, NULL, NULL);
    if (!kept)
        return NULL;
    if (!*kept) {
        variables_t *v = *kept = cli_alloc(sizeof *v);
        Dwarf_Die *cu = NULL;
        Dwarf_Addr bias;
        while ((cu = dwfl_module_nextcu(m, cu, &bias)) != NULL)
            find_variables(v, cu, bias, NULL, 0);
    }
    return *kept;
}

static int forget(Dwfl_Module *m, void **kept, const char *name, Dwarf_Addr start, void *arg)
{
    (void)m, (void)name, (void)start, (void)arg;
    variables_t *v = *kept;
    if (v)
        free(v->list);
    free(v);
    *kept = NULL;
    return DWARF_CB_OK;
}

void symbols_end(Dwfl *dwfl)
{
    if (!dwfl)
        return;
    dwfl_getmodules(dwfl, forget, NULL, 0);
    dwfl_end(dwfl);
}

static char *described(const variable_t *v, uint64_t address)
{
    Dwarf_Die type, die = v->die;
    char text[256] = "";
    Dwarf_Attribute a;
    const char *name = dwarf_diename(&die);
    if (!name && dwarf_attr_integrate(&die, DW_AT_name, &a))
        name = dwarf_formstring(&a);
    if (!name)
        return NULL;
    if (v->in)
        snprintf(text, sizeof text, v->in_function ? "%s()::%s" : "%s::%s", v->in, name);
    else
        snprintf(text, sizeof text, "%s", name);
    if (type_of(&die, &type))
        symbols_field(&type, address - v->start, text, sizeof text);
    return cli_printf("%s", text);
}

// ------------------------------------------------------------------------- pointers
bool symbols_pointee(Dwarf_Die *variable, Dwarf_Die *type)
{
    bool pointer = false;
    Dwarf_Attribute a;
    Dwarf_Die die = *variable;
    for (int i = 0; i < 32; i++) {
        if (!dwarf_attr_integrate(&die, DW_AT_type, &a) || !dwarf_formref_die(&a, type))
            return false;
        die = *type;
        switch (dwarf_tag(&die)) {
        case DW_TAG_typedef:
        case DW_TAG_const_type:
        case DW_TAG_volatile_type:
        case DW_TAG_restrict_type:
            break;
        case DW_TAG_pointer_type:
        case DW_TAG_reference_type:
            if (pointer)
                return false;
            pointer = true;
            break;
        case DW_TAG_structure_type:
        case DW_TAG_class_type:
            return pointer;
        default:
            return false;
        }
    }
    return false;
}

typedef struct {
    bool (*read)(void *arg, uint64_t address, uint64_t *value);
    void *arg;
    uint64_t address;
    size_t left; // variables that may still be read
    char *name;
} pointer_search_t;

static bool of_system(const char *module)
{
    static const char *const files[] = {"libc.so", "ld-linux", "libm.so", "libstdc++",
                                        "libpthread", "libgcc_s", NULL};
    const char *slash = strrchr(module, '/');
    for (size_t i = 0; files[i]; i++)
        if (strncmp(slash ? slash + 1 : module, files[i], strlen(files[i])) == 0)
            return true;
    return false;
}

static int search_pointers(Dwfl_Module *m, void **kept, const char *module, Dwarf_Addr start,
                           void *arg)
{
    (void)kept, (void)start;
    pointer_search_t *s = arg;
    if (of_system(module)) // many variables, and none of them the program's
        return DWARF_CB_OK;
    const variables_t *v = variables_of(m);
    for (size_t i = 0; v && i < v->count && s->left; i++) {
        Dwarf_Die type, die = v->list[i].die;
        Dwarf_Word bytes;
        uint64_t value;
        if (v->list[i].end - v->list[i].start != 8 || !symbols_pointee(&die, &type) ||
            dwarf_aggregate_size(&type, &bytes) != 0)
            continue;
        s->left--;
        if (!s->read(s->arg, v->list[i].start, &value) || s->address < value ||
            s->address - value >= bytes)
            continue;
        char field[256] = "";
        const char *name = dwarf_diename(&die);
        if (!name || !symbols_field(&type, s->address - value, field, sizeof field))
            continue;
        s->name = field[0] == '.' ? cli_printf("%s->%s", name, field + 1)
                                  : cli_printf("*%s", name);
        return DWARF_CB_ABORT;
    }
    return DWARF_CB_OK;
}

char *symbols_pointer_to(Dwfl *dwfl, uint64_t address,
                         bool (*read)(void *arg, uint64_t address, uint64_t *value), void *arg)
{
    pointer_search_t s = {read, arg, address, 20000, NULL};
    dwfl_getmodules(dwfl, search_pointers, &s, 0);
    return s.name;
}

// Without debug information: the symbol table, and how far into the object.
static char *by_symbol_table(Dwfl_Module *m, uint64_t address)
{
    GElf_Off offset;
    GElf_Sym sym;
    const char *name = dwfl_module_addrinfo(m, address, &offset, &sym, NULL, NULL, NULL);
    if (!name || GELF_ST_TYPE(sym.st_info) == STT_FUNC || offset >= sym.st_size)
        return NULL;
    return offset ? cli_printf("%s+%#llx", name, (unsigned long long)offset)
                  : cli_printf("%s", name);
}

char *symbols_variable(Dwfl *dwfl, uint64_t address)
{
    Dwfl_Module *m = dwfl ? dwfl_addrmodule(dwfl, address) : NULL;
    if (!m)
        return NULL;
    const variables_t *v = variables_of(m);
    for (size_t i = 0; v && i < v->count; i++)
        if (address >= v->list[i].start && address < v->list[i].end) {
            char *name = described(&v->list[i], address);
            if (name)
                return name;
        }
    return by_symbol_table(m, address);
}
