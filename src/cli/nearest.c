/* SPDX-License-Identifier: MIT */
/* The nearest of some names to a mistyped one (optimal string alignment distance). */
#include "nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Three rows of the usual table are enough: swapping neighbours looks two rows back. */
size_t nearest_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    size_t *rows = cli_alloc(3 * (m + 1) * sizeof *rows);
    size_t *older = rows, *old = rows + (m + 1), *now = rows + 2 * (m + 1);

    for (size_t j = 0; j <= m; j++)
        now[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *spare = older;
        older = old;
        old = now;
        now = spare;
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = least(old[j - 1] + !same(a[i - 1], b[j - 1]), least(old[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                now[j] = least(now[j], older[j - 2] + 1);
        }
    }
    size_t distance = now[m];
    free(rows);
    return distance;
}

const char *nearest_name(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t fewest = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = nearest_distance(word, names[i]);
        if (distance < fewest) {
            fewest = distance;
            best = names[i];
        }
    }
    return best;
}
