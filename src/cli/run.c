/* SPDX-License-Identifier: MIT */
/* hotlock run: runs a program under one lock, without a rebuild, in place of this process. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "choose.h"
#include "commands.h"
#include "lockname.h"
#include "preload.h"
#include "program.h"

typedef struct {
    const char *lock, *preload;
    choose_t *choices;
    bool check, quiet;
    char **command;
} options_t;

enum { KEY_PRELOAD = 0x4c00, KEY_CHECK, KEY_LOCKS, KEY_PLUGIN };

static const struct argp_option options[] = {
    {"lock", 'l', "[WHAT=]NAME[,POLICY]", 0,
     "The lock; 'libc' for none. POLICY: how waiters wait, 'spin', 'yield' or 'park'. "
     "WHAT=NAME: only for the mutexes that WHAT stands for, FILE:LINE, a function, a variable or "
     "TYPE::FIELD, and for the spinlocks in such a variable; may be repeated", 0},
    {"locks-from", KEY_LOCKS, "FILE", 0, "Read WHAT=NAME from FILE, one a line", 0},
    {"plugin", KEY_PLUGIN, "FILE", 0,
     "Look for WHAT in FILE as well, a library that CMD loads by itself; may be repeated", 0},
    {"quiet", 'q', NULL, 0, "Do not say what each WHAT stands for, nor what it matched", 0},
    {"preload", KEY_PRELOAD, "FILE", 0, "The preload library, if not the one hotlock came with", 0},
    {"check", KEY_CHECK, NULL, 0, "Say on stderr which pthread functions reach the preload", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case 'l':
        if (strchr(arg, '='))
            choose_add(o->choices, arg);
        else
            o->lock = arg;
        return 0;
    case KEY_LOCKS:
        choose_add_file(o->choices, arg);
        return 0;
    case KEY_PLUGIN:
        choose_add_plugin(o->choices, arg);
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case KEY_PRELOAD:
        o->preload = arg;
        return 0;
    case KEY_CHECK:
        o->check = true;
        return 0;
    case ARGP_KEY_ARG:
        o->command = cli_rest(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "--lock NAME -- CMD [ARG...]",
    .doc = "Runs CMD with its pthread locks replaced by the lock NAME. The exit code is CMD's.",
};

/* The default beside choices: the only lock that others can stand beside. */
static const char *usual_lock(const options_t *o)
{
    const char *usual = o->lock ? o->lock : choose_default(o->choices);
    if (!choose_any(o->choices))
        return usual;
    if (usual && (strncmp(usual, "park", 4) != 0 || strcspn(usual, ",:") != 4))
        cli_bad("cannot choose single locks beside '%s'; the others have 'park' then", usual);
    return usual ? usual : "park";
}

int cmd_run(int argc, char **argv)
{
    options_t o = {.choices = choose_new()};
    cli_parse(&argp, argc, argv, true, &o);
    o.lock = usual_lock(&o);
    if (!o.lock)
        cli_bad("no lock given; use --lock NAME (see hotlock locks)");
    if (!o.command)
        cli_bad("no command given; write it after --");
    lockname_t lock = lockname_parse(o.lock);
    if (lock.libc && o.check)
        cli_bad("--check needs the preload; choose a lock other than libc");
    char *preload = lock.libc ? NULL : preload_find(o.preload);
    char *file = program_find(o.command[0], preload);
    char *setting = lockname_setting(&lock, o.check);
    lockname_require(&lock, preload);
    if (choose_any(o.choices))
        setting = cli_printf("%s%s", setting, choose_setting(o.choices, file, !o.quiet));
    char **env = preload_env(preload, setting);
    execve(file, o.command, env);
    cli_bad("cannot run '%s': %s", file, strerror(errno));
}
