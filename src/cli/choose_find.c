/* SPDX-License-Identifier: MIT */
/*
 * Where in a program's files the choices lie: a walk through debug information, then the symbol
 * tables for what has none.
 *
 * FILE:LINE is the code of that line and, since a lock call is often inlined from a header, the
 * code of every function inlined at it. A function is all its code, inlined copies included. For
 * TYPE::FIELD the variables of that type are exact; of objects on the heap nothing is known before
 * the program runs, so there the code of the type's functions stands for them.
 */
#include "choose_find.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../trace/symbols.h"
#include "cli.h"
#include "needs.h"
#include "program.h"

enum { ELEMENTS_MOST = 64, TYPES_DEEP = 6 };

typedef struct {
    choice_t *choices;
    size_t count;
    const char *path;
    bool lines; /* any choice is a line */
} search_t;

/* ---- places ---- */

static void add_place(const search_t *s, choice_t *c, uint64_t begin, uint64_t end, bool data,
                      bool exact)
{
    if (end <= begin)
        return;
    for (size_t i = 0; i < c->count; i++) {
        place_t *p = &c->places[i];
        if (p->path == s->path && p->data == data && p->begin <= begin && end <= p->end) {
            p->exact |= exact;
            return;
        }
    }
    c->places = cli_grow(c->places, c->count + 1, sizeof *c->places);
    c->places[c->count++] = (place_t){s->path, begin, end, data, exact};
}

/* All code of a function, or of an inlined copy. */
static void add_code(const search_t *s, choice_t *c, Dwarf_Die *die, bool exact)
{
    Dwarf_Addr base, begin, end;
    for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;)
        add_place(s, c, begin, end, false, exact);
}

/* ---- names ---- */

/* Is NAME (of LENGTH bytes) WANT, or does it end in ::WANT? */
static bool is_named(const char *name, size_t length, const char *want, size_t want_length)
{
    if (length < want_length || memcmp(name + length - want_length, want, want_length) != 0)
        return false;
    return length == want_length ||
           (length > want_length + 2 && memcmp(name + length - want_length - 2, "::", 2) == 0);
}

/* "ns::Type::name" of "ns::Type::name(int) const"; templates keep their arguments. */
static size_t without_arguments(const char *name)
{
    int depth = 0;
    size_t i = 0;
    for (; name[i]; i++) {
        depth += name[i] == '<';
        depth -= name[i] == '>';
        if (name[i] == '(' && depth == 0 && i && strncmp(name + i, "(anonymous", 10) != 0)
            break;
    }
    return i;
}

/* The length of TYPE in TYPE::FIELD; 0: WHAT has no ::. */
static size_t type_length(const choice_t *c)
{
    for (size_t i = strlen(c->what); i-- > 1;)
        if (c->what[i] == ':' && c->what[i - 1] == ':')
            return i - 1;
    return 0;
}

/* A function of this name: what is it to the choice? */
static bool match_function(const choice_t *c, const char *name, bool *exact)
{
    size_t length = without_arguments(name), type = type_length(c);
    *exact = is_named(name, length, c->what, strlen(c->what));
    if (*exact || !type)
        return *exact;
    size_t last = length; /* the name's own type: up to its last :: */
    while (last > 1 && !(name[last - 1] == ':' && name[last - 2] == ':'))
        last--;
    return last > 2 && is_named(name, last - 2, c->what, type);
}

static char *readable_name(Dwarf_Die *die)
{
    Dwarf_Attribute a;
    const char *linkage = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &a))
        linkage = dwarf_formstring(&a);
    const char *name = linkage ? linkage : dwarf_diename(die);
    return name ? symbols_readable(name) : NULL;
}

/* ---- functions and inlined copies ---- */

static bool is_file(const choice_t *c, const char *file)
{
    size_t length = file ? strlen(file) : 0;
    return length >= c->file_length &&
           memcmp(file + length - c->file_length, c->what, c->file_length) == 0 &&
           (length == c->file_length || file[length - c->file_length - 1] == '/');
}

