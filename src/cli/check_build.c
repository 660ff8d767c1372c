/* SPDX-License-Identifier: MIT */
/* From C source to a program on the model checker: compile, rename, link. */
#include "check_build.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "program.h"

/* The libraries below the program and in it, and the lists of calls to rename. */
typedef struct {
    const char *directory; /* in the build tree */
    const char *library, *model;
    const char *renames[3]; /* NULL-ended */
} parts_t;

static const parts_t check_parts = {
    "vm", "libhotlock-check.a", "libhotlock-check-model.a", {"redirect.syms"}};
static const parts_t wide_parts = {
    "vm", "libhotlock-check-wide.a", "libhotlock-check-model.a", {"redirect.syms"}};
static const parts_t sim_parts = {
    "sim", "libhotlock-sim.a", "libhotlock-sim-model.a", {"redirect.syms", "sim-redirect.syms"}};

static const parts_t *parts_of(const check_build_t *b)
{
    return b->simulate ? &sim_parts : b->wide ? &wide_parts : &check_parts;
}

typedef struct {
    char **words;
    size_t count;
} words_t;

static void add(words_t *w, const char *word)
{
    w->words = cli_grow(w->words, w->count + 2, sizeof *w->words);
    w->words[w->count++] = cli_printf("%s", word);
    w->words[w->count] = NULL;
}

static void add_all(words_t *w, const char *const *words)
{
    while (*words)
        add(w, *words++);
}

static void drop(words_t *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->words[i]);
    free(w->words);
    *w = (words_t){0};
}

/* ---- where the parts are ---- */

/* The build tree first: a command there must not use older installed parts. */
static char *parts_directory(const parts_t *parts)
{
    char *self = realpath("/proc/self/exe", NULL);
    char *found = NULL;
    if (!self)
        cli_bad("cannot find hotlock's parts: /proc is not there");
    *strrchr(self, '/') = '\0';
    char *places[] = {
        cli_printf("%s/../%s", self, parts->directory),
        cli_printf("%s/../" HOTLOCK_LIBDIR "/hotlock", self),
        cli_printf(HOTLOCK_PREFIX "/" HOTLOCK_LIBDIR "/hotlock"),
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *file = cli_printf("%s/%s", places[i], parts->library);
        if (!found && access(file, R_OK) == 0)
            found = cli_printf("%s", places[i]);
        free(file);
        free(places[i]);
    }
    free(self);
    if (!found)
        cli_bad("cannot find %s; install hotlock, or build all of it", parts->library);
    return found;
}

/* ---- running tools ---- */

void check_tool(const char *const *argv, child_result_t *result)
{
    char *file = program_find(argv[0], NULL);
    child_spec_t spec = {.path = file, .argv = (char *const *)argv, .capture = true, .limit = 600};
    child_run(&spec, result);
    free(file);
    if (result->end == CHILD_INTERRUPTED)
        exit(CLI_INTERRUPTED);
}

/* The first line that names what is missing or an error, else the first line. */
static char *first_error(const char *text)
{
    const char *at = strstr(text, "undefined reference");
    if (!at)
        at = strstr(text, "error:");
    while (at && at > text && at[-1] != '\n')
        at--;
    if (!at)
        at = text;
    return cli_printf("%.*s", (int)strcspn(at, "\n"), at);
}

static void must(const char *const *argv, const char *what)
{
    child_result_t result;
    check_tool(argv, &result);
    if (result.end != CHILD_EXITED || result.code != 0) {
        char *why = first_error(result.err);
        cli_bad("cannot %s: %s", what, *why ? why : "the tool failed");
    }
    child_free(&result);
}

/* ---- what the compiler did not see ---- */

/*
 * A locked instruction in instrumented code can only come from inline assembly: the compiler turns
 * every atomic it knows into a call. Such a lock would look like a race, or like nothing at all.
 */
