/* SPDX-License-Identifier: MIT */
/* Runs a workload under every lock in turn, round after round, and keeps what it reports. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "child.h"
#include "cli.h"
#include "nearest.h"

#define PATIENCE 120 /* seconds beyond its time until a run is ended: a queue of many must drain */

const figure_kind_t bench_figures[FIGURES] = {
    [FIGURE_OPS] = {"ops_per_s", false, false},
    [FIGURE_JAIN] = {"jain", false, false},
    [FIGURE_JAIN_WINDOWS] = {"jain_windows", false, false},
    [FIGURE_TICKS] = {"ticks_per_pair", false, false},
    [FIGURE_P50] = {"wait_p50_ns", false, false},
    [FIGURE_P99] = {"wait_p99_ns", false, false},
    [FIGURE_P999] = {"wait_p999_ns", false, false},
    [FIGURE_WORST] = {"wait_max_ns", false, true},
    [FIGURE_GAP] = {"gap_ns", false, true},
    [FIGURE_CPU] = {"cpu", false, false},
    [FIGURE_FUTEX] = {"futex_calls", true, false},
    [FIGURE_SWITCHES] = {"context_switches", true, false},
    [FIGURE_SECONDS] = {"seconds", false, false},
};

/* ---- finding the workload ---- */

static const char *const workload_names[] = {"counter", "fcntl", "pair",
                                             "runqueue", "slab", "stat"};
enum { WORKLOADS = sizeof workload_names / sizeof *workload_names };

static void check_name(const char *name)
{
    for (size_t i = 0; i < WORKLOADS; i++)
        if (strcmp(workload_names[i], name) == 0)
            return;
    cli_bad("unknown workload '%s'; nearest is '%s'", name,
            nearest_name(name, workload_names, WORKLOADS));
}

/* Build tree first, then where they are installed. */
static char *find_program(const char *name)
{
    char *self = realpath("/proc/self/exe", NULL), *found = NULL;
    if (!self)
        cli_bad("cannot find the workloads: /proc is not there");
    *strrchr(self, '/') = '\0';
    char *places[] = {
        cli_printf("%s/../../workloads/%s", self, name),
        cli_printf("%s/../" HOTLOCK_LIBEXECDIR "/hotlock/%s", self, name),
        cli_printf(HOTLOCK_PREFIX "/" HOTLOCK_LIBEXECDIR "/hotlock/%s", name),
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!found && access(places[i], X_OK) == 0)
            found = realpath(places[i], NULL);
        free(places[i]);
    }
    free(self);
    if (!found)
        cli_bad("cannot find the program of workload '%s'; build or install hotlock whole", name);
    return found;
}

/* ---- running it ---- */

/* The words a workload ends with, without its name and the line's end. */
static char *last_words(const bench_t *b, const child_result_t *r)
{
    char how[64];
    size_t length = r->err_len;
    while (length && r->err[length - 1] == '\n')
        length--;
    const char *line = r->err;
    for (size_t i = 0; i < length; i++)
        if (r->err[i] == '\n')
            line = r->err + i + 1;
    size_t name = strlen(b->workload);
    if (strncmp(line, b->workload, name) == 0 && strncmp(line + name, ": ", 2) == 0)
        line += name + 2;
    length -= (size_t)(line - r->err);
    if (length == 0)
        return cli_printf("%s", child_end_text(r, how, sizeof how));
    return cli_printf("%.*s", (int)length, line);
}

/* NULL-ended arguments of one run: the program, what the user handed on, and ours. */
static char **make_argv(const bench_t *b, const char *const *ours)
{
    size_t count = 0, at = 0;
    while (ours[count])
        count++;
    char **argv = cli_alloc((count + b->option_count + 2) * sizeof *argv);
    argv[at++] = b->path;
    for (size_t i = 0; i < b->option_count; i++)
        argv[at++] = b->options[i];
    for (size_t i = 0; i < count; i++)
        argv[at++] = (char *)ours[i];
    return argv;
}

static void run_child(const bench_t *b, const char *const *ours, double limit,
                      child_result_t *r)
{
    char **argv = make_argv(b, ours);
    child_spec_t spec = {.path = b->path, .argv = argv, .limit = limit, .capture = true};
    child_run(&spec, r);
    free(argv);
}

json_t *bench_once(bench_t *b, const char *const *arguments, double limit, char **fault)
{
    child_result_t r;
    json_t *json = NULL;
    foreign_begin(&b->foreign);
    run_child(b, arguments, limit, &r);
    foreign_end(&b->foreign, r.user + r.system);
    *fault = NULL;
    if (r.end == CHILD_INTERRUPTED)
        b->partial = true;
    else if (r.end == CHILD_EXITED && r.code == 0)
        json = json_loadb(r.out, r.out_len, 0, NULL);
    if (!json && !b->partial)
        *fault = last_words(b, &r);
    child_free(&r);
    return json;
}

