/* SPDX-License-Identifier: MIT */
/* Reads a report of the model checker, and prints its counterexample by source line and thread. */
#include "check_trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "check_build.h"
#include "cli.h"

enum { READ = 1, WRITE, FENCE, CREATE, START, END, JOIN, CHOICE }; /* ev_t in src/check/graph.h */
enum { LOAD, STORE, XCHG, ADD, SUB, AND, OR, XOR, NAND, CAS };     /* vm_op_t in src/vm/vm.h */
enum { INIT = -1 };

/* ---- reading ---- */

#define APPEND(t, list, count)                                        \
    ((t)->list = cli_grow((t)->list, (t)->count + 1, sizeof *(t)->list), &(t)->list[(t)->count++])

static char *rest_of_line(const char *at)
{
    return cli_printf("%.*s", (int)strcspn(at, "\n"), at);
}

static char *unescaped(const char *at)
{
    char *s = rest_of_line(at), *to = s;
    for (const char *from = s; *from; from++) {
        if (*from == '\\' && from[1])
            *to++ = *++from == 'n' ? '\n' : *from;
        else
            *to++ = *from;
    }
    *to = '\0';
    return s;
}

static trace_value_t hex(const char *s)
{
    trace_value_t v = 0;
    for (; isxdigit((unsigned char)*s); s++)
        v = v << 4 | (unsigned)(*s <= '9' ? *s - '0' : *s - 'a' + 10);
    return v;
}

static void read_event(const char *line, trace_t *t)
{
    trace_event_t *e = APPEND(t, events, event_count);
    char value[40] = "";
    sscanf(line, "e %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %39s %*s %*s %lx", &e->thread,
           &e->index, &e->type, &e->op, &e->order, &e->success, &e->failure, &e->offset, &e->size,
           &e->mask, &e->rmw, &e->hidden, &e->loc, &e->rf, &e->copos, &e->child, &e->seq, value,
           &e->pc);
    e->value = hex(value);
}

static void read_order(const char *line, trace_t *t)
{
    char *at = (char *)line + 1, *next;
    t->strict = (int)strtol(at, &at, 10);
    for (long n; n = strtol(at, &next, 10), next != at; at = next)
        *APPEND(t, order, order_count) = (int)n;
}

static void read_line(const char *line, trace_t *t)
{
    char kind[32];
    int n = 0;
    if (line[0] == 'e' && line[1] == ' ') {
        read_event(line, t);
    } else if (line[0] == 'o' && line[1] == ' ') {
        read_order(line, t);
    } else if (line[0] == 'l' && line[1] == ' ') {
        trace_place_t *p = APPEND(t, places, place_count);
        char init[40] = "";
        sscanf(line, "l %*d %lx %d %39s", &p->addr, &p->size, init);
        p->init = hex(init);
    } else if (sscanf(line, "bad %31s %d %lx %d %lx %n", kind, &t->thread, &t->pc, &t->other_thread,
                      &t->other_pc, &n) == 5 && n) {
        t->kind = cli_printf("%s", kind);
        t->what = rest_of_line(line + n);
    } else if (!strncmp(line, "waits ", 6)) {
        typeof(*t->waits) *w = APPEND(t, waits, wait_count);
        sscanf(line, "waits %d %d %lx", &w->thread, &w->joins, &w->pc);
    } else if (!strncmp(line, "site ", 5)) {
        trace_site_t *s = APPEND(t, sites, site_count);
        sscanf(line, "site %lx %d %d %d", &s->pc, &s->op, &s->order, &s->failure);
    } else if (!strncmp(line, "outcome ", 8)) {
        typeof(*t->outcomes) *o = APPEND(t, outcomes, outcome_count);
        sscanf(line, "outcome %llu %n", &o->times, &n);
        o->text = unescaped(line + n);
    } else if (!strncmp(line, "printed ", 8)) {
        t->printed = unescaped(line + 8);
    } else if (sscanf(line, "limit %d %n", &n, &n) == 1) {
        t->what = rest_of_line(strchr(line + 6, ' ') + 1);
    } else if (sscanf(line, "unusable %lx %n", &t->pc, &n) == 1 && n) {
        t->what = rest_of_line(line + n);
    } else if (!strcmp(line, "few\n")) {
        t->not_fewest = true;
    } else if (!strncmp(line, "end ", 4)) {
        t->end = rest_of_line(line + 4);
    } else {
        sscanf(line, "bound %*d %lx", &t->bound_pc);
        sscanf(line, "found %llu %llu", &t->found, &t->seen);
        sscanf(line, "plain %d %llu", &t->allowed, &t->cut);
        sscanf(line, "counts %llu %llu %llu %llu %*u %*u %*u %*d %lf", &t->complete, &t->blocked,
               &t->runs, &t->bounded, &t->seconds);
    }
}

