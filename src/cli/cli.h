/* SPDX-License-Identifier: MIT */
/*
 * The frame of the command: what every subcommand shares.
 *
 * A subcommand is one file with one function, listed in commands.c. It parses its options with
 * cli_parse() and reports bad input with cli_bad(): one line on stderr, exit code 2.
 */
#ifndef HOTLOCK_CLI_H
#define HOTLOCK_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    CLI_OK = 0,
    CLI_NO_RESULT = 1,    /* ran, but there is nothing to conclude from */
    CLI_BAD_INPUT = 2,    /* nothing was written; top says where it differs */
    CLI_INTERRUPTED = 130 /* Ctrl-C: the result is partial and says so */
};

typedef struct {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is "hotlock NAME" */
    const char *help;                  /* one line, no full stop */
} cli_command_t;

extern const cli_command_t cli_commands[]; /* ends with a NULL name */

/*
 * Parses options with argp, stopping at the first word that is no option if in_order. Unlike
 * argp_parse() an unknown option or a missing value is one line with the nearest option, exit 2.
 */
void cli_parse(const struct argp *argp, int argc, char **argv, bool in_order, void *input);

/* Child parser of a command that takes one word or none. Its input is a cli_word_t. */
typedef struct {
    const char *what; /* "program"; NULL: the command takes only options */
    const char *word; /* NULL: not given */
} cli_word_t;
extern const struct argp cli_word_argp;

/* The rest of the line, "CMD ARG...", when ARGP_KEY_ARG comes; parsing then ends. */
char **cli_rest(struct argp_state *state);

/* Prints "hotlock NAME: message" as one line and exits with 2. */
_Noreturn void cli_bad(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints "hotlock NAME: message" and returns. */
void cli_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whole and decimal numbers given to an option; anything else is cli_bad(), naming the option. */
long cli_long(const char *option, const char *text, long least, long most);
double cli_seconds(const char *option, const char *text); /* above 0 and finite */

/* Splits "a,b,c" into a NULL-ended array; an empty item is cli_bad(). Free with cli_free_list(). */
char **cli_list(const char *option, const char *text);
void cli_free_list(char **list);

/* A command as one line that a shell reads back as it was. Free it. */
char *cli_shell_words(char **words);

/* malloc() and friends that end the command with one line when memory is out. */
void *cli_alloc(size_t bytes); /* zeroed */
void *cli_grow(void *old, size_t count, size_t size);
char *cli_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