/* ---- the locks ---- */

static void add_lock(bench_t *b, const char *name, bool sections, bool functions)
{
    b->locks = cli_grow(b->locks, b->lock_count + 1, sizeof *b->locks);
    b->locks[b->lock_count++] = (bench_lock_t){cli_printf("%s", name), sections, functions};
}

/* Lines of --list: "NAME sections functions". False: it is something else, such as --help. */
static bool read_list(bench_t *b, const char *text)
{
    while (*text) {
        size_t line = strcspn(text, "\n"), name = strcspn(text, " \n");
        char *rest = cli_printf("%.*s", (int)(line - name), text + name);
        bool sections = strstr(rest, " sections"), functions = strstr(rest, " functions");
        free(rest);
        if (name == 0 || !(sections || functions))
            return false;
        char *lock = cli_printf("%.*s", (int)name, text);
        add_lock(b, lock, sections, functions);
        free(lock);
        text += line + (text[line] == '\n');
    }
    return b->lock_count > 0;
}

void bench_find(bench_t *b)
{
    child_result_t r;
    check_name(b->workload);
    b->path = find_program(b->workload);
    run_child(b, (const char *[]){"--list", NULL}, 10, &r);
    if (r.end != CHILD_EXITED || r.code != 0) {
        char *words = last_words(b, &r);
        cli_bad("workload %s: %s", b->workload, words);
    }
    if (!read_list(b, r.out)) {
        fwrite(r.out, 1, r.out_len, stdout); /* -- --help: the workload's own */
        exit(CLI_OK);
    }
    child_free(&r);
}

/* Ours have the names of our headers; peers begin with the name of their library. */
bool bench_is_peer(const bench_lock_t *lock)
{
    return strncmp(lock->lock, "pthread_", 8) == 0 || strncmp(lock->lock, "ck_", 3) == 0 ||
           strncmp(lock->lock, "plain_", 6) == 0 || !lock->sections;
}

/* Peers that only run functions compete where sections are functions: alone, and multiplying. */
static bool in_group(const bench_t *b, const bench_lock_t *lock, const char *group)
{
    bool fits = lock->sections || strcmp(b->workload, "pair") == 0;
    for (size_t i = 0; i < b->option_count; i++)
        fits = fits || strstr(b->options[i], "fam");
    if (strcmp(group, "ours") == 0)
        return !bench_is_peer(lock);
    if (strcmp(group, "peers") == 0)
        return bench_is_peer(lock) && fits;
    return strcmp(group, "all") == 0 && fits;
}

static const bench_lock_t *find_lock(const bench_lock_t *locks, size_t count, const char *name)
{
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < count; i++)
        if (strncmp(locks[i].lock, name, length) == 0 && locks[i].lock[length] == '\0')
            return &locks[i];
    const char **names = cli_alloc(count * sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = locks[i].lock;
    cli_bad("unknown lock '%.*s'; nearest is '%s'", (int)length, name,
            nearest_name(name, names, count));
}

static bool is_chosen(const bench_t *b, const char *name)
{
    for (size_t i = 0; i < b->lock_count; i++)
        if (strcmp(b->locks[i].lock, name) == 0)
            return true;
    return false;
}

static void check_wait(const char *name)
{
    static const char *const policies[] = {"spin", "yield", "park"};
    const char *policy = strchr(name, ':');
    if (!policy)
        return;
    for (size_t i = 0; i < 3; i++)
        if (strcmp(policy + 1, policies[i]) == 0)
            return;
    cli_bad("unknown wait policy '%s'; nearest is '%s'", policy + 1,
            nearest_name(policy + 1, policies, 3));
}

void bench_choose(bench_t *b, const char *list)
{
    bench_lock_t *known = b->locks;
    size_t count = b->lock_count;
    char **words = cli_list("--locks", list);
    b->locks = NULL;
    b->lock_count = 0;
    for (char **word = words; *word; word++) {
        bool group = strcmp(*word, "all") == 0 || strcmp(*word, "ours") == 0 ||
                     strcmp(*word, "peers") == 0;
        for (size_t i = 0; group && i < count; i++)
            if (in_group(b, &known[i], *word) && !is_chosen(b, known[i].lock))
                add_lock(b, known[i].lock, known[i].sections, known[i].functions);
        if (group || is_chosen(b, *word))
            continue;
        const bench_lock_t *lock = find_lock(known, count, *word);
        check_wait(*word);
        add_lock(b, *word, lock->sections, lock->functions);
    }
    cli_free_list(words);
    for (size_t i = 0; i < count; i++)
        free(known[i].lock);
    free(known);
}

