// SPDX-License-Identifier: MIT
// bpf_calls.c - finds a program's lock functions, attaches bpf/calls.bpf.c to them, reads sums.
#include "bpf_calls.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "../cli/cli.h"
#include "bpf/records.h"
#include "bpf_watch.h"
#include "calls.skel.h"
#include "symbols.h"

#define LOCKS_MOST 8192

typedef enum { LOCKS, UNLOCKS, WAITS } call_kind_t;

// Not those of spinlocks: glibc's begin with a locked instruction, which the kernel does not probe
// on x86.
static const struct {
    const char *name;
    call_kind_t does;
    unsigned cookie;
} functions[] = {
    {"pthread_mutex_lock", LOCKS, CALL_MUTEX},
    {"pthread_mutex_trylock", LOCKS, CALL_MUTEX},
    {"pthread_mutex_timedlock", LOCKS, CALL_MUTEX},
    {"pthread_mutex_clocklock", LOCKS, CALL_MUTEX},
    {"pthread_mutex_unlock", UNLOCKS, CALL_MUTEX},
    {"pthread_cond_wait", WAITS, CALL_MUTEX | CALL_WAITS},
    {"pthread_cond_timedwait", WAITS, CALL_MUTEX | CALL_WAITS},
    {"pthread_cond_clockwait", WAITS, CALL_MUTEX | CALL_WAITS},
    {"pthread_rwlock_rdlock", LOCKS, CALL_RWLOCK | CALL_READS},
    {"pthread_rwlock_tryrdlock", LOCKS, CALL_RWLOCK | CALL_READS},
    {"pthread_rwlock_timedrdlock", LOCKS, CALL_RWLOCK | CALL_READS},
    {"pthread_rwlock_clockrdlock", LOCKS, CALL_RWLOCK | CALL_READS},
    {"pthread_rwlock_wrlock", LOCKS, CALL_RWLOCK},
    {"pthread_rwlock_trywrlock", LOCKS, CALL_RWLOCK},
    {"pthread_rwlock_timedwrlock", LOCKS, CALL_RWLOCK},
    {"pthread_rwlock_clockwrlock", LOCKS, CALL_RWLOCK},
    {"pthread_rwlock_unlock", UNLOCKS, CALL_RWLOCK},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

struct calls {
    pid_t pid;
    struct calls_bpf *bpf;
    struct bpf_link *link[2 * FUNCTIONS];
    size_t links;
};

// ------------------------------------------------------------------------- where they are
// In the file; 0: not in it.
typedef struct {
    uint64_t offset[FUNCTIONS];
    bool any;
} found_t;

static uint64_t in_file(Elf *elf, uint64_t address)
{
    GElf_Phdr h;
    for (int i = 0; gelf_getphdr(elf, i, &h); i++)
        if (h.p_type == PT_LOAD && address >= h.p_vaddr && address < h.p_vaddr + h.p_filesz)
            return address - h.p_vaddr + h.p_offset;
    return 0;
}

// The symbols' versions: of several functions of one name only one is not hidden.
static Elf_Data *versions_of(Elf *elf, Elf_Scn *symbols)
{
    GElf_Shdr h;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));)
        if (gelf_getshdr(s, &h) && h.sh_type == SHT_GNU_versym &&
            h.sh_link == elf_ndxscn(symbols))
            return elf_getdata(s, NULL);
    return NULL;
}

static void find_in(Elf *elf, Elf_Scn *symbols, const GElf_Shdr *h, found_t *f)
{
    Elf_Data *data = elf_getdata(symbols, NULL), *versions = versions_of(elf, symbols);
    GElf_Sym s;
    GElf_Versym version;
    for (int i = 0; data && gelf_getsym(data, i, &s); i++) {
        const char *name = elf_strptr(elf, h->sh_link, s.st_name);
        if (GELF_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx == SHN_UNDEF || !name ||
            strncmp(name, "pthread_", 8) != 0 ||
            (versions && gelf_getversym(versions, i, &version) && version & 0x8000))
            continue;
        for (size_t k = 0; k < FUNCTIONS; k++)
            if (strcmp(name, functions[k].name) == 0 && !f->offset[k])
                f->offset[k] = in_file(elf, s.st_value);
    }
}

static bool find_functions(const char *path, found_t *f)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = fd < 0 ? NULL : elf_begin(fd, ELF_C_READ_MMAP, NULL);
    GElf_Shdr h;
    *f = (found_t){0};
    for (Elf_Scn *s = NULL; elf && (s = elf_nextscn(elf, s));)
        if (gelf_getshdr(s, &h) && (h.sh_type == SHT_DYNSYM || h.sh_type == SHT_SYMTAB))
            find_in(elf, s, &h, f);
    elf_end(elf);
    if (fd >= 0)
        close(fd);
    return f->offset[0] != 0; // pthread_mutex_lock()
}

static bool is_libc(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    return strncmp(file, "libc.", 5) == 0 || strncmp(file, "libc-", 5) == 0 ||
           strncmp(file, "libpthread", 10) == 0;
}

// The path of the file whose lock functions the program calls: one that stands before libc, if
// there is one. Free it.
static char *library_of(pid_t pid, found_t *f)
{
    char *path = NULL;
    profile_t maps;
    profile_init(&maps);
    symbols_read_maps(&maps, pid);
    for (int round = 0; round < 2 && !path; round++)
        for (size_t i = 0; i < maps.map_count && !path; i++) {
            const profile_map_t *m = &maps.maps[i];
            if (!m->executable || m->path[0] != '/' || is_libc(m->path) != (round == 1))
                continue;
            path = cli_printf("/proc/%d/root%s", (int)pid, m->path);
            if (find_functions(path, f))
                continue;
            free(path);
            path = NULL;
        }
    profile_free(&maps);
    return path;
}

