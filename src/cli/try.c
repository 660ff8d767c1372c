/* SPDX-License-Identifier: MIT */
/* hotlock try: runs a program under each lock, interleaved, and says which serves it best. */
#include <stdlib.h>
#include <string.h>

#include "choose.h"
#include "commands.h"
#include "output.h"
#include "preload.h"
#include "program.h"
#include "report.h"

typedef struct {
    const char *locks, *metric, *measure, *preload, *vary;
    char **at, **plugins; /* each NULL, or ending with NULL */
    size_t at_count, plugin_count;
    bool higher, lower;
    output_t output;
    trial_plan_t plan;
    char **command;
} options_t;

/* NAME=V1,V2,... of --vary; name is NULL if nothing varies. */
typedef struct {
    char *name;
    char **values;
} vary_t;

enum {
    KEY_WARMUP = 0x4d00, KEY_LIMIT, KEY_METRIC, KEY_HIGHER, KEY_LOWER, KEY_SAME, KEY_MEASURE,
    KEY_PRELOAD, KEY_VARY, KEY_AT, KEY_PLUGIN
};

static const struct argp_option options[] = {
    {"locks", 'l', "LIST", 0,
     "Locks, separated by commas, each NAME or NAME:POLICY; default 'all'", 1},
    {"runs", 'n', "N", 0, "Counted runs of each lock; default 10", 1},
    {"warmup", KEY_WARMUP, "N", 0, "Runs before those; default 1", 1},
    {"limit", KEY_LIMIT, "SECONDS", 0,
     "End a run after this time; default ten times libc's first run, at least 10", 1},
    {"vary", KEY_VARY, "NAME=V1,V2,...", 0,
     "One table for each value, which replaces {NAME} in CMD", 1},
    {"at", KEY_AT, "WHAT", 0,
     "Try the locks only where WHAT says, as in 'hotlock run --lock WHAT=NAME'; all other mutexes "
     "have 'park'; may be repeated", 1},
    {"plugin", KEY_PLUGIN, "FILE", 0,
     "Look for WHAT in FILE as well, a library that CMD loads by itself; may be repeated", 1},
    {"preload", KEY_PRELOAD, "FILE", 0, "The preload library, if not the one hotlock came with", 1},
    {"measure", KEY_MEASURE, "wall|cpu|metric", 0, "What to compare; default wall time", 2},
    {"metric", KEY_METRIC, "REGEX", 0,
     "Compare a number CMD prints: the group of the last match of this extended regex", 2},
    {"higher-better", KEY_HIGHER, NULL, 0, "More of the metric is better", 2},
    {"lower-better", KEY_LOWER, NULL, 0, "Less of the metric is better", 2},
    {"same-output", KEY_SAME, NULL, 0, "Reject a lock under which CMD prints something else", 2},
    {0},
};

static void add_word(char ***list, size_t *count, char *word)
{
    *list = cli_grow(*list, *count + 2, sizeof **list);
    (*list)[(*count)++] = word;
    (*list)[*count] = NULL;
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
    case 'n':
        o->plan.runs = cli_long("--runs", arg, 1, 100000);
        return 0;
    case KEY_WARMUP:
        o->plan.warmup = cli_long("--warmup", arg, 0, 100000);
        return 0;
    case KEY_LIMIT:
        o->plan.limit = cli_seconds("--limit", arg);
        return 0;
    case KEY_METRIC:
        o->metric = arg;
        return 0;
    case KEY_HIGHER:
        o->higher = true;
        return 0;
    case KEY_LOWER:
        o->lower = true;
        return 0;
    case KEY_SAME:
        o->plan.same_output = true;
        return 0;
    case KEY_MEASURE:
        o->measure = arg;
        return 0;
    case KEY_PRELOAD:
        o->preload = arg;
        return 0;
    case KEY_VARY:
        if (o->vary)
            cli_bad("--vary given twice; one parameter can vary");
        o->vary = arg;
        return 0;
    case KEY_AT:
        add_word(&o->at, &o->at_count, arg);
        return 0;
    case KEY_PLUGIN:
        add_word(&o->plugins, &o->plugin_count, arg);
        return 0;
    case ARGP_KEY_ARG:
        o->command = cli_rest(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "-- CMD [ARG...]",
    .doc = "Runs CMD without a change under libc's own locks and under each of ours, again and "
           "again, and says which lock serves it best, by how much and how surely."
           "\vExit code: 0 if there is a verdict, 1 if the runs allow none, 2 on bad input, 130 if "
           "interrupted (the result is then partial and says so).",
    .children = children,
};

/* ---- what to measure ---- */

static measure_t parse_measure(const char *text)
{
    for (int m = 0; m < MEASURES; m++)
        if (strcmp(text, trial_measure_names[m]) == 0)
            return (measure_t)m;
    cli_bad("--measure '%s' is not 'wall', 'cpu' or 'metric'", text);
}

static void set_measure(options_t *o)
{
    if (o->measure)
        o->plan.measure = parse_measure(o->measure);
    else
        o->plan.measure = o->metric ? MEASURE_METRIC : MEASURE_WALL;
    bool metric = o->plan.measure == MEASURE_METRIC;
    if (metric && !o->metric)
        cli_bad("--measure metric needs --metric REGEX");
    if (!metric && o->metric)
        cli_bad("--metric and --measure %s exclude each other; drop one", o->measure);
    if (metric && o->higher == o->lower)
        cli_bad("--metric needs either --higher-better or --lower-better");
    if (!metric && (o->higher || o->lower))
        cli_bad("--%s-better needs --metric REGEX", o->higher ? "higher" : "lower");
    if (metric)
        metric_compile(&o->plan.metric, o->metric);
    o->plan.higher_better = o->higher;
}

/* ---- which locks ---- */

typedef struct {
    lockname_t *locks; /* [0] is libc */
    size_t count;
} lineup_t;

static bool has_lock(const lineup_t *l, const lockname_t *lock)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->locks[i].name, lock->name) == 0 &&
            strcmp(l->locks[i].wait ? l->locks[i].wait : "", lock->wait ? lock->wait : "") == 0)
            return true;
    return false;
}

