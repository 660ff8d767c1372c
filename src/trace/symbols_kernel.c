// SPDX-License-Identifier: MIT
// symbols_kernel.c - the kernel's functions, from /proc/kallsyms, read once.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "symbols.h"

typedef struct {
    uint64_t address;
    const char *name; // in the text of the file, which is kept
} kernel_symbol_t;

typedef struct {
    kernel_symbol_t *list;
    size_t count, room;
} kernel_symbols_t;

static kernel_symbols_t functions, variables;

static int by_address(const void *a, const void *b)
{
    uint64_t x = ((const kernel_symbol_t *)a)->address, y = ((const kernel_symbol_t *)b)->address;
    return x < y ? -1 : x > y;
}

static void add(kernel_symbols_t *to, uint64_t address, const char *name)
{
    if (to->count == to->room) {
        to->room = to->room ? 2 * to->room : 65536;
        to->list = cli_grow(to->list, to->room, sizeof *to->list);
    }
    to->list[to->count++] = (kernel_symbol_t){address, name};
}

static char *read_all(const char *path)
{
    size_t have = 0, room = 1 << 20, got;
    FILE *f = fopen(path, "re");
    if (!f)
        return NULL;
    char *text = cli_grow(NULL, room, 1);
    while ((got = fread(text + have, 1, room - have - 1, f)) > 0)
        if ((have += got) == room - 1)
            text = cli_grow(text, room *= 2, 1);
    fclose(f);
    text[have] = 0;
    return text;
}

// "ffffffff81000000 T name\t[module]", some hundred thousand lines: no scanf().
static void read_symbols(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    char *text = read_all("/proc/kallsyms"), *end, *next;
    for (char *line = text; line && *line; line = next) {
        next = strchr(line, '\n');
        next = next ? next + 1 : line + strlen(line);
        uint64_t address = strtoull(line, &end, 16);
        if (!address || end[0] != ' ' || !end[1] || end[2] != ' ')
            continue;
        char *name = end + 3;
        name[strcspn(name, "\t\n")] = 0;
        if (strchr("tTwW", end[1]))
            add(&functions, address, name);
        else if (strchr("dDbBrR", end[1]))
            add(&variables, address, name);
    }
    qsort(functions.list, functions.count, sizeof *functions.list, by_address);
    qsort(variables.list, variables.count, sizeof *variables.list, by_address);
}

// Index + 1 of the last symbol that begins at or before the address; 0: none.
static size_t last_before(const kernel_symbols_t *s, uint64_t address)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->list[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const char *symbols_kernel(uint64_t pc, uint64_t *offset)
{
    read_symbols();
    size_t at = last_before(&functions, pc);
    // Beyond the last symbol's page there is no function of the kernel.
    if (at == 0 || (at == functions.count && pc - functions.list[at - 1].address > 4096))
        return NULL;
    if (offset)
        *offset = pc - functions.list[at - 1].address;
    return functions.list[at - 1].name;
}

bool symbols_kernel_range(const char *function, uint64_t *start, uint64_t *end)
{
    read_symbols();
    for (size_t i = 0; i + 1 < functions.count; i++) {
        if (strcmp(functions.list[i].name, function) != 0)
            continue;
        *start = functions.list[i].address;
        for (size_t k = i + 1; k < functions.count; k++)
            if ((*end = functions.list[k].address) > *start)
                return true;
    }
    return false;
}

const char *symbols_kernel_variable(uint64_t address)
{
    read_symbols();
    size_t at = last_before(&variables, address);
    if (variables.count < 1000) // without CONFIG_KALLSYMS_ALL there are only marks of sections
        return NULL;
    if (at == 0 || at == variables.count || address - variables.list[at - 1].address > 65536)
        return NULL;
    return variables.list[at - 1].name;
}
