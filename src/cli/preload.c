/* SPDX-License-Identifier: MIT */
/* The preload library: where it is, how a program gets it, which locks it offers. */
#include "preload.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "child.h"
#include "cli.h"
#include "program.h"

#define PRELOAD_NAME "libhotlock-preload.so"
#define PROBE_LIMIT 10.0 /* seconds; a library that hangs this long is broken */

extern char **environ;

static char *own_directory(void)
{
    char *self = realpath("/proc/self/exe", NULL);
    if (!self)
        cli_bad("cannot find the preload library: /proc is not there; use --preload FILE");
    *strrchr(self, '/') = '\0';
    return self;
}

/* Build tree first: a binary there must not pick up an older installed library. */
static char *search(const char *name, const char *build_directory)
{
    char *here = own_directory();
    char *places[] = {
        cli_printf("%s/../%s/%s", here, build_directory, name),
        cli_printf("%s/../" HOTLOCK_LIBDIR "/%s", here, name),
        cli_printf(HOTLOCK_PREFIX "/" HOTLOCK_LIBDIR "/%s", name),
    };
    char *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!found)
            found = realpath(places[i], NULL);
        free(places[i]);
    }
    free(here);
    return found;
}

static void check_path(const char *place)
{
    if (strpbrk(place, " :"))
        cli_bad("cannot preload '%s': LD_PRELOAD cannot hold a path with a space or a colon; "
                "move it", place);
}

char *preload_find(const char *file)
{
    ElfW(Ehdr) header;
    char *place = file ? realpath(file, NULL) : search(PRELOAD_NAME, "preload");
    if (!place && file)
        cli_bad("cannot preload '%s': %s", file, strerror(errno));
    if (!place)
        cli_bad("cannot find " PRELOAD_NAME "; name it with --preload FILE");
    struct stat st;
    if (stat(place, &st) != 0 || !S_ISREG(st.st_mode))
        cli_bad("cannot preload '%s': it is not a regular file", place);
    program_head(place, &header, sizeof header);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_DYN)
        cli_bad("cannot preload '%s': it is not a shared library", place);
    check_path(place);
    return place;
}

char *preload_companion(const char *name, const char *build_directory)
{
    char *place = search(name, build_directory);
    if (!place)
        cli_bad("cannot find %s; it belongs beside " PRELOAD_NAME, name);
    check_path(place);
    return place;
}

char **preload_env(const char *preload, const char *setting)
{
    char **env = child_env(environ, "HOTLOCK", setting);
    if (!preload)
        return env;
    const char *old = getenv("LD_PRELOAD");
    char *list = cli_printf("%s%s%s", preload, old && *old ? ":" : "", old ? old : "");
    char **with = child_env(env, "LD_PRELOAD", list);
    free(list);
    child_free_env(env);
    return with;
}

/* What the library says on stderr about a setting it does not know. */
static const char refusal[] = "hotlock: HOTLOCK: ";

bool preload_accepts(const char *preload, const char *setting)
{
    char *argv[] = {(char[]){"hotlock"}, (char[]){"--version"}, NULL}, how[100];
    char **env = preload_env(preload, setting);
    child_spec_t spec = {"/proc/self/exe", argv, env, PROBE_LIMIT, true};
    child_result_t r;
    child_run(&spec, &r);
    if (r.end != CHILD_EXITED || r.code != 0)
        cli_bad("the preload library '%s' does not work: hotlock itself under it: %s", preload,
                child_end_text(&r, how, sizeof how));
    const char *warning = strstr(r.err, "LD_PRELOAD cannot be preloaded");
    if (warning && strstr(r.err, preload))
        cli_bad("the preload library cannot be loaded: %.*s", (int)strcspn(r.err, "\n"), r.err);
    bool accepted = !strstr(r.err, refusal);
    child_free(&r);
    child_free_env(env);
    return accepted;
}
