/* SPDX-License-Identifier: MIT */
/* hotlock size: what inlining each lock operation costs in bytes and gains in instructions. */
#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "output.h"
#include "size.h"

typedef struct {
    output_t output;
    char **files;
    size_t count;
    const char *against;
    double most; /* percent of the text */
} options_t;

enum { KEY_AGAINST = 0x100, KEY_MOST };

static const struct argp_option options[] = {
    {"against", KEY_AGAINST, "FILE", 0,
     "the same program built the other way: the growth is measured, not estimated", 0},
    {"most", KEY_MOST, "PERCENT", 0,
     "growth of the text by one operation above which a call is recommended (default 1.5)", 0},
    {0}};

static double percent(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= 0) || !isfinite(value))
        cli_bad("--most %s: give a percentage, 0 or above", text);
    return value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->output;
        return 0;
    case KEY_AGAINST:
        o->against = arg;
        return 0;
    case KEY_MOST:
        o->most = percent(arg);
        return 0;
    case ARGP_KEY_ARG:
        o->files = cli_grow(o->files, o->count + 2, sizeof *o->files);
        o->files[o->count++] = arg;
        o->files[o->count] = NULL;
        return 0;
    case ARGP_KEY_NO_ARGS:
        cli_bad("no file; give it objects or a program, compiled with -g");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "OBJECT|PROGRAM...",
    .doc = "Says, for each operation of each hotlock lock in these files, how often it is inlined "
           "and called, how many bytes that takes and would take the other way, how many "
           "instructions it executes either way, and which to choose.",
    .children = children,
};

static bool native(unsigned machine)
{
#if defined(__x86_64__)
    return machine == EM_X86_64;
#elif defined(__aarch64__)
    return machine == EM_AARCH64;
#else
    (void)machine;
    return false;
#endif
}

/* Bodies of operations that the files only call: from this command, which has them all. */
static void find_bodies(size_of_t *s)
{
    for (size_t i = 0; i < s->count; i++) {
        size_op_t *op = &s->ops[i];
        if (op->body || !native(s->machine))
            continue;
        bool any = strcmp(op->lock, "any") == 0;
        char *name = any ? cli_printf("hl_%s", op->operation)
                         : cli_printf("hl_%s_%s", op->lock, op->operation);
        op->body = size_of_function("/proc/self/exe", name);
        free(name);
    }
}

static bool has_sites(const size_of_t *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->ops[i].inlined || s->ops[i].called)
            return true;
    return false;
}

static void examine(size_of_t *s, char **files)
{
    *s = (size_of_t){.debug = true, .files = files};
    for (; *files; files++)
        size_add_file(s, *files);
    if (native(s->machine) && !size_count_steps(s))
        cli_note("cannot count instructions: single-stepping is not allowed here");
    find_bodies(s);
}

int cmd_size(int argc, char **argv)
{
    options_t o = {.most = 1.5};
    cli_parse(&argp, argc, argv, false, &o);
    output_check(&o.output);
    size_of_t s, other = {0};
    examine(&s, o.files);
    if (!has_sites(&s)) {
        cli_note("no operation of a hotlock lock in %s%s", o.files[0],
                 s.debug ? "" : ", as far as can be seen without debug information");
        size_free(&s);
        free(o.files);
        return CLI_NO_RESULT;
    }
    char *against[] = {(char *)o.against, NULL};
    if (o.against)
        examine(&other, against);
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    size_print(&s, o.against ? &other : NULL, o.most, o.output.format, f);
    fclose(f);
    bool good = output_write(o.output.file, text, size);
    free(text);
    size_free(&s);
    size_free(&other);
    free(o.files);
    return good ? CLI_OK : CLI_NO_RESULT;
}
