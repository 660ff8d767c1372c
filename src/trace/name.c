// SPDX-License-Identifier: MIT
// name.c - what to call a lock that is no variable.
#include "name.h"

#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"

static unsigned long long end_of(uint64_t address) { return address & 0xfffff; }

// ------------------------------------------------------------------------- where it was made
// A function that only makes locks says nothing about this one; its caller does.
static bool makes_any_lock(const char *function) {
    static const char *const words[] = {"mutex", "lock", "init", "mtx"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(function, words[i])) return true;
    return false;
}

// "CacheDB" of "ns::CacheDB::CacheDB(int)", "Log::open" of "ns::Log::open() const".
static char *short_name(const char *function) {
    char *name = cli_printf("%.*s", (int)strcspn(function, "(<"), function), *last = NULL;
    char *at = name, *before = name;
    for (char *c; (c = strstr(at, "::")); at = c + 2) {
        if (last) before = last + 2;
        last = c;
    }
    size_t first = last ? (size_t)(last - before) : 0;
    bool maker = last && strlen(last + 2) == first && strncmp(before, last + 2, first) == 0;
    char *result = cli_printf("%s", maker ? last + 2 : before);
    free(name);
    return result;
}

// Where threads begin: in a program without symbols, all that is left of a stack.
static bool begins_thread(const char *function) {
    static const char *const all[] = {"start_thread", "clone", "__clone", "clone3", "__clone3",
                                      "_start", "__libc_start_call_main", "__libc_start_main",
                                      "__libc_start_main_impl"};
    size_t length = strcspn(function, "@."); // a version, or what a compiler adds
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strlen(all[i]) == length && memcmp(function, all[i], length) == 0) return true;
    return false;
}

// A lock that is no variable is known by where it was made: "made in open_db @78780".
static void name_by_origin(const profile_t *p, profile_lock_t *l) {
    const profile_stack_t *s = NULL;
    const profile_frame_t *by = NULL;
    for (size_t i = 0; i < l->stack_count && !s; i++)
        if (l->stacks[i].role == STACK_INIT) s = &l->stacks[i];
    for (uint32_t i = 0; s && i < s->depth && i < 4; i++) {
        const profile_frame_t *f = &p->frames[s->frame[i]];
        if (!f->function || begins_thread(f->function)) continue;
        if (!by) by = f;
        if (makes_any_lock(f->function)) continue;
        by = f;
        break;
    }
    if (!by) return;
    const char *file = by->file ? strrchr(by->file, '/') : NULL;
    file = file ? file + 1 : by->file;
    l->where = file ? cli_printf("made in %s (%s:%d)", by->function, file, by->line)
                    : cli_printf("made in %s", by->function);
    char *name = short_name(by->function);
    if (!l->name)
        l->name = cli_printf("made in %s @%05llx", name, end_of(l->address));
    free(name);
}

// ------------------------------------------------------------------------- where it lies, who takes it
// Data of a file that was stripped: "libsqlite3.so.0+0x15aac8", the same in every run.
static char *name_by_file(const profile_t *p, const profile_lock_t *l) {
    const profile_map_t *m = profile_map_at(p, l->pid, l->address);
    if (!m || m->path[0] != '/') return NULL;
    uint64_t start = m->start;
    for (size_t i = 0; i < p->map_count; i++)
        if (p->maps[i].pid == l->pid && p->maps[i].start < start &&
            strcmp(p->maps[i].path, m->path) == 0)
            start = p->maps[i].start;
    return cli_printf("%s+%#llx", strrchr(m->path, '/') + 1,
                      (unsigned long long)(l->address - start));
}

// The costliest stack whose functions are known, waiters' first: "taken in leveldb_get @c1298".
static char *name_by_taker(const profile_t *p, const profile_lock_t *l) {
    for (size_t i = 0; i < l->stack_count; i++) {
        const profile_stack_t *s = &l->stacks[i];
        for (uint32_t k = 0; k < s->depth && s->role != STACK_INIT; k++) {
            const char *function = p->frames[s->frame[k]].function;
            if (!function || strncmp(function, "std::", 5) == 0 || begins_thread(function))
                continue;
            char *name = short_name(function);
            char *text = cli_printf("taken in %s @%05llx", name, end_of(l->address));
            free(name);
            return text;
        }
    }
    return NULL;
}

static char *name_beside(const profile_lock_t *l) {
    bool behind = l->beside.address > l->address;
    uint64_t far = behind ? l->beside.address - l->address : l->address - l->beside.address;
    return cli_printf("the word %llu bytes %s it", (unsigned long long)far,
                      behind ? "behind" : "before");
}

void name_lock(const profile_t *p, profile_lock_t *l) {
    if (l->beside.samples && !l->beside.name) l->beside.name = name_beside(l);
    if (!l->where) name_by_origin(p, l);
    bool nameless = !l->name, process = l->pid && l->address;
    char *place = nameless && process ? name_by_file(p, l) : NULL;
    if (nameless) l->name = place;
    if (!l->name && process) l->name = name_by_taker(p, l);
    l->told_by_place = place || (!l->name && l->address);
    if (!l->name && l->address) l->name = cli_printf("%#llx", (unsigned long long)l->address);
    if (!l->name) l->name = cli_printf("%s", l->where ? l->where : l->kind);
}
