/* SPDX-License-Identifier: MIT */
/* Runs the simulated program for every lock and number of threads, and reads what it reports. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"
#include "sim.h"

#include <hotlock/hotlock.h>

enum { LIMIT_SLACK_S = 20 };

const char *const sim_distances[SIM_DISTANCES] = {"smt", "l3", "socket", "remote", "far"};

sim_cell_t *sim_at(const sim_t *s, size_t lock, size_t thread)
{
    return &s->cells[lock * s->thread_count + thread];
}

double sim_median(const sim_cell_t *c, size_t offset)
{
    double *x = cli_alloc(c->count * sizeof *x);
    for (size_t i = 0; i < c->count; i++)
        x[i] = *(const double *)((const char *)&c->seeds[i] + offset);
    double m = stats_median(x, c->count);
    free(x);
    return m;
}

double sim_spread(const sim_cell_t *c)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < c->count; i++) {
        least = fmin(least, c->seeds[i].rate);
        most = fmax(most, c->seeds[i].rate);
    }
    return c->count ? 100 * (most - least) / SIM_MEDIAN(c, rate) : 0;
}

/* ---- the simulated program and its command line ---- */

char *sim_workload(const char *name)
{
    char *self = realpath("/proc/self/exe", NULL), *found = NULL;
    if (!self || strchr(name, '/') || strchr(name, '.')) {
        free(self);
        return NULL;
    }
    *strrchr(self, '/') = '\0';
    char *places[] = {cli_printf("%s/../sim/programs/sim-%s", self, name),
                      cli_printf("%s/../" HOTLOCK_LIBEXECDIR "/hotlock/sim-%s", self, name)};
    for (size_t i = 0; i < 2; i++) {
        if (!found && access(places[i], X_OK) == 0)
            found = cli_printf("%s", places[i]);
        free(places[i]);
    }
    free(self);
    return found;
}

/* Starting many threads takes its time; the run must be long beside it. */
static double run_ms(const sim_t *s, const sim_cell_t *c)
{
    if (s->time_ms > 0)
        return s->time_ms;
    return c->threads > 72 ? 2 * (double)c->threads / 72 : 2;
}

/* TEXT with {threads}, {lock} and {seconds} replaced. */
static char *fill_in(const sim_t *s, const sim_cell_t *c, const char *text)
{
    char *out;
    size_t size;
    FILE *f = open_memstream(&out, &size);
    while (*text) {
        if (strncmp(text, "{threads}", 9) == 0)
            fprintf(f, "%ld", c->threads), text += 9;
        else if (strncmp(text, "{lock}", 6) == 0)
            fputs(c->lock, f), text += 6;
        else if (strncmp(text, "{seconds}", 9) == 0)
            fprintf(f, "%g", run_ms(s, c) / 1000), text += 9;
        else
            fputc(*text++, f);
    }
    fclose(f);
    return out;
}

static char **command_of(const sim_t *s, const sim_cell_t *c)
{
    static const char *const workload[] = {
        "--lock={lock}", "--threads={threads}", "--seconds={seconds}", "--json", NULL};
    char **argv = cli_alloc(8 * sizeof *argv);
    size_t n = 0;
    argv[n++] = cli_printf("%s", s->path);
    for (const char *const *w = workload; s->workload && *w; w++)
        argv[n++] = fill_in(s, c, *w);
    for (char **a = s->arguments; a && *a; a++) {
        argv = cli_grow(argv, n + 3, sizeof *argv);
        argv[n++] = fill_in(s, c, *a);
    }
    argv[n] = NULL;
    return argv;
}

/* A program that does not choose its lock itself gets ours in place of pthread's. */
static int stand_in(const sim_t *s, const sim_cell_t *c)
{
    for (char **a = s->arguments; a && *a; a++)
        if (strstr(*a, "{lock}"))
            return -1;
    return s->workload ? -1 : hl_kind_by_name(c->lock);
}

static char **environment_of(const sim_t *s, const sim_cell_t *c, const char *report, bool debug)
{
    extern char **environ;
    int jobs = get_nprocs();
    char *machine = machine_settings(s->machine), *cpus = machine_cpus(s->machine);
    char *set =
        cli_printf("%s jitter=%g seeds=%ld jobs=%d lock=%d skip_main=%d seconds=%g debug=%d",
                   machine, s->jitter, s->seeds, jobs, stand_in(s, c), s->workload,
                   debug ? 0 : s->limit, debug);
    char *threads = cli_printf("%ld", c->threads);
    const char *const pairs[][2] = {{"HOTLOCK_SIM", set}, {"HOTLOCK_SIM_CPUS", cpus},
                                    {"HOTLOCK_SIM_REPORT", report}, {"THREADS", threads}};
    char **env = child_env(environ, pairs[0][0], pairs[0][1]);
    for (size_t i = 1; i < sizeof pairs / sizeof *pairs; i++) {
        char **next = child_env(env, pairs[i][0], pairs[i][1]);
        child_free_env(env);
        env = next;
    }
    free(machine);
    free(cpus);
    free(set);
    free(threads);
    return env;
}