static void look_at_call_line(const search_t *s, Dwarf_Die *die, Dwarf_Files *files)
{
    Dwarf_Attribute a;
    Dwarf_Word file, line;
    if (!files || !dwarf_attr(die, DW_AT_call_file, &a) || dwarf_formudata(&a, &file) != 0 ||
        !dwarf_attr(die, DW_AT_call_line, &a) || dwarf_formudata(&a, &line) != 0)
        return;
    for (size_t i = 0; i < s->count; i++) {
        choice_t *c = &s->choices[i];
        if (c->line == (int)line && is_file(c, dwarf_filesrc(files, file, NULL, NULL)))
            add_code(s, c, die, true);
    }
}

static void look_at_function(const search_t *s, Dwarf_Die *die)
{
    char *name = readable_name(die);
    for (size_t i = 0; name && i < s->count; i++) {
        bool exact;
        if (!s->choices[i].line && match_function(&s->choices[i], name, &exact))
            add_code(s, &s->choices[i], die, exact);
    }
    free(name);
}

/* ---- variables ---- */

static bool type_of(Dwarf_Die *die, Dwarf_Die *type)
{
    Dwarf_Attribute a;
    return dwarf_attr_integrate(die, DW_AT_type, &a) && dwarf_formref_die(&a, type);
}

/* Does the type, or a name given to it, have this name? Then *type is without such names. */
static bool is_type(Dwarf_Die *type, const char *want, size_t length)
{
    bool is = false;
    for (int i = 0; i < 16; i++) {
        const char *name = dwarf_diename(type);
        int tag = dwarf_tag(type);
        is |= name && strlen(name) == length && memcmp(name, want, length) == 0;
        if ((tag != DW_TAG_typedef && tag != DW_TAG_const_type && tag != DW_TAG_volatile_type) ||
            !type_of(type, type))
            break;
    }
    return is;
}

/* The member of a structure that is named LENGTH bytes of NAME, and its offset and type. */
static bool field(Dwarf_Die *structure, const char *name, size_t length, uint64_t *offset,
                  Dwarf_Die *type)
{
    Dwarf_Die member;
    if (dwarf_child(structure, &member) != 0)
        return false;
    do {
        Dwarf_Attribute a;
        Dwarf_Word at = 0;
        const char *is = dwarf_diename(&member);
        if (dwarf_tag(&member) != DW_TAG_member || !is || strlen(is) != length ||
            memcmp(is, name, length) != 0)
            continue;
        if (dwarf_attr(&member, DW_AT_data_member_location, &a))
            dwarf_formudata(&a, &at);
        *offset = at;
        return type_of(&member, type);
    } while (dwarf_siblingof(&member, &member) == 0);
    return false;
}

/* How many elements an array has, and their size and type; false: no array. */
static bool elements(Dwarf_Die *type, Dwarf_Die *element, uint64_t *count, uint64_t *size)
{
    Dwarf_Word all, one;
    if (dwarf_tag(type) != DW_TAG_array_type || !type_of(type, element) ||
        dwarf_aggregate_size(type, &all) != 0 || dwarf_aggregate_size(element, &one) != 0 || !one)
        return false;
    *count = all / one < ELEMENTS_MOST ? all / one : ELEMENTS_MOST;
    *size = one;
    return true;
}

/* Adds what PATH, "a.b", leads to from an object, in every element of an array. */
static void add_data(const search_t *s, choice_t *c, uint64_t address, Dwarf_Die *type,
                     const char *path)
{
    uint64_t count, size, offset;
    Dwarf_Die inner = *type, of;
    is_type(&inner, "", 0);
    if (elements(&inner, &of, &count, &size)) {
        for (uint64_t i = 0; i < count; i++)
            add_data(s, c, address + i * size, &of, path);
    } else if (*path) {
        size_t length = strcspn(path, ".");
        if (field(&inner, path, length, &offset, &of))
            add_data(s, c, address + offset, &of, path + length + (path[length] == '.'));
    } else if (dwarf_aggregate_size(&inner, &size) == 0) {
        add_place(s, c, address, address + size, true, true);
    }
}

/* TYPE of TYPE::FIELD without what it lies in. */
static const char *type_in(const choice_t *c, size_t *length)
{
    size_t of = type_length(c), last = of;
    while (last && c->what[last - 1] != ':')
        last--;
    *length = of - last;
    return c->what + last;
}

