/* SPDX-License-Identifier: MIT */
/*
 * Weakens each memory order in turn, by one step, and explores again. The program is not rebuilt:
 * the checker is told which program counters to treat as weaker. A line that was inlined in
 * several places counts as one; so does the order of a compare-exchange that fails.
 */
#include "check_orders.h"

#include <stdlib.h>
#include <string.h>

#include "check_build.h"
#include "cli.h"
#include "table.h"

enum { FENCE = -1, LOAD = 0, STORE = 1 };
enum { RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST };

/* The sites that one source line stands for. */
typedef struct {
    const trace_spot_t *spot;
    int op, order;
    unsigned long pcs[64];
    size_t count;
} group_t;

typedef struct {
    group_t *list;
    size_t count;
} groups_t;

static bool same_line(const trace_spot_t *a, const trace_spot_t *b)
{
    return a->line == b->line && !strcmp(a->file, b->file) && !strcmp(a->function, b->function);
}

static groups_t group(const trace_t *t)
{
    groups_t g = {0};
    for (size_t i = 0; i < t->site_count; i++) {
        const trace_site_t *s = &t->sites[i];
        const trace_spot_t *spot = trace_spot(t, s->pc);
        if (s->order == RELAXED)
            continue;
        size_t k = 0;
        while (k < g.count && !(g.list[k].op == s->op && g.list[k].order == s->order &&
                                same_line(g.list[k].spot, spot)))
            k++;
        if (k == g.count) {
            g.list = cli_grow(g.list, g.count + 1, sizeof *g.list);
            g.list[g.count++] = (group_t){.spot = spot, .op = s->op, .order = s->order};
        }
        if (g.list[k].count < sizeof g.list[k].pcs / sizeof *g.list[k].pcs)
            g.list[k].pcs[g.list[k].count++] = s->pc;
    }
    return g;
}

/* The orders one step below, ended by -1. */
static const int *weaker(int op, int order)
{
    static const int relaxed[] = {RELAXED, -1}, halves[] = {ACQUIRE, RELEASE, -1},
                     acquire[] = {ACQUIRE, -1}, release[] = {RELEASE, -1}, both[] = {ACQ_REL, -1};
    if (order == ACQ_REL)
        return halves;
    if (order == SEQ_CST)
        return op == LOAD ? acquire : op == STORE ? release : both;
    return relaxed;
}

static const char *op_name(int op)
{
    static const char *const names[] = {"load", "store", "exchange", "add", "sub", "and", "or", "xor",
                                        "nand", "compare-exchange"};
    return op == FENCE ? "fence" : names[op];
}

static const table_column_t columns[] = {
    {"where", "where", TABLE_LEFT, TABLE_BOTH},
    {"operation", "operation", TABLE_LEFT, TABLE_BOTH},
    {"order", "order", TABLE_LEFT, TABLE_BOTH},
    {"weakened", "weakened", TABLE_LEFT, TABLE_BOTH},
    {"verdict", "verdict", TABLE_LEFT, TABLE_BOTH},
    {"reason", "because", TABLE_LEFT, TABLE_BOTH},
};

static char *weaken_setting(const group_t *g, int order)
{
    char *text = cli_printf(" weaken=%d", order);
    for (size_t i = 0; i < g->count; i++) {
        char *longer = cli_printf("%s,%lx", text, g->pcs[i]);
        free(text);
        text = longer;
    }
    return text;
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* Explores with one group weakened; adds a row. Returns 0 needed, 1 stronger than needed, 2 open. */
static int try_weaker(const char *program, check_explore_t explore, const group_t *g, int order,
                      table_t *table)
{
    trace_t t;
    char *more = weaken_setting(g, order);
    explore(program, more, &t);
    bool bad = !strcmp(t.end, "bad"), all = !strcmp(t.end, "complete");
    table_text(table, "%s:%d %s", base_name(g->spot->file), g->spot->line, g->spot->function);
    table_text(table, "%s", op_name(g->op));
    table_text(table, "%s", trace_order_name(g->order));
    table_text(table, "%s", trace_order_name(order));
    table_text(table, "%s", bad ? "needed" : all ? "stronger than needed" : "open");
    table_text(table, "%s", bad ? t.what : all ? "every execution is right" : t.end);
    trace_free(&t);
    free(more);
    return bad ? 0 : all ? 1 : 2;
}

static void print_orders(const table_t *table, const int count[3], unsigned long long executions,
                         table_format_t format, FILE *out)
{
    if (format == TABLE_JSON) {
        output_json(json_pack("{s:s, s:i, s:i, s:i, s:I, s:o}", "schema", "hotlock-check-orders/1",
                              "needed", count[0], "stronger", count[1], "open", count[2], "executions",
                              (json_int_t)executions, "orders", table_rows(table)), out);
        return;
    }
    table_print(table, format, out);
    if (format == TABLE_TEXT)
        fprintf(out, "%d orders needed, %d stronger than needed, %d open; %llu executions each\n",
                count[0], count[1], count[2], executions);
}

int check_orders(const char *program, check_explore_t explore, const output_t *output)
{
    trace_t t;
    int count[3] = {0};
    explore(program, " sites=1", &t);
    if (strcmp(t.end, "complete") != 0) {
        bool bad = !strcmp(t.end, "bad");
        cli_note("the program as it is %s; orders are compared only once it is verified",
                 bad ? "has a counterexample" : "was not explored to the end");
        trace_free(&t);
        return bad ? 1 : 3;
    }
    groups_t g = group(&t);
    table_t *table = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < g.count; i++)
        for (const int *order = weaker(g.list[i].op, g.list[i].order); *order >= 0; order++)
            count[try_weaker(program, explore, &g.list[i], *order, table)]++;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    print_orders(table, count, t.complete, output->format, out);
    fclose(out);
    bool good = output_write(output->file, text, size);
    free(text);
    table_free(table);
    free(g.list);
    trace_free(&t);
    return !good || count[1] ? 1 : count[2] ? 3 : 0;
}
