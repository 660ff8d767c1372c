// SPDX-License-Identifier: MIT
// symbols.c - names for code: modules from the kept maps, functions, lines, inlined calls.
#include "symbols.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cli/cli.h"

#define INLINE_MOST 16

// ------------------------------------------------------------------------- maps
bool symbols_read_maps(profile_t *p, pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, f) > 0) {
        uint64_t start, end, offset;
        char flags[5];
        int name = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, flags,
                   &offset, &name) < 4 || !name)
            continue;
        profile_map(p, pid, start, end, offset, flags[2] == 'x', line + name);
    }
    free(line);
    fclose(f);
    return true;
}

// ------------------------------------------------------------------------- modules
// The file behind a map; -1 if it cannot be read. A process may see another root than we do, and
// a file that was replaced since it was started is still reachable through its map.
static int open_mapped(const profile_map_t *m)
{
    char path[4200];
    if (m->pid >= PROFILE_EXEC) // a program the process executed before: only its name is left
        return open(m->path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)m->pid, m->start,
             m->end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        snprintf(path, sizeof path, "/proc/%d/root%s", (int)m->pid, m->path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return fd >= 0 ? fd : open(m->path, O_RDONLY | O_CLOEXEC);
}

// What was added to the file's addresses to get the process's, from the segment this map shows.
static bool load_bias(int fd, const profile_map_t *m, uint64_t *bias)
{
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    size_t count = 0;
    bool found = false;
    if (elf && elf_kind(elf) == ELF_K_ELF && elf_getphdrnum(elf, &count) == 0) {
        for (size_t i = 0; i < count && !found; i++) {
            GElf_Phdr h;
            if (!gelf_getphdr(elf, (int)i, &h) || h.p_type != PT_LOAD ||
                (h.p_offset & ~(uint64_t)0xfff) != m->offset)
                continue;
            *bias = m->start - (h.p_vaddr & ~(uint64_t)0xfff);
            found = true;
        }
    }
    elf_end(elf);
    return found;
}

Dwfl *symbols_dwfl(const profile_t *p, pid_t pid, const char *directory)
{
    static char *debug_path;
    static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .debuginfo_path = &debug_path,
    };
    elf_version(EV_CURRENT);
    if (directory) {
        free(debug_path);
        debug_path = cli_printf("%s:.debug:/usr/lib/debug", directory);
    }
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (!dwfl)
        return NULL;
    size_t modules = 0;
    const char *last = "";
    dwfl_report_begin(dwfl);
    for (size_t i = 0; i < p->map_count; i++) {
        const profile_map_t *m = &p->maps[i];
        if (m->pid != pid || m->path[0] != '/' || strcmp(m->path, last) == 0)
            continue;
        last = m->path;
        uint64_t bias;
        int fd = open_mapped(m);
        if (fd < 0)
            continue;
        if (!load_bias(fd, m, &bias) ||
            !dwfl_report_elf(dwfl, m->path, m->path, fd, bias, true))
            close(fd);
        else
            modules++;
    }
    dwfl_report_end(dwfl, NULL, NULL);
    if (modules)
        return dwfl;
    dwfl_end(dwfl);
    return NULL;
}

// ------------------------------------------------------------------------- functions
const char *symbols_function(Dwfl *dwfl, uint64_t pc)
{
    GElf_Off offset;
    GElf_Sym sym;
    Dwfl_Module *m = dwfl_addrmodule(dwfl, pc);
    if (!m)
        return NULL;
    const char *name = dwfl_module_addrinfo(m, pc, &offset, &sym, NULL, NULL, NULL);
    // Behind the end of a function is another, whose name was stripped. Size 0: hand-written.
    return name && (sym.st_size == 0 ? offset < 256 : offset < sym.st_size) ? name : NULL;
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = with ? cli_printf("%s", with) : NULL;
}

// C++ names as people write them, if the C++ run-time library is there to ask.
char *symbols_readable(const char *name)
{
    static char *(*demangle)(const char *, char *, size_t *, int *);
    static bool asked;
    if (!asked) {
        asked = true;
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        void *function = library ? dlsym(library, "__cxa_demangle") : NULL;
        memcpy(&demangle, &function, sizeof demangle);
    }
    int status = -1;
    char *text = demangle && strncmp(name, "_Z", 2) == 0 ? demangle(name, NULL, NULL, &status)
                                                         : NULL;
    return text ? text : cli_printf("%.*s", (int)strcspn(name, "@"), name); // no version
}

static const char *file_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path;
}

static const char *die_name(Dwarf_Die *die)
{
    Dwarf_Attribute a;
    Dwarf_Die origin;
    const char *name = dwarf_diename(die);
    if (!name && dwarf_attr_integrate(die, DW_AT_name, &a))
        name = dwarf_formstring(&a);
    if (!name && dwarf_attr_integrate(die, DW_AT_abstract_origin, &a) &&
        dwarf_formref_die(&a, &origin))
        name = dwarf_diename(&origin);
    return name;
}

