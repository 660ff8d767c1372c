// SPDX-License-Identifier: MIT
// top_flame.c - stacks as an icicle (a flame graph that grows downwards): width is time, each row
// is called by the one above it.
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top_svg.h"

enum { ROW = 18, WIDTH = 1000, ROWS_MOST = 40 };

typedef struct node {
    char *name;
    uint64_t ns;
    struct node *first, *next; // children, siblings
} node_t;

static node_t *child_named(node_t *parent, const char *name)
{
    node_t **at = &parent->first;
    for (; *at; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0)
            return *at;
    *at = cli_alloc(sizeof **at);
    (*at)->name = cli_printf("%s", name);
    return *at;
}

static void add_stack(node_t *root, const profile_t *p, const profile_lock_t *l,
                      const profile_stack_t *s)
{
    node_t *at = root;
    root->ns += s->ns;
    for (uint32_t i = s->depth; i-- > 0;) {
        char *name = top_frame_text(&p->frames[s->frame[i]]);
        at = child_named(at, name);
        at->ns += s->ns;
        free(name);
    }
    char *leaf = cli_printf("[%s]", l->name);
    at = child_named(at, leaf);
    at->ns += s->ns;
    free(leaf);
}

static void free_nodes(node_t *n)
{
    while (n) {
        node_t *next = n->next;
        free_nodes(n->first);
        free(n->name);
        free(n);
        n = next;
    }
}

static int rows_of(const node_t *n)
{
    int most = 0;
    for (const node_t *c = n->first; c; c = c->next) {
        int rows = rows_of(c);
        most = rows > most ? rows : most;
    }
    return most + 1;
}

// A stable colour for a name: locks stand out, code is in three warm tints.
static const char *tint(const char *name)
{
    unsigned h = 5381;
    if (name[0] == '[')
        return "lock";
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    static const char *const tints[] = {"f1", "f2", "f3"};
    return tints[h % 3];
}

static void draw(FILE *out, const node_t *n, double x, int row, double scale, uint64_t total)
{
    for (const node_t *c = n->first; c && row < ROWS_MOST; c = c->next) {
        double width = (double)c->ns * scale;
        char time[32];
        if (width >= 0.5) {
            fprintf(out, "<g class='fr' data-x='%.2f' data-w='%.2f' data-r='%d'><rect class='%s' "
                         "x='%.2f' y='%d' width='%.2f' height='%d'/><title>",
                    x, width, row, tint(c->name), x, row * ROW, width, ROW - 1);
            svg_text(out, c->name);
            fprintf(out, ": %s, %.1f %%</title><text x='%.2f' y='%d' data-n='",
                    top_duration((double)c->ns, time), 100 * (double)c->ns / (double)total, x + 3,
                    row * ROW + 13);
            svg_text(out, c->name);
            fputs("'>", out);
            // About 6.7 units to a character; the script does the same when the graph is zoomed.
            size_t fits = width > 25 ? (size_t)((width - 6) / 6.7) : 0, length = strlen(c->name);
            char *cut = cli_printf("%.*s", (int)(fits < length ? fits : length), c->name);
            while (*cut && fits < length && ((unsigned char)c->name[strlen(cut)] & 0xc0) == 0x80)
                cut[strlen(cut) - 1] = '\0';
            svg_text(out, cut);
            free(cut);
            fputs("</text></g>", out);
            draw(out, c, x, row + 1, scale, total);
        }
        x += width;
    }
}

void svg_flame(FILE *out, const profile_t *p, const profile_lock_t *only, profile_role_t role)
{
    node_t root = {0};
    for (size_t i = 0; i < p->lock_count; i++) {
        const profile_lock_t *l = &p->locks[i];
        for (size_t k = 0; k < l->stack_count && (!only || only == l); k++)
            if (l->stacks[k].role == role && l->stacks[k].ns)
                add_stack(&root, p, l, &l->stacks[k]);
    }
    if (root.ns) {
        int rows = rows_of(&root) - 1;
        rows = rows < ROWS_MOST ? rows : ROWS_MOST;
        fprintf(out, "<svg class='flame' viewBox='0 0 %d %d' role='img' aria-label='flame graph'>",
                WIDTH, rows * ROW);
        draw(out, &root, 0, 0, (double)WIDTH / (double)root.ns, root.ns);
        fputs("</svg>", out);
    } else {
        fputs("<p class='note'>None.</p>", out);
    }
    free_nodes(root.first);
}
