/* SPDX-License-Identifier: MIT */
/* The result of `hotlock try` as text, CSV, Markdown or JSON. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "cli.h"
#include "foreign.h"
#include "output.h"

#define SHORT_RUN 0.05 /* seconds; below it a run measures more start than work */

/* ---- the table ---- */

/* What is measured comes first; of wall and CPU time, the one that is not comes after. */
enum { COLUMNS_MOST = 24 };

static const char *value_title(const trial_plan_t *plan)
{
    static const char *const titles[] = {"wall s", "CPU s", "metric"};
    return titles[plan->measure];
}

typedef struct {
    table_column_t columns[COLUMNS_MOST];
    size_t count;
} layout_t;

static void column(layout_t *l, const char *key, const char *title, table_align_t align,
                   table_readers_t readers)
{
    l->columns[l->count++] = (table_column_t){key, title, align, readers};
}

/* For programs every table has the same columns, whatever was measured. */
static layout_t layout(const report_t *r)
{
    const trial_plan_t *plan = r->plan;
    bool wall = plan->measure != MEASURE_WALL, cpu = plan->measure != MEASURE_CPU;
    layout_t l = {.count = 0};
    if (r->sections[0].vary)
        column(&l, r->sections[0].vary, r->sections[0].vary, TABLE_LEFT, TABLE_PROGRAMS);
    column(&l, "lock", "lock", TABLE_LEFT, TABLE_BOTH);
    column(&l, "runs", "runs", TABLE_RIGHT, TABLE_BOTH);
    column(&l, "measure", "measure", TABLE_LEFT, TABLE_PROGRAMS);
    column(&l, "median", value_title(plan), TABLE_RIGHT, TABLE_BOTH);
    column(&l, "", "95 % interval", TABLE_RIGHT, TABLE_PEOPLE);
    column(&l, "lo", "lo", TABLE_RIGHT, TABLE_PROGRAMS);
    column(&l, "hi", "hi", TABLE_RIGHT, TABLE_PROGRAMS);
    column(&l, "ratio", "to libc", TABLE_RIGHT, TABLE_BOTH);
    column(&l, "", "95 % interval", TABLE_RIGHT, TABLE_PEOPLE);
    column(&l, "ratio_lo", "lo", TABLE_RIGHT, TABLE_PROGRAMS);
    column(&l, "ratio_hi", "hi", TABLE_RIGHT, TABLE_PROGRAMS);
    column(&l, "wall_s", "wall s", TABLE_RIGHT, wall ? TABLE_BOTH : TABLE_PROGRAMS);
    column(&l, "cpu_s", "CPU s", TABLE_RIGHT, cpu ? TABLE_BOTH : TABLE_PROGRAMS);
    column(&l, "ranked", "ranked", TABLE_LEFT, TABLE_PROGRAMS);
    column(&l, "faults", "not ranked because", TABLE_LEFT, TABLE_BOTH);
    column(&l, "partial", "partial", TABLE_LEFT, TABLE_PROGRAMS);
    return l;
}

/* Decimals that show four digits of a figure of this size. */
static int decimals_for(double value)
{
    if (!isfinite(value) || value == 0)
        return 3;
    int digits = (int)floor(log10(fabs(value))) + 1;
    return digits >= 4 ? 0 : digits < -5 ? 9 : 4 - digits;
}

static void add_interval(table_t *t, const stats_estimate_t *e, int decimals)
{
    if (isfinite(e->lo))
        table_text(t, "%.*f to %.*f", decimals, e->lo, decimals, e->hi);
    else
        table_none(t);
    table_real(t, e->lo, decimals);
    table_real(t, e->hi, decimals);
}

/* A lock that is not ranked shows no figures to compare it by. */
static void add_row(table_t *t, const section_t *s, const standing_t *st, bool partial)
{
    static const stats_estimate_t none = {NAN, NAN, NAN};
    const contestant_t *c = &s->trial.contestants[st->index];
    const stats_estimate_t *value = st->ranked ? &st->value : &none;
    const stats_estimate_t *ratio = st->ranked && st->index > 0 ? &st->ratio : &none;
    int decimals = decimals_for(s->verdict.standings[0].value.mid);
    char *faults = verdict_faults(&s->trial, c);
    if (s->vary)
        table_text(t, "%s", s->value);
    table_text(t, "%s", c->label);
    table_int(t, st->good);
    table_text(t, "%s", trial_measure_names[s->trial.plan->measure]);
    table_real(t, value->mid, decimals);
    add_interval(t, value, decimals);
    table_real(t, ratio->mid, 3);
    add_interval(t, ratio, 3);
    table_real(t, st->ranked ? st->wall : NAN, decimals_for(s->verdict.standings[0].wall));
    table_real(t, st->ranked ? st->cpu : NAN, decimals_for(s->verdict.standings[0].cpu));
    table_cell(t, json_boolean(st->ranked), "%s", st->ranked ? "yes" : "no");
    table_text(t, "%s", faults);
    table_cell(t, json_boolean(partial), "%s", partial ? "yes" : "no");
    free(faults);
}

