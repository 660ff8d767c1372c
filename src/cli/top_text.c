// SPDX-License-Identifier: MIT
// top_text.c - the result of `hotlock top` for people: the table, then the hottest locks.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top.h"

enum { BARS = 8, TEXT_FRAMES = 4 };

// ------------------------------------------------------------------------- the table
static const table_column_t columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"kind", "kind", TABLE_LEFT, TABLE_PROGRAMS},
    {"pid", "pid", TABLE_RIGHT, TABLE_PROGRAMS},
    {"address", "address", TABLE_LEFT, TABLE_PROGRAMS},
    {"where", "where", TABLE_LEFT, TABLE_PROGRAMS},
    {"acquisitions", "taken", TABLE_RIGHT, TABLE_BOTH},
    {"contended", "contended", TABLE_RIGHT, TABLE_PROGRAMS},
    {"contended_share", "waited", TABLE_RIGHT, TABLE_BOTH},
    {"wait_ns", "wait", TABLE_RIGHT, TABLE_BOTH},
    {"spin_ns", "spin", TABLE_RIGHT, TABLE_PROGRAMS},
    {"sleep_ns", "sleep", TABLE_RIGHT, TABLE_PROGRAMS},
    {"cpu_spin_share", "CPU", TABLE_RIGHT, TABLE_BOTH},
    {"calls_share", "calls", TABLE_RIGHT, TABLE_BOTH},
    {"calls_ns", "in calls", TABLE_RIGHT, TABLE_PROGRAMS},
    {"wait_mean_ns", "a wait", TABLE_RIGHT, TABLE_BOTH},
    {"wait_worst_ns", "worst", TABLE_RIGHT, TABLE_PROGRAMS},
    {"hold_mean_ns", "a hold", TABLE_RIGHT, TABLE_BOTH},
    {"hold_worst_ns", "worst hold", TABLE_RIGHT, TABLE_PROGRAMS},
    {"utilisation", "held", TABLE_RIGHT, TABLE_BOTH},
    {"handoff_mean_ns", "hand-off", TABLE_RIGHT, TABLE_BOTH},
    {"handoff_ns", "handing", TABLE_RIGHT, TABLE_PROGRAMS},
    {"waiters_mean", "waiters", TABLE_RIGHT, TABLE_BOTH},
    {"waiters_most", "most waiters", TABLE_RIGHT, TABLE_PROGRAMS},
    {"owner_changes", "owner changes", TABLE_RIGHT, TABLE_PROGRAMS},
    {"preempted", "preempted", TABLE_RIGHT, TABLE_PROGRAMS},
    {"preempted_ns", "preempted ns", TABLE_RIGHT, TABLE_PROGRAMS},
    {"reads", "reads", TABLE_RIGHT, TABLE_PROGRAMS},
    {"limit", "limit", TABLE_LEFT, TABLE_PROGRAMS},
};

static void number(table_t *t, bool known, uint64_t value)
{
    if (known)
        table_int(t, (long long)value);
    else
        table_none(t);
}

static void duration(table_t *t, bool known, double ns)
{
    char text[32];
    if (known && isfinite(ns))
        table_cell(t, json_real(ns), "%s", top_duration(ns, text));
    else
        table_none(t);
}

static void share(table_t *t, double share)
{
    if (isfinite(share))
        table_cell(t, json_real(share), "%.1f %%", 100 * share);
    else
        table_none(t);
}

static double mean(uint64_t sum, uint64_t count)
{
    return count ? (double)sum / (double)count : NAN;
}

