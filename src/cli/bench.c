/* SPDX-License-Identifier: MIT */
/* hotlock bench: how the locks compare here, beside libc's and Concurrency Kit's, in one run. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "commands.h"
#include "plot.h"

enum { THREADS_MOST = 1024, ROUNDS_MOST = 100000, OPTIONS_MOST = 64 };
/* 27 seconds, as in the mail; in few long runs where each has to make all its files first. */
enum { STAT_THREADS = 80, STAT_ROUNDS = 3, STAT_SECONDS = 9 };
enum { USUAL_THREADS = 8, USUAL_ROUNDS = 9, USUAL_SECONDS = 3 };

typedef struct {
    const char *workload, *locks, *threads, *svg, *org, *new;
    double seconds; /* 0: not given */
    long rounds;    /* 0: not given */
    char *option[OPTIONS_MOST]; /* for the workload */
    size_t option_count;
    output_t output;
} options_t;

enum { KEY_THINK = 0x4e00, KEY_HOLD, KEY_OP, KEY_FORM, KEY_SVG, KEY_ORG, KEY_NEW };

static const struct argp_option argp_options[] = {
    {"locks", 'l', "LIST", 0,
     "Locks, separated by commas: NAME, NAME:POLICY, ours, peers or all (default)", 1},
    {"threads", 't', "LIST", 0, "Numbers of threads, separated by commas; default 1,2,4,8", 1},
    {"seconds", 's', "S", 0, "Length of each run; default 0.5", 1},
    {"rounds", 'n', "N", 0, "Runs of each lock with each number of threads; default 5", 1},
    {"think", KEY_THINK, "NS", 0, "counter: mean time between two sections of a thread", 2},
    {"hold", KEY_HOLD, "NS", 0, "counter: extra time inside a section", 2},
    {"op", KEY_OP, "increment|fam", 0, "counter: what a section does", 2},
    {"form", KEY_FORM, "lock|run", 0, "counter, slab: sections between calls, or as functions", 2},
    {"org", KEY_ORG, "LOCK", 0,
     "With --new: two columns, one line per second, totals and their ratio", 3},
    {"new", KEY_NEW, "LOCK", 0, "The lock compared with --org", 3},
    {"svg", KEY_SVG, "FILE", 0, "Also draw throughput over threads (needs gnuplot)", 4},
    {0},
};

static void hand_on(options_t *o, const char *name, char *value)
{
    if (o->option_count + 2 > OPTIONS_MOST)
        cli_bad("more than %d options for the workload", OPTIONS_MOST);
    if (name)
        o->option[o->option_count++] = (char *)name;
    o->option[o->option_count++] = value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->output;
        return 0;
    case 'l':
        o->locks = arg;
        return 0;
    case 't':
        o->threads = arg;
        return 0;
    case 's':
        o->seconds = cli_seconds("--seconds", arg);
        return 0;
    case 'n':
        o->rounds = cli_long("--rounds", arg, 1, ROUNDS_MOST);
        return 0;
    case KEY_THINK:
        hand_on(o, "--think", arg);
        return 0;
    case KEY_HOLD:
        hand_on(o, "--hold", arg);
        return 0;
    case KEY_OP:
        hand_on(o, "--op", arg);
        return 0;
    case KEY_FORM:
        hand_on(o, "--form", arg);
        return 0;
    case KEY_ORG:
        o->org = arg;
        return 0;
    case KEY_NEW:
        o->new = arg;
        return 0;
    case KEY_SVG:
        o->svg = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (o->workload)
            hand_on(o, NULL, arg);
        else
            o->workload = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = argp_options,
    .parser = parse,
    .args_doc = "[WORKLOAD] [-- OPTION...]",
    .doc = "Compares the locks on a workload (counter, pair, slab, stat, fcntl, runqueue; default "
           "counter): ours, libc's and Concurrency Kit's take turns in one interleaved run. What "
           "follows -- goes to the workload."
           "\vExit code: 0, 1 if a lock could not be ranked, 2 on bad input, 130 if interrupted "
           "(the table is then partial and says so).",
    .children = children,
};

/* ---- what to run ---- */

static void parse_threads(bench_t *b, const char *list)
{
    char **words = cli_list("--threads", list);
    for (char **word = words; *word; word++) {
        b->threads = cli_grow(b->threads, b->thread_count + 1, sizeof *b->threads);
        b->threads[b->thread_count++] = cli_long("--threads", *word, 1, THREADS_MOST);
    }
    cli_free_list(words);
}

/* A workload with a fixed amount of work ends by itself. */
static bool has_fixed_work(const options_t *o)
{
    for (size_t i = 0; i < o->option_count; i++)
        if (strncmp(o->option[i], "--loops", 7) == 0)
            return true;
    return false;
}

