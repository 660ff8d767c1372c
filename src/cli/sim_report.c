/* SPDX-License-Identifier: MIT */
/* The result of `hotlock sim` as text, CSV, Markdown, JSON or a plot; always said to be simulated.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plot.h"
#include "sim.h"

#define TIE 1.05 /* rates closer than this are not told apart */

/* ---- what it rests on ---- */

char *sim_conditions(const sim_t *s)
{
    size_t kinds[KINDS] = {0};
    for (size_t i = 0; i < s->machine->number_count; i++)
        kinds[s->machine->numbers[i].kind] += s->machine->numbers[i].given;
    char *fitted = machine_fitted(s->machine), *slash = strrchr(s->machine->file, '/');
    char *text = cli_printf(
        "SIMULATED, not measured: %s, file %s (%zu numbers measured, %zu published, %zu estimated; "
        "fitted: %s); threads placed %s; %ld seed%s, jitter %g %%%s",
        s->machine->name, slash ? slash + 1 : s->machine->file, kinds[KIND_MEASURED],
        kinds[KIND_PUBLISHED], kinds[KIND_ESTIMATED], fitted, s->place, s->seeds,
        s->seeds == 1 ? "" : "s", 100 * s->jitter, s->partial ? "; PARTIAL: interrupted" : "");
    free(fitted);
    return text;
}

static void wrapped(FILE *out, const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column && column + 1 + word > TABLE_WIDTH)
            fputc('\n', out), column = 0;
        column += (size_t)fprintf(out, "%s%.*s", column ? " " : "", (int)word, text);
        text += word + strspn(text + word, " ");
    }
    fputc('\n', out);
}

/* ---- the tables ---- */

static char *unit_of(const sim_t *s)
{
    return s->metric_text ? cli_printf("the metric")
                          : cli_printf("million %s/s", *s->unit ? s->unit : "sections");
}

static double shown(const sim_t *s, const sim_cell_t *c)
{
    return SIM_MEDIAN(c, rate) / (s->metric_text ? 1 : 1e6);
}

static int decimals(double v) { return v >= 100 ? 1 : v >= 10 ? 2 : 3; }

static bool has_result(const sim_t *s, size_t lock)
{
    for (size_t t = 0; t < s->thread_count; t++)
        if (!sim_at(s, lock, t)->fault)
            return true;
    return false;
}

/* Rates, one row per lock, one column per number of threads. */
static void print_rates(const sim_t *s, table_format_t format, FILE *out)
{
    table_column_t *columns = cli_alloc((s->thread_count + 1) * sizeof *columns);
    columns[0] = (table_column_t){"lock", "lock", TABLE_LEFT, TABLE_BOTH};
    for (size_t t = 0; t < s->thread_count; t++) {
        char *title = cli_printf("%ld", s->threads[t]);
        columns[t + 1] = (table_column_t){title, title, TABLE_RIGHT, TABLE_BOTH};
    }
    table_t *table = table_new(columns, s->thread_count + 1);
    for (size_t l = 0; l < s->lock_count; l++) {
        if (s->partial && !has_result(s, l))
            continue;
        table_text(table, "%s", s->locks[l]);
        for (size_t t = 0; t < s->thread_count; t++) {
            const sim_cell_t *c = sim_at(s, l, t);
            if (c->fault)
                table_none(table);
            else
                table_real(table, shown(s, c), decimals(shown(s, c)));
        }
    }
    table_print(table, format, out);
    table_free(table);
    for (size_t t = 0; t < s->thread_count; t++)
        free((char *)columns[t + 1].key);
    free(columns);
}

