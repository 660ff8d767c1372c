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

static kernel_symbol_t *list;
static size_t count;

static int by_address(const void *a, const void *b)
{
    uint64_t x = ((const kernel_symbol_t *)a)->address, y = ((const kernel_symbol_t *)b)->address;
    return x < y ? -1 : x > y;
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
    size_t room = 0, have = 0;
    while (getline(&line, &room, f) > 0) {
        uint64_t address;
        char type, name[512];
        if (sscanf(line, "%" SCNx64 " %c %511s", &address, &type, name) != 3 || !address)
            continue;
        if (!strchr("tTwW", type))
            continue;
        if (count == have) {
            have = have ? 2 * have : 65536;
            list = cli_grow(list, have, sizeof *list);
        }
        list[count++] = (kernel_symbol_t){address, cli_printf("%s", name)};
    }
    free(line);
    fclose(f);
    qsort(list, count, sizeof *list, by_address);
}

const char *symbols_kernel(uint64_t pc, uint64_t *offset)
{
    read_symbols();
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list[middle].address <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    // Beyond the last symbol's page there is no function of the kernel.
    if (low == 0 || (low == count && pc - list[low - 1].address > 4096))
        return NULL;
    if (offset)
        *offset = pc - list[low - 1].address;
    return list[low - 1].name;
}