static void row(table_t *t, const profile_t *p, const profile_lock_t *l, const diagnosis_t *d)
{
    uint32_t has = l->has;
    bool both = has & HAS_ACQUISITIONS && has & HAS_CONTENDED;
    bool usual = strcmp(l->kind, "mutex") == 0;
    table_cell(t, table_json_string(l->name), usual ? "%s" : "%s (%s)", l->name, l->kind);
    table_text(t, "%s", l->kind);
    number(t, l->pid, (uint64_t)(l->pid % PROFILE_EXEC));
    if (l->address)
        table_text(t, "%#llx", (unsigned long long)l->address);
    else
        table_none(t);
    table_text(t, "%s", l->where ? l->where : "");
    number(t, has & HAS_ACQUISITIONS, l->acquisitions);
    number(t, has & HAS_CONTENDED, l->contended);
    share(t, both ? mean(l->contended, l->acquisitions) : NAN);
    duration(t, has & HAS_WAIT, (double)l->wait_ns);
    number(t, has & HAS_WAIT_SPLIT, l->spin_ns);
    number(t, has & HAS_WAIT_SPLIT, l->sleep_ns);
    share(t, has & HAS_CPU ? l->cpu_spin_share : NAN);
    share(t, diagnosis_calls_share(p, l));
    number(t, has & HAS_CALLS, l->calls_ns);
    duration(t, has & HAS_WAIT, mean(l->wait_ns, l->contended));
    number(t, has & HAS_WAIT, l->wait_worst_ns);
    duration(t, has & HAS_HOLD, mean(l->hold_ns, l->acquisitions));
    number(t, has & HAS_HOLD && l->hold_worst_ns, l->hold_worst_ns); // 0: looked at from outside
    share(t, top_utilisation(p, l));
    duration(t, has & HAS_HANDOFF, mean(l->handoff_ns, l->handoffs));
    number(t, has & HAS_HANDOFF, l->handoff_ns);
    table_real(t, has & HAS_WAITERS ? mean(l->waiters_sum, l->handoffs) : NAN, 1);
    number(t, has & HAS_WAITERS, l->waiters_most);
    number(t, has & HAS_OWNERS, l->owner_changes);
    number(t, has & HAS_PREEMPTED, l->preempted);
    number(t, has & HAS_PREEMPTED, l->preempted_ns);
    number(t, has & HAS_ACQUISITIONS, l->reads);
    table_text(t, "%s", limit_name(d->limit));
}

table_t *top_table(const top_result_t *r)
{
    const profile_t *p = r->profile;
    table_t *t = table_new(columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < p->lock_count && i < r->limit; i++)
        row(t, p, &p->locks[i], &r->diagnoses[i]);
    return t;
}

bool top_csv(const top_result_t *r, FILE *out)
{
    table_t *t = top_table(r);
    table_print(t, TABLE_CSV, out);
    table_free(t);
    return true;
}