static void add_lock(lineup_t *l, const lockname_t *lock)
{
    if (has_lock(l, lock))
        return;
    l->locks = cli_grow(l->locks, l->count + 1, sizeof *l->locks);
    l->locks[l->count++] = *lock;
}

static lineup_t parse_lineup(const char *list, const char *preload)
{
    lockname_t libc = {.name = "libc", .libc = true}, all[32];
    lineup_t l = {0};
    char **names = cli_list("--locks", list);
    add_lock(&l, &libc);
    for (char **name = names; *name; name++) {
        bool every = strcmp(*name, "all") == 0;
        size_t count = every ? lockname_all(all, sizeof all / sizeof *all, preload) : 1;
        if (!every) {
            all[0] = lockname_parse(*name);
            lockname_require(&all[0], preload);
        }
        for (size_t i = 0; i < count; i++)
            add_lock(&l, &all[i]);
    }
    cli_free_list(names);
    if (l.count == 1)
        cli_bad("--locks '%s' names no lock to compare with libc; see hotlock locks", list);
    return l;
}

/* The setting of a lock: for all of the program at PATH, or only --at places of it. */
static char *setting_of(const options_t *o, const lockname_t *lock, const char *path)
{
    if (lock->libc || !o->at)
        return lockname_setting(lock, false);
    lockname_t usual = lockname_parse("park");
    choose_t *choices = choose_new();
    for (char **what = o->at; *what; what++) {
        char *label = lockname_label(lock), *choice = cli_printf("%s=%s", *what, label);
        choose_add(choices, choice);
        free(choice);
        free(label);
    }
    if (!choose_any(choices))
        cli_bad("--at 'default' is no place in a program; leave --at out to try each lock for all");
    for (char **file = o->plugins; file && *file; file++)
        choose_add_plugin(choices, *file);
    char *setting = lockname_setting(&usual, false), *places = choose_setting(choices, path, false);
    char *whole = cli_printf("%s%s", setting, places);
    choose_free(choices);
    free(places);
    free(setting);
    return whole;
}

static contestant_t *make_contestants(const options_t *o, const lineup_t *l, const char *preload,
                                      const char *path)
{
    contestant_t *contestants = cli_alloc(l->count * sizeof *contestants);
    for (size_t i = 0; i < l->count; i++) {
        contestant_t *c = &contestants[i];
        char *setting = setting_of(o, &l->locks[i], path);
        c->lock = l->locks[i];
        c->label = lockname_label(&l->locks[i]);
        c->env = preload_env(l->locks[i].libc ? NULL : preload, setting);
        free(setting);
    }
    return contestants;
}

/* ---- the varied parameter ---- */

static char *replace_all(const char *text, const char *mark, const char *value)
{
    char *result = cli_printf("%s", "");
    for (const char *hit; (hit = strstr(text, mark)); text = hit + strlen(mark)) {
        char *longer = cli_printf("%s%.*s%s", result, (int)(hit - text), text, value);
        free(result);
        result = longer;
    }
    char *whole = cli_printf("%s%s", result, text);
    free(result);
    return whole;
}

