/* SPDX-License-Identifier: MIT */
/* hotlock run: runs a program under one lock, without a rebuild, in place of this process. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "lockname.h"
#include "preload.h"
#include "program.h"

typedef struct {
    const char *lock, *preload;
    bool check;
    char **command;
} options_t;

enum { KEY_PRELOAD = 0x4c00, KEY_CHECK };

static const struct argp_option options[] = {
    {"lock", 'l', "NAME[,POLICY]", 0,
     "The lock; 'libc' for none. POLICY: how waiters wait, 'spin', 'yield' or 'park'", 0},
    {"preload", KEY_PRELOAD, "FILE", 0, "The preload library, if not the one hotlock came with", 0},
    {"check", KEY_CHECK, NULL, 0, "Say on stderr which pthread functions reach the preload", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case 'l':
        o->lock = arg;
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

int cmd_run(int argc, char **argv)
{
    options_t o = {0};
    cli_parse(&argp, argc, argv, true, &o);
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
    char **env = preload_env(preload, setting);
    execve(file, o.command, env);
    cli_bad("cannot run '%s': %s", file, strerror(errno));
}
