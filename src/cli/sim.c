/* SPDX-License-Identifier: MIT */
/* hotlock sim: a program on a machine one does not have. */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#include <hotlock/hotlock.h>

#include "check_build.h"
#include "child.h"
#include "commands.h"
#include "nearest.h"
#include "plot.h"
#include "program.h"

/* ---- options ---- */

enum {
    KEY_SEEDS = 0x5300, KEY_JITTER, KEY_TIME, KEY_PLACE, KEY_METRIC, KEY_LINES, KEY_SVG, KEY_CC,
    KEY_CFLAG, KEY_LIBRARY, KEY_BUILD, KEY_LIMIT, KEY_REPRODUCE,
    KEY_EACH, KEY_DEBUGGER
};

typedef struct {
    sim_t sim;
    check_build_t build;
    size_t source_count;
    const char *machine, *threads, *locks, *svg, *debugger;
    bool reproduce;
    output_t output;
} options_t;

static const struct argp_option options[] = {
    {"machine", 'm', "NAME|FILE", 0, "The machine (default e5-2699v3-2s); see hotlock machines", 1},
    {"threads", 't', "LIST", 0, "Numbers of threads, or all: 1, 2, 4... and every edge (default)",
     1},
    {"lock", 'l', "LIST", 0, "Locks to compare (default: all of hotlock's); libc is glibc's", 1},
    {"place", KEY_PLACE, "HOW", 0, "spread over the sockets (default), compact, or CPUs: 0,2,4-7",
     1},
    {"time", KEY_TIME, "MS", 0,
     "Simulated time of a workload's run (default 2 ms, from 72 threads on longer)", 1},
    {"seeds", KEY_SEEDS, "N", 0, "Runs with different chance (default 8)", 1},
    {"jitter", KEY_JITTER, "PERCENT", 0, "How much latencies vary, either way (default 5)", 1},
    {"metric", KEY_METRIC, "REGEX", 0, "A rate the program prints, instead of sections per second",
     2},
    {"lines", KEY_LINES, NULL, 0, "Which source lines move cache lines", 2},
    {"each-seed", KEY_EACH, NULL, 0, "With --csv or --json: a row per seed, not their medians", 2},
    {"svg", KEY_SVG, "FILE", 0, "Draw the curves into FILE", 2},
    {"reproduce", KEY_REPRODUCE, NULL, 0,
     "The results of 2002 to 2016 that began hotlock: published beside simulated", 2},
    {"time-limit", KEY_LIMIT, "SECONDS", 0, "Real time a run may take (default 60)", 2},
    {"debugger", KEY_DEBUGGER, "COMMAND", 0,
     "Run one seed, with the most threads, behind COMMAND, such as 'gdb --args'", 2},
    {NULL, 'D', "NAME[=VALUE]", 0, "Define a macro", 3},
    {NULL, 'I', "DIR", 0, "Search headers in DIR", 3},
    {NULL, 'L', "DIR", 0, "Search libraries in DIR", 3},
    {"library", KEY_LIBRARY, "NAME", 0, "Link with library NAME", 3},
    {"cflag", KEY_CFLAG, "FLAG", 0, "Give the compiler one more FLAG", 3},
    {"cc", KEY_CC, "COMPILER", 0, "gcc (default) or clang", 3},
    {"build", KEY_BUILD, "FILE", 0, "Only build: write the program to FILE, to be simulated later",
     3},
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

static double percent(const char *option, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= 0 && v <= 50))
        cli_bad("%s '%s' is not a number of percent from 0 to 50", option, text);
    return v / 100;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->output; return 0;
    case 'm': o->machine = arg; return 0;
    case 't': o->threads = arg; return 0;
    case 'l': o->locks = arg; return 0;
    case KEY_PLACE: o->sim.place = arg; return 0;
    case KEY_TIME: o->sim.time_ms = cli_seconds("--time", arg); return 0;
    case KEY_SEEDS: o->sim.seeds = cli_long("--seeds", arg, 1, 1000); return 0;
    case KEY_JITTER: o->sim.jitter = percent("--jitter", arg); return 0;
    case KEY_METRIC: o->sim.metric_text = arg; return 0;
    case KEY_LINES: o->sim.show_lines = true; return 0;
    case KEY_DEBUGGER: o->debugger = arg; return 0;
    case KEY_EACH: o->sim.each_seed = true; return 0;
    case KEY_SVG: o->svg = arg; return 0;
    case KEY_REPRODUCE: o->reproduce = true; return 0;
    case KEY_LIMIT: o->sim.limit = cli_seconds("--time-limit", arg); return 0;
    case 'D': add_flag(o, cli_printf("-D%s", arg)); return 0;
    case 'I': add_flag(o, cli_printf("-I%s", arg)); return 0;
    case 'L': add_flag(o, cli_printf("-L%s", arg)); return 0;
    case KEY_LIBRARY: add_flag(o, cli_printf("-l%s", arg)); return 0;
    case KEY_CFLAG: add_flag(o, arg); return 0;
    case KEY_CC: o->build.compiler = arg; return 0;
    case KEY_BUILD: o->build.output = arg; return 0;
    case ARGP_KEY_ARG:
        if (state->quoted && state->next > state->quoted) /* behind "--": the program's */
            o->sim.arguments = cli_rest(state);
        else
            add_source(o, arg);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "WORKLOAD|FILE.c...|FILE.o...|PROGRAM [-- ARG...]",
    .doc =
        "Simulates a pthread program, from its own code, on a machine you do not have. A workload "
        "is one of hotlock's by name: counter, slab, runqueue, stat, fcntl. In the ARGs of a "
        "program of your own {threads}, {lock} and {seconds} are filled in; if {lock} is not "
        "there, "
        "each lock stands in for pthread's mutexes.\v"
        "Exit code: 0 a result, 1 none, 2 bad input, 3 the program crashed or came to a deadlock, "
        "130 interrupted.",
    .children = children,
};

