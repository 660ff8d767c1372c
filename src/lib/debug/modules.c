// SPDX-License-Identifier: MIT
// modules.c - what is loaded: names of code addresses, and the thread-locals of each module.
//
// Names come from the file's own symbol table, which unlike dladdr() knows static functions and
// thread-locals. The list of modules is read before main() and again when an address is in none:
// reading it takes the loader's lock, which must not happen for each section.
//
// Thread-locals are compared for the modules that the program started with: their blocks lie at the
// same distance from every thread's pthread_self(). Not compared: libc's own (errno is a rule of
// its own), this library's, and a sanitizer's.
#include "debug.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hotlock/tas.h>

typedef struct {
    char path[256];
    uintptr_t bias, low, high;
    size_t tls_bytes;
    ptrdiff_t tls_at;    // from pthread_self()
    size_t tls_copied;   // where in a copy
    bool tls_compared;
} module_t;

static module_t modules[DBG_MODULES];
static HL_ATOMIC(uint32_t) module_count;
static hl_tas_t reading;  // the list
static size_t tls_total;

static struct { HL_ATOMIC(uint32_t) used; unsigned char bytes[DBG_TLS_BYTES]; } copies[DBG_COPIES];

// ------------------------------------------------------------------------- the list
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool known(uintptr_t bias, const char *path) {
    for (uint32_t i = 0; i < hl_load(&module_count); i++)
        if (modules[i].bias == bias && !strcmp(modules[i].path, path)) return true;
    return false;
}

static bool holds(const module_t *m, const void *variable) {
    uintptr_t block = (uintptr_t)pthread_self() + (uintptr_t)m->tls_at;
    return (uintptr_t)variable - block < m->tls_bytes;
}

static void plan_tls(module_t *m, const struct dl_phdr_info *info) {
    const char *name = base_name(m->path);
    bool ours = holds(m, &errno) || holds(m, &dbg_thread) || !strncmp(name, "libtsan", 7) ||
                !strncmp(name, "libasan", 7) || !strncmp(name, "libubsan", 8);
    if (!info->dlpi_tls_data || ours) return;
    if (tls_total + m->tls_bytes > DBG_TLS_BYTES) {
        dbg_dropped("bytes of thread-locals", (unsigned)m->tls_bytes);
        return;
    }
    m->tls_copied = tls_total;
    m->tls_compared = true;
    tls_total += m->tls_bytes;
}

static int add(struct dl_phdr_info *info, size_t size, void *first) {
    (void)size;
    uint32_t n = hl_load(&module_count);
    const char *path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    if (known(info->dlpi_addr, path)) return 0;
    if (n == DBG_MODULES) {
        dbg_dropped("loaded modules", 1);
        return 1;
    }
    module_t *m = &modules[n];
    snprintf(m->path, sizeof m->path, "%s", path);
    m->bias = info->dlpi_addr;
    m->low = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        if (h->p_type == PT_TLS) m->tls_bytes = h->p_memsz;
        if (h->p_type != PT_LOAD) continue;
        if (at < m->low) m->low = at;
        if (at + h->p_memsz > m->high) m->high = at + h->p_memsz;
    }
    m->tls_at = (char *)info->dlpi_tls_data - (char *)pthread_self();
    if (first && m->tls_bytes) plan_tls(m, info);
    hl_store_rel(&module_count, n + 1);  // pairs with the acquire in module_of()
    return 0;
}

static void read_modules(bool first) {
    bool was = dbg_thread.waiting;
    dbg_thread.waiting = true;  // the lock's nap is not the section's
    hl_tas_lock(&reading);
    dl_iterate_phdr(add, first ? modules : NULL);
    hl_tas_unlock(&reading);
    dbg_thread.waiting = was;
}

void dbg_modules_start(void) { read_modules(true); }

static const module_t *module_of(uintptr_t at) {
    for (int tries = 0; tries < 2; tries++) {
        for (uint32_t i = 0; i < hl_load_acq(&module_count); i++)
            if (at >= modules[i].low && at < modules[i].high) return &modules[i];
        if (!tries) read_modules(false);
    }
    return NULL;
}

static const char *module_name(const module_t *m, char out[DBG_NAME]) {
    ssize_t n = -1;
    if (!strcmp(m->path, "/proc/self/exe")) n = readlink(m->path, out, DBG_NAME - 1);
    if (n < 0) n = snprintf(out, DBG_NAME, "%.*s", DBG_NAME - 1, m->path);
    out[n] = '\0';
    return base_name(out);
}

// ------------------------------------------------------------------------- symbols
typedef struct {
    char name[DBG_NAME];
    uintptr_t start;
    size_t bytes;
} symbol_t;

// The smallest symbol of that type (STT_FUNC, STT_TLS) that covers `value`, from one table.
static void search(const char *file, const ElfW(Shdr) *table, const ElfW(Shdr) *names,
                   unsigned type, uintptr_t value, symbol_t *best) {
    const ElfW(Sym) *s = (const void *)(file + table->sh_offset);
    for (size_t n = table->sh_size / sizeof *s; n; n--, s++) {
        // ELF32 and ELF64 keep the type in the same bits.
        if (ELF64_ST_TYPE(s->st_info) != type || s->st_shndx == SHN_UNDEF) continue;
        if (value - s->st_value >= s->st_size) continue;
        if (best->bytes && s->st_size > best->bytes) continue;
        best->start = s->st_value;
        best->bytes = s->st_size;
        snprintf(best->name, DBG_NAME, "%.*s", DBG_NAME - 1, file + names->sh_offset + s->st_name);
    }
}