// ------------------------------------------------------------------------- start and stop
static bool attach(calls_t *c, struct bpf_program *program, bool returns, const char *path,
                   uint64_t offset, unsigned cookie)
{
    LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = returns, .bpf_cookie = cookie);
    struct bpf_link *link = bpf_program__attach_uprobe_opts(program, c->pid, path, offset,
                                                            &options);
    if (!link)
        return false;
    c->link[c->links++] = link;
    return true;
}

static bool attach_to(calls_t *c, struct bpf_program *program, bool returns, const char *path,
                      const found_t *f, call_kind_t does)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (f->offset[i] && functions[i].does == does &&
            !attach(c, program, returns, path, f->offset[i], functions[i].cookie))
            return false;
    return true;
}

// What ends a hold first, what begins one last: then no end is missed.
static bool attach_all(calls_t *c, const char *path, const found_t *f)
{
    return attach_to(c, c->bpf->progs.unlock_begins, false, path, f, UNLOCKS) &&
           attach_to(c, c->bpf->progs.wait_begins, false, path, f, WAITS) &&
           attach_to(c, c->bpf->progs.lock_ends, true, path, f, WAITS) &&
           attach_to(c, c->bpf->progs.lock_ends, true, path, f, LOCKS) &&
           attach_to(c, c->bpf->progs.lock_begins, false, path, f, LOCKS);
}

calls_t *calls_start(pid_t pid, int calling, const char *instead)
{
    found_t f;
    calls_t *c = cli_alloc(sizeof *c);
    c->pid = pid;
    char *path = library_of(pid, &f);
    if (!path)
        cli_bad("process %d has no pthread_mutex_lock() that --uprobes could be put on; leave it "
                "out", (int)pid);
    bpf_collect_complaints();
    c->bpf = calls_bpf__open();
    if (!c->bpf)
        cli_bad("the BPF programs cannot be opened: %s", bpf_complaint());
    c->bpf->rodata->target = (__u32)pid;
    bpf_map__set_max_entries(c->bpf->maps.taken, bpf_entries(sizeof(call_sums_t), LOCKS_MOST));
    if (bpf_map__reuse_fd(c->bpf->maps.calling, calling) != 0 || calls_bpf__load(c->bpf) != 0 ||
        !attach_all(c, path, &f))
        cli_bad("this kernel refuses --uprobes: %s; without it -p works, %s", bpf_complaint(),
                instead);
    c->bpf->bss->counting = true;
    free(path);
    return c;
}

void calls_stop(calls_t *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->links; i++)
        bpf_link__destroy(c->link[i]);
    calls_bpf__destroy(c->bpf);
    free(c);
}

// ------------------------------------------------------------------------- results
static void add(call_sums_t *to, const call_sums_t *s)
{
    to->acquisitions += s->acquisitions;
    to->reads += s->reads;
    to->holds += s->holds;
    to->hold += s->hold;
    if (s->longest > to->longest)
        to->longest = s->longest;
    if (s->acquisitions)
        to->kind = s->kind;
    for (size_t i = 0; i < RECORD_HISTOGRAM; i++)
        to->histogram[i] += s->histogram[i];
}

// Sleeps are known already, and none is none.
static void fill_lock(profile_t *p, pid_t pid, __u64 address, const call_sums_t *s)
{
    const char *kind = s->kind == CALL_RWLOCK ? "rwlock" : "mutex";
    profile_lock_t *l = profile_lock(p, pid, address, kind);
    l->has |= HAS_ACQUISITIONS | HAS_CONTENDED | HAS_WAIT;
    l->acquisitions = s->acquisitions;
    l->reads = s->reads;
    if (l->contended > l->acquisitions) // woken, and not taken yet
        l->contended = l->acquisitions;
    if (!s->holds)
        return;
    l->has |= HAS_HOLD;
    l->hold_samples = s->holds;
    l->hold_ns = (uint64_t)((double)s->hold / (double)s->holds * (double)s->acquisitions);
    l->hold_worst_ns = s->longest;
    for (size_t i = 0; i < PROFILE_BUCKETS && i < RECORD_HISTOGRAM; i++)
        l->hold_hist[i] = s->histogram[i];
}

void calls_fill(const calls_t *c, profile_t *p)
{
    if (!c)
        return;
    int fd = bpf_map__fd(c->bpf->maps.taken), cpus = libbpf_num_possible_cpus();
    call_sums_t *per_cpu = cli_alloc((size_t)cpus * sizeof *per_cpu);
    __u64 key, *last = NULL, *lost = cli_alloc((size_t)cpus * sizeof *lost);
    for (__u64 next; bpf_map_get_next_key(fd, last, &next) == 0; last = &key) {
        call_sums_t sums = {0};
        key = next;
        if (bpf_map_lookup_elem(fd, &key, per_cpu) != 0)
            continue;
        for (int i = 0; i < cpus; i++)
            add(&sums, &per_cpu[i]);
        if (sums.acquisitions)
            fill_lock(p, c->pid, key, &sums);
    }
    __u32 zero = 0;
    if (bpf_map_lookup_elem(bpf_map__fd(c->bpf->maps.lost), &zero, lost) == 0)
        for (int i = 0; i < cpus; i++)
            p->dropped.acquisitions += lost[i];
    free(per_cpu);
    free(lost);
}
