/* SPDX-License-Identifier: MIT */
/* hotlock check: every execution of a small program, weak memory included. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_build.h"
#include "check_orders.h"
#include "check_trace.h"
#include "commands.h"
#include "nearest.h"
#include "output.h"
#include "program.h"

/* ---- options ---- */

enum {
    KEY_MODEL = 0x4d00, KEY_BOUND, KEY_LOOPS, KEY_EXPIRIES, KEY_SPURIOUS, KEY_SLEEPS, KEY_TIMERS,
    KEY_LIMIT, KEY_CC, KEY_CFLAG, KEY_TRACE, KEY_REPLAY, KEY_GDB, KEY_ORDERS, KEY_OUTCOMES, KEY_BUILD, KEY_SEARCH,
    KEY_SAMPLES, KEY_SEED, KEY_DEPTH, KEY_PREEMPTIONS, KEY_WEAK,
    KEY_SHORTER
};

typedef struct {
    check_build_t build;
    size_t source_count;
    const char *model, *search, *trace, *replay, *program;
    long bound, loops, expiries, spurious, sleeps, threads, samples, seed, depth;
    const char *drawn; /* an option of single executions that was given */
    long preemptions; /* -1: any number */
    long weak_failures, shorter;
    bool no_timers, gdb, orders, outcomes;
    output_t output;
    double limit;
} options_t;

static const struct argp_option options[] = {
    {"model", KEY_MODEL, "NAME", 0, "Memory model: sc, tso or c11 (default)", 1},
    {"threads", 't', "N", 0, "Define THREADS as N for the program", 1},
    {NULL, 'D', "NAME[=VALUE]", 0, "Define a macro", 1},
    {NULL, 'I', "DIR", 0, "Search headers in DIR", 1},
    {"cflag", KEY_CFLAG, "FLAG", 0, "Give the compiler one more FLAG", 1},
    {"cc", KEY_CC, "COMPILER", 0, "gcc (default) or clang", 1},
    {"bound", KEY_BOUND, "N", 0, "Most atomic events of a thread, 10 to 250 (default); random and pct: to 4000 (default)", 2},
    {"loops", KEY_LOOPS, "N", 0,
     "How often a thread may come to the same load in a loop that is no wait (default: any)", 2},
    {"expiries", KEY_EXPIRIES, "N", 0, "How many deadlines may pass, per thread (default 1)", 2},
    {"spurious", KEY_SPURIOUS, "N", 0, "Wake-ups for no reason, per thread (default 1)", 2},
    {"sleeps", KEY_SLEEPS, "N", 0,
     "Timed sleeps that only a wake-up ends, per thread (default 1)", 2},
    {"weak-failures", KEY_WEAK, "N", 0,
     "Weak compare-exchanges that fail for no reason, per thread (default 1)", 2},
    {"no-timers", KEY_TIMERS, NULL, 0, "Timed sleeps end only by a wake-up: finds lost ones", 2},
    {"time-limit", KEY_LIMIT, "SECONDS", 0, "Stop after SECONDS (default 60)", 2},
    {"search", KEY_SEARCH, "WAY", 0,
     "all (default); plain: depth first, nothing reduced; random or pct (by priorities): single "
     "executions of bigger programs", 3},
    {"preemptions", KEY_PREEMPTIONS, "N", 0,
     "plain: executions with at most N switches away from a thread that could go on", 3},
    {"samples", KEY_SAMPLES, "N", 0, "How many random or pct executions (default 10000)", 3},
    {"seed", KEY_SEED, "N", 0, "Where random choices begin (default 1)", 3},
    {"depth", KEY_DEPTH, "N", 0, "pct: ordering constraints of the bugs looked for (default 3)", 3},
    {"shorter", KEY_SHORTER, "N", 0,
     "Look at N more executions for a counterexample with fewer context switches (default 1000)", 3},
    {"outcomes", KEY_OUTCOMES, NULL, 0, "List what complete executions print", 4},
    {"orders", KEY_ORDERS, NULL, 0, "Weaken each memory order in turn: which are needed?", 3},
    {"trace", KEY_TRACE, "FILE", 0, "Write the counterexample to FILE for --replay", 3},
    {"replay", KEY_REPLAY, "FILE", 0, "Run the one execution in FILE", 3},
    {"build", KEY_BUILD, "FILE", 0, "Only build: write the program that would be explored to FILE", 3},
    {"gdb", KEY_GDB, NULL, 0, "With --replay: under gdb, stopped at the end of the execution", 3},
    {0},
};