// The calls inlined at this address, innermost first, as frames of their own. FRAME becomes the
// innermost; the indices of the outer ones go to OUTER. Returns how many those are.
static uint32_t name_inlined(profile_t *p, uint32_t frame, Dwarf_Die *scopes, int count,
                             Dwarf_Die *cu, uint32_t outer[INLINE_MOST])
{
    Dwarf_Files *files = NULL;
    uint32_t n = 0, inner = frame;
    dwarf_getsrcfiles(cu, &files, NULL);
    for (int i = 0; i < count; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
            continue;
        if (tag == DW_TAG_inlined_subroutine) {
            replace(&p->frames[inner].function, die_name(&scopes[i]));
            Dwarf_Attribute a;
            Dwarf_Word line = 0, file = 0;
            if (n == INLINE_MOST)
                break;
            if (dwarf_attr(&scopes[i], DW_AT_call_line, &a))
                dwarf_formudata(&a, &line);
            if (dwarf_attr(&scopes[i], DW_AT_call_file, &a))
                dwarf_formudata(&a, &file);
            p->frames[inner].inlined = true;
            uint32_t next = profile_frame(p, p->frames[frame].pid, 0);
            outer[n++] = next;
            profile_frame_t *f = &p->frames[next];
            f->line = (int)line;
            replace(&f->file, files ? file_name(dwarf_filesrc(files, file, NULL, NULL)) : NULL);
            replace(&f->module, p->frames[frame].module);
            inner = next;
        } else {
            // Names in the symbol table keep C++'s, and are what other tools print.
            if (!p->frames[inner].function || inner != frame)
                replace(&p->frames[inner].function, die_name(&scopes[i]));
            break;
        }
    }
    return n;
}

// Names one frame; returns the number of frames inlined above it.
static uint32_t name_frame(profile_t *p, uint32_t frame, Dwfl *dwfl, uint32_t outer[INLINE_MOST])
{
    uint64_t pc = p->frames[frame].pc;
    const profile_map_t *map = profile_map_at(p, p->frames[frame].pid, pc);
    if (map && !p->frames[frame].module)
        replace(&p->frames[frame].module, map->path);
    Dwfl_Module *m = dwfl ? dwfl_addrmodule(dwfl, pc) : NULL;
    if (!m)
        return 0;
    const char *name = symbols_function(dwfl, pc);
    if (name) {
        free(p->frames[frame].function);
        p->frames[frame].function = symbols_readable(name);
    }
    Dwfl_Line *line = dwfl_module_getsrc(m, pc);
    int number = 0;
    const char *file = line ? dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL) : NULL;
    if (file) {
        replace(&p->frames[frame].file, file_name(file));
        p->frames[frame].line = number;
    }
    Dwarf_Addr bias;
    Dwarf_Die *cu = dwfl_module_addrdie(m, pc, &bias), *scopes = NULL;
    if (!cu)
        return 0;
    // The scopes of an inlined body are its own declaration's beyond the innermost, so walk the
    // tree that contains the code instead.
    int count = dwarf_getscopes(cu, pc - bias, &scopes);
    if (count <= 0)
        return 0;
    Dwarf_Die innermost = scopes[0];
    free(scopes);
    count = dwarf_getscopes_die(&innermost, &scopes);
    uint32_t n = count > 0 ? name_inlined(p, frame, scopes, count, cu, outer) : 0;
    if (count > 0)
        free(scopes);
    return n;
}

// ------------------------------------------------------------------------- whole profiles
typedef struct {
    uint32_t count;
    uint32_t outer[INLINE_MOST];
} inlined_t;

static void insert_inlined(profile_stack_t *s, const inlined_t *inlined, size_t frames)
{
    uint32_t deep[PROFILE_DEPTH], n = 0;
    for (uint32_t i = 0; i < s->depth && n < PROFILE_DEPTH; i++) {
        deep[n++] = s->frame[i];
        if (s->frame[i] >= frames) // made here, for one that jumped
            continue;
        const inlined_t *in = &inlined[s->frame[i]];
        for (uint32_t k = 0; k < in->count && n < PROFILE_DEPTH; k++)
            deep[n++] = in->outer[k];
    }
    if (n == s->depth)
        return;
    s->frame = cli_grow(s->frame, n, sizeof *s->frame);
    memcpy(s->frame, deep, n * sizeof *deep);
    s->depth = n;
}

// A frame for a function that jumped instead of calling; index + 1, 0: there was none such.
static uint32_t jumped_from(profile_t *p, Dwfl *dwfl, uint32_t outer, uint64_t inner_pc)
{
    symbols_callee_t callee;
    pid_t pid = p->frames[outer].pid;
    if (!symbols_callee(dwfl, p->frames[outer].pc, &callee) ||
        (inner_pc && symbols_callee_has(&callee, inner_pc)))
        return 0;
    int line = 0;
    uint32_t frame = profile_frame(p, pid, 0);
    profile_frame_t *f = &p->frames[frame];
    f->function = symbols_readable(dwarf_diename(&callee.die));
    replace(&f->file, file_name(dwarf_decl_file(&callee.die)));
    if (dwarf_decl_line(&callee.die, &line) == 0)
        f->line = line;
    replace(&f->module, p->frames[outer].module);
    return frame + 1;
}

