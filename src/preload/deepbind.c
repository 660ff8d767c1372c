// SPDX-License-Identifier: MIT
// deepbind.c - dlopen(): leads libraries that were loaded with RTLD_DEEPBIND back to the preload.
//
// Such a library finds libc's pthread functions before ours. Its mutexes are then libc's, which is
// fine until it locks one that the rest of the program shares: libc and we would both think it
// ours. So after such a load, every relocated word in the program that holds the address of one of
// those functions is pointed at our function of that name. The library is bound at once, not
// lazily, so that the words are there to be found; all its other names stay as it asked.
//
// dlopen() looks at its return address to know who calls (search path, namespace). A call that
// needs nothing from us is therefore a jump, and the caller's address stays where it was.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload.h"
#include "select.h"

#if defined(__x86_64__)
#define IS_ADDRESS(type) \
    ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_ADDRESS(type) \
    ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#elif defined(__riscv)
#define IS_ADDRESS(type) ((type) == R_RISCV_JUMP_SLOT || (type) == R_RISCV_64)
#else
#define IS_ADDRESS(type) 0
#endif

typedef struct {
    void *theirs[HLP_NAMES];
    const void *libc, *self;
} search_t;

// ------------------------------------------------------------------------- one object
typedef struct {
    const struct dl_phdr_info *object;
    uintptr_t locked_begin, locked_end;  // read-only since it was relocated
} object_t;

static void point(const object_t *o, void **slot, void *to) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot;
    bool locked = at >= o->locked_begin && at < o->locked_end;
    void *begin = (void *)(at & ~(page - 1));
    if (locked && mprotect(begin, page, PROT_READ | PROT_WRITE) != 0) return;
    __atomic_store_n(slot, to, __ATOMIC_RELAXED);
    if (locked) mprotect(begin, page, PROT_READ);
}

// `table` is an address, or an offset where the loader leaves the dynamic section as it is.
static void repoint(const object_t *o, const search_t *s, uintptr_t table, size_t bytes) {
    uintptr_t base = o->object->dlpi_addr;
    const ElfW(Rela) *r = (const ElfW(Rela) *)(table < base ? base + table : table);
    for (size_t n = bytes / sizeof *r; n; n--, r++) {
        if (!IS_ADDRESS(ELF64_R_TYPE(r->r_info))) continue;
        void **slot = (void **)(base + r->r_offset);
        void *is = __atomic_load_n(slot, __ATOMIC_RELAXED);
        for (size_t i = 0; i < HLP_NAMES; i++)
            if (is && is == s->theirs[i]) point(o, slot, hlp_names[i].ours);
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg) {
    const search_t *s = arg;
    object_t o = {info, 0, 0};
    const ElfW(Dyn) *d = NULL;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_DYNAMIC) d = (const ElfW(Dyn) *)begin;
        if (p->p_type != PT_GNU_RELRO) continue;
        o.locked_begin = begin;
        o.locked_end = begin + p->p_memsz;
    }
    Dl_info where;
    if (!d || !dladdr((const void *)d, &where)) return 0;
    if (where.dli_fbase == s->libc || where.dli_fbase == s->self) return 0;
    uintptr_t rela = 0, plt = 0;
    size_t rela_bytes = 0, plt_bytes = 0;
    for (; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_RELA) rela = d->d_un.d_ptr;
        if (d->d_tag == DT_RELASZ) rela_bytes = d->d_un.d_val;
        if (d->d_tag == DT_JMPREL) plt = d->d_un.d_ptr;
        if (d->d_tag == DT_PLTRELSZ) plt_bytes = d->d_un.d_val;
    }
    if (rela) repoint(&o, s, rela, rela_bytes);
    if (plt) repoint(&o, s, plt, plt_bytes);
    return 0;
}

// ------------------------------------------------------------------------- all of them
static const void *base_of(const void *address) {
    Dl_info info;
    return address && dladdr(address, &info) ? info.dli_fbase : NULL;
}

static void find_theirs(search_t *s, const char *file) {  // the second: before glibc 2.34
    void *handle = hlp_libc()->dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) return;
    for (size_t i = 0; i < HLP_NAMES; i++)
        if (!s->theirs[i]) s->theirs[i] = dlsym(handle, hlp_names[i].name);
    dlclose(handle);
}

static void lead_back(void) {
    search_t s = {.self = base_of(&hlp_ops)};
    find_theirs(&s, "libc.so.6");
    if (!s.theirs[hlp_index_pthread_mutex_trylock]) find_theirs(&s, "libpthread.so.0");
    s.libc = base_of(s.theirs[hlp_index_pthread_mutex_trylock]);
    dl_iterate_phdr(visit, &s);
    dlerror();  // whatever was not found is nothing to the caller
}

__attribute__((noinline)) static void *open_and_lead_back(const char *file, int mode) {
    void *handle = hlp_libc()->dlopen(file, (mode & ~RTLD_LAZY) | RTLD_NOW);
    if (handle) lead_back();
    return handle;
}

__attribute__((noinline)) static void *open_and_find_sites(const char *file, int mode) {
    void *handle = hlp_libc()->dlopen(file, mode);
    if (handle) hlp_sites_find();
    return handle;
}

// GCC makes the last call a jump when it optimises, as this library always does, and no local has
// its address taken; Clang can be told.
#if defined(__has_attribute)
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail))
#endif
#endif
#ifndef JUMP
#define JUMP
#endif

HLP_EXPORT void *dlopen(const char *file, int mode) {
    hlp_choose();
    if (file && (mode & RTLD_DEEPBIND) && !hlp_libc_locks) {
        void *handle = open_and_lead_back(file, mode);
        if (handle) return handle;
    }
    // A path needs no caller to be found.
    if (file && hlp_selecting && strchr(file, '/') && hlp_sites_wait_for_a_file())
        return open_and_find_sites(file, mode);
    JUMP return hlp_libc()->dlopen(file, mode);
}
