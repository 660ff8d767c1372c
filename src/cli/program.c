/* SPDX-License-Identifier: MIT */
/* Can a preloaded library act in this program? Reads the ELF header and the program headers. */
#include "program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli.h"

#define SCRIPTS_MOST 5 /* interpreters that are scripts themselves; the kernel's own limit */

/* ---- finding the file ---- */

/* NULL if FILE can be executed, else why not. */
static const char *why_not_executable(const char *file)
{
    struct stat st;
    if (stat(file, &st) != 0)
        return errno == ENOENT ? "there is no such file" : strerror(errno);
    if (S_ISDIR(st.st_mode))
        return "it is a directory";
    if (!S_ISREG(st.st_mode))
        return "it is not a regular file";
    if (faccessat(AT_FDCWD, file, X_OK, AT_EACCESS) != 0)
        return "it is not executable; chmod +x makes it so";
    return NULL;
}

/* Like execvp(3): the first executable of that name in PATH; NULL and the last one that is not. */
static char *search_path(const char *name, char **unusable)
{
    const char *path = getenv("PATH");
    struct stat st;
    for (const char *at = path ? path : "/bin:/usr/bin";; at++) {
        size_t length = strcspn(at, ":");
        char *file = cli_printf("%.*s%s%s", (int)length, at, length ? "/" : "", name);
        if (!why_not_executable(file))
            return file;
        if (!*unusable && stat(file, &st) == 0 && S_ISREG(st.st_mode))
            *unusable = file;
        else
            free(file);
        at += length;
        if (!*at)
            return NULL;
    }
}

static char *locate(const char *command)
{
    char *unusable = NULL;
    if (strchr(command, '/'))
        unusable = cli_printf("%s", command);
    char *file = unusable || !*command ? unusable : search_path(command, &unusable);
    if (!file && !unusable)
        cli_bad("cannot run '%s': program not found in PATH; give its path", command);
    const char *why = why_not_executable(file ? file : unusable);
    if (why)
        cli_bad("cannot run '%s': %s", file ? file : unusable, why);
    if (file != unusable)
        free(unusable);
    return file;
}

/* ---- looking into it ---- */

static int open_or_bad(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        cli_bad("cannot look into '%s' before running it: %s", file, strerror(errno));
    return fd;
}

void program_head(const char *file, void *head, size_t size)
{
    int fd = open_or_bad(file);
    memset(head, 0, size);
    if (pread(fd, head, size, 0) < 0)
        cli_bad("cannot look into '%s' before running it: %s", file, strerror(errno));
    close(fd);
}

static bool is_elf(const ElfW(Ehdr) *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0;
}

/* Word size, byte order and machine; at the same place in headers of both word sizes. */
static bool same_machine(const ElfW(Ehdr) *a, const ElfW(Ehdr) *b)
{
    return a->e_ident[EI_CLASS] == b->e_ident[EI_CLASS] &&
           a->e_ident[EI_DATA] == b->e_ident[EI_DATA] && a->e_machine == b->e_machine;
}

static const char *machine_name(const ElfW(Ehdr) *header)
{
    static const struct {
        int machine;
        const char *name;
    } names[] = {
        {EM_X86_64, "x86-64"}, {EM_386, "i386"},       {EM_AARCH64, "aarch64"}, {EM_ARM, "arm"},
        {EM_RISCV, "riscv"},   {EM_PPC64, "powerpc64"}, {EM_S390, "s390"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].machine == header->e_machine)
            return names[i].name;
    return "another machine";
}

static int word_bits(const ElfW(Ehdr) *header)
{
    return header->e_ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
}

/* Copies the path of the dynamic linker; false if the program names none. */
static bool dynamic_linker(const char *file, const ElfW(Ehdr) *header, char *linker, size_t size)
{
    int fd = open_or_bad(file);
    bool found = false;
    for (unsigned i = 0; i < header->e_phnum && !found; i++) {
        ElfW(Phdr) p;
        off_t at = (off_t)(header->e_phoff + (size_t)i * header->e_phentsize);
        if (pread(fd, &p, sizeof p, at) != sizeof p)
            break;
        if (p.p_type != PT_INTERP || p.p_filesz == 0 || p.p_filesz >= size)
            continue;
        ssize_t got = pread(fd, linker, p.p_filesz, (off_t)p.p_offset);
        linker[got > 0 ? got : 0] = '\0';
        found = got > 0;
    }
    close(fd);
    return found;
}