bool trace_read(const char *file, trace_t *t)
{
    *t = (trace_t){.thread = -1, .other_thread = -1};
    FILE *f = fopen(file, "r");
    if (!f)
        return false;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, f) > 0)
        read_line(line, t);
    free(line);
    fclose(f);
    return t->end != NULL;
}

void trace_free(trace_t *t)
{
    for (size_t i = 0; i < t->outcome_count; i++)
        free(t->outcomes[i].text);
    for (size_t i = 0; i < t->spot_count; i++) {
        free(t->spots[i].function);
        free(t->spots[i].file);
        free(t->spots[i].text);
    }
    free(t->outcomes);
    free(t->spots);
    free(t->events);
    free(t->places);
    free(t->order);
    free(t->waits);
    free(t->sites);
    free(t->end);
    free(t->what);
    free(t->kind);
    free(t->printed);
    *t = (trace_t){0};
}

/* ---- where in the source ---- */

static int by_pc(const void *a, const void *b)
{
    const trace_spot_t *x = a, *y = b;
    return (x->pc > y->pc) - (x->pc < y->pc);
}

static void want(trace_t *t, unsigned long pc)
{
    if (!pc)
        return;
    for (size_t i = 0; i < t->spot_count; i++)
        if (t->spots[i].pc == pc)
            return;
    *APPEND(t, spots, spot_count) = (trace_spot_t){.pc = pc};
}

/* The text of a source line without the blanks around it, or NULL. */
static char *source_line(const char *file, int line)
{
    FILE *f = fopen(file, "r");
    char *text = NULL, *found = NULL;
    size_t size = 0;
    for (int i = 1; f && getline(&text, &size, f) > 0; i++) {
        if (i != line)
            continue;
        char *from = text, *to = text + strlen(text);
        while (isspace((unsigned char)*from))
            from++;
        while (to > from && isspace((unsigned char)to[-1]))
            to--;
        found = cli_printf("%.*s", (int)(to - from), from);
        break;
    }
    free(text);
    if (f)
        fclose(f);
    return found;
}

/* addr2line -a prints the address, then function and place of each inlined level, innermost first. */
static void fill_spots(trace_t *t, char *text)
{
    char *save = NULL;
    trace_spot_t *at = NULL;
    char *function = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!strncmp(line, "0x", 2)) {
            trace_spot_t key = {.pc = strtoul(line, NULL, 16) + 1};
            at = bsearch(&key, t->spots, t->spot_count, sizeof key, by_pc);
            function = NULL;
        } else if (!function) {
            function = line;
        } else {
            char *colon = strrchr(line, ':');
            if (at && !at->file && colon) {
                at->function = cli_printf("%s", function);
                at->file = cli_printf("%.*s", (int)(colon - line), line);
                at->line = atoi(colon + 1);
                at->text = source_line(at->file, at->line);
            }
            function = NULL;
        }
    }
}