/* Adds FIELD of every object of TYPE that lies in an object of another type. */
static void add_of_type(const search_t *s, choice_t *c, uint64_t address, Dwarf_Die *type,
                        int depth)
{
    size_t length;
    uint64_t count, size;
    const char *want = type_in(c, &length);
    Dwarf_Die inner = *type, of, member;
    if (is_type(&inner, want, length)) {
        add_data(s, c, address, &inner, c->what + type_length(c) + 2);
        return;
    }
    if (depth == 0)
        return;
    if (elements(&inner, &of, &count, &size)) {
        for (uint64_t i = 0; i < count; i++)
            add_of_type(s, c, address + i * size, &of, depth - 1);
        return;
    }
    int tag = dwarf_tag(&inner);
    if ((tag != DW_TAG_structure_type && tag != DW_TAG_class_type) ||
        dwarf_child(&inner, &member) != 0)
        return;
    do {
        Dwarf_Attribute a;
        Dwarf_Word at = 0;
        if (dwarf_tag(&member) != DW_TAG_member || !type_of(&member, &of))
            continue;
        if (dwarf_attr(&member, DW_AT_data_member_location, &a))
            dwarf_formudata(&a, &at);
        add_of_type(s, c, address + at, &of, depth - 1);
    } while (dwarf_siblingof(&member, &member) == 0);
}

/* The address of a variable that has one, and its type. */
static bool is_static(Dwarf_Die *die, uint64_t *address, Dwarf_Die *type)
{
    Dwarf_Attribute a;
    Dwarf_Op *op;
    size_t count;
    if (!dwarf_attr(die, DW_AT_location, &a) || dwarf_getlocation(&a, &op, &count) != 0 ||
        count != 1 || op[0].atom != DW_OP_addr)
        return false;
    *address = op[0].number;
    return type_of(die, type);
}

static void look_at_variable(const search_t *s, Dwarf_Die *die)
{
    uint64_t address;
    Dwarf_Die type;
    if (!is_static(die, &address, &type))
        return;
    char *name = readable_name(die);
    for (size_t i = 0; i < s->count; i++) {
        choice_t *c = &s->choices[i];
        size_t dot = strcspn(c->what, ".");
        if (c->line)
            continue;
        if (name && is_named(name, strlen(name), c->what, dot))
            add_data(s, c, address, &type, c->what[dot] ? c->what + dot + 1 : "");
        else if (type_length(c))
            add_of_type(s, c, address, &type, TYPES_DEEP);
    }
    free(name);
}

/* Is this the type of TYPE::FIELD? */
static void look_at_type(const search_t *s, Dwarf_Die *die)
{
    for (size_t i = 0; i < s->count; i++) {
        choice_t *c = &s->choices[i];
        size_t length;
        uint64_t offset;
        Dwarf_Die type = *die, of;
        const char *want = type_in(c, &length), *path = c->what + type_length(c) + 2;
        if (!c->line && type_length(c) && is_type(&type, want, length) &&
            field(&type, path, strcspn(path, "."), &offset, &of))
            c->field_seen = true;
    }
}

/* ---- one file ---- */

static void walk(const search_t *s, Dwarf_Die *parent, Dwarf_Files *files, int depth)
{
    Dwarf_Die die;
    if (depth > 64 || dwarf_child(parent, &die) != 0)
        return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_inlined_subroutine:
            look_at_call_line(s, &die, files);
            look_at_function(s, &die);
            break;
        case DW_TAG_subprogram: look_at_function(s, &die); break;
        case DW_TAG_variable: look_at_variable(s, &die); continue;
        case DW_TAG_typedef: look_at_type(s, &die); continue;
        case DW_TAG_structure_type:
        case DW_TAG_class_type: look_at_type(s, &die); break;
        case DW_TAG_namespace:
        case DW_TAG_lexical_block: break;
        default: continue;
        }
        walk(s, &die, files, depth + 1);
    } while (dwarf_siblingof(&die, &die) == 0);
}