/* ---- cells ---- */

bench_cell_t *bench_cell(const bench_t *b, size_t thread, size_t lock)
{
    return &b->cells[thread * b->lock_count + lock];
}

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void keep(bench_cell_t *c, const json_t *json)
{
    double seconds = number(json, "seconds_to_last"); /* counts go on until the last is out */
    for (int f = 0; f < FIGURES; f++) {
        double value = number(json, bench_figures[f].key);
        if (bench_figures[f].count)
            value = value < 0 ? NAN : value / seconds;
        c->figure[f] = cli_grow(c->figure[f], c->rounds + 1, sizeof(double));
        c->figure[f][c->rounds] = value;
    }
    c->rounds++;
    c->atomics = json_integer_value(json_object_get(json, "atomics_per_pair"));
    c->bytes = json_integer_value(json_object_get(json, "lock_bytes"));
    c->node_bytes = json_integer_value(json_object_get(json, "node_bytes"));
    size_t i;
    json_t *count;
    json_array_foreach(json_object_get(json, "per_second"), i, count) {
        c->seconds = cli_grow(c->seconds, c->seconds_count + 1, sizeof(double));
        c->seconds[c->seconds_count++] = json_number_value(count);
    }
}

static void run_cell(bench_t *b, bench_cell_t *c)
{
    char *threads = cli_printf("%ld", c->threads), *seconds = cli_printf("%.9g", b->seconds);
    const char *arguments[] = {"--lock", c->lock->lock, "--threads", threads, "--json",
                               b->seconds > 0 ? "--seconds" : NULL, seconds, NULL};
    double limit = b->seconds > 0 ? b->seconds + PATIENCE : 0;
    json_t *json = bench_once(b, arguments, limit, &c->fault);
    if (json)
        keep(c, json);
    json_decref(json);
    free(threads);
    free(seconds);
}

/* In each round every cell has its turn, beginning with another one each time. */
void bench_run(bench_t *b)
{
    size_t count = b->thread_count * b->lock_count;
    b->cells = cli_alloc(count * sizeof *b->cells);
    for (size_t i = 0; i < count; i++) {
        b->cells[i].lock = &b->locks[i % b->lock_count];
        b->cells[i].threads = b->threads[i / b->lock_count];
    }
    progress_t progress;
    progress_begin(&progress, count * (size_t)b->rounds);
    child_watch_interrupts();
    for (long round = 0; round < b->rounds && !b->partial; round++) {
        size_t shift = (size_t)round * count / (size_t)b->rounds + (size_t)round;
        for (size_t i = 0; i < count && !b->partial; i++) {
            bench_cell_t *c = &b->cells[(i + shift) % count];
            progress_show(&progress, "%s, %ld threads", c->lock->lock, c->threads);
            if (!c->fault)
                run_cell(b, c);
            progress_step(&progress, 1);
        }
    }
    progress_clear(&progress);
}

void bench_free(bench_t *b)
{
    for (size_t i = 0; b->cells && i < b->thread_count * b->lock_count; i++) {
        for (int f = 0; f < FIGURES; f++)
            free(b->cells[i].figure[f]);
        free(b->cells[i].seconds);
        free(b->cells[i].fault);
    }
    for (size_t i = 0; i < b->lock_count; i++)
        free(b->locks[i].lock);
    free(b->cells);
    free(b->locks);
    free(b->threads);
    free(b->path);
}

/* ---- statistics ---- */

stats_estimate_t bench_estimate(const bench_cell_t *c, figure_t f)
{
    return stats_median_interval(c->figure[f], c->rounds, 0.95);
}

stats_estimate_t bench_ratio(const bench_t *b, size_t thread, size_t lock)
{
    const bench_cell_t *c = bench_cell(b, thread, lock);
    for (size_t i = 0; i < b->lock_count; i++) {
        const bench_cell_t *base = bench_cell(b, thread, i);
        if (strcmp(base->lock->lock, BENCH_BASE) != 0 || base->fault || c->fault)
            continue;
        size_t n = c->rounds < base->rounds ? c->rounds : base->rounds;
        return stats_ratio_interval(c->figure[FIGURE_OPS], n, base->figure[FIGURE_OPS], n, true,
                                    0.95);
    }
    return (stats_estimate_t){NAN, NAN, NAN};
}

double bench_value(const bench_cell_t *c, figure_t f)
{
    double worst = NAN;
    if (!bench_figures[f].worst)
        return stats_median(c->figure[f], c->rounds);
    for (size_t i = 0; i < c->rounds; i++)
        worst = fmax(worst, c->figure[f][i]);
    return worst;
}