static void add_flag(options_t *o, char *flag)
{
    o->build.flags = cli_grow(o->build.flags, o->build.flag_count + 1, sizeof *o->build.flags);
    o->build.flags[o->build.flag_count++] = flag;
}

static void add_source(options_t *o, char *file)
{
    o->build.sources = cli_grow(o->build.sources, o->source_count + 2, sizeof *o->build.sources);
    o->build.sources[o->source_count++] = file;
    o->build.sources[o->source_count] = NULL;
}

static const char *one_of(const char *what, const char *text, const char *const *names)
{
    size_t count = 0;
    for (; names[count]; count++)
        if (!strcmp(text, names[count]))
            return names[count];
    cli_bad("unknown %s '%s'; nearest is '%s'", what, text,
            nearest_name(text, (const char **)names, count));
}

static const char *const models[] = {"sc", "tso", "c11", NULL};
static const char *const searches[] = {"all", "plain", "random", "pct", NULL};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->output; return 0;
    case KEY_MODEL: o->model = one_of("model", arg, models); return 0;
    case 't': o->threads = cli_long("--threads", arg, 1, 15); return 0;
    case 'D': add_flag(o, cli_printf("-D%s", arg)); return 0;
    case 'I': add_flag(o, cli_printf("-I%s", arg)); return 0;
    case KEY_CFLAG: add_flag(o, arg); return 0;
    case KEY_CC: o->build.compiler = arg; return 0;
    case KEY_BOUND: o->bound = cli_long("--bound", arg, 10, 4000); return 0;
    case KEY_LOOPS: o->loops = cli_long("--loops", arg, 1, 250); return 0;
    case KEY_EXPIRIES: o->expiries = cli_long("--expiries", arg, 0, 100); return 0;
    case KEY_SPURIOUS: o->spurious = cli_long("--spurious", arg, 0, 100); return 0;
    case KEY_SLEEPS: o->sleeps = cli_long("--sleeps", arg, 0, 100); return 0;
    case KEY_SHORTER: o->shorter = cli_long("--shorter", arg, 0, 1000000000); return 0;
    case KEY_WEAK: o->weak_failures = cli_long("--weak-failures", arg, 0, 100); return 0;
    case KEY_TIMERS: o->no_timers = true; return 0;
    case KEY_LIMIT: o->limit = cli_seconds("--time-limit", arg); return 0;
    case KEY_SEARCH: o->search = one_of("search", arg, searches); return 0;
    case KEY_PREEMPTIONS: o->preemptions = cli_long("--preemptions", arg, 0, 1000); return 0;
    case KEY_SAMPLES:
        o->drawn = "--samples";
        o->samples = cli_long("--samples", arg, 1, 1000000000);
        return 0;
    case KEY_SEED:
        o->drawn = "--seed";
        o->seed = cli_long("--seed", arg, 0, LONG_MAX - 1);
        return 0;
    case KEY_DEPTH:
        o->drawn = "--depth";
        o->depth = cli_long("--depth", arg, 1, 32);
        return 0;
    case KEY_OUTCOMES: o->outcomes = true; return 0;
    case KEY_ORDERS: o->orders = true; return 0;
    case KEY_TRACE: o->trace = arg; return 0;
    case KEY_REPLAY: o->replay = arg; return 0;
    case KEY_BUILD: o->program = arg; return 0;
    case KEY_GDB: o->gdb = true; return 0;
    case ARGP_KEY_ARG: add_source(o, arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .children = children,
    .parser = parse,
    .args_doc = "FILE.c...",
    .doc = "Builds a pthread program and explores every execution the memory model allows: data races, "
           "assertions, deadlocks and lost wake-ups, use of freed memory and of dead stacks.\v"
           "Exit code: 0 verified within the bounds printed, 1 a counterexample, 2 the program cannot "
           "be checked, 3 stopped at a bound or the time limit before everything was explored.",
};

/* ---- one exploration ---- */

static char *settings(const options_t *o, const char *more)
{
    return cli_printf("model=%s bound=%ld loops=%ld expiries=%ld spurious=%ld sleeps=%ld timers=%d "
                      "seconds=%g search=%s samples=%ld seed=%ld depth=%ld preemptions=%ld "
                      "weak_failures=%ld more=%ld%s", o->model, o->bound, o->loops, o->expiries,
                      o->spurious, o->sleeps, !o->no_timers, o->limit, o->search, o->samples, o->seed,
                      o->depth, o->preemptions, o->weak_failures, o->shorter, more);
}

static char *report_name(const char *program) { return cli_printf("%s.report", program); }

