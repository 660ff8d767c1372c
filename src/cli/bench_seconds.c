/* SPDX-License-Identifier: MIT */
/*
 * `hotlock bench --org A --new B`: two locks side by side, one line per second, totals and ratio.
 *
 * The form in which Ling Ma reported the effect of the combining lock on a program's output
 * (linux-kernel, February 2016). Unlike there the two take turns, and each turn has its own ratio:
 * seconds of one run resemble each other, so their spread alone would promise too much.
 */
#include <math.h>

#include "bench.h"

enum { ORG, NEW };

static double total(const bench_cell_t *c, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += c->seconds[i];
    return sum;
}

/* After an interrupt one may have more seconds than the other; only pairs count. */
static size_t pairs(const bench_t *b)
{
    size_t org = b->cells[ORG].seconds_count, new = b->cells[NEW].seconds_count;
    return org < new ? org : new;
}

static table_t *seconds_table(const bench_t *b, bool programs)
{
    static const table_column_t columns[] = {
        {"second", "second", TABLE_RIGHT, TABLE_BOTH},
        {"org", "ORG", TABLE_RIGHT, TABLE_BOTH},
        {"new", "NEW", TABLE_RIGHT, TABLE_BOTH},
        {"partial", "partial", TABLE_LEFT, TABLE_PROGRAMS},
    };
    table_t *t = table_new(columns, 4);
    size_t count = pairs(b);
    for (size_t i = 0; i <= count; i++) {
        if (i == count && programs)
            break;
        if (i < count)
            table_int(t, (long long)i + 1);
        else
            table_text(t, "Total");
        for (int side = ORG; side <= NEW; side++) {
            const bench_cell_t *c = &b->cells[side];
            table_int(t, (long long)(i < count ? c->seconds[i] : total(c, count)));
        }
        table_cell(t, json_boolean(b->partial), "%s", b->partial ? "yes" : "no");
    }
    return t;
}

static double ratio_of(const bench_t *b)
{
    size_t count = pairs(b);
    return total(&b->cells[NEW], count) / total(&b->cells[ORG], count);
}

static size_t rounds_done(const bench_t *b)
{
    size_t org = b->cells[ORG].rounds, new = b->cells[NEW].rounds;
    return org < new ? org : new;
}

static double round_ratio(const bench_t *b, size_t round)
{
    return b->cells[NEW].figure[FIGURE_OPS][round] / b->cells[ORG].figure[FIGURE_OPS][round];
}

static void print_json(const bench_t *b, FILE *out)
{
    json_t *head = bench_json_head(b, "org-new"), *rounds = json_array();
    table_t *t = seconds_table(b, true);
    for (int side = ORG; side <= NEW; side++) {
        const bench_cell_t *c = &b->cells[side];
        json_object_set_new(head, side == ORG ? "org" : "new",
                            json_pack("{s:s, s:f, s:s?}", "lock", c->lock->lock, "total",
                                      total(c, pairs(b)), "fault", c->fault));
    }
    json_object_set_new(head, "threads", json_integer(b->threads[0]));
    for (size_t i = 0; i < rounds_done(b); i++)
        json_array_append_new(rounds, bench_json_number(round_ratio(b, i)));
    json_object_set_new(head, "ratio", bench_json_number(ratio_of(b)));
    json_object_set_new(head, "round_ratios", rounds);
    json_object_set_new(head, "per_second", table_rows(t));
    output_json(head, out);
    table_free(t);
}

static void print_ratio(const bench_t *b, FILE *out)
{
    size_t rounds = rounds_done(b);
    double least = INFINITY, most = 0;
    if (rounds == 0)
        return;
    for (size_t i = 0; i < rounds; i++) {
        least = fmin(least, round_ratio(b, i));
        most = fmax(most, round_ratio(b, i));
    }
    fprintf(out, "\nNEW/ORG %.3f; round by round %.3f to %.3f\n", ratio_of(b), least, most);
}

static void print_people(const bench_t *b, table_format_t format, FILE *out)
{
    const bench_cell_t *org = &b->cells[ORG], *new = &b->cells[NEW];
    table_t *t = seconds_table(b, false);
    if (b->partial)
        fprintf(out, "PARTIAL: interrupted before the end\n");
    fprintf(out, "workload %s, %ld thread%s; ORG is %s, NEW is %s\n", b->workload, b->threads[0],
            b->threads[0] == 1 ? "" : "s", org->lock->lock, new->lock->lock);
    bench_conditions(b, out);
    fputc('\n', out);
    table_print(t, format, out);
    print_ratio(b, out);
    for (int side = ORG; side <= NEW; side++)
        if (b->cells[side].fault)
            fprintf(out, "%s: %s\n", b->cells[side].lock->lock, b->cells[side].fault);
    table_free(t);
}

static void print(const void *what, table_format_t format, FILE *out)
{
    const bench_t *b = what;
    if (format == TABLE_JSON) {
        print_json(b, out);
    } else if (format == TABLE_CSV) {
        table_t *t = seconds_table(b, true);
        table_csv(t, out, 1);
        table_free(t);
    } else {
        print_people(b, format, out);
    }
}

bool bench_seconds_report(const bench_t *b, const output_t *output)
{
    return bench_write(b, print, output);
}
