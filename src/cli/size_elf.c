/* SPDX-License-Identifier: MIT */
/* `hotlock size`: what the symbol table and the debug information of a file say. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "size.h"

/* ---- operations by name ---- */

static const char *const locks[] = {"tas",     "ticket", "mcs",  "nmcs", "nmcs4",
                                    "mcsflag", "qspin",  "park", "ali",  NULL};
static const char *const operations[] = {"lock",      "trylock", "lock_until", "unlock",
                                         "is_locked", NULL};
/* ali's; and hl_run() */
static const char *const runs[] = {"run", "submit", "done", "wait", NULL};

static bool one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(word, *words) != 0)
        words++;
    return *words;
}

/* Splits "hl_nmcs_unlock" into "nmcs" and "unlock", "hl_unlock" into "any" and "unlock". */
static bool split(const char *function, char lock[16], const char **operation)
{
    if (strncmp(function, "hl_", 3) != 0)
        return false;
    strcpy(lock, "any");
    *operation = function + 3;
    for (size_t i = 0; locks[i]; i++) {
        size_t n = strlen(locks[i]);
        if (strncmp(function + 3, locks[i], n) == 0 && function[3 + n] == '_') {
            strcpy(lock, locks[i]);
            *operation = function + 4 + n;
        }
    }
    return one_of(*operation, operations) ||
           (strcmp(lock, "ali") == 0 && one_of(*operation, runs)) ||
           strcmp(function, "hl_run") == 0;
}

bool size_is_operation(const char *function)
{
    char lock[16];
    const char *operation;
    return split(function, lock, &operation);
}

size_op_t *size_op(size_of_t *s, const char *function)
{
    char lock[16];
    const char *operation;
    if (!split(function, lock, &operation))
        return NULL;
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->ops[i].lock, lock) == 0 && strcmp(s->ops[i].operation, operation) == 0)
            return &s->ops[i];
    s->ops = cli_grow(s->ops, s->count + 1, sizeof *s->ops);
    s->ops[s->count] = (size_op_t){
        .lock = cli_printf("%s", lock), .operation = cli_printf("%s", operation)};
    return &s->ops[s->count++];
}

void size_free(size_of_t *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->ops[i].lock);
        free(s->ops[i].operation);
    }
    free(s->ops);
}

/* ---- symbols ---- */

/*
 * A function's name without what compilers add: ".constprop.0" after it, and "_ZL" and its length
 * before it where C++ has a static function. New, free it.
 */
static char *plain_name(const char *text)
{
    int at = 0;
    unsigned length;
    if (sscanf(text, "_ZL%u%n", &length, &at) == 1 && strlen(text + at) >= length)
        return cli_printf("%.*s", (int)length, text + at);
    return cli_printf("%.*s", (int)strcspn(text, "."), text);
}

/* Calls back for each function symbol. */
static void each_function(Elf *elf, void (*back)(void *data, const char *name, const GElf_Sym *),
                          void *data)
{
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        Elf_Data *bytes;
        if (!gelf_getshdr(scn, &header) || header.sh_type != SHT_SYMTAB ||
            !(bytes = elf_getdata(scn, NULL)))
            continue;
        for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
            GElf_Sym symbol;
            const char *text;
            if (!gelf_getsym(bytes, (int)i, &symbol) || GELF_ST_TYPE(symbol.st_info) != STT_FUNC ||
                symbol.st_shndx == SHN_UNDEF ||
                !(text = elf_strptr(elf, header.sh_link, symbol.st_name)))
                continue;
            char *name = plain_name(text);
            back(data, name, &symbol);
            free(name);
        }
    }
}

/* A local function of ours that is no operation came with the inlined ones. */
static void add_symbol(void *data, const char *name, const GElf_Sym *symbol)
{
    size_of_t *s = data;
    if (strncmp(name, "hl_", 3) != 0)
        return;
    if (size_is_operation(name)) {
        size_op(s, name)->body = symbol->st_size;
    } else if (GELF_ST_BIND(symbol->st_info) == STB_LOCAL) {
        s->slow_copies++;
        s->slow_bytes += symbol->st_size;
    }
}

typedef struct {
    const char *name;
    uint64_t size;
} wanted_t;

static void find_symbol(void *data, const char *name, const GElf_Sym *symbol)
{
    wanted_t *w = data;
    if (strcmp(name, w->name) == 0)
        w->size = symbol->st_size;
}

uint64_t size_of_function(const char *file, const char *name)
{
    wanted_t wanted = {name, 0};
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    elf_version(EV_CURRENT);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_ELF)
        each_function(elf, find_symbol, &wanted);
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    return wanted.size;
}

static uint64_t code_bytes(Elf *elf)
{
    uint64_t sum = 0;
    for (Elf_Scn *scn = NULL; (scn = elf_nextscn(elf, scn));) {
        GElf_Shdr header;
        if (gelf_getshdr(scn, &header) && header.sh_type == SHT_PROGBITS &&
            (header.sh_flags & SHF_EXECINSTR))
            sum += header.sh_size;
    }
    return sum;
}