static table_t *section_table(const report_t *r, const section_t *s, const layout_t *l)
{
    table_t *t = table_new(l->columns, l->count);
    for (size_t i = 0; i < s->verdict.count; i++)
        add_row(t, s, &s->verdict.standings[i], r->partial);
    return t;
}

/* ---- text and Markdown ---- */

/* Breaks between words; later lines begin below the first word after the prefix. */
static void print_wrapped(const char *prefix, const char *text, FILE *out)
{
    int width = TABLE_WIDTH - (int)strlen(prefix), used = 0;
    fputs(prefix, out);
    while (*text) {
        size_t length = strcspn(text, " ");
        char *word = strndup(text, length);
        int needs = table_text_width(word);
        if (used > 0 && used + 1 + needs > width) {
            fprintf(out, "\n%*s", (int)strlen(prefix), "");
            used = 0;
        }
        used += fprintf(out, "%s%s", used ? " " : "", word) > 0 ? needs + (used > 0) : 0;
        free(word);
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static char *describe(const report_t *r)
{
    const trial_plan_t *plan = r->plan;
    char *metric = plan->measure == MEASURE_METRIC ? cli_printf(" '%s'", plan->metric.text)
                                                   : cli_printf("%s", "");
    char *text = cli_printf("%s%ld runs of each lock after %ld to warm up, interleaved; %s%s, %s "
                            "is better.", r->partial ? "PARTIAL, interrupted before the end. " : "",
                            plan->runs, plan->warmup, trial_measure_words[plan->measure], metric,
                            plan->higher_better ? "higher" : "lower");
    free(metric);
    return text;
}

static void print_note(table_format_t format, const char *note, FILE *out)
{
    if (format == TABLE_MARKDOWN)
        fprintf(out, "\nNote: %s\n", note);
    else
        print_wrapped("note: ", note, out);
}

/* What a reader should know before believing the figures. */
static void print_notes(const report_t *r, table_format_t format, FILE *out)
{
    char note[300];
    for (char *const *at = r->at; at && *at; at++) {
        snprintf(note, sizeof note, "each lock only at '%s'; the rest of the program has park.", *at);
        print_note(format, note, out);
    }
    double shortest = INFINITY;
    int code = 0;
    for (size_t i = 0; i < r->count; i++) {
        shortest = fmin(shortest, r->sections[i].verdict.standings[0].wall);
        if (r->sections[i].trial.reference.code)
            code = r->sections[i].trial.reference.code;
    }
    if (code) {
        snprintf(note, sizeof note, "under libc the command ends with exit %d; the other locks are "
                 "held to the same.", code);
        print_note(format, note, out);
    }
    if (shortest < SHORT_RUN) {
        snprintf(note, sizeof note, "a run takes only %.2g s, and starting the program with the "
                 "preload may be a good part of it; give it more work to do.", shortest);
        print_note(format, note, out);
    }
    if (r->foreign > FOREIGN_MUCH) {
        snprintf(note, sizeof note, "other programs used %.0f %% of the processors during the "
                 "runs; a quieter machine%s would give narrower intervals.", r->foreign * 100,
                 r->plan->measure == MEASURE_CPU ? "" : ", or --measure cpu,");
        print_note(format, note, out);
    }
}

static void print_sections(const report_t *r, table_format_t format, FILE *out)
{
    bool markdown = format == TABLE_MARKDOWN;
    layout_t l = layout(r);
    for (size_t i = 0; i < r->count; i++) {
        const section_t *s = &r->sections[i];
        table_t *t = section_table(r, s, &l);
        fputc('\n', out);
        if (s->vary)
            fprintf(out, markdown ? "### %s = %s\n\n" : "%s = %s\n", s->vary, s->value);
        table_print(t, format, out);
        fputc('\n', out);
        if (markdown)
            fprintf(out, "**%sVerdict:** %s\n", r->partial ? "Partial. " : "", s->verdict.text);
        else
            print_wrapped(r->partial ? "partial verdict: " : "verdict: ", s->verdict.text, out);
        table_free(t);
    }
}

static void print_people(const report_t *r, table_format_t format, FILE *out)
{
    char *command = cli_shell_words(r->command), *how = describe(r);
    if (format == TABLE_MARKDOWN) {
        fprintf(out, "`%s`\n\n%s\n", command, how);
    } else {
        print_wrapped("", command, out);
        print_wrapped("", how, out);
    }
    print_sections(r, format, out);
    print_notes(r, format, out);
    free(command);
    free(how);
}

/* ---- JSON and CSV ---- */

static void print_csv(const report_t *r, FILE *out)
{
    layout_t l = layout(r);
    for (size_t i = 0; i < r->count; i++) {
        table_t *t = section_table(r, &r->sections[i], &l);
        table_csv(t, out, i == 0);
        table_free(t);
    }
}

static json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_words(char *const *words)
{
    json_t *list = json_array();
    for (char *const *w = words; *w; w++)
        json_array_append_new(list, table_json_string(*w));
    return list;
}

/* Every good run of a contestant, so that others can do their own statistics. */
static json_t *json_samples(const trial_t *t, const contestant_t *c)
{
    json_t *list = json_array();
    for (long round = 0; round < t->plan->runs; round++) {
        const sample_t *s = &c->samples[round];
        if (s->good)
            json_array_append_new(
                list, json_pack("{s:I, s:f, s:f, s:f}", "round", (json_int_t)round + 1, "value",
                                s->value, "wall_s", s->wall, "cpu_s", s->cpu));
    }
    return list;
}

static json_t *json_verdict(const section_t *s)
{
    const verdict_t *v = &s->verdict;
    json_t *verdict = json_pack("{s:s, s:s}", "kind", verdict_kind_name(v->kind), "text", v->text);
    if (v->best) {
        const contestant_t *c = &s->trial.contestants[v->best->index];
        json_object_set_new(verdict, "lock", json_string(c->label));
        json_object_set_new(verdict, "ratio", json_number(v->best->ratio.mid));
        json_object_set_new(verdict, "ratio_lo", json_number(v->best->ratio.lo));
        json_object_set_new(verdict, "ratio_hi", json_number(v->best->ratio.hi));
    }
    return verdict;
}

static json_t *json_section(const report_t *r, const section_t *s, const layout_t *l)
{
    table_t *t = section_table(r, s, l);
    json_t *rows = table_rows(t), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const contestant_t *c = &s->trial.contestants[s->verdict.standings[i].index];
        json_object_set_new(row, "samples", json_samples(&s->trial, c));
    }
    table_free(t);
    return json_pack("{s:o, s:o, s:f, s:o}", "command", json_words(s->trial.command), "locks", rows,
                     "limit_s", s->trial.limit, "verdict", json_verdict(s));
}

static void print_json(const report_t *r, FILE *out)
{
    const trial_plan_t *plan = r->plan;
    layout_t l = layout(r);
    struct utsname host;
    json_t *sections = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(sections, json_section(r, &r->sections[i], &l));
    uname(&host);
    output_json(
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:b, s:I, s:I, s:b, s:b, s:i, s:s, s:o, s:o, s:o}",
                  "schema", "hotlock-try/1", "version", HOTLOCK_VERSION, "command",
                  json_words(r->command), "measure", trial_measure_names[plan->measure], "metric",
                  plan->measure == MEASURE_METRIC ? table_json_string(plan->metric.text)
                                                  : json_null(),
                  "higher_is_better", (int)plan->higher_better, "runs", (json_int_t)plan->runs,
                  "warmup", (json_int_t)plan->warmup, "same_output", (int)plan->same_output,
                  "partial", (int)r->partial, "processors", get_nprocs(), "kernel", host.release,
                  "foreign_cpu", json_number(r->foreign), "at",
                  r->at ? json_words(r->at) : json_null(), "sections", sections),
        out);
}

void report_print(const report_t *r, table_format_t format, FILE *out)
{
    if (format == TABLE_JSON)
        print_json(r, out);
    else if (format == TABLE_CSV)
        print_csv(r, out);
    else
        print_people(r, format, out);
}
