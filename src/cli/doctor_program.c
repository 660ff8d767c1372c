/* SPDX-License-Identifier: MIT */
/*
 * Which locks of a program the preload will replace: reads the program and the libraries it needs.
 *
 * What a file uses shows in its dynamic symbols: an undefined pthread_mutex_lock is one the
 * preload will answer, a defined one is a wrapper of the program's own. Locks that are not
 * pthread's do not show; the families that bring their own are known by what they link or carry.
 */
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "doctor.h"
#include "needs.h"
#include "program.h"

enum { MUTEX, COND, RWLOCK, SPIN, C11, FAMILIES };
static const struct {
    const char *prefix, *word;
} families[FAMILIES] = {
    {"pthread_mutex_", "mutex"}, {"pthread_cond_", "condition"}, {"pthread_rwlock_", "rwlock"},
    {"pthread_spin_", "spin"},   {"mtx_", "C11"},
};

/* What one file says of itself. */
typedef struct {
    bool uses[FAMILIES];
    bool wraps, futexes, opens, go, rust, sanitizer;
} object_t;

/* Libraries that bring locks of their own, by the beginning of their name. */
static const struct {
    const char *name, *means;
} known[] = {
    {"libjemalloc", "allocator: its locks are pthread mutexes, spun on before they are locked"},
    {"libtcmalloc", "allocator with spinlocks of its own, which stay as they are"},
    {"libmimalloc", "allocator without locks on its usual paths"},
    {"libgomp", "OpenMP: its locks and barriers are futexes of its own, which stay as they are"},
    {"libomp", "OpenMP: its locks and barriers are its own, which stay as they are"},
    {"libtbb", "TBB: its spin and queuing mutexes are its own, which stay as they are"},
    {"libabsl_synchronization", "Abseil: absl::Mutex is a lock of its own, which stays as it is"},
    {"libnsync", "nsync: its locks are its own, which stay as they are"},
    {"libjvm", "Java: monitors are the machine's own; its native mutexes are covered"},
    {"libjli", "Java's launcher: monitors are the machine's own; its native mutexes are covered"},
    {"libcoreclr", ".NET: managed locks are the runtime's own; its native mutexes are covered"},
    {"libtsan", "ThreadSanitizer wraps the same functions; run a build without it"},
    {"libasan", "AddressSanitizer must come first in LD_PRELOAD; run a build without it"},
    {"libck", "Concurrency Kit: inlined locks, which stay as they are"},
};

/* Programs that start another one elsewhere, perhaps without this environment. */
static const char *const sandboxes[] = {"snap",   "flatpak", "bwrap", "firejail", "sudo",
                                        "su",     "docker",  "podman", "setpriv", "systemd-run",
                                        "chroot", "unshare", "nsenter", "ssh"};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- reading one file ---- */

static void read_symbol(object_t *o, const char *name, bool defined)
{
    for (int i = 0; i < FAMILIES; i++) {
        if (strncmp(name, families[i].prefix, strlen(families[i].prefix)) != 0)
            continue;
        if (!defined)
            o->uses[i] = true;
        else if (i != C11)
            o->wraps = true;
    }
    o->opens |= !defined && (strcmp(name, "dlopen") == 0 || strcmp(name, "dlmopen") == 0);
    o->futexes |= !defined && strcmp(name, "syscall") == 0;
    o->sanitizer |= strcmp(name, "__tsan_init") == 0 || strcmp(name, "__asan_init") == 0;
}

static void read_section(Elf *elf, Elf_Scn *section, const char *name, object_t *o)
{
    GElf_Shdr header;
    Elf_Data *data;
    o->go |= strcmp(name, ".note.go.buildid") == 0 || strcmp(name, ".go.buildinfo") == 0;
    if (!gelf_getshdr(section, &header) || !(data = elf_getdata(section, NULL)) || !data->d_buf)
        return;
    if (strcmp(name, ".comment") == 0)
        o->rust |= memmem(data->d_buf, data->d_size, "rustc", 5) != NULL;
    if (header.sh_type != SHT_DYNSYM || !header.sh_entsize)
        return;
    for (size_t i = 0; i < header.sh_size / header.sh_entsize; i++) {
        GElf_Sym symbol;
        if (!gelf_getsym(data, (int)i, &symbol))
            break;
        const char *text = elf_strptr(elf, header.sh_link, symbol.st_name);
        if (text)
            read_symbol(o, text, symbol.st_shndx != SHN_UNDEF);
    }
}

/* False: no ELF file. Copies the dynamic linker's path, "" if it names none. */
static bool read_object(const char *file, object_t *o, char *linker, size_t size)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ, NULL);
    size_t names, count;
    bool good = elf && elf_kind(elf) == ELF_K_ELF && elf_getshdrstrndx(elf, &names) == 0;
    memset(o, 0, sizeof *o);
    if (size)
        linker[0] = '\0';
    for (Elf_Scn *s = NULL; good && (s = elf_nextscn(elf, s));) {
        GElf_Shdr header;
        const char *name = gelf_getshdr(s, &header) ? elf_strptr(elf, names, header.sh_name) : NULL;
        if (name)
            read_section(elf, s, name, o);
    }
    for (size_t i = 0; good && size && elf_getphdrnum(elf, &count) == 0 && i < count; i++) {
        GElf_Phdr p;
        if (!gelf_getphdr(elf, (int)i, &p) || p.p_type != PT_INTERP || p.p_filesz >= size)
            continue;
        ssize_t got = pread(fd, linker, p.p_filesz, (off_t)p.p_offset);
        linker[got > 0 ? got : 0] = '\0';
    }
    if (elf)
        elf_end(elf);
    if (fd >= 0)
        close(fd);
    return good;
}

