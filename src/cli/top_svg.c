// SPDX-License-Identifier: MIT
// top_svg.c - bars, histograms and the sweep of the HTML report.
#include "top_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void svg_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        case '\'': fputs("&#39;", out); break;
        default:
            if ((unsigned char)*text >= 0x20)
                fputc(*text, out);
        }
    }
}

// ------------------------------------------------------------------------- shares
enum { BARS_MOST = 12, BAR_LEFT = 200, BAR_WIDTH = 520, BAR_STEP = 30, BAR_RIGHT = 240 };

static void bar(FILE *out, const char *class, double x, double width, int y, const char *title)
{
    if (width < 0.3)
        return;
    fprintf(out, "<rect class='%s' x='%.1f' y='%d' width='%.1f' height='18'><title>", class, x, y,
            width);
    svg_text(out, title);
    fputs("</title></rect>", out);
}

static void label(FILE *out, const char *text, double x, int y, const char *anchor, size_t most)
{
    char *copy = cli_printf("%s", text);
    if (strlen(copy) > most) {
        size_t cut = most - 1;
        while (cut && ((unsigned char)copy[cut] & 0xc0) == 0x80)
            cut--;
        copy[cut] = '\0';
    }
    fprintf(out, "<text x='%.1f' y='%d' text-anchor='%s'><title>", x, y, anchor);
    svg_text(out, text);
    fputs("</title>", out);
    svg_text(out, copy);
    fputs(strlen(copy) < strlen(text) ? "…</text>" : "</text>", out);
    free(copy);
}

static void share_bar(FILE *out, const top_result_t *r, size_t i)
{
    const profile_lock_t *l = &r->profile->locks[i];
    double held = diagnosis_utilisation(r->profile, l);
    double handing = diagnosis_handoff_share(r->profile, l);
    bool known = isfinite(held) || isfinite(handing);
    int y = (int)i * BAR_STEP + 24;
    char time[32], *text;
    held = isfinite(held) ? fmin(held, 1) : 0;
    handing = isfinite(handing) ? fmin(handing, 1 - held) : 0;
    label(out, l->name, BAR_LEFT - 10, y + 13, "end", 25);
    if (known)
        bar(out, "free", BAR_LEFT, BAR_WIDTH, y, "free, and nobody waits");
    else
        label(out, "not measured", BAR_LEFT + 8, y + 13, "start", 20);
    text = cli_printf("held %.1f %% of the time", 100 * held);
    bar(out, "held", BAR_LEFT, held * BAR_WIDTH, y, text);
    free(text);
    text = cli_printf("free although somebody waits: %.1f %% of the time", 100 * handing);
    bar(out, "handing", BAR_LEFT + held * BAR_WIDTH, handing * BAR_WIDTH, y, text);
    free(text);
    if (!(l->has & HAS_WAIT))
        return;
    text = cli_printf("waited %s, %.2f threads on average", top_duration((double)l->wait_ns, time),
                      (double)l->wait_ns / 1e9 / r->profile->wall_s);
    label(out, text, BAR_LEFT + BAR_WIDTH + 10, y + 13, "start", 60);
    free(text);
}

void svg_shares(FILE *out, const top_result_t *r)
{
    size_t count = r->profile->lock_count;
    count = count < BARS_MOST ? count : BARS_MOST;
    fprintf(out, "<svg viewBox='0 0 %d %zu' role='img' aria-label='held, hand-off and waiting'>",
            BAR_LEFT + BAR_WIDTH + BAR_RIGHT + 60, count * BAR_STEP + 30);
    for (int tenth = 0; tenth <= 10; tenth += 2)
        fprintf(out, "<text class='axis' x='%d' y='12' text-anchor='middle'>%d %%</text>"
                     "<line class='grid' x1='%d' x2='%d' y1='18' y2='%zu'/>",
                BAR_LEFT + tenth * BAR_WIDTH / 10, tenth * 10, BAR_LEFT + tenth * BAR_WIDTH / 10,
                BAR_LEFT + tenth * BAR_WIDTH / 10, count * BAR_STEP + 24);
    for (size_t i = 0; i < count; i++)
        share_bar(out, r, i);
    fputs("</svg>", out);
}

// ------------------------------------------------------------------------- histograms
enum { HIST_LEFT = 84, HIST_STEP = 22, HIST_HEIGHT = 70, HIST_GAP = 30 };

typedef struct {
    unsigned first, last;
} range_t;

static void widen(range_t *r, const uint64_t hist[PROFILE_BUCKETS])
{
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++) {
        if (!hist[i])
            continue;
        r->first = i < r->first ? i : r->first;
        r->last = i > r->last ? i : r->last;
    }
}