/* ---- threads and locks ---- */

static int by_number(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return x < y ? -1 : x > y;
}

static void add_threads(sim_t *s, long n)
{
    for (size_t i = 0; i < s->thread_count; i++)
        if (s->threads[i] == n)
            return;
    s->threads = cli_grow(s->threads, s->thread_count + 1, sizeof *s->threads);
    s->threads[s->thread_count++] = n;
}

/* Powers of two, a socket, all cores, all hardware threads. */
static void all_threads(sim_t *s)
{
    long most = (long)s->machine->cpu_count;
    for (long n = 1; n < most; n *= 2)
        add_threads(s, n);
    add_threads(s, s->machine->cores / s->machine->sockets);
    add_threads(s, s->machine->cores);
    add_threads(s, most);
}

static void choose_threads(sim_t *s, const char *text)
{
    if (!text || strcmp(text, "all") == 0) {
        all_threads(s);
    } else {
        char **items = cli_list("--threads", text);
        for (char **i = items; *i; i++)
            add_threads(s, cli_long("--threads", *i, 1, 2000));
        cli_free_list(items);
    }
    qsort(s->threads, s->thread_count, sizeof *s->threads, by_number);
}

static bool names_lock(const sim_t *s)
{
    for (char **a = s->arguments; a && *a; a++)
        if (strstr(*a, "{lock}"))
            return true;
    return s->workload;
}

/* Locks that stand in for pthread's must be ours; a program that names them knows its own. */
static void check_lock(const sim_t *s, const char *name)
{
    const char *names[HL_KINDS + 1] = {"libc"};
    if (names_lock(s))
        return;
    for (int k = 0; k < HL_KINDS; k++)
        names[k + 1] = hl_kind_info((hl_kind_t)k)->name;
    if (strcmp(name, "libc") != 0 && hl_kind_by_name(name) < 0)
        cli_bad("unknown lock '%s'; nearest is '%s'", name,
                nearest_name(name, names, HL_KINDS + 1));
}

static void choose_locks(sim_t *s, const char *text)
{
    if (!text || strcmp(text, "all") == 0) {
        s->locks = cli_alloc((HL_KINDS + 2) * sizeof *s->locks);
        s->locks[s->lock_count++] = cli_printf("%s", s->workload ? "pthread_mutex" : "libc");
        for (int k = 0; k < HL_KINDS; k++)
            s->locks[s->lock_count++] = cli_printf("%s", hl_kind_info((hl_kind_t)k)->name);
        return;
    }
    s->locks = cli_list("--lock", text);
    for (; s->locks[s->lock_count]; s->lock_count++)
        check_lock(s, s->locks[s->lock_count]);
}

