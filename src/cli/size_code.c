/* SPDX-License-Identifier: MIT */
/*
 * `hotlock size`: what the disassembly says: calls of operations, and the registers that functions
 * with a site store on the stack. objdump does the disassembling.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "cli.h"
#include "program.h"
#include "size.h"

/* How a machine's code is read. Words are the beginnings of mnemonics, separated by blanks. */
typedef struct {
    unsigned machine;
    const char *objdump;    /* beside the plain one */
    unsigned call_bytes;    /* a call and one argument */
    const char *calls;
    const char *saves;      /* that store a register, if the stack is named */
    const char *stack;
} reading_t;

static const reading_t readings[] = {
    {EM_X86_64, "x86_64-linux-gnu-objdump", 8, "call jmp", "mov", "(%rsp)"},
    {EM_386, "i686-linux-gnu-objdump", 9, "call jmp", "mov", "(%esp)"},
    {EM_AARCH64, "aarch64-linux-gnu-objdump", 8, "bl b", "st", "[sp"},
    {EM_ARM, "arm-linux-gnueabihf-objdump", 6, "bl blx b b.w", "push st", "sp"},
    {EM_RISCV, "riscv64-linux-gnu-objdump", 10, "jal j auipc call tail", "s", "(sp)"},
    {EM_PPC64, "powerpc64le-linux-gnu-objdump", 12, "bl b", "st", "(r1)"},
    {EM_S390, "s390x-linux-gnu-objdump", 10, "brasl jg", "st", "(%r15)"},
    {EM_SPARCV9, "sparc64-linux-gnu-objdump", 12, "call", "st save", "%sp"},
    {EM_MIPS, "mips64el-linux-gnuabi64-objdump", 12, "jal jalr bal", "s", "(sp)"},
};

static const reading_t *reading_of(unsigned machine)
{
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++)
        if (readings[i].machine == machine)
            return &readings[i];
    return NULL;
}

unsigned size_call_bytes(unsigned machine)
{
    const reading_t *r = reading_of(machine);
    return r ? r->call_bytes : 8;
}

static const char *native_objdump(unsigned machine, const char *other)
{
#if defined(__x86_64__)
    unsigned own = EM_X86_64;
#elif defined(__aarch64__)
    unsigned own = EM_AARCH64;
#else
    unsigned own = EM_NONE;
#endif
    /* The objdump of x86-64 reads i386 as well. */
    bool same = machine == own || (own == EM_X86_64 && machine == EM_386);
    return same || own == EM_NONE ? "objdump" : other;
}

/* ---- one function of the disassembly at a time ---- */

typedef struct {
    size_of_t *s;
    const reading_t *reading;
    const size_site_t *sites;
    size_t site_count;
    char section[128], function[256];
    uint64_t begin, end;
    uint64_t saves;
    bool callable;             /* the last instruction could be a call */
    char **called;             /* operations called in this function, once each */
    size_t called_count;
} reader_t;

