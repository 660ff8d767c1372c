/* SPDX-License-Identifier: MIT */
/* Line plots as SVG: writes a gnuplot script with its data, runs it, keeps what it prints. */
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"
#include "output.h"

/* Colours that differ in hue and lightness, also for most colour-blind readers (after P. Tol). */
static const char *const colours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
                                      "#aa3377", "#000000", "#ee8866", "#8c510a", "#5e3c99"};
enum { COLOURS = sizeof colours / sizeof *colours, SECONDS_MOST = 30 };

static char *find_gnuplot(void)
{
    const char *path = getenv("PATH");
    for (const char *at = path ? path : "/bin:/usr/bin";; at++) {
        size_t length = strcspn(at, ":");
        char *file = cli_printf("%.*s/gnuplot", (int)length, at);
        if (access(file, X_OK) == 0)
            return file;
        free(file);
        at += length;
        if (!*at)
            return NULL;
    }
}

void plot_check(const char *file)
{
    char *gnuplot = find_gnuplot();
    if (!gnuplot)
        cli_bad("--svg needs gnuplot; install it (Debian: apt-get install gnuplot-nox)");
    free(gnuplot);
    output_check(&(output_t){.file = file});
}

/* In single quotes of gnuplot a quote is doubled, and nothing else is special. */
static void quoted(FILE *f, const char *text)
{
    fputc('\'', f);
    for (; *text; text++)
        fprintf(f, *text == '\'' ? "''" : "%c", *text);
    fputc('\'', f);
}

static void write_data(FILE *f, const plot_t *p)
{
    for (size_t i = 0; i < p->count; i++) {
        fprintf(f, "$data%zu << END\n", i);
        for (size_t j = 0; j < p->series[i].count; j++) {
            const plot_point_t *at = &p->series[i].points[j];
            if (isfinite(at->y) && at->y > 0)
                fprintf(f, "%.9g %.9g %.9g %.9g\n", at->x, at->y,
                        isfinite(at->lo) ? at->lo : at->y, isfinite(at->hi) ? at->hi : at->y);
        }
        fputs("END\n", f);
    }
}

static bool is_empty(const plot_series_t *s)
{
    for (size_t j = 0; j < s->count; j++)
        if (isfinite(s->points[j].y) && s->points[j].y > 0)
            return false;
    return true;
}

static void write_curve(FILE *f, const plot_series_t *s, size_t number, size_t colour)
{
    const char *hue = colours[colour % COLOURS];
    int point = 4 + (int)(colour % 5) * 2;
    fprintf(f, "$data%zu using 1:2:3:4 with yerrorbars lc rgb '#b0%s' lw %s pt 0 notitle, ",
            number, hue + 1, s->aside ? "0.6" : "1"); /* 0xb0 of 0xff transparent */
    fprintf(f, "$data%zu using 1:2 with linespoints lc rgb '%s' lw %s dt %s pt %d ps %s title ",
            number, hue, s->aside ? "1" : "2.2", s->aside ? "3" : "1", point + !s->aside,
            s->aside ? "0.5" : "0.7");
    quoted(f, s->name);
}

/* All series have the same x; the axis ends a little beyond them. */
static void write_x_axis(FILE *f, const plot_t *p)
{
    double least = INFINITY, most = 0;
    fputs("set xtics (", f);
    for (size_t j = 0; p->count && j < p->series[0].count; j++) {
        double x = p->series[0].points[j].x;
        fprintf(f, "%s%.9g", j ? ", " : "", x);
        least = fmin(least, x);
        most = fmax(most, x);
    }
    fprintf(f, ")\nset xrange [%.9g:%.9g]\n", least / 1.1, most * 1.1);
}

static void write_script(FILE *f, const plot_t *p)
{
    size_t ours = 0, others = 0, drawn = 0;
    fputs("set terminal svg size 900,560 enhanced background '#ffffff' font 'sans-serif,13'\n"
          "set key outside right top noenhanced samplen 2.5 spacing 1.1\n"
          "set grid lc rgb '#dddddd' lt 1 lw 0.5\nset border 3\nset tics nomirror\n"
          "set logscale xy\nset format y '%g'\n", f);
    fputs("set title ", f);
    quoted(f, p->title);
    fputs(" noenhanced\nset xlabel ", f);
    quoted(f, p->x_title);
    fputs("\nset ylabel ", f);
    quoted(f, p->y_title);
    fputc('\n', f);
    write_x_axis(f, p);
    write_data(f, p);
    for (size_t i = 0; i < p->count; i++) {
        const plot_series_t *s = &p->series[i];
        if (is_empty(s))
            continue;
        fputs(drawn++ ? ", \\\n  " : "plot ", f);
        write_curve(f, s, i, s->aside ? others++ : ours++);
    }
    fputc('\n', f);
}

/* gnuplot reads a file: its standard input would be ours. */
static char *script_file(const plot_t *p)
{
    const char *tmp = getenv("TMPDIR");
    char *name = cli_printf("%s/hotlock-plot-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int fd = mkstemp(name);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (f)
        write_script(f, p);
    if (f && fclose(f) == 0)
        return name;
    cli_note("cannot write '%s': %s", name, strerror(errno));
    free(name);
    return NULL;
}

bool plot_svg(const plot_t *plot, const char *file)
{
    char *script = script_file(plot), *gnuplot = find_gnuplot();
    if (!script || !gnuplot) {
        free(script);
        free(gnuplot);
        return false;
    }
    child_result_t r;
    char *argv[] = {gnuplot, script, NULL};
    child_run(&(child_spec_t){.path = gnuplot, .argv = argv, .limit = SECONDS_MOST,
                              .capture = true}, &r);
    bool good = r.end == CHILD_EXITED && r.code == 0 && r.out_len > 0;
    if (!good)
        cli_note("gnuplot could not draw '%s'", file);
    good = good && output_write(file, r.out, r.out_len);
    child_free(&r);
    unlink(script);
    free(script);
    free(gnuplot);
    return good;
}