static void one_histogram(FILE *out, const char *name, const char *class,
                          const uint64_t hist[PROFILE_BUCKETS], range_t range, int top)
{
    uint64_t most = 0, total = 0;
    char from[32], to[32];
    for (unsigned i = range.first; i <= range.last; i++) {
        most = hist[i] > most ? hist[i] : most;
        total += hist[i];
    }
    fprintf(out, "<text x='%d' y='%d' text-anchor='end'>%s</text>", HIST_LEFT - 8,
            top + HIST_HEIGHT - 4, name);
    for (unsigned i = range.first; most && i <= range.last; i++) {
        double height = (double)hist[i] * (HIST_HEIGHT - 6) / (double)most;
        if (!hist[i])
            continue;
        height = height < 1.5 ? 1.5 : height;
        fprintf(out, "<rect class='%s' x='%u' y='%.1f' width='%d' height='%.1f'><title>%s to %s: "
                     "%llu of %llu</title></rect>",
                class, HIST_LEFT + (i - range.first) * HIST_STEP, top + HIST_HEIGHT - height,
                HIST_STEP - 3, height, top_duration(i ? ldexp(1, (int)i) : 0, from),
                top_duration(ldexp(1, (int)i + 1), to), (unsigned long long)hist[i],
                (unsigned long long)total);
    }
    fprintf(out, "<line class='grid' x1='%d' x2='%u' y1='%d' y2='%d'/>", HIST_LEFT,
            HIST_LEFT + (range.last + 1 - range.first) * HIST_STEP, top + HIST_HEIGHT,
            top + HIST_HEIGHT);
}

void svg_histograms(FILE *out, const profile_lock_t *l)
{
    const struct { const char *name, *class; const uint64_t *hist; bool known; } all[] = {
        {"waits", "waiting", l->wait_hist, l->has & HAS_WAIT},
        {"holds", "held", l->hold_hist, l->has & HAS_HOLD},
        {"hand-offs", "handing", l->handoff_hist, l->has & HAS_HANDOFF}};
    range_t range = {PROFILE_BUCKETS, 0};
    char text[32];
    int height = 0;
    for (size_t i = 0; i < 3; i++)
        if (all[i].known)
            widen(&range, all[i].hist);
    if (range.first > range.last)
        return;
    for (size_t i = 0; i < 3; i++)
        height += all[i].known ? HIST_HEIGHT + 8 : 0;
    fprintf(out, "<svg class='hist' style='max-width:%upx' viewBox='0 0 %u %d' role='img' "
                 "aria-label='histograms'>",
            HIST_LEFT + (range.last + 2 - range.first) * HIST_STEP + 30,
            HIST_LEFT + (range.last + 2 - range.first) * HIST_STEP + 30, height + HIST_GAP);
    int top = 0;
    for (size_t i = 0; i < 3; i++) {
        if (!all[i].known)
            continue;
        one_histogram(out, all[i].name, all[i].class, all[i].hist, range, top);
        top += HIST_HEIGHT + 8;
    }
    for (unsigned i = range.first; i <= range.last + 1; i += 3)
        fprintf(out, "<text class='axis' x='%u' y='%d' text-anchor='middle'>%s</text>",
                HIST_LEFT + (i - range.first) * HIST_STEP, height + 14,
                top_duration(i ? ldexp(1, (int)i) : 0, text));
    fputs("</svg>", out);
}

// ------------------------------------------------------------------------- sweep
enum { SWEEP_LEFT = 70, SWEEP_WIDTH = 620, SWEEP_HEIGHT = 280, SWEEP_LOCKS = 10, POINTS_MOST = 64 };

typedef struct {
    const char *lock;
    double x[POINTS_MOST], y[POINTS_MOST];
    size_t count;
} curve_t;

typedef struct {
    curve_t curve[SWEEP_LOCKS];
    size_t count;
    double x_most, y_most;
    const char *x_title, *y_title;
} sweep_t;

static void add_point(sweep_t *s, const char *lock, double x, double y)
{
    size_t i = 0;
    if (!lock || !isfinite(x) || !isfinite(y) || x <= 0 || y < 0)
        return;
    while (i < s->count && strcmp(s->curve[i].lock, lock) != 0)
        i++;
    if (i == SWEEP_LOCKS)
        return;
    if (i == s->count)
        s->curve[s->count++].lock = lock;
    curve_t *c = &s->curve[i];
    if (c->count == POINTS_MOST)
        return;
    c->x[c->count] = x;
    c->y[c->count++] = y;
    s->x_most = fmax(s->x_most, x);
    s->y_most = fmax(s->y_most, y);
}