/* Everything, for programs. People get the two excerpts below. */
static const table_column_t detail_columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"threads", "threads", TABLE_RIGHT, TABLE_PROGRAMS},
    {"seed", "seed", TABLE_RIGHT, TABLE_PROGRAMS},
    {"rate", "rate", TABLE_RIGHT, TABLE_PROGRAMS},
    {"spread_percent", "+-%", TABLE_RIGHT, TABLE_BOTH},
    {"per_section_ns", "ns each", TABLE_RIGHT, TABLE_BOTH},
    {"handover_ns", "hand-over", TABLE_RIGHT, TABLE_BOTH},
    {"moves_l3", "in L3", TABLE_RIGHT, TABLE_BOTH},
    {"moves_socket", "in socket", TABLE_RIGHT, TABLE_BOTH},
    {"moves_remote", "other socket", TABLE_RIGHT, TABLE_BOTH},
    {"moves_far", "far socket", TABLE_RIGHT, TABLE_BOTH},
    {"spin_share", "spinning %", TABLE_RIGHT, TABLE_BOTH},
    {"wait_p50_ns", "p50 wait", TABLE_RIGHT, TABLE_PROGRAMS},
    {"wait_p99_ns", "p99", TABLE_RIGHT, TABLE_PROGRAMS},
    {"wait_p999_ns", "p99.9", TABLE_RIGHT, TABLE_PROGRAMS},
    {"wait_max_ns", "worst", TABLE_RIGHT, TABLE_PROGRAMS},
    {"jain", "Jain", TABLE_RIGHT, TABLE_PROGRAMS},
    {"fairness_factor", "factor", TABLE_RIGHT, TABLE_PROGRAMS},
    {"preempted", "preempted", TABLE_RIGHT, TABLE_PROGRAMS},
    {"accesses_per_host_s", "accesses per s", TABLE_RIGHT, TABLE_PROGRAMS},
    {"with_waits_per_host_s", "with waits", TABLE_RIGHT, TABLE_PROGRAMS},
    {"peak_kib", "KiB", TABLE_RIGHT, TABLE_PROGRAMS},
    {"fault", "no result because", TABLE_LEFT, TABLE_PROGRAMS},
};

static const table_column_t wait_columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"wait_p50_ns", "p50 wait", TABLE_RIGHT, TABLE_BOTH},
    {"wait_p99_ns", "p99", TABLE_RIGHT, TABLE_BOTH},
    {"wait_p999_ns", "p99.9", TABLE_RIGHT, TABLE_BOTH},
    {"wait_max_ns", "worst", TABLE_RIGHT, TABLE_BOTH},
    {"jain", "Jain", TABLE_RIGHT, TABLE_BOTH},
    {"fairness_factor", "factor", TABLE_RIGHT, TABLE_BOTH},
    {"preempted", "preempted", TABLE_RIGHT, TABLE_BOTH},
    {"wakes", "wake-ups", TABLE_RIGHT, TABLE_BOTH},
};

/* How much longer a section takes than with one thread: what the lock's changing hands costs. */
static double handover(const sim_t *s, size_t lock, const sim_cell_t *c)
{
    for (size_t t = 0; t < s->thread_count; t++)
        if (s->threads[t] == 1 && c->threads > 1 && !sim_at(s, lock, t)->fault)
            return 1e9 / SIM_MEDIAN(c, rate) - 1e9 / SIM_MEDIAN(sim_at(s, lock, t), rate);
    return NAN;
}

static void add_moves(table_t *t, const sim_cell_t *c)
{
    for (size_t d = 1; d < SIM_DISTANCES; d++) {
        double sum = 0, sections = 0;
        for (size_t i = 0; i < c->count; i++) {
            sum += c->seeds[i].moves[d];
            sections += c->seeds[i].sections;
        }
        table_real(t, sections > 0 ? sum / sections : NAN, 1);
    }
}

static double pace(const sim_cell_t *c, bool waits)
{
    double done = 0, took = 0;
    for (size_t i = 0; i < c->count; i++) {
        done += c->seeds[i].accesses + (waits ? c->seeds[i].skipped : 0);
        took += c->seeds[i].host_s;
    }
    return done / took;
}

/* The median, or nothing if there is no result. */
#define ADD_MEDIAN(t, c, field, decimals) \
    table_real(t, (c)->fault ? NAN : SIM_MEDIAN(c, field), decimals)