static void plan_locks(bench_t *b, const options_t *o)
{
    b->seconds = o->seconds > 0 ? o->seconds : has_fixed_work(o) ? 0 : 0.5;
    b->rounds = o->rounds ? o->rounds : 5;
    parse_threads(b, o->threads ? o->threads : "1,2,4,8");
    bench_choose(b, o->locks ? o->locks : "all");
    if (b->lock_count == 0)
        cli_bad("--locks '%s' leaves no lock that workload %s has", o->locks, b->workload);
}

static void plan_org_new(bench_t *b, const options_t *o)
{
    if (!o->org || !o->new)
        cli_bad("--org and --new come together; add --%s LOCK", o->org ? "new" : "org");
    if (o->locks)
        cli_bad("--locks and --org exclude each other; drop one");
    if (o->svg)
        cli_bad("--svg draws throughput over threads, which --org does not measure; drop one");
    if (has_fixed_work(o))
        cli_bad("--org counts seconds; drop --loops");
    if (strcmp(o->org, o->new) == 0)
        cli_bad("--org and --new are both '%s'; name two locks", o->org);
    bool stat = strcmp(b->workload, "stat") == 0;
    b->seconds = o->seconds > 0 ? o->seconds : stat ? STAT_SECONDS : USUAL_SECONDS;
    b->rounds = o->rounds ? o->rounds : stat ? STAT_ROUNDS : USUAL_ROUNDS;
    if (b->seconds < 1)
        cli_bad("--seconds %g leaves no whole second to count; use 1 or more", b->seconds);
    char *usual = cli_printf("%d", stat ? STAT_THREADS : USUAL_THREADS);
    parse_threads(b, o->threads ? o->threads : usual);
    free(usual);
    if (b->thread_count > 1)
        cli_bad("--org takes one number of threads, not '%s'", o->threads);
    char *both = cli_printf("%s,%s", o->org, o->new);
    bench_choose(b, both);
    free(both);
    if (b->lock_count != 2)
        cli_bad("--org and --new take one lock each, not a group");
}

static void plan_pair(bench_t *b, const options_t *o)
{
    if (o->threads || o->svg || o->org || o->new)
        cli_bad("workload pair has one busy thread; drop --%s",
                o->threads ? "threads" : o->svg ? "svg" : o->org ? "org" : "new");
    b->seconds = o->seconds > 0 ? o->seconds : 2;
    b->rounds = o->rounds ? o->rounds : 5;
    bench_choose(b, o->locks ? o->locks : "ours,peers");
}

/* ---- the plot ---- */

static bool draw(const bench_t *b, const char *file)
{
    plot_series_t *series = cli_alloc(b->lock_count * sizeof *series);
    plot_point_t *points = cli_alloc(b->lock_count * b->thread_count * sizeof *points);
    for (size_t i = 0; i < b->lock_count; i++) {
        plot_point_t *mine = &points[i * b->thread_count];
        for (size_t t = 0; t < b->thread_count; t++) {
            const bench_cell_t *c = bench_cell(b, t, i);
            stats_estimate_t e = bench_estimate(c, FIGURE_OPS);
            mine[t] = (plot_point_t){(double)c->threads, e.mid / 1e6, e.lo / 1e6, e.hi / 1e6};
        }
        series[i] = (plot_series_t){b->locks[i].lock, mine, b->thread_count,
                                    bench_is_peer(&b->locks[i])};
    }
    char *title = cli_printf("%s%s", b->workload, b->partial ? " (partial)" : "");
    bool good = plot_svg(&(plot_t){title, "threads", "million per second", series, b->lock_count},
                         file);
    free(title);
    free(series);
    free(points);
    return good;
}

/* ---- all of it ---- */

static bool any_fault(const bench_t *b)
{
    for (size_t i = 0; i < b->thread_count * b->lock_count; i++)
        if (b->cells[i].fault)
            return true;
    return false;
}

static int measure(bench_t *b, const options_t *o)
{
    bench_run(b);
    bool written = o->org ? bench_seconds_report(b, &o->output) : bench_report(b, &o->output);
    bool drawn = !o->svg || (!b->partial ? draw(b, o->svg) : true);
    if (b->partial)
        return CLI_INTERRUPTED;
    return written && drawn && !any_fault(b) ? CLI_OK : CLI_NO_RESULT;
}

int cmd_bench(int argc, char **argv)
{
    options_t o = {0};
    cli_parse(&argp, argc, argv, false, &o);
    bench_t b = {.workload = o.workload ? o.workload : "counter", .options = o.option,
                 .option_count = o.option_count};
    bool pair = strcmp(b.workload, "pair") == 0;
    bench_find(&b);
    if (pair)
        plan_pair(&b, &o);
    else if (o.org || o.new)
        plan_org_new(&b, &o);
    else
        plan_locks(&b, &o);
    output_check(&o.output);
    if (o.svg)
        plot_check(o.svg);
    int code = pair ? bench_pair(&b, &o.output) : measure(&b, &o);
    bench_free(&b);
    return code;
}