/* Runs the program; gives the report and whether there is one. */
static void explore(const options_t *o, const char *program, const char *more, trace_t *t)
{
    extern char **environ;
    char *report = report_name(program), *set = settings(o, more);
    char **first = child_env(environ, "HOTLOCK_CHECK", set);
    char **env = child_env(first, "HOTLOCK_CHECK_REPORT", report);
    char *argv[] = {(char *)program, NULL}, text[64];
    child_spec_t spec = {.path = program, .argv = argv, .env = env, .capture = true,
                         .limit = o->limit * 2 + 10};
    child_result_t result;
    unlink(report);
    child_run(&spec, &result);
    if (result.end == CHILD_INTERRUPTED)
        exit(CLI_INTERRUPTED);
    bool whole = trace_read(report, t);
    if (!whole && result.end == CHILD_LIMIT)
        cli_bad("the program runs on without any access that could be scheduled: an endless loop?");
    if (!whole && result.end == CHILD_EXITED && result.code == 2 && *result.err)
        cli_bad("%s", result.err + strcspn(result.err, ":") + 2);
    if (!whole)
        cli_bad("the checked program broke the checker (%s); its output: %.200s",
                child_end_text(&result, text, sizeof text), result.err);
    trace_locate(t, program);
    child_free(&result);
    child_free_env(first);
    child_free_env(env);
    free(report);
    free(set);
}

/* ---- verdicts ---- */

static char *bounds_text(const options_t *o)
{
    char *loops = o->loops ? cli_printf(", %ld rounds of a loop that is no wait", o->loops)
                           : cli_printf("%s", "");
    char *weak = strcmp(o->model, "c11") != 0 ? cli_printf("%s", "")
                 : cli_printf(", %ld weak compare-exchange%s failing for no reason", o->weak_failures,
                              o->weak_failures == 1 ? "" : "s");
    char *text = cli_printf("%ld events a thread%s; per thread %ld expired deadline%s, %ld spurious "
                            "wake-up%s, %ld timed sleep%s ended by a wake-up%s%s", o->bound, loops,
                            o->expiries, o->expiries == 1 ? "" : "s", o->spurious,
                            o->spurious == 1 ? "" : "s", o->sleeps, o->sleeps == 1 ? "" : "s",
                            o->no_timers ? "; timers never end a sleep" : "", weak);
    free(weak);
    free(loops);
    return text;
}

static bool plain(const options_t *o) { return !strcmp(o->search, "plain"); }

static void print_outcomes(const trace_t *t, FILE *out)
{
    fprintf(out, "outcomes: %zu\n", t->outcome_count);
    for (size_t i = 0; i < t->outcome_count; i++) {
        char *text = t->outcomes[i].text;
        size_t n = strlen(text);
        fprintf(out, "%10llu x  ", t->outcomes[i].times);
        for (size_t k = 0; k < n; k++)
            if (text[k] != '\n')
                fputc(text[k], out);
            else if (k + 1 < n)
                fputs(" | ", out);
        fputc('\n', out);
    }
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "r");
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    for (int c; in && (c = fgetc(in)) != EOF;)
        fputc(c, f);
    fclose(f);
    if (in)
        fclose(in);
    if (!output_write(to, text, size))
        exit(CLI_BAD_INPUT);
    free(text);
}

/* What cannot be checked at all is one line and exit 2. */
static void refuse_unusable(const options_t *o, const trace_t *t)
{
    const trace_spot_t *where = trace_spot(t, t->pc);
    if (!strcmp(t->end, "alone"))
        cli_bad("%s: the program never has two threads; there is nothing to check", o->build.sources[0]);
    if (strcmp(t->end, "unusable") != 0)
        return;
    if (t->pc && where->line)
        cli_bad("%s:%d: %s", where->file, where->line, t->what);
    cli_bad("%s", t->what);
}

static int exit_code(const trace_t *t)
{
    return !strcmp(t->end, "complete") || !strcmp(t->end, "replayed") ? 0 : !strcmp(t->end, "bad") ? 1 : 3;
}

