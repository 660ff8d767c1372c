/* SPDX-License-Identifier: MIT */
/* The result of `hotlock size`: one row per operation, the sum, and what to choose. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "cli.h"
#include "size.h"

static const table_column_t columns[] = {
    {"operation", "operation", TABLE_LEFT, TABLE_BOTH},
    {"sites_inlined", "inline", TABLE_RIGHT, TABLE_BOTH},
    {"sites_called", "calls", TABLE_RIGHT, TABLE_BOTH},
    {"bytes_inline", "B inline", TABLE_RIGHT, TABLE_BOTH},
    {"bytes_called", "B called", TABLE_RIGHT, TABLE_BOTH},
    {"growth_percent", "% text", TABLE_RIGHT, TABLE_BOTH},
    {"instructions_inline", "ins inline", TABLE_RIGHT, TABLE_BOTH},
    {"instructions_called", "called", TABLE_RIGHT, TABLE_BOTH},
    {"register_saves", "saves", TABLE_RIGHT, TABLE_BOTH},
    {"choice", "choose", TABLE_LEFT, TABLE_BOTH},
    {"reason", "because", TABLE_LEFT, TABLE_PROGRAMS},
};

uint64_t size_bytes_called(const size_op_t *op, unsigned machine)
{
    return (op->inlined + op->called) * size_call_bytes(machine);
}

/* A call would be what the other sites are on average, else the body without its return. */
uint64_t size_bytes_inline(const size_op_t *op)
{
    if (!op->called)
        return op->inline_bytes;
    if (op->inlined)
        return op->inline_bytes + op->inline_bytes / op->inlined * op->called;
    return op->body ? (op->body - 1) * op->called : 0;
}

typedef struct {
    const char *choice; /* "inline", "call" or "-" */
    char *reason;
} advice_t;

static double growth_percent(const size_of_t *s, const size_op_t *op)
{
    double bytes = (double)size_bytes_inline(op) -
                   (double)size_bytes_called(op, s->machine);
    return s->text ? 100 * bytes / (double)s->text : NAN;
}

static char *gain_text(const size_op_t *op)
{
    if (!op->steps.called || !op->steps.inlined)
        return cli_printf("a call");
    int gain = (int)op->steps.called - (int)op->steps.inlined;
    return cli_printf("%d instruction%s", gain, gain == 1 ? "" : "s");
}

static advice_t advise(const size_of_t *s, const size_op_t *op, double most)
{
    size_t sites = op->inlined + op->called;
    uint64_t inline_bytes = size_bytes_inline(op);
    if (!inline_bytes)
        return (advice_t){"-", cli_printf("the bytes of an inline site are not known")};
    double each = (double)inline_bytes / (double)sites - size_call_bytes(s->machine);
    char *gain = gain_text(op), *reason;
    /* Below a page it cannot matter. */
    bool call = growth_percent(s, op) > most && each * (double)sites > 4096;
    if (each <= 0)
        reason = cli_printf("no bigger than a call, and saves %s", gain);
    else if (call)
        reason = cli_printf("%.0f bytes a site, %.2f %% of the code, to save %s", each,
                            growth_percent(s, op), gain);
    else
        reason = cli_printf("saves %s for %.0f bytes a site", gain, each);
    free(gain);
    return (advice_t){call && each > 0 ? "call" : "inline", reason};
}

static void add_row(table_t *t, const size_of_t *s, const size_op_t *op, double most)
{
    uint64_t inline_bytes = size_bytes_inline(op);
    advice_t advice = advise(s, op, most);
    if (strcmp(op->lock, "any") == 0)
        table_text(t, "hl_%s", op->operation);
    else
        table_text(t, "hl_%s_%s", op->lock, op->operation);
    table_int(t, (long long)op->inlined);
    table_int(t, (long long)op->called);
    if (inline_bytes)
        table_int(t, (long long)inline_bytes);
    else
        table_none(t);
    table_int(t, (long long)size_bytes_called(op, s->machine));
    table_real(t, inline_bytes ? growth_percent(s, op) : NAN, 3);
    for (int form = 0; form < 2; form++) {
        unsigned steps = form ? op->steps.called : op->steps.inlined;
        if (steps)
            table_int(t, steps);
        else
            table_none(t);
    }
    table_real(t, op->functions ? (double)op->saves / (double)op->functions : NAN, 1);
    table_text(t, "%s", advice.choice);
    table_text(t, "%s", advice.reason);
    free(advice.reason);
}

static int by_name(const void *a, const void *b)
{
    const size_op_t *x = a, *y = b;
    int lock = strcmp(x->lock, y->lock);
    return lock ? lock : strcmp(x->operation, y->operation);
}

