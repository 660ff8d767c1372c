/* SPDX-License-Identifier: MIT */
/* hotlock COMMAND ...: finds the command and hands over. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "nearest.h"
#include "output.h"

static size_t command_count(void)
{
    size_t count = 0;
    while (cli_commands[count].name)
        count++;
    return count;
}

/* argp prints this after the options. */
static char *list_commands(int key, const char *text, void *input)
{
    char *list;
    size_t size;
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    FILE *f = open_memstream(&list, &size);
    fputs("Commands:\n", f);
    for (const cli_command_t *c = cli_commands; c->name; c++)
        fprintf(f, "  %-9s %s\n", c->name, c->help);
    fputs("\nhotlock COMMAND --help says more about one.", f);
    fclose(f);
    return list;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    (void)arg;
    *(char ***)state->input = cli_rest(state);
    return 0;
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "COMMAND [ARG...]",
    .doc = "Cures hot locks: finds the lock that serves a program best.\v",
    .help_filter = list_commands,
};

static const cli_command_t *find(const char *name)
{
    const char **names = cli_alloc((command_count() + 1) * sizeof *names);
    for (size_t i = 0; i < command_count(); i++) {
        names[i] = cli_commands[i].name;
        if (strcmp(name, names[i]) == 0) {
            free(names);
            return &cli_commands[i];
        }
    }
    cli_bad("unknown command '%s'; nearest is '%s' (see hotlock --help)", name,
            nearest_name(name, names, command_count()));
}

/* A full disk or a closed pipe must not look like success. */
static int flushed(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    cli_note("cannot write to stdout");
    return code == CLI_OK ? CLI_NO_RESULT : code;
}

int main(int argc, char **argv)
{
    char **rest = NULL;
    char self[] = "hotlock";
    setlocale(LC_CTYPE, "C.UTF-8"); /* for the widths of characters; nothing else depends on it */
    if (argc > 0)
        argv[0] = self;
    cli_parse(&argp, argc, argv, true, &rest);
    if (!rest)
        cli_bad("no command given; see hotlock --help");
    const cli_command_t *command = find(rest[0]);
    rest[0] = cli_printf("hotlock %s", command->name);
    return flushed(command->run((int)(argv + argc - rest), rest));
}