static void print_not_verified(const options_t *o, const trace_t *t, FILE *out)
{
    const trace_spot_t *at = trace_spot(t, t->bound_pc);
    fprintf(out, "NOT VERIFIED for %s: ", o->model);
    if (!strcmp(t->end, "bound"))
        fprintf(out, "a loop at %s:%d in %s() met the bound in %llu of %llu runs\n"
                "It is no wait the checker could recognise: an iteration changes something.\n", at->file,
                at->line, at->function, t->bounded, t->runs);
    else if (!strcmp(t->end, "sampled"))
        fprintf(out, "these were single executions (%s, seed %ld); %llu more met a bound\n", o->search,
                o->seed, t->bounded);
    else if (!strcmp(t->end, "time"))
        fprintf(out, "the time limit of %g s passed\n", o->limit);
    else if (!strcmp(t->end, "limit"))
        fprintf(out, "too many %s for the checker\n", t->what);
    else
        fprintf(out, "not one execution ran to its end\n");
    fprintf(out, "%llu executions without a counterexample, %.2f s\n", t->complete, t->seconds);
    if (plain(o) && o->preemptions >= 0 && t->allowed > 0)
        fprintf(out, "Before, all interleavings with fewer than %d preemption%s were explored.\n",
                t->allowed, t->allowed == 1 ? "" : "s");
}

/* The plain search counts interleavings; several may be the same execution. */
static void print_plain(const options_t *o, const trace_t *t, FILE *out)
{
    char *within = t->cut ? cli_printf(" within %d preemption%s", t->allowed, t->allowed == 1 ? "" : "s")
                          : cli_printf("%s", "");
    fprintf(out, "verified for %s%s: %llu interleavings, %.2f s (%llu more ended waiting)\n", o->model,
            within, t->complete, t->seconds, t->blocked);
    if (!t->cut && o->preemptions >= 0)
        fprintf(out, "These are all: none has more than %d preemption%s.\n", t->allowed,
                t->allowed == 1 ? "" : "s");
    free(within);
}

static void print_verdict(const options_t *o, const trace_t *t, const char *program, FILE *out)
{
    char *bounds = bounds_text(o);
    if (o->outcomes)
        print_outcomes(t, out);
    if (!strcmp(t->end, "complete") && plain(o)) {
        print_plain(o, t, out);
    } else if (!strcmp(t->end, "complete")) {
        fprintf(out, "verified for %s: %llu executions, %.2f s (%llu more ended waiting)\n", o->model,
                t->complete, t->seconds, t->blocked);
    } else if (!strcmp(t->end, "bad")) {
        trace_print(t, program, out);
        fprintf(out, "\nfound under %s in execution %llu, %.2f s", o->model, t->found, t->seconds);
        if (t->seen > 1)
            fprintf(out, "; this is the shortest of %llu counterexamples in %llu executions", t->seen,
                    t->runs);
        fputc('\n', out);
    } else if (!strcmp(t->end, "replayed")) {
        fprintf(out, "replayed: the execution ends without a failure here\n");
    } else {
        print_not_verified(o, t, out);
    }
    if (strcmp(t->end, "bad") != 0 && strcmp(t->end, "replayed") != 0)
        fprintf(out, "bounds: %s\n", bounds);
    free(bounds);
}

static json_t *verdict_json(const options_t *o, const trace_t *t, const char *program)
{
    const char *word = !strcmp(t->end, "complete") ? "verified" : !strcmp(t->end, "bad") ? "counterexample"
                       : !strcmp(t->end, "replayed") ? "replayed" : "not verified";
    json_t *outcomes = json_array(), *within = plain(o) && t->cut ? json_integer(t->allowed) : json_null();
    for (size_t i = 0; i < t->outcome_count; i++)
        json_array_append_new(outcomes, json_pack("{s:I, s:o}", "times", (json_int_t)t->outcomes[i].times,
                                                  "text", table_json_string(t->outcomes[i].text)));
    json_t *bounds = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "events", (int)o->bound, "loops",
                               (int)o->loops, "expiries", (int)o->expiries, "spurious",
                               (int)o->spurious, "sleeps", (int)o->sleeps, "weak_failures",
                               (int)o->weak_failures, "timers", !o->no_timers);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:f, s:o, s:o, s:o}", "schema",
                     "hotlock-check/1", "verdict", word, "ended", t->end, "model", o->model, "search",
                     o->search, "within_preemptions", within, "executions", (json_int_t)t->complete,
                     "waiting", (json_int_t)t->blocked, "runs", (json_int_t)t->runs, "seconds",
                     t->seconds, "bounds", bounds, "outcomes", outcomes, "counterexample",
                     !strcmp(t->end, "bad") ? trace_json(t, program) : json_null());
}

static int verdict(const options_t *o, const trace_t *t, const char *program)
{
    char *text;
    size_t size;
    refuse_unusable(o, t);
    FILE *out = open_memstream(&text, &size);
    if (o->output.format == TABLE_JSON)
        output_json(verdict_json(o, t, program), out);
    else
        print_verdict(o, t, program, out);
    fclose(out);
    if (!output_write(o->output.file, text, size))
        exit(CLI_BAD_INPUT);
    free(text);
    return exit_code(t);
}

