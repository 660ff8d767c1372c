/* SPDX-License-Identifier: MIT */
/* Parses the common options of the workloads; each workload's own come as an argp child. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/cli/cli.h"
#include "../../src/cli/nearest.h"

enum {
    KEY_LOCK = 'l', KEY_THREADS = 't', KEY_SECONDS = 's', KEY_JSON = 'j',
    KEY_FORM = 0x2000, KEY_LIST
};

static const struct argp_option common_options[] = {
    { "lock", KEY_LOCK, "NAME[:WAIT]", 0,
      "the lock (default park; pair: all), and how it waits: spin, yield or park", 0 },
    { "threads", KEY_THREADS, "N", 0, "worker threads (default 2)", 0 },
    { "seconds", KEY_SECONDS, "S", 0, "how long to run (default 1)", 0 },
    { "json", KEY_JSON, NULL, 0, "one line of JSON", 0 },
    { "list", KEY_LIST, NULL, 0, "name the locks and stop; other options are still checked", 0 },
    { 0 }
};

static const struct argp_option form_option[] = {
    { "form", KEY_FORM, "lock|run", 0,
      "sections between lock and unlock, or as functions the lock runs (default: run where the "
      "lock combines)", 0 },
    { 0 }
};

static const struct loop *find_loop(const struct workload *w, const char *name)
{
    for (size_t i = 0; i < w->loop_count; i++)
        if (strcmp(w->loops[i].lock, name) == 0)
            return &w->loops[i];
    return NULL;
}

static void choose_wait(struct run *run, const char *wait)
{
    static const char *const policies[] = { "spin", "yield", "park" };
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(wait, policies[i]) == 0) {
            hl_wait_set((hl_wait_policy_t)(HL_WAIT_SPIN + i));
            run->wait = policies[i];
            return;
        }
    }
    cli_bad("unknown wait policy '%s'; nearest is '%s'", wait, nearest_name(wait, policies, 3));
}

static void choose_lock(struct run *run, const char *text)
{
    const struct workload *w = run->workload;
    size_t length = strcspn(text, ":");
    char *name = cli_printf("%.*s", (int)length, text);
    const struct loop *loop = find_loop(w, name);
    if (!loop) {
        const char **names = cli_alloc(w->loop_count * sizeof(*names));
        for (size_t i = 0; i < w->loop_count; i++)
            names[i] = w->loops[i].lock;
        cli_bad("unknown lock '%s'; nearest is '%s'", name,
                nearest_name(name, names, w->loop_count));
    }
    if (text[length])
        choose_wait(run, text + length + 1);
    run->loop = loop->fn;
    for (size_t i = 0; i < lock_count; i++)
        if (strcmp(lock_catalogue[i].name, name) == 0)
            run->lock = &lock_catalogue[i];
    free(name);
}

/* Each lock's name and what it can do: sections, functions or both. */
static void list_locks(const struct workload *w)
{
    for (size_t i = 0; i < lock_count; i++)
        if (find_loop(w, lock_catalogue[i].name))
            printf("%s%s%s\n", lock_catalogue[i].name,
                   lock_catalogue[i].sections ? " sections" : "",
                   lock_catalogue[i].combines ? " functions" : "");
}

struct choices {
    struct run *run;
    bool list;
    const char *lock, *form;
};

static void settle(struct choices *c)
{
    struct run *run = c->run;
    const char *fallback = run->workload->loops[0].lock;
    if (!c->lock && run->workload->every_lock)
        return;
    choose_lock(run, c->lock ? c->lock : find_loop(run->workload, "park") ? "park" : fallback);
    run->closures = run->lock->combines;
    if (!c->form)
        return;
    run->closures = strcmp(c->form, "run") == 0;
    if (!run->closures && strcmp(c->form, "lock") != 0)
        cli_bad("--form takes lock or run, not '%s'", c->form);
    if (!run->closures && !run->lock->sections)
        cli_bad("lock '%s' runs functions only; use --form run", run->lock->name);
}

static error_t on_common(int key, char *arg, struct argp_state *state)
{
    struct choices *c = state->input;
    struct run *run = c->run;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = run;
        state->child_inputs[1] = c;
        return 0;
    case KEY_LOCK:
        c->lock = arg;
        return 0;
    case KEY_LIST:
        c->list = true;
        return 0;
    case KEY_THREADS:
        run->threads = (unsigned)cli_long("--threads", arg, 1, WORKLOAD_THREADS_MOST);
        return 0;
    case KEY_SECONDS:
        run->seconds = cli_seconds("--seconds", arg);
        if (run->seconds > WORKLOAD_SECONDS_MOST)
            cli_bad("--seconds is at most %d, not %s", WORKLOAD_SECONDS_MOST, arg);
        return 0;
    case KEY_JSON:
        run->json = true;
        return 0;
    case ARGP_KEY_ARG:
        cli_bad("takes no argument '%s'; see --help", arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t on_form(int key, char *arg, struct argp_state *state)
{
    if (key != KEY_FORM)
        return ARGP_ERR_UNKNOWN;
    ((struct choices *)state->input)->form = arg;
    return 0;
}

void options_parse(struct run *run, int argc, char **argv)
{
    const struct workload *w = run->workload;
    const struct argp own = { .options = w->options, .parser = w->option };
    const struct argp form = { .options = form_option, .parser = on_form };
    const struct argp_child children[] = { { &own, 0, w->options ? "This workload:" : NULL, 1 },
                                           { w->forms ? &form : NULL, 0, NULL, 0 }, { 0 } };
    const struct argp argp = { .options = common_options, .parser = on_common, .doc = w->about,
                               .children = children };
    struct choices c = { .run = run };
    run->threads = 2;
    cli_parse(&argp, argc, argv, false, &c);
    settle(&c);
    if (c.list) {
        list_locks(w);
        exit(0);
    }
}
