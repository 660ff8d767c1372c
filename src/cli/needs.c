/* SPDX-License-Identifier: MIT */
/* The libraries a program is linked to, as its own dynamic linker finds them. */
#include "needs.h"

#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "cli.h"

static bool is_libc(const char *name)
{
    static const char *const parts[] = {"libc.so", "libpthread.so", "ld-linux", "linux-vdso",
                                        "libdl.so", "librt.so", "libm.so", "/"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(name, parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}

/* One line of the list: "\tlibz.so.1 => /lib/libz.so.1 (0x...)". */
static bool read_line(char *line, need_t *n)
{
    char *name = line + strspn(line, " \t"), *path = strstr(line, "=> ");
    if (!path || is_libc(name))
        return false;
    path += 3;
    bool found = strncmp(path, "not found", 9) != 0;
    path[strcspn(path, " ")] = '\0';
    name[strcspn(name, " ")] = '\0';
    *n = (need_t){cli_printf("%s", name), found ? cli_printf("%s", path) : NULL};
    return true;
}

need_t *needs_of(const char *file, const char *linker)
{
    char *real = realpath(file, NULL); /* its search path may begin where it really lies */
    char *argv[] = {(char *)linker, (char[]){"--list"}, real ? real : (char *)file, NULL};
    child_spec_t spec = {linker, argv, NULL, 10, true};
    child_result_t r;
    need_t *needs = NULL;
    size_t count = 0;
    child_run(&spec, &r);
    free(real);
    if (r.end == CHILD_EXITED && r.code == 0) {
        char *rest = r.out;
        needs = cli_grow(NULL, 1, sizeof *needs);
        for (char *line; rest && (line = strsep(&rest, "\n"));) {
            needs = cli_grow(needs, count + 2, sizeof *needs);
            count += read_line(line, &needs[count]);
        }
        needs[count] = (need_t){0};
    }
    child_free(&r);
    return needs;
}

void needs_free(need_t *needs)
{
    for (need_t *n = needs; n && n->name; n++) {
        free(n->name);
        free(n->path);
    }
    free(needs);
}
