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
    char *name;
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
        to->room = to->room ? 2 * to->room : 16384;
        to->list = cli_grow(to->list, to->room, sizeof *to->list);
    }
    to->list[to->count++] = (kernel_symbol_t){address, cli_printf("%s", name)};
}

static void read_symbols(void)
{
    static bool done;
    if (done)
        return;
    done = true;
    FILE *f = fopen("/proc/kallsyms", "re");
    if (!f)
        return;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, f) > 0) {
        uint64_t address;
        char type, name[512];
        if (sscanf(line, "%" SCNx64 " %c %511s", &address, &type, name) != 3 || !address)
            continue;
        if (strchr("tTwW", type))
            add(&functions, address, name);
        else if (strchr("dDbBrR", type))
            add(&variables, address, name);
    }
    free(line);
    fclose(f);
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
    if (at == 0 || at == variables.count || address - variables.list[at - 1].address > 65536)
        return NULL;
    return variables.list[at - 1].name;
}