/* ---- the program ---- */

static bool has_source_name(const char *file)
{
    static const char *const ends[] = {".c", ".cc", ".cpp", ".cxx", ".o", ".a"};
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(dot, ends[i]) == 0)
            return true;
    return false;
}

static void find_program(options_t *o)
{
    const char *first = o->build.sources[0];
    o->sim.program = first;
    o->sim.path = o->source_count == 1 ? sim_workload(first) : NULL;
    o->sim.workload = o->sim.path != NULL;
    if (o->sim.path || has_source_name(first))
        return;
    if (o->source_count > 1)
        cli_bad("'%s': a built program stands alone; what is for it comes behind --", first);
    o->sim.path = realpath(first, NULL);
    if (!o->sim.path)
        cli_bad("'%s' is neither a workload nor a file: %s", first, strerror(errno));
    if (!check_is_built(o->sim.path))
        cli_bad("'%s' was not built to be simulated; build it from its sources with: hotlock sim "
                "--build FILE SOURCE.c...", first);
}

static bool write_text(const options_t *o)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    sim_print(&o->sim, o->output.format, f);
    fclose(f);
    bool good = output_write(o->output.file, text, size);
    free(text);
    return good;
}

static int exit_code(const sim_t *s, bool good)
{
    if (s->partial)
        return CLI_INTERRUPTED;
    if (s->stuck)
        return SIM_EXIT_STUCK;
    for (size_t i = 0; i < s->lock_count * s->thread_count; i++)
        if (!s->cells[i].fault)
            return good ? CLI_OK : CLI_NO_RESULT;
    return s->refused ? CLI_BAD_INPUT : CLI_NO_RESULT;
}

static int simulate(options_t *o)
{
    sim_t *s = &o->sim;
    sim_run(s);
    bool good = write_text(o);
    if (o->svg && !s->partial)
        good = sim_plot(s, o->svg) && good;
    return exit_code(s, good);
}

/* A library that was not compiled for the simulator is no secret, but its work is free. */
static void tell_unseen(const check_build_t *b)
{
    static const char *const harmless[] = {"m", "pthread", "dl", "rt", "c", "stdc++"};
    for (size_t i = 0; i < b->flag_count; i++) {
        bool seen = strncmp(b->flags[i], "-l", 2) != 0;
        for (size_t k = 0; k < sizeof harmless / sizeof *harmless && !seen; k++)
            seen = strcmp(b->flags[i] + 2, harmless[k]) == 0;
        if (!seen)
            fprintf(stderr, "hotlock sim: library '%s' is not simulated: what it does takes no "
                    "time, and its locks are not there\n", b->flags[i] + 2);
    }
}

int cmd_sim(int argc, char **argv)
{
    options_t o = {
        .sim = {.place = "spread", .seeds = 8, .jitter = 0.05, .limit = 60},
        .build = {.compiler = "gcc", .simulate = true},
        .machine = "e5-2699v3-2s",
    };
    cli_parse(&argp, argc, argv, true, &o);
    output_check(&o.output);
    if (o.svg)
        plot_check(o.svg);
    if (o.sim.metric_text)
        metric_compile(&o.sim.metric, o.sim.metric_text);
    child_watch_interrupts();
    personality(ADDR_NO_RANDOMIZE);
    if (o.reproduce && o.source_count)
        cli_bad("--reproduce runs programs of its own; '%s' is too much", o.build.sources[0]);
    if (o.reproduce)
        return sim_reproduce(&o.sim, &o.output);
    if (!o.source_count)
        cli_bad("no program given: name a workload, a source file or a program; see --help");
    find_program(&o);
    o.sim.machine = machine_load(o.machine);
    machine_place(o.sim.machine, o.sim.place);
    choose_threads(&o.sim, o.threads);
    choose_locks(&o.sim, o.locks);
    if (!o.sim.path)
        o.sim.path = check_build(&o.build);
    tell_unseen(&o.build);
    if (o.build.output)
        return CLI_OK;
    return o.debugger ? sim_debug(&o.sim, o.debugger) : simulate(&o);
}
