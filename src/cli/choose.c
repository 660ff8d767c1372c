/* SPDX-License-Identifier: MIT */
/* Choosing a lock for some of a program's mutexes: the words people write, and the setting. */
#include "choose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose_find.h"
#include "cli.h"
#include "lockname.h"
#include "program.h"

enum { CHOICES_MOST = 63, PLACES_MOST = 512 }; /* as many as the preload keeps */

struct choose {
    choice_t choice[CHOICES_MOST];
    size_t count;
    char *usual; /* default=LOCK */
    char **plugins;
    size_t plugin_count;
};

choose_t *choose_new(void)
{
    return cli_alloc(sizeof(choose_t));
}

void choose_free(choose_t *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->choice[i].what);
        free(c->choice[i].places);
    }
    for (size_t i = 0; i < c->plugin_count; i++)
        free(c->plugins[i]);
    free(c->plugins);
    free(c->usual);
    free(c);
}

const char *choose_default(const choose_t *c)
{
    return c->usual;
}

bool choose_any(const choose_t *c)
{
    return c->count > 0;
}

/* FILE:LINE, but not A::1: that is no name either. */
static int line_in(const char *what, size_t *length)
{
    const char *colon = strrchr(what, ':');
    if (!colon || colon == what || colon[-1] == ':' || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return 0;
    *length = (size_t)(colon - what);
    return atoi(colon + 1);
}

void choose_add(choose_t *c, const char *text)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1])
        cli_bad("'%s' is no choice; write WHAT=LOCK, for example db.c:412=nmcs", text);
    const char *name = equals + 1 + strspn(equals + 1, " \t"), *end = equals;
    while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    lockname_t lock = lockname_parse(name);
    char *what = cli_printf("%.*s", (int)(end - text), text);
    if (strcmp(what, "default") == 0) {
        free(c->usual);
        c->usual = cli_printf("%s", name);
        free(what);
        return;
    }
    if (lock.libc || lock.wait)
        cli_bad("'%s': a chosen lock is one of hotlock's, without a wait policy", text);
    if (c->count == CHOICES_MOST)
        cli_bad("more than %d choices; leave some out", CHOICES_MOST);
    choice_t *n = &c->choice[c->count++];
    *n = (choice_t){.what = what, .lock = lock.name};
    n->line = line_in(what, &n->file_length);
}

void choose_add_file(choose_t *c, const char *file)
{
    char *line = NULL;
    size_t room = 0;
    FILE *f = fopen(file, "re");
    if (!f)
        cli_bad("cannot read '%s': %s", file, strerror(errno));
    while (getline(&line, &room, f) > 0) {
        line[strcspn(line, "#\n")] = '\0';
        char *from = line + strspn(line, " \t"), *to = from + strlen(from);
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            *--to = '\0';
        if (*from)
            choose_add(c, from);
    }
    bool bad = ferror(f);
    free(line);
    fclose(f);
    if (bad)
        cli_bad("cannot read '%s': %s", file, strerror(errno));
}

void choose_add_plugin(choose_t *c, const char *file)
{
    char magic[4] = "";
    FILE *f = fopen(file, "re");
    if (!f)
        cli_bad("--plugin '%s': %s", file, strerror(errno));
    size_t read = fread(magic, 1, sizeof magic, f);
    fclose(f);
    if (read < sizeof magic || memcmp(magic, "\177ELF", sizeof magic) != 0)
        cli_bad("--plugin '%s' is no library; give the file that the program loads", file);
    c->plugins = cli_grow(c->plugins, c->plugin_count + 2, sizeof *c->plugins);
    c->plugins[c->plugin_count++] = cli_printf("%s", file);
    c->plugins[c->plugin_count] = NULL;
}

/* ---- what each stands for ---- */

static void say_choice(size_t number, const choice_t *c)
{
    size_t code = 0, data = 0;
    for (size_t i = 0; i < c->count; i++)
        *(c->places[i].data ? &data : &code) += 1;
    fprintf(stderr, "hotlock: choice %zu: %s=%s:", number, c->what, c->lock);
    if (data)
        fprintf(stderr, " %zu variable%s", data, data == 1 ? "" : "s");
    if (code)
        fprintf(stderr, "%s %zu %s of code", data ? "," : "", code, code == 1 ? "piece" : "pieces");
    fprintf(stderr, " in %s%s\n", c->places[0].path, c->others ? " and other files" : "");
    if (c->by_type && code)
        fprintf(stderr, "hotlock: choice %zu: on the heap, any mutex that functions of the type "
                        "lock themselves\n", number);
}

static void append(char **setting, size_t number, const choice_t *c, const place_t *p)
{
    if (strchr(p->path, ','))
        cli_bad("cannot choose in '%s': the setting cannot hold a path with a comma; move it",
                p->path);
    char *longer = cli_printf("%s,for=%s:%zu:%c:%llx+%llx@%s", *setting, c->lock, number,
                              p->data ? 'd' : 'c', (unsigned long long)p->begin,
                              (unsigned long long)(p->end - p->begin), p->path);
    free(*setting);
    *setting = longer;
}

char *choose_setting(choose_t *c, const char *program, bool say)
{
    char *setting = cli_printf("%s", say ? ",report=1" : "");
    size_t places = 0;
    choose_find(c->choice, c->count, program, c->plugins);
    for (size_t i = 0; i < c->count; i++) {
        choice_t *n = &c->choice[i];
        if (!n->count && n->line)
            cli_bad("'%s' stands for no code of '%s'; it needs the line numbers of debug "
                    "information (-g), and a line that calls", n->what, program);
        if (!n->count)
            cli_bad("'%s' is no function, variable or TYPE::FIELD of '%s', its libraries%s; is "
                    "the name complete, and the program not stripped?", n->what, program,
                    c->plugins ? " or plug-ins" : " (a plug-in needs --plugin FILE)");
        places += n->count;
        if (places > PLACES_MOST)
            cli_bad("'%s' stands for %zu places, too many; choose something narrower", n->what,
                    n->count);
        for (size_t k = 0; k < n->count; k++)
            append(&setting, i + 1, n, &n->places[k]);
        if (say)
            say_choice(i + 1, n);
    }
    return setting;
}