static void add_waits(table_t *t, const sim_cell_t *c)
{
    ADD_MEDIAN(t, c, p50, 0);
    ADD_MEDIAN(t, c, p99, 0);
    ADD_MEDIAN(t, c, p999, 0);
    ADD_MEDIAN(t, c, worst, 0);
    ADD_MEDIAN(t, c, jain, 3);
    ADD_MEDIAN(t, c, factor, 3);
    ADD_MEDIAN(t, c, preempted, 0);
}

/* SEED 0: all of them, their medians. */
static void add_detail(table_t *t, const sim_t *s, size_t lock, const sim_cell_t *c, long seed)
{
    bool none = c->fault != NULL;
    double rate = none ? NAN : SIM_MEDIAN(c, rate), spin = none ? NAN : SIM_MEDIAN(c, spin);
    table_text(t, "%s", c->lock);
    table_int(t, c->threads);
    if (seed)
        table_int(t, seed);
    else
        table_none(t);
    table_real(t, rate, 0);
    table_real(t, none ? NAN : sim_spread(c) / 2, 1);
    table_real(t, s->metric_text ? NAN : 1e9 / rate, 0);
    table_real(t, none || s->metric_text ? NAN : handover(s, lock, c), 0);
    add_moves(t, c);
    if (none)
        table_none(t);
    else
        table_cell(t, json_real(spin), "%.0f", 100 * spin);
    add_waits(t, c);
    table_real(t, none ? NAN : pace(c, false), 0);
    table_real(t, none ? NAN : pace(c, true), 0);
    ADD_MEDIAN(t, c, peak_kib, 0);
    table_text(t, "%s", none ? c->fault : "");
}

static table_t *waits_of(const sim_t *s, size_t thread)
{
    table_t *t = table_new(wait_columns, sizeof wait_columns / sizeof *wait_columns);
    for (size_t l = 0; l < s->lock_count; l++) {
        const sim_cell_t *c = sim_at(s, l, thread);
        table_text(t, "%s", c->lock);
        add_waits(t, c);
        ADD_MEDIAN(t, c, wakes, 0);
    }
    return t;
}

static void add_cell(table_t *t, const sim_t *s, size_t lock, const sim_cell_t *c, bool each_seed)
{
    if (!each_seed || c->fault)
        add_detail(t, s, lock, c, 0);
    for (size_t i = 0; each_seed && !c->fault && i < c->count; i++) {
        sim_cell_t one = *c;
        one.seeds = &c->seeds[i];
        one.count = 1;
        add_detail(t, s, lock, &one, (long)i + 1);
    }
}

static table_t *details(const sim_t *s, long threads)
{
    table_t *t = table_new(detail_columns, sizeof detail_columns / sizeof *detail_columns);
    for (size_t l = 0; l < s->lock_count; l++)
        for (size_t k = 0; k < s->thread_count; k++)
            if (!threads || s->threads[k] == threads)
                add_cell(t, s, l, sim_at(s, l, k), !threads && s->each_seed);
    return t;
}

static const table_column_t line_columns[] = {
    {"lock", "lock", TABLE_LEFT, TABLE_BOTH},
    {"line", "source line", TABLE_LEFT, TABLE_BOTH},
    {"function", "function", TABLE_LEFT, TABLE_BOTH},
    {"moves_l3", "L3", TABLE_RIGHT, TABLE_BOTH},
    {"moves_socket", "socket", TABLE_RIGHT, TABLE_BOTH},
    {"moves_remote", "remote", TABLE_RIGHT, TABLE_BOTH},
    {"ns", "ns", TABLE_RIGHT, TABLE_BOTH},
};