static void refuse_assembly(const char *object, const char *source)
{
    const char *argv[] = {"objdump", "-d", "--no-show-raw-insn", object, NULL};
    child_result_t result;
    check_tool(argv, &result);
    char function[128] = "?", *save = NULL;
    for (char *line = strtok_r(result.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *name = strchr(line, '<'), *end = strstr(line, ">:");
        if (name && end && isxdigit((unsigned char)*line))
            snprintf(function, sizeof function, "%.*s", (int)(end - name - 1), name + 1);
        char *insn = strchr(line, ':');
        if (!insn)
            continue;
        while (isspace((unsigned char)*++insn))
            continue;
        bool exchange = strncmp(insn, "xchg", 4) == 0 && strchr(insn, '(');
        bool exclusive = strncmp(insn, "ldxr", 4) == 0 || strncmp(insn, "ldaxr", 5) == 0;
        if (strncmp(insn, "lock cmpxchg16b", 15) == 0)
            cli_bad("%s: %s() exchanges 16 bytes where it cannot be seen: in inline assembly, or by "
                    "clang, which does so beside its call; use C11 atomics and --cc=gcc", source,
                    function);
        if (strncmp(insn, "lock ", 5) == 0 || exchange || exclusive)
            cli_bad("%s: %s() uses atomic instructions in inline assembly, which cannot be seen; "
                    "use C11 atomics", source, function);
    }
    child_free(&result);
}

/* ---- cleaning up, whichever way the command ends ---- */

static char *to_remove;

static void remove_directory(void)
{
    if (!to_remove)
        return;
    char *dir = to_remove;
    to_remove = NULL;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *file = cli_printf("%s/%s", dir, e->d_name);
        if (e->d_name[0] != '.')
            unlink(file);
        free(file);
    }
    if (d)
        closedir(d);
    rmdir(dir);
    free(dir);
}

static void remove_at_exit(const char *dir)
{
    to_remove = cli_printf("%s", dir);
    atexit(remove_directory);
}

/* ---- the steps ---- */

static bool has_ending(const char *file, const char *const *endings)
{
    const char *dot = strrchr(file, '.');
    for (; dot && *endings; endings++)
        if (!strcmp(dot, *endings))
            return true;
    return false;
}

static bool is_source(const char *file)
{
    return has_ending(file, (const char *const[]){".c", ".cc", ".cpp", ".cxx", NULL});
}