/* ---- debug information ---- */

typedef struct {
    size_of_t *s;
    Dwfl_Module *module;
    Dwarf_Addr bias;
    bool object;
    size_site_t *sites;
    char **functions; /* per site: the function; ops may move while they are found */
    size_t count;
} search_t;

static void add_site(search_t *x, const char *function, Dwarf_Addr address, uint64_t bytes)
{
    size_op_t *op = size_op(x->s, function);
    op->inlined++;
    op->inline_bytes += bytes;
    size_site_t site = {.section = cli_printf("%s", ""), .address = address};
    if (x->object) {
        Dwarf_Addr at = address + x->bias;
        int index = dwfl_module_relocate_address(x->module, &at);
        Elf32_Word shndx = 0;
        const char *name = index < 0 ? NULL : dwfl_module_relocation_info(x->module,
                                                                          (unsigned)index, &shndx);
        free(site.section);
        site.section = cli_printf("%s", name ? name : "");
        site.address = at;
    }
    x->sites = cli_grow(x->sites, x->count + 1, sizeof *x->sites);
    x->functions = cli_grow(x->functions, x->count + 1, sizeof *x->functions);
    x->sites[x->count] = site;
    x->functions[x->count++] = cli_printf("%s", function);
}

/* The name of what was inlined here. */
static const char *origin_name(Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    if (!dwarf_attr(die, DW_AT_abstract_origin, &attribute) ||
        !dwarf_formref_die(&attribute, &origin))
        return NULL;
    return dwarf_diename(&origin);
}

/* Outermost operations only: hl_lock() is made of the others, and its bytes are theirs. */
static void walk(search_t *x, Dwarf_Die *die)
{
    Dwarf_Die child;
    const char *name;
    int tag = dwarf_tag(die);
    if (tag == DW_TAG_subprogram && (name = dwarf_diename(die)) && size_is_operation(name))
        return;  /* libhotlock's own copy, or the compiler's of an operation it did not inline */
    if (tag == DW_TAG_inlined_subroutine && (name = origin_name(die)) && size_is_operation(name)) {
        Dwarf_Addr base, begin, end, first = 0;
        uint64_t bytes = 0;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;) {
            if (!bytes)
                first = begin;
            bytes += end - begin;
        }
        if (bytes)
            add_site(x, name, first, bytes);
        return;
    }
    if (dwarf_child(die, &child) == 0)
        do
            walk(x, &child);
        while (dwarf_siblingof(&child, &child) == 0);
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
};

/* False: no debug information. */
static bool search(search_t *x, const char *file)
{
    bool any = false;
    Dwfl *dwfl = dwfl_begin(&callbacks);
    x->module = dwfl_report_offline(dwfl, file, file, -1);
    dwfl_report_end(dwfl, NULL, NULL);
    if (x->module)
        for (Dwarf_Die *cu = NULL; (cu = dwfl_module_nextcu(x->module, cu, &x->bias));) {
            any = true;
            walk(x, cu);
        }
    dwfl_end(dwfl);
    return any;
}

/* ---- all of it ---- */

static Elf *open_elf(const char *file, int *fd)
{
    *fd = open(file, O_RDONLY | O_CLOEXEC);
    if (*fd < 0)
        cli_bad("cannot read '%s': %m", file);
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(*fd, ELF_C_READ, NULL);
    if (elf && elf_kind(elf) == ELF_K_AR)
        cli_bad("'%s' is an archive; give it the objects in it (ar x), or the program", file);
    if (!elf || elf_kind(elf) != ELF_K_ELF)
        cli_bad("'%s' is no object and no program; give it what a compiler or linker wrote", file);
    return elf;
}

void size_add_file(size_of_t *s, const char *file)
{
    int fd;
    GElf_Ehdr header;
    Elf *elf = open_elf(file, &fd);
    if (!gelf_getehdr(elf, &header))
        cli_bad("'%s' is damaged: %s", file, elf_errmsg(-1));
    if (s->machine && s->machine != header.e_machine)
        cli_bad("'%s' is of another machine than the files before it; ask for each alone", file);
    s->machine = header.e_machine;
    s->text += code_bytes(elf);
    each_function(elf, add_symbol, s);
    search_t x = {.s = s, .object = header.e_type == ET_REL};
    if (!search(&x, file)) {
        cli_note("no debug information in '%s': only calls are seen; compile with -g", file);
        s->debug = false;
    }
    for (size_t i = 0; i < x.count; i++)
        x.sites[i].op = (size_t)(size_op(s, x.functions[i]) - s->ops);
    size_add_code(s, file, header.e_machine, x.sites, x.count);
    for (size_t i = 0; i < x.count; i++) {
        free(x.sites[i].section);
        free(x.functions[i]);
    }
    free(x.sites);
    free(x.functions);
    elf_end(elf);
    close(fd);
}