static table_t *lines_of(const sim_t *s)
{
    table_t *t = table_new(line_columns, sizeof line_columns / sizeof *line_columns);
    for (size_t l = 0; l < s->lock_count; l++) {
        const sim_cell_t *c = sim_at(s, l, s->thread_count - 1);
        for (size_t i = 0; i < c->line_count; i++) {
            const sim_line_t *line = &c->lines[i];
            table_text(t, "%s", c->lock);
            table_text(t, "%s:%d", line->file, line->line);
            table_text(t, "%s", line->function);
            for (size_t d = 1; d < 4; d++)
                table_real(t, line->moves[d], 2);
            table_real(t, line->ns, 1);
        }
    }
    return t;
}

/* ---- verdict ---- */

static const sim_cell_t *best_at(const sim_t *s, size_t thread)
{
    const sim_cell_t *best = NULL;
    for (size_t l = 0; l < s->lock_count; l++) {
        const sim_cell_t *c = sim_at(s, l, thread);
        if (!c->fault && (!best || SIM_MEDIAN(c, rate) > SIM_MEDIAN(best, rate)))
            best = c;
    }
    return best;
}

static char *verdict_of(const sim_t *s)
{
    size_t last = s->thread_count - 1;
    const sim_cell_t *best = best_at(s, last), *low = best_at(s, 0);
    if (s->partial)
        return cli_printf("No verdict: interrupted.");
    if (!best)
        return cli_printf("No verdict: nothing could be simulated to its end.");
    if (!(SIM_MEDIAN(best, rate) > 0))
        return cli_printf("No verdict: nothing was counted; give it more time with --time.");
    if (s->lock_count == 1)
        return cli_printf("One lock only: name more with --lock to compare.");
    double least = INFINITY;
    const char *worst = "";
    size_t results = 0;
    for (size_t l = 0; l < s->lock_count; l++) {
        const sim_cell_t *c = sim_at(s, l, last);
        results += !c->fault;
        if (!c->fault && SIM_MEDIAN(c, rate) < least)
            least = SIM_MEDIAN(c, rate), worst = c->lock;
    }
    if (results < 2)
        return cli_printf("No verdict: with %ld threads there is one result only.", best->threads);
    if (SIM_MEDIAN(best, rate) < TIE * least)
        return cli_printf("With %ld threads no lock helps: all are within %.0f %%.", best->threads,
                          100 * (TIE - 1));
    char *text = cli_printf("With %ld threads %s is first, %.2f times %s.", best->threads,
                            best->lock, SIM_MEDIAN(best, rate) / least, worst);
    for (size_t l = 0; last && low && SIM_MEDIAN(low, rate) > 0 && l < s->lock_count; l++) {
        const sim_cell_t *c = sim_at(s, l, 0);
        if (c->lock != best->lock || c->fault || SIM_MEDIAN(c, rate) * TIE > SIM_MEDIAN(low, rate))
            continue;
        char *more = cli_printf("%s With %ld it loses: %.2f times %s.", text, c->threads,
                                SIM_MEDIAN(c, rate) / SIM_MEDIAN(low, rate), low->lock);
        free(text);
        text = more;
    }
    return text;
}

/* ---- printing ---- */

/* Those an interruption has left out are counted, not named. */
static void print_faults(const sim_t *s, FILE *out)
{
    size_t cells = s->lock_count * s->thread_count, left = 0;
    for (size_t i = 0; i < cells; i++) {
        left += s->cells[i].left;
        if (s->cells[i].fault && !s->cells[i].left)
            fprintf(out, "no result for %s with %ld threads: %s\n", s->cells[i].lock,
                    s->cells[i].threads, s->cells[i].fault);
    }
    if (left)
        fprintf(out, "PARTIAL: interrupted; %zu of %zu results are missing\n", left, cells);
}

static void print_details(const sim_t *s, table_format_t format, FILE *out, const char *code)
{
    fprintf(out,
            "\nwith %ld threads: ns per section, and cache lines moved per section by distance\n%s",
            s->threads[s->thread_count - 1], code);
    table_t *t = details(s, s->threads[s->thread_count - 1]);
    table_print(t, format, out);
    table_free(t);
    fprintf(out, "\nwaits in ns, fairness (factor: share of the luckier half of the threads)\n%s",
            code);
    t = waits_of(s, s->thread_count - 1);
    table_print(t, format, out);
    table_free(t);
}

