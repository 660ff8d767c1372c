/* SPDX-License-Identifier: MIT */
/* The frame of the command: options, numbers, lists and one-line errors. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"

static const char *speaker = "hotlock"; /* who errors come from: "hotlock try" */

/* ---- one-line messages ---- */

/* What a user typed may hold line breaks; the message stays one line. */
static void say(const char *format, va_list args)
{
    char *line;
    if (vasprintf(&line, format, args) < 0)
        return;
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", speaker, line);
    free(line);
}

void cli_bad(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(CLI_BAD_INPUT);
}

void cli_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

/* ---- options ---- */

enum { KEY_USAGE = 0x4b00 };

static const struct argp_option frame_options[] = {
    {"help", '?', NULL, 0, "Print this help", -1},
    {"usage", KEY_USAGE, NULL, 0, "Print a short usage line", -1},
    {"version", 'V', NULL, 0, "Print the version", -1},
    {0},
};

typedef struct {
    const struct argp *root; /* frame options plus the command's argp as its child */
    void *input;
} frame_t;

typedef struct {
    const struct argp_option *found; /* NULL: none */
    bool exact;
    size_t matches; /* options that begin like that, or 1 if one is just that */
    const char **names; /* every long name */
    size_t count;
} search_t;

/* Looks for a long option NAME, LENGTH bytes, in argp and its children; collects all names. */
static void search(const struct argp *argp, const char *name, size_t length, search_t *s)
{
    for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
        if (!o->name)
            continue;
        s->names = cli_grow(s->names, s->count + 1, sizeof *s->names);
        s->names[s->count++] = o->name;
        if (s->exact || strncmp(o->name, name, length) != 0)
            continue;
        s->found = o;
        s->exact = o->name[length] == '\0';
        s->matches = s->exact ? 1 : s->matches + 1;
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++)
        search(c->argp, name, length, s);
}

static const struct argp_option *search_short(const struct argp *argp, char key)
{
    for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
        if (o->key == key)
            return o;
    for (const struct argp_child *c = argp->children; c && c->argp; c++) {
        const struct argp_option *o = search_short(c->argp, key);
        if (o)
            return o;
    }
    return NULL;
}

/* argp only says that an option was wrong; find out which and how, and say it in one line. */
_Noreturn static void explain_bad_option(const struct argp *root, const char *word)
{
    if (strncmp(word, "--", 2) != 0) {
        const struct argp_option *o = search_short(root, word[strlen(word) - 1]);
        if (o && o->arg)
            cli_bad("option '%s' needs a value (%s)", word, o->arg);
        cli_bad("unknown option '%s'; see %s --help", word, speaker);
    }
    size_t length = strcspn(word + 2, "=");
    search_t s = {0};
    search(root, word + 2, length, &s);
    if (s.matches > 1)
        cli_bad("option '%s' could mean several; write it out", word);
    if (s.found && s.found->arg)
        cli_bad("option '%s' needs a value (%s)", word, s.found->arg);
    if (s.found)
        cli_bad("option '--%s' takes no value; got '%s'", s.found->name, word);
    char *name = strndup(word + 2, length);
    cli_bad("unknown option '--%s'; nearest is '--%s'", name, nearest_name(name, s.names, s.count));
}

static error_t parse_frame(int key, char *arg, struct argp_state *state)
{
    const frame_t *frame = state->input;
    char *name = state->argv[0];
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = frame->input;
        return 0;
    case '?':
        argp_help(frame->root, stdout, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK, name);
        exit(CLI_OK);
    case KEY_USAGE:
        argp_help(frame->root, stdout, ARGP_HELP_USAGE, name);
        exit(CLI_OK);
    case 'V':
        puts("hotlock " HOTLOCK_VERSION);
        exit(CLI_OK);
    case ARGP_KEY_ERROR:
        explain_bad_option(frame->root, state->argv[state->next - 1]);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* argp's own error messages take two lines, so they are off and its help with them. */
void cli_parse(const struct argp *argp, int argc, char **argv, bool in_order, void *input)
{
    const struct argp_child children[] = {{argp, 0, NULL, 0}, {0}};
    const struct argp root = {
        .options = frame_options, .parser = parse_frame, .children = children};
    frame_t frame = {&root, input};
    unsigned flags = ARGP_NO_HELP | ARGP_NO_ERRS | (in_order ? ARGP_IN_ORDER : 0);
    speaker = argv[0];
    argp_parse(&root, argc, argv, flags, NULL, &frame);
}

static error_t parse_word(int key, char *arg, struct argp_state *state)
{
    cli_word_t *w = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (!w->what)
        cli_bad("unexpected word '%s'; the command takes only options", arg);
    if (w->word)
        cli_bad("unexpected word '%s'; one %s at a time", arg, w->what);
    w->word = arg;
    return 0;
}

const struct argp cli_word_argp = {.parser = parse_word};

char **cli_rest(struct argp_state *state)
{
    char **rest = &state->argv[state->next - 1];
    state->next = state->argc;
    return rest;
}

/* ---- values ---- */

long cli_long(const char *option, const char *text, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < least || value > most)
        cli_bad("%s '%s' is not a whole number from %ld to %ld", option, text, least, most);
    return value;
}

double cli_seconds(const char *option, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value <= 0 || value > 1e7)
        cli_bad("%s '%s' is not a number of seconds above 0", option, text);
    return value;
}

char **cli_list(const char *option, const char *text)
{
    char **list = NULL;
    size_t count = 0;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0)
            cli_bad("%s '%s' has an empty item; separate items by single commas", option, text);
        list = cli_grow(list, count + 2, sizeof *list);
        list[count++] = cli_printf("%.*s", (int)length, at);
        list[count] = NULL;
        at += length;
        if (!*at)
            return list;
    }
}

void cli_free_list(char **list)
{
    for (char **item = list; item && *item; item++)
        free(*item);
    free(list);
}

/* ---- memory ---- */

void *cli_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        cli_bad("out of memory");
    return p;
}

void *cli_grow(void *old, size_t count, size_t size)
{
    void *p = reallocarray(old, count, size);
    if (!p)
        cli_bad("out of memory");
    return p;
}

char *cli_printf(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        cli_bad("out of memory");
    va_end(args);
    return text;
}

char *cli_shell_words(char **words)
{
    static const char plain[] = "%+,-./:=@_^";
    char *line;
    size_t size;
    FILE *f = open_memstream(&line, &size);
    for (char **w = words; *w; w++) {
        bool quote = !**w;
        for (const char *c = *w; *c; c++)
            quote = quote || !(isalnum((unsigned char)*c) || strchr(plain, *c));
        fputs(w > words ? " " : "", f);
        if (!quote) {
            fputs(*w, f);
            continue;
        }
        fputc('\'', f);
        for (const char *c = *w; *c; c++)
            fputs(*c == '\'' ? "'\\''" : (char[2]){*c, '\0'}, f);
        fputc('\'', f);
    }
    fclose(f);
    return line;
}