static void check_privileges(const char *file)
{
    struct stat st;
    if (stat(file, &st) != 0)
        cli_bad("cannot run '%s': %s", file, strerror(errno));
    if (st.st_mode & (S_ISUID | S_ISGID))
        cli_bad("cannot run '%s' under a lock: it is %s, and such programs ignore preloaded "
                "libraries; run a copy without that bit", file,
                st.st_mode & S_ISUID ? "set-user-ID" : "set-group-ID");
    if (getxattr(file, "security.capability", NULL, 0) > 0)
        cli_bad("cannot run '%s' under a lock: it has file capabilities, and such programs ignore "
                "preloaded libraries; run a copy without them", file);
}

static void check_elf(const char *file, const ElfW(Ehdr) *header, const char *preload)
{
    char linker[PATH_MAX];
    ElfW(Ehdr) ours;
    program_head(preload, &ours, sizeof ours);
    if (!same_machine(header, &ours))
        cli_bad("cannot run '%s' under a lock: it is a %d-bit %s program and the preload is %d-bit "
                "%s; build hotlock for that machine", file, word_bits(header), machine_name(header),
                word_bits(&ours), machine_name(&ours));
    if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
        cli_bad("cannot run '%s': it is an ELF file but no program; link it first", file);
    if (!dynamic_linker(file, header, linker, sizeof linker))
        cli_bad("cannot run '%s' under a lock: it is statically linked, so nothing can be "
                "preloaded; link it dynamically", file);
    if (strstr(linker, "ld-musl"))
        cli_bad("cannot run '%s' under a lock: it is linked with musl and the preload needs glibc; "
                "link it with glibc", file);
    if (access(linker, F_OK) != 0)
        cli_bad("cannot run '%s': its dynamic linker '%s' is not there; install it", file, linker);
    check_privileges(file);
}

bool program_linker(const char *file, char *linker, size_t size)
{
    ElfW(Ehdr) header;
    program_head(file, &header, sizeof header);
    return is_elf(&header) && dynamic_linker(file, &header, linker, size);
}

/* ---- scripts ---- */

/* Splits "#! /usr/bin/env python3" in place; *argument is "" if there is none. */
static char *split_shebang(char *line, char **argument)
{
    line[strcspn(line, "\n")] = '\0';
    char *interpreter = line + 2 + strspn(line + 2, " \t");
    *argument = interpreter + strcspn(interpreter, " \t");
    if (**argument)
        *(*argument)++ = '\0';
    *argument += strspn(*argument, " \t");
    return interpreter;
}

/* The program env(1) will run for "NAME" or "-S NAME ARG..."; NULL: cannot tell. */
static char *env_target(const char *interpreter, char *argument)
{
    const char *base = strrchr(interpreter, '/');
    if (strcmp(base ? base + 1 : interpreter, "env") != 0)
        return NULL;
    if (strncmp(argument, "-S", 2) == 0)
        argument += 2 + strspn(argument + 2, " \t");
    argument[strcspn(argument, " \t")] = '\0';
    return *argument && *argument != '-' && !strchr(argument, '=') ? argument : NULL;
}

static void check_file(const char *file, const char *preload, int depth)
{
    union {
        ElfW(Ehdr) header;
        char text[256];
    } head;
    char *argument, *target;
    program_head(file, &head, sizeof head);
    if (is_elf(&head.header)) {
        if (preload)
            check_elf(file, &head.header, preload);
        return;
    }
    head.text[sizeof head.text - 1] = '\0';
    if (strncmp(head.text, "#!", 2) != 0)
        cli_bad("cannot run '%s': it is neither an ELF program nor a script that begins with '#!'",
                file);
    char *interpreter = split_shebang(head.text, &argument);
    const char *why = why_not_executable(interpreter);
    if (why)
        cli_bad("cannot run '%s': its interpreter '%s' cannot be executed: %s", file, interpreter,
                why);
    if (depth == SCRIPTS_MOST)
        cli_bad("cannot run '%s': too many scripts that are each other's interpreter", file);
    check_file(interpreter, preload, depth + 1);
    if ((target = env_target(interpreter, argument))) {
        char *found = locate(target);
        check_file(found, preload, depth + 1);
        free(found);
    }
}

char *program_find(const char *command, const char *preload)
{
    char *file = locate(command);
    check_file(file, preload, 0);
    return file;
}