// A number, or text that is one (hotlock try gives the varied value as it was typed).
static double value_of(const json_t *v)
{
    char *end;
    if (json_is_number(v))
        return json_number_value(v);
    const char *text = json_string_value(v);
    double value = text ? strtod(text, &end) : NAN;
    return text && *text && !*end ? value : NAN;
}

static void read_try(sweep_t *s, const json_t *sections)
{
    size_t i, k;
    json_t *section, *row;
    json_array_foreach(sections, i, section)
        json_array_foreach(json_object_get(section, "locks"), k, row) {
            const char *vary = json_object_iter_key(json_object_iter(row));
            if (!vary || strcmp(vary, "lock") == 0)
                continue;
            s->x_title = vary;
            add_point(s, json_string_value(json_object_get(row, "lock")),
                      value_of(json_object_get(row, vary)),
                      value_of(json_object_get(row, "median")));
        }
}

static void read_bench(sweep_t *s, const json_t *cells)
{
    size_t i;
    json_t *row;
    json_array_foreach(cells, i, row)
        add_point(s, json_string_value(json_object_get(row, "lock")),
                  value_of(json_object_get(row, "threads")),
                  value_of(json_object_get(row, "ops_per_s")));
}

static double place_x(const sweep_t *s, double x)
{
    return SWEEP_LEFT + (s->x_most > 1 ? log2(x) / log2(s->x_most) : 0.5) * SWEEP_WIDTH;
}

static double place_y(const sweep_t *s, double y)
{
    return 10 + SWEEP_HEIGHT * (1 - (s->y_most > 0 ? y / s->y_most : 0));
}

static void draw_curve(FILE *out, const sweep_t *s, size_t i)
{
    const curve_t *c = &s->curve[i];
    fprintf(out, "<polyline class='line c%zu' points='", i);
    for (size_t k = 0; k < c->count; k++)
        fprintf(out, "%.1f,%.1f ", place_x(s, c->x[k]), place_y(s, c->y[k]));
    fputs("'/>", out);
    for (size_t k = 0; k < c->count; k++) {
        fprintf(out, "<circle class='dot c%zu' cx='%.1f' cy='%.1f' r='3'><title>", i,
                place_x(s, c->x[k]), place_y(s, c->y[k]));
        svg_text(out, c->lock);
        fprintf(out, ": %.6g at %g</title></circle>", c->y[k], c->x[k]);
    }
    fprintf(out, "<line class='line c%zu' x1='%d' x2='%d' y1='%zu' y2='%zu'/>", i,
            SWEEP_LEFT + SWEEP_WIDTH + 20, SWEEP_LEFT + SWEEP_WIDTH + 44, 18 + 20 * i, 18 + 20 * i);
    fprintf(out, "<text x='%d' y='%zu'>", SWEEP_LEFT + SWEEP_WIDTH + 50, 22 + 20 * i);
    svg_text(out, c->lock);
    fputs("</text>", out);
}

bool svg_sweep(FILE *out, const json_t *sweep)
{
    sweep_t *s = cli_alloc(sizeof *s);
    const char *measure = json_string_value(json_object_get(sweep, "measure"));
    s->x_title = "threads";
    s->y_title = measure ? measure : "operations a second";
    read_try(s, json_object_get(sweep, "sections"));
    read_bench(s, json_object_get(sweep, "cells"));
    bool any = s->count > 0;
    if (any) {
        fprintf(out, "<svg viewBox='0 0 %d %d' role='img' aria-label='sweep'>",
                SWEEP_LEFT + SWEEP_WIDTH + 180, SWEEP_HEIGHT + 60);
        for (int i = 0; i <= 4; i++) {
            double y = s->y_most * i / 4;
            fprintf(out, "<line class='grid' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>"
                         "<text class='axis' x='%d' y='%.1f' text-anchor='end'>%.3g</text>",
                    SWEEP_LEFT, SWEEP_LEFT + SWEEP_WIDTH, place_y(s, y), place_y(s, y),
                    SWEEP_LEFT - 6, place_y(s, y) + 4, y);
        }
        for (double x = 1; x <= s->x_most; x *= 2)
            fprintf(out, "<text class='axis' x='%.1f' y='%d' text-anchor='middle'>%g</text>",
                    place_x(s, x), SWEEP_HEIGHT + 28, x);
        for (size_t i = 0; i < s->count; i++)
            draw_curve(out, s, i);
        fprintf(out, "<text class='axis' x='%d' y='%d' text-anchor='middle'>",
                SWEEP_LEFT + SWEEP_WIDTH / 2, SWEEP_HEIGHT + 48);
        svg_text(out, s->x_title);
        fputs("</text></svg><p class='note'>Vertical: ", out);
        svg_text(out, s->y_title);
        fputs(".</p>", out);
    }
    free(s);
    return any;
}