static int check_once(const options_t *o, const char *program)
{
    trace_t t;
    char *more = o->replay ? cli_printf(" replay=%s", o->replay) : cli_printf("%s", "");
    explore(o, program, more, &t);
    int code = verdict(o, &t, program);
    if (code == 1 && o->trace) {
        char *report = report_name(program);
        copy_file(report, o->trace);
        cli_note("trace written to %s; see it again with --replay %s --gdb", o->trace, o->trace);
        free(report);
    }
    free(more);
    trace_free(&t);
    return code;
}

/* ---- gdb ---- */

static int debug(const options_t *o, const char *program)
{
    extern char **environ;
    char *more = cli_printf(" replay=%s", o->replay), *set = settings(o, more);
    char **env = child_env(environ, "HOTLOCK_CHECK", set);
    const char *argv[] = {"gdb", "-q", "-ex", "break hl_check_found", "-ex", "run", "-ex", "backtrace",
                          program, NULL};
    char *gdb = program_find(argv[0], NULL);
    child_spec_t spec = {.path = gdb, .argv = (char *const *)argv, .env = env};
    child_result_t result;
    child_run(&spec, &result);
    int code = result.end == CHILD_EXITED ? result.code : CLI_BAD_INPUT;
    child_free(&result);
    child_free_env(env);
    free(gdb);
    free(set);
    free(more);
    return code;
}

/* ---- orders ---- */

static const options_t *orders_options;

static void explore_weakened(const char *program, const char *more, trace_t *t)
{
    char *first = cli_printf(" more=0%s", more); /* any counterexample will do */
    explore(orders_options, program, first, t);
    free(first);
}

int cmd_check(int argc, char **argv)
{
    options_t o = {.model = "c11", .preemptions = -1, .samples = 10000, .seed = 1, .depth = 3,
                   .expiries = 1, .spurious = 1, .sleeps = 1, .weak_failures = 1, .shorter = 1000, .limit = 60,
                   .build.compiler = "gcc"};
    cli_parse(&argp, argc, argv, false, &o);
    if (!o.source_count)
        cli_bad("no program given; write its source file");
    if (o.gdb && !o.replay)
        cli_bad("--gdb shows a known execution; name it with --replay FILE");
    if (!o.search)
        o.search = o.preemptions >= 0 ? "plain" : "all";
    if (o.preemptions >= 0 && !plain(&o))
        cli_bad("--preemptions bounds the plain search; leave --search %s out", o.search);
    o.build.wide = !strcmp(o.search, "random") || !strcmp(o.search, "pct");
    if (o.drawn && !o.build.wide)
        cli_bad("%s is about single executions; give --search random or --search pct", o.drawn);
    if (o.bound > 250 && !o.build.wide)
        cli_bad("--bound %ld: --search %s takes 250 at most; random and pct take 4000", o.bound, o.search);
    if (!o.bound)
        o.bound = o.build.wide ? 4000 : 250;
    if (o.orders && strcmp(o.search, "all") != 0)
        cli_bad("--orders compares complete searches; leave --search and --preemptions out");
    if (o.orders && (o.replay || o.trace))
        cli_bad("--orders runs many explorations; it goes with neither --replay nor --trace");
    bool rows = o.output.format == TABLE_CSV || o.output.format == TABLE_MARKDOWN;
    if (rows && !o.orders)
        cli_bad("--csv and --markdown are for the table of --orders; a verdict has --json");
    output_check(&o.output);
    char *replay = o.replay ? realpath(o.replay, NULL) : NULL;
    if (o.replay && !replay)
        cli_bad("%s: %s", o.replay, strerror(errno));
    o.replay = replay;
    if (o.threads)
        add_flag(&o, cli_printf("-DTHREADS=%ld", o.threads));
    child_watch_interrupts();
    personality(ADDR_NO_RANDOMIZE);
    char *program = check_build(&o.build);
    int code;
    if (o.program) {
        copy_file(program, o.program);
        code = chmod(o.program, 0755) == 0 ? CLI_OK : CLI_BAD_INPUT;
    } else if (o.gdb) {
        code = debug(&o, program);
    } else if (o.orders) {
        orders_options = &o;
        code = check_orders(program, explore_weakened, &o.output);
    } else {
        code = check_once(&o, program);
    }
    free(program);
    free(replay);
    return code;
}