static void look_at_lines(const search_t *s, Dwarf_Die *unit)
{
    Dwarf_Lines *lines;
    size_t count;
    if (!s->lines || dwarf_getsrclines(unit, &lines, &count) != 0)
        return;
    for (size_t i = 0; i + 1 < count; i++) {
        Dwarf_Line *line = dwarf_onesrcline(lines, i), *next = dwarf_onesrcline(lines, i + 1);
        Dwarf_Addr begin, end;
        bool ends;
        int number;
        if (dwarf_lineno(line, &number) != 0 || dwarf_lineendsequence(line, &ends) != 0 || ends)
            continue;
        for (size_t k = 0; k < s->count; k++) {
            choice_t *c = &s->choices[k];
            if (c->line == number && is_file(c, dwarf_linesrc(line, NULL, NULL)) &&
                dwarf_lineaddr(line, &begin) == 0 && dwarf_lineaddr(next, &end) == 0)
                add_place(s, c, begin, end, false, true);
        }
    }
}

static void look_at_symbols(const search_t *s, Dwfl_Module *m, Dwarf_Addr bias)
{
    int count = dwfl_module_getsymtab(m);
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr address;
        const char *raw = dwfl_module_getsym_info(m, i, &symbol, &address, NULL, NULL, NULL);
        int type = GELF_ST_TYPE(symbol.st_info);
        if (!raw || symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_OBJECT))
            continue;
        char *name = symbols_readable(raw);
        uint64_t begin = address - bias, end = begin + symbol.st_size;
        for (size_t k = 0; k < s->count; k++) {
            choice_t *c = &s->choices[k];
            bool exact;
            if (c->line)
                continue;
            if (type == STT_FUNC && match_function(c, name, &exact))
                add_place(s, c, begin, end, false, exact);
            if (type == STT_OBJECT && is_named(name, strlen(name), c->what, strlen(c->what)))
                add_place(s, c, begin, end, true, true);
        }
        free(name);
    }
}

static void look_at_file(search_t *s, const char *path)
{
    static const Dwfl_Callbacks callbacks = {
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
    };
    Dwfl *dwfl = dwfl_begin(&callbacks);
    Dwfl_Module *m = dwfl ? dwfl_report_offline(dwfl, "", path, -1) : NULL;
    Dwarf_Die *unit = NULL;
    Dwarf_Addr bias = 0;
    s->path = path;
    if (m) {
        dwfl_report_end(dwfl, NULL, NULL);
        while ((unit = dwfl_module_nextcu(m, unit, &bias))) {
            Dwarf_Files *files = NULL;
            dwarf_getsrcfiles(unit, &files, NULL);
            walk(s, unit, files, 0);
            look_at_lines(s, unit);
        }
        if (dwfl_module_getelf(m, &bias))
            look_at_symbols(s, m, bias);
    }
    if (dwfl)
        dwfl_end(dwfl);
}

/* WHAT itself, if it was found anywhere; else what belongs to the type. */
static void settle(choice_t *c)
{
    bool function = false;
    for (size_t i = 0; i < c->count; i++)
        function |= c->places[i].exact && !c->places[i].data;
    c->by_type = c->field_seen && !function;
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++)
        if (c->places[i].exact || c->by_type)
            c->places[kept++] = c->places[i];
    c->count = kept;
    for (size_t i = 1; i < kept; i++)
        c->others |= c->places[i].path != c->places[0].path;
}

void choose_find(choice_t *choices, size_t count, const char *program, char *const *plugins)
{
    char linker[PATH_MAX];
    search_t s = {.choices = choices, .count = count};
    for (size_t i = 0; i < count; i++)
        s.lines |= choices[i].line > 0;
    char *path = realpath(program, NULL);
    look_at_file(&s, path ? path : program);
    need_t *needs = program_linker(program, linker, sizeof linker) ? needs_of(program, linker)
                                                                   : NULL;
    for (need_t *n = needs; n && n->name; n++) /* the names stay: places point to them */
        if (n->path && (path = realpath(n->path, NULL)))
            look_at_file(&s, path);
    for (; plugins && *plugins; plugins++)
        if ((path = realpath(*plugins, NULL)))
            look_at_file(&s, path);
    for (size_t i = 0; i < count; i++)
        settle(&choices[i]);
}