// Stacks of locks begin with the caller of a lock function, so one that jumped there is in front.
static void insert_jumped(profile_t *p, Dwfl *dwfl, profile_stack_t *s, uint32_t *front)
{
    if (s->depth == 0 || s->depth >= PROFILE_DEPTH || !p->frames[s->frame[0]].pc)
        return;
    uint32_t *known = &front[s->frame[0]];
    if (*known == UINT32_MAX)
        *known = jumped_from(p, dwfl, s->frame[0], 0);
    if (!*known)
        return;
    s->frame = cli_grow(s->frame, s->depth + 1, sizeof *s->frame);
    memmove(s->frame + 1, s->frame, s->depth * sizeof *s->frame);
    s->frame[0] = *known - 1;
    s->depth++;
}

static void insert_all_jumped(profile_t *p, pid_t pid, Dwfl *dwfl, size_t frames)
{
    uint32_t *front = cli_alloc((frames + 1) * sizeof *front);
    memset(front, 0xff, (frames + 1) * sizeof *front);
    for (size_t i = 0; i < p->lock_count; i++) {
        profile_lock_t *l = &p->locks[i];
        for (size_t k = 0; l->pid == pid && k < l->stack_count; k++)
            if (l->stacks[k].depth && l->stacks[k].frame[0] < frames)
                insert_jumped(p, dwfl, &l->stacks[k], front);
    }
    free(front);
}

static void name_kernel_frame(profile_frame_t *f)
{
    if (f->function)
        return;
    replace(&f->function, symbols_kernel(f->pc, NULL));
    replace(&f->module, "[kernel]");
}

static void name_locks(profile_t *p, pid_t pid, Dwfl *dwfl)
{
    for (size_t i = 0; i < p->lock_count; i++) {
        profile_lock_t *l = &p->locks[i];
        if (l->pid == pid && !l->name && l->address)
            l->name = symbols_variable(dwfl, l->address);
        if (l->pid == pid && l->beside.samples && !l->beside.name)
            l->beside.name = symbols_variable(dwfl, l->beside.address);
    }
}

// Kernel locks that are a program's lock seen from below are named after it.
static void name_joined(profile_t *p)
{
    for (size_t i = 0; i < p->lock_count; i++) {
        profile_lock_t *l = &p->locks[i];
        for (size_t k = 0; l->joined && k < p->lock_count; k++) {
            const profile_lock_t *user = &p->locks[k];
            if (user->pid % PROFILE_EXEC != l->joined_pid || user->address != l->joined)
                continue;
            free(l->name);
            l->name = user->name ? cli_printf("futex bucket of %s", user->name)
                                 : cli_printf("futex bucket of %#" PRIx64, user->address);
            break;
        }
    }
}

// One process: every frame and lock of PID.
static void resolve_process(profile_t *p, pid_t pid, const char *directory, inlined_t *inlined,
                            size_t frames)
{
    Dwfl *dwfl = symbols_dwfl(p, pid, directory);
    size_t unnamed = 0, named = 0;
    for (uint32_t i = 0; i < frames; i++) {
        if (p->frames[i].pid != pid || !p->frames[i].pc || p->frames[i].function)
            continue;
        inlined[i].count = name_frame(p, i, dwfl, inlined[i].outer);
        *(p->frames[i].function ? &named : &unnamed) += 1;
    }
    if (!dwfl) {
        profile_note(p, "no file of process %d could be read: its addresses have no names",
                     (int)pid);
        return;
    }
    if (unnamed > named) {
        p->stripped = true;
        profile_note(p, "most code of process %d has no symbols: it was stripped; install its "
                     "debug symbols, or give their directory with --symbols", (int)pid);
    }
    insert_all_jumped(p, pid, dwfl, frames);
    name_locks(p, pid, dwfl);
    symbols_end(dwfl);
}

void symbols_resolve(profile_t *p, const char *directory)
{
    size_t frames = p->frame_count;
    inlined_t *inlined = cli_alloc((frames + 1) * sizeof *inlined);
    pid_t done = 0;
    for (uint32_t i = 0; i < frames; i++)
        if (p->frames[i].pid == 0 && p->frames[i].pc)
            name_kernel_frame(&p->frames[i]);
    for (size_t i = 0; i < p->map_count; i++) {
        bool seen = p->maps[i].pid == done;
        for (size_t k = 0; k < i && !seen; k++)
            seen = p->maps[k].pid == p->maps[i].pid;
        if (seen)
            continue;
        done = p->maps[i].pid;
        resolve_process(p, done, directory, inlined, frames);
    }
    name_joined(p);
    for (size_t i = 0; i < p->lock_count; i++)
        for (size_t k = 0; k < p->locks[i].stack_count; k++)
            insert_inlined(&p->locks[i].stacks[k], inlined, frames);
    free(inlined);
}