// ------------------------------------------------------------------------- paragraphs
// Words of TEXT, broken before TABLE_WIDTH; every line begins with INDENT spaces, the first with
// LEAD instead.
static void paragraph(FILE *out, const char *lead, int indent, const char *text)
{
    int column = fprintf(out, "%s", lead);
    bool fresh = true;
    while (*text) {
        size_t length = strcspn(text, " ");
        char *word = strndup(text, length);
        int width = table_text_width(word);
        if (!fresh && column + 1 + width > TABLE_WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            fresh = true;
        }
        fprintf(out, "%s%s", fresh ? "" : " ", word);
        column += width + !fresh;
        fresh = false;
        free(word);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

// ------------------------------------------------------------------------- one lock
// Eight heights of bar per bucket, from the first that is used to the last.
static char *bars(const uint64_t hist[PROFILE_BUCKETS], unsigned *first, unsigned *last)
{
    static const char *const heights[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    uint64_t most = 0;
    *first = PROFILE_BUCKETS;
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) {
        if (!hist[i])
            continue;
        most = hist[i] > most ? hist[i] : most;
        *first = *first == PROFILE_BUCKETS ? i : *first;
        *last = i;
    }
    char *text = cli_alloc(PROFILE_BUCKETS * 4 + 1), *to = text;
    for (unsigned i = *first; most && i <= *last; i++) {
        unsigned height = (unsigned)ceil((double)hist[i] * BARS / (double)most);
        to = stpcpy(to, heights[height]);
    }
    return text;
}

static void histogram(FILE *out, const char *what, const uint64_t hist[PROFILE_BUCKETS],
                      uint64_t worst)
{
    unsigned first, last = 0;
    char *drawn = bars(hist, &first, &last), a[32], b[32], c[32], d[32], e[32];
    if (*drawn)
        fprintf(out, "   %-9s half <= %s, 99 %% <= %s, worst %s   %s |%s| %s\n", what,
                top_duration(profile_percentile(hist, 50), a),
                top_duration(profile_percentile(hist, 99), b), top_duration((double)worst, c),
                top_duration(ldexp(1, (int)first), d), drawn,
                top_duration(ldexp(1, (int)last + 1), e));
    free(drawn);
}

static void stacks(FILE *out, const top_result_t *r, const profile_lock_t *l, profile_role_t role,
                   const char *title)
{
    uint64_t total = top_role_ns(l, role);
    size_t shown = 0;
    char time[32];
    for (size_t i = 0; i < l->stack_count && shown < r->stacks; i++) {
        const profile_stack_t *s = &l->stacks[i];
        if (s->role != role || !s->ns)
            continue;
        if (!shown++)
            fprintf(out, "   %s\n", title);
        char *text = top_stack_text(r->profile, s, TEXT_FRAMES);
        char *lead = cli_printf("   %5.1f %%  %9s  ", 100 * (double)s->ns / (double)total,
                                top_duration((double)s->ns, time));
        paragraph(out, lead, 25, text);
        free(lead);
        free(text);
    }
}

static void detail(FILE *out, const top_result_t *r, size_t i)
{
    const profile_lock_t *l = &r->profile->locks[i];
    const diagnosis_t *d = &r->diagnoses[i];
    fprintf(out, "\n%zu. %s (%s)%s%s\n", i + 1, l->name, l->kind, l->where ? ", " : "",
            l->where ? l->where : "");
    paragraph(out, "   verdict: ", 12, d->verdict);
    paragraph(out, "            ", 12, d->arithmetic);
    paragraph(out, "   to do:   ", 12, d->advice);
    if (l->has & HAS_WAIT)
        histogram(out, "waits:", l->wait_hist, l->wait_worst_ns);
    if (l->has & HAS_HOLD)
        histogram(out, "holds:", l->hold_hist, l->hold_worst_ns);
    if (l->has & HAS_HANDOFF)
        histogram(out, "hand-off:", l->handoff_hist, l->handoff_worst_ns);
    stacks(out, r, l, STACK_WAITER, "waited here:");
    stacks(out, r, l, STACK_HOLDER, "made others wait, by holding it until here:");
    stacks(out, r, l, STACK_SPINNER, "burned CPU time spinning here:");
}

// ------------------------------------------------------------------------- all
static void next_step(FILE *out, const top_result_t *r)
{
    char *lines = top_next(r), *rest = lines;
    for (char *line; (line = strsep(&rest, "\n"));)
        fprintf(out, "%s%s\n", line == lines ? "\nnext: " : "      ", line);
    free(lines);
}

static void heading(const top_result_t *r, FILE *out)
{
    char *summary = top_summary(r->profile);
    char *what = cli_printf("%s: ", r->profile->what);
    paragraph(out, "", 0, what);
    paragraph(out, "", 0, summary);
    free(what);
    free(summary);
}

static void remarks(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    char **all = top_remarks(p);
    if (p->lock_count > r->limit)
        fprintf(out, "... and %zu more (--limit).\n", p->lock_count - r->limit);
    for (char **one = all; *one; free(*one++))
        paragraph(out, "note: ", 6, *one);
    free(all);
}

bool top_text(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    heading(r, out);
    if (!p->lock_count) {
        fputs("\nNo lock was taken.\n", out);
        remarks(r, out);
        return true;
    }
    fputc('\n', out);
    table_t *t = top_table(r);
    table_print(t, TABLE_TEXT, out);
    table_free(t);
    remarks(r, out);
    for (size_t i = 0; i < p->lock_count && i < r->detailed; i++)
        if (r->diagnoses[i].limit != LIMIT_NONE || i == 0)
            detail(out, r, i);
    next_step(out, r);
    return true;
}

bool top_markdown(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    char *summary = top_summary(p);
    fprintf(out, "`%s`: %s\n\n", p->what, summary);
    table_t *t = top_table(r);
    table_print(t, TABLE_MARKDOWN, out);
    table_free(t);
    fputc('\n', out);
    for (size_t i = 0; i < p->lock_count && i < r->detailed; i++)
        if (r->diagnoses[i].limit != LIMIT_NONE)
            fprintf(out, "- `%s`: %s (%s)\n", p->locks[i].name, r->diagnoses[i].verdict,
                    r->diagnoses[i].arithmetic);
    free(summary);
    return true;
}