void trace_locate(trace_t *t, const char *program)
{
    for (size_t i = 0; i < t->event_count; i++)
        want(t, t->events[i].pc);
    for (size_t i = 0; i < t->wait_count; i++)
        want(t, t->waits[i].pc);
    for (size_t i = 0; i < t->site_count; i++)
        want(t, t->sites[i].pc);
    want(t, t->pc);
    want(t, t->other_pc);
    want(t, t->bound_pc);
    if (!t->spot_count)
        return;
    qsort(t->spots, t->spot_count, sizeof *t->spots, by_pc);
    static const char *const begin[] = {"addr2line", "-a", "-i", "-f", "-e"};
    const char **argv = cli_alloc((t->spot_count + 7) * sizeof *argv);
    size_t n = 5;
    memcpy(argv, begin, sizeof begin);
    argv[n++] = program;
    for (size_t i = 0; i < t->spot_count; i++) /* a return address: the call is just before */
        argv[n++] = cli_printf("0x%lx", t->spots[i].pc - 1);
    child_result_t result;
    check_tool(argv, &result);
    fill_spots(t, result.out);
    child_free(&result);
    while (n > 6)
        free((char *)argv[--n]);
    free(argv);
}

const trace_spot_t *trace_spot(const trace_t *t, unsigned long pc)
{
    static char nothing[] = "", unnamed[] = "?";
    static const trace_spot_t unknown = {0, nothing, unnamed, NULL, 0};
    trace_spot_t key = {.pc = pc};
    trace_spot_t *s = t->spot_count
                          ? bsearch(&key, t->spots, t->spot_count, sizeof key, by_pc) : NULL;
    return s && s->file ? s : &unknown;
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* ---- names of memory ---- */

typedef struct {
    unsigned long addr, size;
    char *name;
} symbol_t;

typedef struct {
    symbol_t *list;
    size_t count;
} symbols_t;

static symbols_t read_symbols(const char *program)
{
    symbols_t s = {0};
    const char *argv[] = {"nm", "-S", "--defined-only", program, NULL};
    child_result_t result;
    check_tool(argv, &result);
    char *save = NULL;
    for (char *line = strtok_r(result.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long addr, size;
        char type, name[256];
        if (sscanf(line, "%lx %lx %c %255s", &addr, &size, &type, name) != 4 || !strchr("bBdDV", type))
            continue;
        s.list = cli_grow(s.list, s.count + 1, sizeof *s.list);
        s.list[s.count++] = (symbol_t){addr, size, cli_printf("%s", name)};
    }
    child_free(&result);
    return s;
}

static void free_symbols(symbols_t *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->list[i].name);
    free(s->list);
}

/* Stacks and heaps lie at fixed places: see ARENA in src/check/check.h. */
#define ARENA 0x200000000000ul
#define STACK_BYTES (256ul << 10)
#define HEAP_BYTES (1ul << 20)
#define THREADS 16ul

static char *place_name(const symbols_t *symbols, unsigned long a)
{
    for (size_t i = 0; i < symbols->count; i++) {
        const symbol_t *s = &symbols->list[i];
        if (a < s->addr || a >= s->addr + s->size)
            continue;
        return a == s->addr ? cli_printf("%s", s->name)
                            : cli_printf("%s+%lu", s->name, a - s->addr);
    }
    unsigned long off = a - ARENA, heaps = THREADS * STACK_BYTES;
    if (a >= ARENA && off < heaps)
        return cli_printf("stack%lu-%lu", off / STACK_BYTES, STACK_BYTES - off % STACK_BYTES);
    if (a >= ARENA && off < heaps + THREADS * HEAP_BYTES)
        return cli_printf("heap%lu+%lu", (off - heaps) / HEAP_BYTES, (off - heaps) % HEAP_BYTES);
    return cli_printf("0x%lx", a);
}

static char *value_name(const symbols_t *symbols, uint64_t v)
{
    if (v < 0x10000)
        return cli_printf("%lu", (unsigned long)v);
    char *name = place_name(symbols, v);
    if (!strncmp(name, "0x", 2))
        return name;
    char *with = cli_printf("&%s", name);
    free(name);
    return with;
}

/* One of 16 bytes is mostly a pair: a pointer and a counter. */
static char *value_text(const symbols_t *symbols, int size, trace_value_t v)
{
    if (size <= 8)
        return value_name(symbols, (uint64_t)v);
    char *low = value_name(symbols, (uint64_t)v), *high = value_name(symbols, (uint64_t)(v >> 64));
    char *both = cli_printf("{%s, %s}", low, high);
    free(low);
    free(high);
    return both;
}

/* ---- printing ---- */

const char *trace_order_name(int order)
{
    static const char *const names[] = {"relaxed", "consume", "acquire", "release", "acq_rel",
                                        "seq_cst"};
    return order >= 0 && order < 6 ? names[order] : "plain";
}

static const trace_event_t *find(const trace_t *t, int thread, int index)
{
    for (size_t i = 0; i < t->event_count; i++)
        if (t->events[i].thread == thread && t->events[i].index == index)
            return &t->events[i];
    return NULL;
}

static trace_value_t bytes_of(const trace_event_t *e, trace_value_t block)
{
    block >>= 8 * e->offset;
    return e->size == 16 ? block : block & (((trace_value_t)1 << 8 * e->size) - 1);
}

static trace_value_t read_value(const trace_t *t, const trace_event_t *r)
{
    const trace_event_t *w = find(t, r->rf >> 16, r->rf & 0xffff);
    return bytes_of(r, r->rf == INIT || !w ? t->places[r->loc].init : w->value);
}

/* Is there a write to this place that came earlier in the printed order and is newer than W? */
static bool is_old(const trace_t *t, const trace_event_t *r, const bool *done)
{
    const trace_event_t *w = r->rf == INIT ? NULL : find(t, r->rf >> 16, r->rf & 0xffff);
    int at = w ? w->copos : -1;
    for (size_t i = 0; i < t->event_count; i++)
        if (done[i] && t->events[i].type == WRITE && t->events[i].loc == r->loc &&
            t->events[i].copos > at)
            return true;
    return false;
}

static char *from_whom(const trace_t *t, const trace_event_t *r, const bool *done)
{
    const trace_event_t *w = r->rf == INIT ? NULL : find(t, r->rf >> 16, r->rf & 0xffff);
    const char *old = is_old(t, r, done) ? ", though newer exists" : "";
    if (!w)
        return cli_printf("initial%s", old);
    const trace_spot_t *s = trace_spot(t, w->pc);
    return cli_printf("T%d, %s:%d%s", w->thread, base_name(s->file), s->line, old);
}

static char *describe(const trace_t *t, const symbols_t *symbols, const trace_event_t *e,
                      const bool *done)
{
    static const char *const choices[] = {"choose", "the deadline has passed: ", "wakes for no reason: ",
                                          "sleeps until woken: ", "fails for no reason: "};
    const trace_event_t *w = e->rmw ? find(t, e->thread, e->index + 1) : NULL;
    char *text = NULL;
    if (e->type == FENCE)
        return cli_printf("fence (%s)", trace_order_name(e->order));
    if (e->type == CREATE)
        return cli_printf("create thread T%d", e->child);
    if (e->type == JOIN)
        return cli_printf("join thread T%d", e->rf >> 16);
    if (e->type == CHOICE)
        return cli_printf("%s%s", choices[e->op % 5], e->value ? "yes" : "no");
    char *place = place_name(symbols, t->places[e->loc].addr + (unsigned long)e->offset);
    if (e->type == WRITE || e->hidden) {
        const trace_event_t *it = e->hidden && w ? w : e;
        char *value = value_text(symbols, it->size, bytes_of(it, it->value));
        text = cli_printf("%s = %s (%s)", place, value, trace_order_name(it->order));
        free(value);
    } else {
        char *value = value_text(symbols, e->size, read_value(t, e));
        char *from = from_whom(t, e, done);
        if (w && w->type == WRITE && w->rmw) {
            char *new_value = value_text(symbols, w->size, bytes_of(w, w->value));
            text = cli_printf("%s: read %s (%s), wrote %s (%s)", place, value, from, new_value,
                              trace_order_name(e->success));
            free(new_value);
        } else {
            text = cli_printf("%s: read %s (%s; %s)", place, value, from, trace_order_name(e->order));
        }
        free(value);
        free(from);
    }
    free(place);
    return text;
}

static const table_column_t columns[] = {
    {"step", "step", TABLE_RIGHT, TABLE_BOTH},
    {"thread", "thread", TABLE_LEFT, TABLE_BOTH},
    {"where", "where", TABLE_LEFT, TABLE_BOTH},
    {"what", "what", TABLE_LEFT, TABLE_BOTH},
};

/* Not worth a line: beginnings, endings, the write half of what was printed already. */
static bool is_silent(const trace_event_t *e)
{
    return e->type == START || e->type == END || (e->type == WRITE && e->rmw) ||
           (e->type == JOIN && e->pc == 0);
}

table_t *trace_steps(const trace_t *t, const char *program)
{
    symbols_t symbols = read_symbols(program);
    table_t *table = table_new(columns, sizeof columns / sizeof *columns);
    bool *done = cli_alloc(t->event_count + 1);
    int next[256] = {0}, step = 0;
    for (size_t i = 0; i < t->order_count; i++) {
        int thread = t->order[i];
        const trace_event_t *e = find(t, thread, next[thread]++);
        if (!e)
            continue;
        if (!is_silent(e)) {
            const trace_spot_t *s = trace_spot(t, e->pc);
            char *what = describe(t, &symbols, e, done);
            table_int(table, ++step);
            table_text(table, "T%d", thread);
            table_text(table, "%s:%d %s", base_name(s->file), s->line, s->function);
            table_text(table, "%s", what);
            free(what);
        }
        done[e - t->events] = true;
    }
    free(done);
    free_symbols(&symbols);
    return table;
}

static void print_spot(const trace_t *t, const char *label, int thread, unsigned long pc, FILE *out)
{
    if (thread < 0 || !pc)
        return;
    const trace_spot_t *s = trace_spot(t, pc);
    fprintf(out, "  %s T%d at %s:%d in %s()", label, thread, base_name(s->file), s->line, s->function);
    if (s->text)
        fprintf(out, ": %.60s", s->text);
    fputc('\n', out);
}

void trace_print(const trace_t *t, const char *program, FILE *out)
{
    fprintf(out, "COUNTEREXAMPLE: %s\n", t->what);
    print_spot(t, "thread", t->thread, t->pc, out);
    print_spot(t, "and thread", t->other_thread, t->other_pc, out);
    for (size_t i = 0; i < t->wait_count; i++) {
        if (t->waits[i].pc)
            print_spot(t, "waiting:", t->waits[i].thread, t->waits[i].pc, out);
        else if (strcmp(t->kind, "deadlock") == 0)
            fprintf(out, "  waiting: T%d for the end of T%d\n", t->waits[i].thread, t->waits[i].joins);
    }
    const char *how = t->not_fewest ? "few" : "the fewest";
    if (t->strict == 2)
        fprintf(out, "\nAn interleaving that leads there, with %s context switches:\n\n", how);
    else
        fprintf(out, "\nNo interleaving leads there, only weak memory; the order with %s context "
                "switches:\n\n", how);
    table_t *steps = trace_steps(t, program);
    table_print(steps, TABLE_TEXT, out);
    table_free(steps);
    if (t->printed)
        fprintf(out, "\nIt printed:\n%s", t->printed);
}

static json_t *json_spot(const trace_t *t, int thread, unsigned long pc)
{
    const trace_spot_t *s = trace_spot(t, pc);
    if (thread < 0)
        return json_null();
    return json_pack("{s:i, s:o, s:i, s:o}", "thread", thread, "file", table_json_string(s->file), "line",
                     s->line, "function", table_json_string(s->function));
}

json_t *trace_json(const trace_t *t, const char *program)
{
    table_t *steps = trace_steps(t, program);
    json_t *j = json_pack("{s:s, s:o, s:o, s:o, s:b, s:o}", "kind", t->kind, "what",
                          table_json_string(t->what), "at", json_spot(t, t->thread, t->pc), "other",
                          json_spot(t, t->other_thread, t->other_pc), "interleaving", t->strict == 2,
                          "steps", table_rows(steps));
    table_free(steps);
    return j;
}