/* ---- findings ---- */

/* Why hotlock run would refuse the program, in its own words; NULL if it would not. Free it. */
static char *refusal(const char *file, const char *preload)
{
    int ends[2];
    char text[4096];
    ssize_t got, length = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        cli_bad("no pipe");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        free(program_find(file, preload));
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + length, sizeof text - 1 - (size_t)length)) > 0)
        length += got;
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    char *message = strstr(text, ": ");
    return length ? cli_printf("%s", message ? message + 2 : text) : NULL;
}

/* A call the preload will answer; something that may load more. */
typedef struct {
    bool any, opens;
} seen_t;

static void look_at_object(doctor_t *d, const char *file, const object_t *o, seen_t *seen)
{
    char list[100] = "";
    for (int i = 0; i < FAMILIES; i++) {
        if (!o->uses[i])
            continue;
        seen->any = true;
        strcat(strcat(list, *list ? ", " : ""), families[i].word);
    }
    seen->opens |= o->opens;
    const char *name = base_name(file);
    if (*list)
        doctor_row(d, DOCTOR_OK, name, "covered", "%s", list);
    if (o->wraps)
        doctor_row(d, DOCTOR_NOTE, name, "own wrappers",
                   "defines pthread lock functions itself: only what it passes on is covered");
    if (o->go)
        doctor_row(d, DOCTOR_NOTE, name, "Go",
                   "the locks of Go's runtime are its own and stay as they are; only C code is "
                   "covered");
    if (o->rust)
        doctor_row(d, DOCTOR_NOTE, name, "Rust",
                   "std::sync's locks are futexes of its own since Rust 1.62 and stay as they are");
    if (o->sanitizer)
        doctor_row(d, DOCTOR_NOTE, name, "sanitizer",
                   "wraps the same functions; run a build without it");
}

static void look_at_library(doctor_t *d, const need_t *n, seen_t *seen)
{
    object_t o;
    if (!n->path) {
        doctor_row(d, DOCTOR_BAD, n->name, "not found", "the program cannot start without it");
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(n->name, known[i].name, strlen(known[i].name)) == 0)
            doctor_row(d, DOCTOR_NOTE, n->name, "own locks", "%s", known[i].means);
    if (read_object(n->path, &o, NULL, 0))
        look_at_object(d, n->path, &o, seen);
}

static void look_at_libraries(doctor_t *d, const char *file, const char *linker, seen_t *seen)
{
    need_t *needs = needs_of(file, linker);
    if (!needs)
        doctor_row(d, DOCTOR_NOTE, "libraries", "not listed", "%s would not say what it loads",
                   linker);
    for (need_t *n = needs; n && n->name; n++)
        look_at_library(d, n, seen);
    needs_free(needs);
}

static void look_at_surroundings(doctor_t *d, const char *file)
{
    char line[4096];
    const char *name = base_name(file);
    if (strncmp(file, "/snap/", 6) == 0)
        name = "snap";
    for (size_t i = 0; i < sizeof sandboxes / sizeof *sandboxes; i++)
        if (strcmp(name, sandboxes[i]) == 0)
            doctor_row(d, DOCTOR_NOTE, name, "starts another",
                       "it starts a program elsewhere or as somebody else, which may not see the "
                       "preload: look at that one");
    FILE *f = fopen("/sys/kernel/security/apparmor/profiles", "re");
    size_t length = strlen(file);
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, file, length) == 0 && line[length] == ' ' && strstr(line, "(enforce)"))
            doctor_row(d, DOCTOR_NOTE, "AppArmor", "enforced",
                       "its profile must allow the preload library to be read and mapped");
    if (f)
        fclose(f);
}

bool doctor_program(doctor_t *d, const char *file, const char *preload)
{
    object_t o;
    char linker[4096];
    seen_t seen = {0};
    elf_version(EV_CURRENT);
    look_at_surroundings(d, file);
    char *why = refusal(file, preload);
    bool is_elf = read_object(file, &o, linker, sizeof linker);
    if (why) {
        doctor_row(d, DOCTOR_BAD, base_name(file), "not covered", "%s", why);
        if (is_elf && o.go)
            look_at_object(d, file, &o, &seen);
        free(why);
        return false;
    }
    if (!is_elf) {
        doctor_row(d, DOCTOR_NOTE, base_name(file), "script",
                   "its interpreter and what that starts are covered: look at the interpreter");
        return true;
    }
    look_at_object(d, file, &o, &seen);
    look_at_libraries(d, file, linker, &seen);
    if (o.opens)
        doctor_row(d, DOCTOR_OK, base_name(file), "loads plug-ins",
                   "covered as well, with RTLD_DEEPBIND too; not in another namespace (dlmopen)");
    if (!seen.any)
        doctor_row(d, seen.opens ? DOCTOR_NOTE : DOCTOR_BAD, base_name(file), "no pthread locks",
                   "neither it nor a library it is linked to calls a pthread lock function%s",
                   o.futexes ? "; it makes system calls itself, perhaps for locks of its own" : "");
    return seen.any || seen.opens;
}