static size_t used(const size_of_t *s, size_op_t **list)
{
    size_t n = 0;
    *list = cli_alloc((s->count + 1) * sizeof **list);
    for (size_t i = 0; i < s->count; i++)
        if (s->ops[i].inlined || s->ops[i].called)
            (*list)[n++] = s->ops[i];
    qsort(*list, n, sizeof **list, by_name);
    return n;
}

/* The sum in the form the mails of 2009 had it: "80KB, total size is around 5.5MB". */
typedef struct {
    size_t inlined, called;
    double inline_bytes, as_calls, growth; /* of the sites that are inlined now */
} sum_t;

static sum_t sum_of(const size_of_t *s)
{
    sum_t sum = {0};
    for (size_t i = 0; i < s->count; i++) {
        const size_op_t *op = &s->ops[i];
        sum.inlined += op->inlined;
        sum.called += op->called;
        sum.inline_bytes += (double)op->inline_bytes;
        sum.as_calls += (double)(op->inlined * size_call_bytes(s->machine));
    }
    sum.growth = sum.inline_bytes - sum.as_calls + (sum.inlined ? (double)s->slow_bytes : 0);
    return sum;
}

static double share(double bytes, const size_of_t *s)
{
    return s->text ? 100 * bytes / (double)s->text : NAN;
}

static void print_sum(const size_of_t *s, const size_of_t *other, FILE *out)
{
    sum_t sum = sum_of(s);
    fprintf(out, "%zu sites inlined, %zu called, in %.1f KB of code.\n", sum.inlined, sum.called,
            (double)s->text / 1000);
    if (sum.inlined)
        fprintf(out, "Inlining: %.1f KB at the sites, where calls would take about %.1f KB, and "
                     "%zu slow paths of\n%.1f KB: about %.1f KB more, %.2f %% of the code.\n",
                sum.inline_bytes / 1000, sum.as_calls / 1000, s->slow_copies,
                (double)s->slow_bytes / 1000, sum.growth / 1000, share(sum.growth, s));
    if (other) {
        double difference = (double)s->text - (double)other->text;
        fprintf(out, "Measured against %s: %+.1f KB, %+.2f %% of its %.1f KB.\n", other->files[0],
                difference / 1000, share(difference, other), (double)other->text / 1000);
    }
    fputc('\n', out);
}

static void print_reasons(const size_of_t *s, const size_op_t *ops, size_t count, double most,
                          FILE *out)
{
    fputc('\n', out);
    for (size_t i = 0; i < count; i++) {
        advice_t advice = advise(s, &ops[i], most);
        bool any = strcmp(ops[i].lock, "any") == 0;
        fprintf(out, "hl_%s%s%s: %s: %s\n", any ? "" : ops[i].lock, any ? "" : "_",
                ops[i].operation, advice.choice, advice.reason);
        free(advice.reason);
    }
    fputs("\nBytes of the form a site does not have are estimated. Instructions are those of one "
          "operation with\nnobody else there, counted in this command's own copy. saves: registers "
          "that a function with a site\nstores on the stack, on average.\n", out);
}

static json_t *to_json(const size_of_t *s, const size_of_t *other, table_t *t)
{
    sum_t sum = sum_of(s);
    json_t *files = json_array();
    for (char **file = s->files; *file; file++)
        json_array_append_new(files, table_json_string(*file));
    json_t *json = json_pack(
        "{s:s, s:o, s:b, s:I, s:i, s:i, s:f, s:f, s:i, s:I, s:f, s:f, s:o}", "schema",
        "hotlock-size/1", "files", files, "debug_information", s->debug, "text_bytes",
        (json_int_t)s->text, "sites_inlined", (int)sum.inlined, "sites_called", (int)sum.called,
        "bytes_inlined", sum.inline_bytes, "bytes_if_called", sum.as_calls, "slow_paths",
        (int)s->slow_copies, "slow_path_bytes", (json_int_t)s->slow_bytes, "growth_bytes",
        sum.growth, "growth_percent", share(sum.growth, s), "operations", table_rows(t));
    if (other)
        json_object_set_new(json, "against",
                            json_pack("{s:o, s:I, s:I}", "file", table_json_string(other->files[0]),
                                      "text_bytes", (json_int_t)other->text, "difference",
                                      (json_int_t)s->text - (json_int_t)other->text));
    return json;
}

void size_print(const size_of_t *s, const size_of_t *other, double most, table_format_t format,
                FILE *out)
{
    size_op_t *ops;
    size_t count = used(s, &ops);
    table_t *t = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < count; i++)
        add_row(t, s, &ops[i], most);
    if (format == TABLE_JSON) {
        output_json(to_json(s, other, t), out);
    } else if (format == TABLE_CSV) {
        table_csv(t, out, 1);
    } else {
        print_sum(s, other, out);
        table_print(t, format, out);
        print_reasons(s, ops, count, most, out);
    }
    table_free(t);
    free(ops);
}