static bool begins_with(const char *word, const char *list)
{
    while (*list) {
        size_t n = strcspn(list, " ");
        if (strncmp(word, list, n) == 0)
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

static bool is_call(const char *mnemonic, const char *list)
{
    size_t length = strcspn(mnemonic, " \t");
    while (*list) {
        size_t n = strcspn(list, " ");
        /* x86 writes "callq" in old versions */
        if (n <= length && length <= n + 1 && strncmp(mnemonic, list, n) == 0)
            return true;
        list += n + (list[n] == ' ');
    }
    return false;
}

/* An operation with a site in this function: what it saves counts once for each. */
static void credit(const reader_t *r, size_op_t *op)
{
    op->functions++;
    op->saves += r->saves;
}

static void end_function(reader_t *r)
{
    for (size_t i = 0; i < r->called_count; i++) {
        credit(r, size_op(r->s, r->called[i]));
        free(r->called[i]);
    }
    size_t last[64];
    size_t seen = 0;
    for (size_t i = 0; i < r->site_count; i++) {
        const size_site_t *site = &r->sites[i];
        if (site->address < r->begin || site->address >= r->end ||
            (site->section[0] && strcmp(site->section, r->section) != 0))
            continue;
        size_t k = 0;
        while (k < seen && last[k] != site->op)
            k++;
        if (k == seen && seen < sizeof last / sizeof *last) {
            last[seen++] = site->op;
            credit(r, &r->s->ops[site->op]);
        }
    }
    r->called_count = 0;
    r->saves = 0;
    r->begin = r->end = 0;
}

static void add_call(reader_t *r, const char *target)
{
    if (size_is_operation(r->function) || strncmp(r->function, "hl_", 3) == 0)
        return; /* in libhotlock itself */
    size_op(r->s, target)->called++;
    for (size_t i = 0; i < r->called_count; i++)
        if (strcmp(r->called[i], target) == 0)
            return;
    r->called = cli_grow(r->called, r->called_count + 1, sizeof *r->called);
    r->called[r->called_count++] = cli_printf("%s", target);
}

/* "hl_tas_lock", "hl_tas_lock@plt", "hl_tas_lock-0x4": the operation, or nothing. */
static void consider(reader_t *r, const char *symbol, size_t length)
{
    char name[64];
    size_t n = strcspn(symbol, "@-+>. \t");
    if (n > length)
        n = length;
    if (n >= sizeof name)
        return;
    memcpy(name, symbol, n);
    name[n] = '\0';
    if (!size_is_operation(name))
        return;
    add_call(r, name);
    r->callable = false; /* an object names it twice: in the instruction and its relocation */
}

static void read_instruction(reader_t *r, uint64_t address, const char *text)
{
    r->end = address + 1;
    r->callable = is_call(text, r->reading->calls);
    if (strncmp(text, "push", 4) == 0)
        r->saves++;
    else if (begins_with(text, r->reading->saves) && strstr(text, r->reading->stack)) {
        const char *comma = strrchr(text, ',');
        /* AT&T syntax names the target last, and only a register's value is a save */
        bool x86 = r->reading->machine == EM_X86_64 || r->reading->machine == EM_386;
        r->saves += !x86 ||
                    (comma && strstr(comma, r->reading->stack) && strchr(text, '%') < comma);
    }
    const char *open = strrchr(text, '<');
    if (r->callable && open && !strchr(open, '+'))
        consider(r, open + 1, strcspn(open + 1, ">"));
}

static void read_line(reader_t *r, char *line)
{
    uint64_t address;
    int at = 0;
    if (sscanf(line, "Disassembly of section %127[^:]:", r->section) == 1) {
        end_function(r);
    } else if (sscanf(line, "%lx <%255[^>]>:", &address, r->function) == 2) {
        end_function(r);
        r->begin = address;
    } else if (sscanf(line, " %lx: R_%*s %n", &address, &at) == 1 && at) {
        if (r->callable)
            consider(r, line + at, strlen(line + at));
    } else if (sscanf(line, " %lx: %n", &address, &at) == 1 && at) {
        read_instruction(r, address, line + at);
    }
}

void size_add_code(size_of_t *s, const char *file, unsigned machine, const size_site_t *sites,
                   size_t count)
{
    const reading_t *reading = reading_of(machine);
    if (!reading)
        cli_bad("'%s' is of a machine whose code is not known here; see hotlock-size(1)", file);
    char *tool = program_find(native_objdump(machine, reading->objdump), NULL);
    const char *argv[] = {tool, "-dr", "--no-show-raw-insn", "--", file, NULL};
    child_spec_t spec = {.path = tool, .argv = (char *const *)argv, .capture = true};
    child_result_t result;
    child_run(&spec, &result);
    if (result.end != CHILD_EXITED || result.code != 0) {
        char why[64];
        cli_bad("%s cannot read '%s': %s", tool, file, child_end_text(&result, why, sizeof why));
    }
    reader_t r = {.s = s, .reading = reading, .sites = sites, .site_count = count};
    for (char *line = strtok(result.out, "\n"); line; line = strtok(NULL, "\n"))
        read_line(&r, line);
    end_function(&r);
    free(r.called);
    child_free(&result);
    free(tool);
}