static void print_people(const sim_t *s, table_format_t format, FILE *out)
{
    char *conditions = sim_conditions(s), *verdict = verdict_of(s), *unit = unit_of(s);
    const char *code = format == TABLE_MARKDOWN ? "\n" : "";
    wrapped(out, conditions);
    fprintf(out, "\n%s: %s, by number of threads\n%s", s->program, unit, code);
    print_rates(s, format, out);
    if (!s->partial || best_at(s, s->thread_count - 1))
        print_details(s, format, out, code);
    if (s->show_lines) {
        fprintf(out, "\nlines moved per section, by the source line that asked for them:\n%s",
                code);
        table_t *t = lines_of(s);
        table_print(t, format, out);
        table_free(t);
    }
    fputc('\n', out);
    print_faults(s, out);
    wrapped(out, verdict);
    free(conditions);
    free(verdict);
    free(unit);
}

static json_t *machine_json(const sim_t *s)
{
    json_t *numbers = json_object();
    for (size_t i = 0; i < s->machine->number_count; i++) {
        const number_t *n = &s->machine->numbers[i];
        if (n->given)
            json_object_set_new(numbers, n->key, json_pack("{s:f, s:s, s:s}", "value", n->value,
                                "kind", machine_kind_names[n->kind], "source", n->source));
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "name", s->machine->name, "file", s->machine->file,
                     "topology", s->machine->topology, "numbers", numbers);
}

static void print_json(const sim_t *s, FILE *out)
{
    char *conditions = sim_conditions(s), *verdict = verdict_of(s);
    table_t *cells = details(s, 0), *lines = lines_of(s);
    output_json(json_pack("{s:s, s:b, s:s, s:s, s:o, s:s, s:i, s:f, s:b, s:o, s:o, s:s}", "schema",
                          "hotlock-sim/1", "simulated", 1, "conditions", conditions, "program",
                          s->program, "machine", machine_json(s), "placement", s->place, "seeds",
                          (int)s->seeds, "jitter", s->jitter, "partial", s->partial, "cells",
                          table_rows(cells), "lines", table_rows(lines), "verdict", verdict), out);
    table_free(cells);
    table_free(lines);
    free(conditions);
    free(verdict);
}

void sim_print(const sim_t *s, table_format_t format, FILE *out)
{
    if (format == TABLE_JSON) {
        print_json(s, out);
    } else if (format == TABLE_CSV) {
        char *conditions = sim_conditions(s);
        fprintf(out, "# %s\n", conditions);
        free(conditions);
        table_t *t = details(s, 0);
        table_print(t, format, out);
        table_free(t);
    } else {
        print_people(s, format, out);
    }
}

bool sim_plot(const sim_t *s, const char *file)
{
    plot_series_t *series = cli_alloc(s->lock_count * sizeof *series);
    char *title = cli_printf("%s, SIMULATED on %s, %ld seeds, jitter %g %%", s->program,
                             s->machine->name, s->seeds, 100 * s->jitter);
    for (size_t l = 0; l < s->lock_count; l++) {
        plot_point_t *points = cli_alloc(s->thread_count * sizeof *points);
        for (size_t t = 0; t < s->thread_count; t++) {
            const sim_cell_t *c = sim_at(s, l, t);
            double y = c->fault ? NAN : shown(s, c), half = c->fault ? 0 : y * sim_spread(c) / 200;
            points[t] = (plot_point_t){(double)s->threads[t], y, y - half, y + half};
        }
        series[l] =
            (plot_series_t){.name = s->locks[l], .points = points, .count = s->thread_count};
    }
    char *unit = unit_of(s);
    bool good = plot_svg(&(plot_t){title, "threads", unit, series, s->lock_count}, file);
    free(unit);
    for (size_t l = 0; l < s->lock_count; l++)
        free((void *)series[l].points);
    free(series);
    free(title);
    return good;
}