static vary_t parse_vary(const char *text, char **command)
{
    vary_t v = {0};
    if (!text)
        return v;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        cli_bad("--vary '%s' is not NAME=V1,V2,...", text);
    v.name = cli_printf("%.*s", (int)(equals - text), text);
    v.values = cli_list("--vary", equals + 1);
    char *mark = cli_printf("{%s}", v.name);
    bool used = false;
    for (char **word = command; *word; word++)
        used = used || strstr(*word, mark);
    if (!used)
        cli_bad("--vary '%s': %s is nowhere in the command", text, mark);
    free(mark);
    return v;
}

static char **command_for(char **command, const char *name, const char *value)
{
    size_t count = 0;
    while (command[count])
        count++;
    char *mark = name ? cli_printf("{%s}", name) : NULL;
    char **words = cli_alloc((count + 1) * sizeof *words);
    for (size_t i = 0; i < count; i++)
        words[i] = mark ? replace_all(command[i], mark, value) : cli_printf("%s", command[i]);
    free(mark);
    return words;
}

/* ---- all of it ---- */

/* Everything about every section is checked before the first run. */
static void make_sections(report_t *r, const options_t *o, const vary_t *v, const lineup_t *l,
                          const char *preload)
{
    r->count = v->name ? 0 : 1;
    for (char **value = v->values; value && *value; value++)
        r->count++;
    r->sections = cli_alloc(r->count * sizeof *r->sections);
    for (size_t i = 0; i < r->count; i++) {
        section_t *s = &r->sections[i];
        s->vary = v->name;
        s->value = v->name ? v->values[i] : NULL;
        s->trial.plan = &o->plan;
        s->trial.command = command_for(o->command, s->vary, s->value);
        s->trial.path = program_find(s->trial.command[0], preload);
        s->trial.contestants = make_contestants(o, l, preload, s->trial.path);
        s->trial.count = l->count;
    }
}

/* Frees all sections from the one numbered FIRST. */
static void free_sections(report_t *r, size_t first)
{
    for (size_t i = first; i < r->count; i++) {
        verdict_free(&r->sections[i].verdict);
        trial_free(&r->sections[i].trial);
        cli_free_list(r->sections[i].trial.command);
        free(r->sections[i].trial.path);
    }
    r->count = first;
}

/* Sections that were never begun are left out of a partial result. */
static void run_sections(report_t *r, const options_t *o)
{
    foreign_t foreign = {0};
    progress_t progress;
    size_t each = (size_t)(o->plan.runs + o->plan.warmup) * r->sections[0].trial.count;
    progress_begin(&progress, each * r->count);
    child_watch_interrupts();
    for (size_t i = 0; i < r->count && !r->partial; i++) {
        section_t *s = &r->sections[i];
        trial_run(&s->trial, &foreign, &progress);
        s->verdict = verdict_of(&s->trial);
        r->partial = s->trial.interrupted;
        if (r->partial)
            free_sections(r, i + 1);
    }
    progress_clear(&progress);
    r->foreign = foreign_share(&foreign);
}

/* With -o the file gets the chosen format and the terminal the text. */
static bool write_report(const report_t *r, const output_t *output)
{
    char *text;
    size_t size;
    if (output->file)
        report_print(r, TABLE_TEXT, stdout);
    FILE *f = open_memstream(&text, &size);
    report_print(r, output->format, f);
    fclose(f);
    bool good = output_write(output->file, text, size);
    free(text);
    return good;
}

static bool all_decided(const report_t *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->sections[i].verdict.kind == VERDICT_UNDECIDED)
            return false;
    return true;
}

int cmd_try(int argc, char **argv)
{
    options_t o = {.locks = "all", .plan = {.runs = 10, .warmup = 1}};
    cli_parse(&argp, argc, argv, true, &o);
    if (!o.command)
        cli_bad("no command given; write it after --");
    if (o.plugins && !o.at)
        cli_bad("--plugin says where to look for WHAT; give --at WHAT");
    set_measure(&o);
    vary_t vary = parse_vary(o.vary, o.command);
    char *preload = preload_find(o.preload);
    lineup_t lineup = parse_lineup(o.locks, preload);
    report_t report = {.command = o.command, .at = o.at, .plan = &o.plan};
    output_check(&o.output);
    make_sections(&report, &o, &vary, &lineup, preload);
    run_sections(&report, &o);
    bool written = write_report(&report, &o.output), decided = all_decided(&report);
    free_sections(&report, 0);
    free(report.sections);
    free(lineup.locks);
    free(o.at);
    free(o.plugins);
    free(preload);
    free(vary.name);
    cli_free_list(vary.values);
    if (report.partial)
        return CLI_INTERRUPTED;
    return written && decided ? CLI_OK : CLI_NO_RESULT;
}