/* ---- reading one seed's report ---- */

static double number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static char *read_file(const char *name)
{
    FILE *f = fopen(name, "r");
    char *text = NULL;
    size_t size = 0;
    if (!f)
        return NULL;
    if (getdelim(&text, &size, '\0', f) < 0) {
        free(text);
        text = cli_printf("%s", "");
    }
    fclose(f);
    return text;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The share of all sections that went to the luckier half of the threads (D. Dice and A. Kogan,
 * EuroSys 2019): one half is perfectly fair. */
static double fairness_factor(double *each, size_t n)
{
    double all = 0, upper = 0;
    if (n < 2)
        return 0.5;
    qsort(each, n, sizeof *each, by_size);
    for (size_t i = 0; i < n; i++) {
        all += each[i];
        if (i >= n - n / 2)
            upper += each[i];
    }
    return all > 0 ? upper / all : 0.5;
}

static void read_fairness(sim_seed_t *r, const json_t *threads, const char *key)
{
    size_t n = json_array_size(threads), used = 0;
    double *each = cli_alloc(n * sizeof *each);
    for (size_t i = 0; i < n; i++) {
        double v = number(json_array_get(threads, i), key);
        if (v > 0 || strcmp(key, "ops") == 0) /* the main thread may never take a lock */
            each[used++] = v;
    }
    r->jain = stats_jain(each, used);
    r->factor = fairness_factor(each, used);
    free(each);
}

/* The workload's own JSON: its throughput is that of the time asked for, without start and end. */
static bool read_workload(sim_t *s, sim_seed_t *r, const char *text)
{
    json_t *o = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
    if (!o)
        return false;
    const char *unit = json_string_value(json_object_get(o, "unit"));
    snprintf(s->unit, sizeof s->unit, "%s", unit ? unit : "sections");
    r->rate = number(o, "ops_per_s");
    r->sections = number(o, "sections");
    r->p50 = number(o, "wait_p50_ns");
    r->p99 = number(o, "wait_p99_ns");
    r->p999 = number(o, "wait_p999_ns");
    r->worst = number(o, "wait_max_ns");
    read_fairness(r, json_object_get(o, "per_thread"), "ops");
    json_decref(o);
    return true;
}

static bool read_metric(const sim_t *s, sim_seed_t *r, char *text)
{
    char *seen = NULL, nothing[] = "";
    child_result_t printed = {.out = text, .out_len = strlen(text), .err = nothing};
    bool found = metric_find(&s->metric, &printed, &r->rate, &seen);
    free(seen);
    return found;
}

static void read_counts(sim_seed_t *r, const json_t *o)
{
    const json_t *moves = json_object_get(o, "moves");
    for (size_t i = 0; i < SIM_DISTANCES; i++)
        r->moves[i] = json_number_value(json_array_get(moves, i));
    r->simulated_ns = number(o, "simulated_ns");
    r->spin = number(o, "ran_ns") > 0 ? number(o, "spun_ns") / number(o, "ran_ns") : 0;
    r->skipped = number(o, "skipped");
    r->accesses = number(o, "loads") + number(o, "stores") + number(o, "changes") +
                  number(o, "plain");
    r->host_s = number(o, "host_s");
    r->preempted = number(o, "preempted");
    r->wakes = number(o, "wakes");
    r->peak_kib = number(o, "peak_kib");
    if (r->sections > 0)
        return;
    r->sections = number(o, "waits");
    r->p50 = number(o, "wait_p50_ns");
    r->p99 = number(o, "wait_p99_ns");
    r->p999 = number(o, "wait_p999_ns");
    r->worst = number(o, "wait_max_ns");
    if (isnan(r->rate))
        r->rate = 1e9 * r->sections / r->simulated_ns;
    read_fairness(r, json_object_get(o, "threads"), "sections");
}

/* ---- one cell ---- */

static void drop_seed(const char *base, long seed)
{
    char *file = cli_printf("%s.%ld", base, seed), *out = cli_printf("%s.out", file);
    char *part = cli_printf("%s.part", file);
    unlink(file);
    unlink(part);
    unlink(out);
    free(part);
    free(file);
    free(out);
}

/* Reads the seed's report and removes its files; false and c->fault if it is not one to use. */
static bool read_seed(sim_t *s, sim_cell_t *c, const char *base, long seed)
{
    char *file = cli_printf("%s.%ld", base, seed), *out = cli_printf("%s.out", file);
    char *printed = read_file(out);
    json_t *o = json_load_file(file, 0, NULL);
    sim_seed_t r = {.rate = NAN};
    const char *end = json_string_value(json_object_get(o, "end"));
    const char *what = json_string_value(json_object_get(o, "what"));
    if (!o) {
        c->fault = cli_printf("the program broke off without a report");
    } else if (strcmp(end, "deadlock") == 0 || strcmp(end, "crashed") == 0) {
        char *stacks = sim_stacks(s->path, o);
        c->fault = cli_printf("%s: %s%s", end, what, stacks);
        c->stuck = true;
        free(stacks);
    } else if (strcmp(end, "done") != 0) {
        c->fault = cli_printf("%s", what);
        c->refused = strcmp(end, "unusable") == 0;
    } else if (number(o, "status") != 0) {
        c->fault = cli_printf("the program ended with %.0f", number(o, "status"));
    } else if (s->workload && !read_workload(s, &r, printed)) {
        c->fault = cli_printf("the workload printed no JSON");
    } else if (s->metric_text && !read_metric(s, &r, printed)) {
        c->fault = cli_printf("the metric '%s' is not in its output", s->metric_text);
    } else {
        read_counts(&r, o);
        if (s->show_lines)
            sim_note_lines(c, o);
        c->seeds[c->count++] = r;
    }
    drop_seed(base, seed);
    json_decref(o);
    free(printed);
    free(file);
    free(out);
    return !c->fault;
}

/* What a cell's files begin with: its seeds' reports, what it said, how it ended. */
static char *report_base(size_t cell)
{
    const char *tmp = getenv("TMPDIR");
    return cli_printf("%s/hotlock-sim.%ld.%zu", tmp && *tmp ? tmp : "/tmp", (long)getpid(), cell);
}

/* Runs all seeds of a cell; in a process of its own, so that others run beside it. What the program
 * said first on standard error is kept for the fault there may be. */
static child_end_t run_seeds(const sim_t *s, const sim_cell_t *c, const char *base)
{
    char **argv = command_of(s, c), **env = environment_of(s, c, base, false);
    child_spec_t spec = {.path = s->path, .argv = argv, .env = env, .capture = true,
                         .limit = s->limit * (double)s->seeds + LIMIT_SLACK_S};
    child_result_t result;
    child_run(&spec, &result);
    char *said = cli_printf("%s.said", base);
    FILE *f = result.err_len ? fopen(said, "w") : NULL;
    if (f) {
        fprintf(f, "%.*s", (int)strcspn(result.err, "\n"), result.err);
        fclose(f);
    }
    return result.end;
}

static void start_cell(sim_t *s, sim_cell_t *c, size_t number)
{
    char *base = report_base(number);
    pid_t parent = getpid();
    fflush(NULL);
    c->process = fork();
    if (c->process < 0)
        cli_bad("cannot start another process: %s", strerror(errno));
    if (c->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        _exit(getppid() == parent ? (int)run_seeds(s, c, base) : CHILD_INTERRUPTED);
    }
    free(base);
}

static void read_cell(sim_t *s, sim_cell_t *c, size_t number, int end)
{
    char *base = report_base(number), *said_file = cli_printf("%s.said", base);
    char *said = read_file(said_file);
    unlink(said_file);
    c->process = 0;
    c->seeds = cli_alloc((size_t)s->seeds * sizeof *c->seeds);
    if (end == CHILD_LIMIT)
        c->fault = cli_printf("took longer than --time-limit allows (%g s a seed)", s->limit);
    for (long seed = 1; seed <= s->seeds; seed++) {
        if (end == CHILD_INTERRUPTED || c->fault)
            drop_seed(base, seed);
        else
            read_seed(s, c, base, seed);
    }
    c->left = end == CHILD_INTERRUPTED && !c->fault;
    if (c->left) {
        c->fault = cli_printf("interrupted");
    } else if (c->fault && said) {
        char *more = cli_printf("%s: %s", c->fault, said);
        free(c->fault);
        c->fault = more;
    }
    sim_name_lines(s, c);
    free(said);
    free(said_file);
    free(base);
}

/* Waits for one of the cells that run; an interruption is passed on. A signal that comes between a
 * look and the wait ends the wait. */
static pid_t await_one(const sim_cell_t *cells, size_t count, int *status)
{
    static const int noted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigset_t block, mask;
    pid_t ended;
    bool told = false;
    sigemptyset(&block);
    for (size_t i = 0; i < sizeof noted / sizeof *noted; i++)
        sigaddset(&block, noted[i]);
    sigprocmask(SIG_BLOCK, &block, &mask);
    while ((ended = waitpid(-1, status, WNOHANG)) == 0) {
        for (size_t i = 0; child_interrupted() && !told && i < count; i++)
            if (cells[i].process)
                kill(cells[i].process, SIGTERM);
        told = child_interrupted();
        sigsuspend(&mask);
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return ended;
}

/* How many cells have come to their end: one, mostly. */
static size_t finish_some(sim_t *s, sim_cell_t *cells, size_t count)
{
    int status = 0;
    size_t finished = 0;
    pid_t ended = await_one(cells, count, &status);
    for (size_t i = 0; i < count; i++) {
        if (!cells[i].process || (ended > 0 && cells[i].process != ended))
            continue;
        read_cell(s, &cells[i], i, ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) :
                                                                    CHILD_SIGNALLED);
        finished++;
    }
    return finished;
}

static void on_child(int signal)
{
    (void)signal; /* it only ends the wait */
}

/* So many cells at a time that there is always a seed for every CPU. */
static size_t side_by_side(const sim_t *s)
{
    return (size_t)(1 + (get_nprocs() + s->seeds - 1) / s->seeds);
}

void sim_cells(sim_t *s, sim_cell_t *cells, size_t count, progress_t *progress)
{
    struct sigaction action = {.sa_handler = on_child}, old;
    size_t next = 0, running = 0, most = side_by_side(s);
    sigaction(SIGCHLD, &action, &old);
    while (running || (next < count && !child_interrupted())) {
        if (next < count && running < most && !child_interrupted()) {
            if (progress)
                progress_show(progress, "%s, %ld threads", cells[next].lock, cells[next].threads);
            start_cell(s, &cells[next], next);
            next++;
            running++;
            continue;
        }
        size_t finished = finish_some(s, cells, count);
        running -= finished;
        if (progress)
            progress_step(progress, finished);
    }
    sigaction(SIGCHLD, &old, NULL);
    for (; next < count; next++) {
        cells[next].fault = cli_printf("not simulated");
        cells[next].left = true;
    }
}

/* The words of COMMAND, then those of the program. */
static char **under(const char *command, char **argv)
{
    size_t n = 0, program = 0;
    char *copy = cli_printf("%s", command), *save = NULL;
    while (argv[program])
        program++;
    char **words = cli_alloc((strlen(command) / 2 + program + 2) * sizeof *words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    if (!n)
        cli_bad("--debugger '%s' names no command; try --debugger 'gdb --args'", command);
    memcpy(words + n, argv, program * sizeof *words);
    return words;
}

int sim_debug(sim_t *s, const char *command)
{
    sim_cell_t c = {.lock = s->locks[0], .threads = s->threads[s->thread_count - 1]};
    char **words = under(command, command_of(s, &c)), **env = environment_of(s, &c, "", true);
    int status;
    pid_t child = fork();
    if (child == 0) {
        static const int ours[] = {SIGINT, SIGTERM, SIGHUP};
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            signal(ours[i], SIG_DFL);
        execvpe(words[0], words, env);
        fprintf(stderr, "hotlock sim: cannot run '%s': %s\n", words[0], strerror(errno));
        _exit(CLI_BAD_INPUT);
    }
    if (child < 0)
        cli_bad("cannot start '%s': %s", words[0], strerror(errno));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : CLI_NO_RESULT;
}

void sim_cell_free(sim_cell_t *c)
{
    sim_drop_lines(c);
    free(c->seeds);
    free(c->fault);
}

void sim_run(sim_t *s)
{
    progress_t progress;
    size_t count = s->lock_count * s->thread_count;
    s->cells = cli_alloc(count * sizeof *s->cells);
    for (size_t i = 0; i < count; i++) {
        s->cells[i].lock = s->locks[i / s->thread_count];
        s->cells[i].threads = s->threads[i % s->thread_count];
    }
    progress_begin(&progress, count);
    sim_cells(s, s->cells, count, &progress);
    progress_clear(&progress);
    for (size_t i = 0; i < count; i++) {
        s->stuck += s->cells[i].stuck;
        s->refused += s->cells[i].refused;
    }
    s->partial = child_interrupted();
}