static bool any_cpp(char *const *sources)
{
    for (; *sources; sources++)
        if (has_ending(*sources, (const char *const[]){".cc", ".cpp", ".cxx", NULL}))
            return true;
    return false;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static bool is_clang(const char *compiler) { return strstr(compiler, "clang") != NULL; }

/* Basic blocks are counted, and volatile reads told from others. */
static const char *const sim_gcc[] = {
    "-fsanitize-coverage=trace-pc", "--param", "tsan-distinguish-volatile=1", NULL};
static const char *const sim_clang[] = {
    "-fsanitize-coverage=trace-pc", "-mllvm", "-tsan-distinguish-volatile", NULL};

/* An object somebody compiled: as it is, if its accesses can be seen. */
static char *use_object(const char *object)
{
    const char *argv[] = {"nm", object, NULL};
    child_result_t result;
    if (access(object, R_OK) != 0)
        cli_bad("%s: %s", object, strerror(errno));
    check_tool(argv, &result);
    if (!strstr(result.out, "__tsan_") && !ends_in(object, ".a"))
        cli_bad("%s is not instrumented; give its source instead, or compile it with -O2 -g "
                "-fno-pie -fsanitize=thread -fsanitize-coverage=trace-pc", object);
    child_free(&result);
    refuse_assembly(object, object);
    return cli_printf("%s", object);
}

static char *compile(const check_build_t *b, const char *source, const char *dir, int number)
{
    static const char *const fixed[] = {"-c",
                                        "-O2",
                                        "-g",
                                        "-D_GNU_SOURCE",
                                        "-U_FORTIFY_SOURCE",
                                        "-fsanitize=thread",
                                        "-Wno-tsan",
                                        "-fno-pic",
                                        "-fno-pie",
                                        "-fno-stack-protector",
#ifdef __x86_64__
                                        "-mcx16", /* or clang calls a library for 16 bytes */
#endif
                                        NULL};
    char *object = cli_printf("%s/%d.o", dir, number);
    words_t w = {0};
    if (!is_source(source))
        cli_bad("%s: not a C or C++ source file by its name", source);
    if (access(source, R_OK) != 0)
        cli_bad("%s: %s", source, strerror(errno));
    add(&w, b->compiler);
    add_all(&w, fixed);
    if (b->simulate)
        add_all(&w, is_clang(b->compiler) ? sim_clang : sim_gcc);
    for (size_t i = 0; i < b->flag_count; i++)
        add(&w, b->flags[i]);
    add(&w, source);
    add(&w, "-o");
    add(&w, object);
    must((const char *const *)w.words, "compile");
    drop(&w);
    refuse_assembly(object, source);
    return object;
}

/* Library code that starts threads by itself was not compiled with the program: it runs unseen. */
static void refuse_hidden_threads(const char *object)
{
    const char *argv[] = {"nm", "-u", object, NULL};
    child_result_t result;
    check_tool(argv, &result);
    if (strstr(result.out, "_ZNSt6thread"))
        cli_bad("std::thread starts threads inside the C++ library, where they cannot be seen; use "
                "pthread_create()");
    child_free(&result);
}

/*
 * One object of the program's and the checker's own threads library; then the calls that are
 * replaced get their new names, and the variables sections by which the checker finds them.
 */
static char *combine(const check_build_t *b, char *const *objects, const char *parts,
                     const char *dir)
{
    char *all = cli_printf("%s/all.o", dir);
    char *model = cli_printf("%s/%s", parts, parts_of(b)->model);
    words_t w = {0}, rename = {0};
    const char *const begin[] = {"ld", "-r", "-d", "-o", all, "--whole-archive", NULL};
    add_all(&w, begin);
    for (; *objects; objects++)
        add(&w, *objects);
    add(&w, model);
    must((const char *const *)w.words, "combine the program");
    drop(&w);
    add(&rename, "objcopy");
    for (const char *const *list = parts_of(b)->renames; *list; list++) {
        char *names = cli_printf("--redefine-syms=%s/%s", parts, *list);
        add(&rename, names);
        free(names);
    }
    static const char *const found[] = {"--rename-section", ".data=hl_data", "--rename-section",
                                        ".bss=hl_bss", NULL};
    if (!b->simulate)
        add_all(&rename, found);
    add(&rename, all);
    must((const char *const *)rename.words, "rename the program's calls");
    drop(&rename);
    refuse_hidden_threads(all);
    free(model);
    return all;
}

char *check_build(const check_build_t *b)
{
    const char *tmp = getenv("TMPDIR");
    char *dir = cli_printf("%s/hotlock-check.XXXXXX", tmp && *tmp ? tmp : "/tmp");
    char *parts = parts_directory(parts_of(b));
    if (!mkdtemp(dir))
        cli_bad("cannot make a directory in %s: %s", tmp && *tmp ? tmp : "/tmp", strerror(errno));
    char *program = b->output ? cli_printf("%s", b->output) : cli_printf("%s/program", dir);
    remove_at_exit(dir);
    words_t objects = {0};
    for (int i = 0; b->sources[i]; i++) {
        bool made = b->simulate && (ends_in(b->sources[i], ".o") || ends_in(b->sources[i], ".a"));
        char *object = made ? use_object(b->sources[i]) : compile(b, b->sources[i], dir, i);
        add(&objects, object);
        free(object);
    }
    char *all = combine(b, objects.words, parts, dir);
    char *lib = cli_printf("%s/%s", parts, parts_of(b)->library);
    words_t link = {0};
    const char *const begin[] = {b->compiler, "-no-pie", "-g", all, lib, "-o", program, NULL};
    add_all(&link, begin);
    for (size_t i = 0; i < b->flag_count; i++)
        if (strncmp(b->flags[i], "-l", 2) == 0 || strncmp(b->flags[i], "-L", 2) == 0)
            add(&link, b->flags[i]);
    add(&link, any_cpp(b->sources) ? "-lstdc++" : "-lc");
    must((const char *const *)link.words, "link");
    drop(&link);
    drop(&objects);
    free(all);
    free(lib);
    free(parts);
    free(dir);
    return program;
}

bool check_is_built(const char *file)
{
    char head[4];
    const char *argv[] = {"nm", file, NULL};
    child_result_t result;
    program_head(file, head, sizeof head);
    if (memcmp(head, "\177ELF", 4) != 0)
        return false;
    check_tool(argv, &result);
    bool built = strstr(result.out, "hotlock_sim_program") != NULL;
    child_free(&result);
    return built;
}