static void search_file(const char *file, size_t bytes, unsigned type, uintptr_t value,
                        symbol_t *best) {
    const ElfW(Ehdr) *e = (const void *)file;
    if (bytes < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
        e->e_shentsize != sizeof(ElfW(Shdr)) || e->e_shoff > bytes ||
        e->e_shnum > (bytes - e->e_shoff) / sizeof(ElfW(Shdr)))
        return;
    const ElfW(Shdr) *sections = (const void *)(file + e->e_shoff);
    for (unsigned i = 0; i < e->e_shnum; i++) {
        const ElfW(Shdr) *t = &sections[i];
        if ((t->sh_type != SHT_SYMTAB && t->sh_type != SHT_DYNSYM) || t->sh_link >= e->e_shnum ||
            t->sh_offset > bytes || t->sh_size > bytes - t->sh_offset)
            continue;
        search(file, t, &sections[t->sh_link], type, value, best);
    }
}

static bool find_symbol(const module_t *m, unsigned type, uintptr_t value, symbol_t *best) {
    struct stat about;
    best->bytes = 0;
    int fd = open(m->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    if (!fstat(fd, &about) && about.st_size > 0) {
        size_t bytes = (size_t)about.st_size;
        void *file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file != MAP_FAILED) {
            search_file(file, bytes, type, value, best);
            munmap(file, bytes);
        }
    }
    close(fd);
    return best->bytes;
}

const char *dbg_name(char out[DBG_NAME], const void *at, bool call) {
    uintptr_t code = (uintptr_t)at;
    const module_t *m = module_of(code);
    char path[DBG_NAME];
    symbol_t s;
    if (!m) {
        snprintf(out, DBG_NAME, "%p", at);
        return out;
    }
    if (m == module_of((uintptr_t)&dbg_name)) return "its last call";  // a jump, not a call
    const char *module = module_name(m, path);
    uintptr_t value = code - m->bias;
    // The address after a call may be the next function's.
    if (!find_symbol(m, STT_FUNC, value - call, &s))
        snprintf(out, DBG_NAME, "%.60s+0x%lx", module, (unsigned long)value);
    else if (value == s.start)
        snprintf(out, DBG_NAME, "%.80s (%.60s)", s.name, module);
    else
        snprintf(out, DBG_NAME, "%.70s+0x%lx (%.60s)", s.name, (unsigned long)(value - s.start),
                 module);
    return out;
}

// ------------------------------------------------------------------------- thread-locals
static unsigned char *block_of(const module_t *m) {
    return (unsigned char *)(uintptr_t)pthread_self() + m->tls_at;
}

unsigned char *dbg_tls_copy(void) {
    if (!tls_total) return NULL;
    for (int i = 0; i < DBG_COPIES; i++) {
        if (hl_load(&copies[i].used) || !hl_cas_acq(&copies[i].used, 0u, 1u)) continue;
        for (uint32_t j = 0; j < hl_load_acq(&module_count); j++)
            if (modules[j].tls_compared)
                memcpy(copies[i].bytes + modules[j].tls_copied, block_of(&modules[j]),
                       modules[j].tls_bytes);
        return copies[i].bytes;
    }
    dbg_dropped("sections' thread-locals", 1);
    return NULL;
}

void dbg_tls_drop(unsigned char *copy) {
    for (int i = 0; i < DBG_COPIES; i++)
        if (copies[i].bytes == copy) hl_store_rel(&copies[i].used, 0u);
}

// Reports the variable that the byte `at` of the module's block belongs to; gives its end.
static size_t report_variable(const dbg_section_t *s, const module_t *m, size_t at) {
    char path[DBG_NAME];
    symbol_t v;
    uintptr_t detail = (uintptr_t)dbg_mix(m->bias, at);
    if (!find_symbol(m, STT_TLS, at, &v)) {
        dbg_report("thread-local", s, detail, "writes a thread-local at offset %zu of %s", at,
                   module_name(m, path));
        return at + 1;
    }
    detail = (uintptr_t)dbg_mix(m->bias, v.start);
    dbg_report("thread-local", s, detail, "writes the thread-local %.100s (%s, offset %zu)", v.name,
               module_name(m, path), at);
    return v.start + v.bytes;
}

void dbg_tls_compare(dbg_section_t *s) {
    if (!s->copy) return;
    for (uint32_t j = 0; j < hl_load_acq(&module_count); j++) {
        const module_t *m = &modules[j];
        if (!m->tls_compared) continue;
        const unsigned char *now = block_of(m), *then = s->copy + m->tls_copied;
        if (!memcmp(now, then, m->tls_bytes)) continue;
        for (size_t at = 0; at < m->tls_bytes;)
            at = now[at] == then[at] ? at + 1 : report_variable(s, m, at);
        // Not the fault of the sections around this one.
        for (dbg_section_t *x = s->outer; x; x = x->outer)
            if (x->copy) memcpy(x->copy + m->tls_copied, now, m->tls_bytes);
    }
}
