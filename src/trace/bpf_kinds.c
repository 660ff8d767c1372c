// SPDX-License-Identifier: MIT
// bpf_kinds.c - tables of the functions locks are known by.
#include "bpf_kinds.h"

#include <string.h>

#include "made.h"

typedef struct {
    const char *part; // of a function's name
    wait_kind_t kind;
} known_t;

static const known_t known[] = {
    {"pthread_mutex_", {"mutex", true, false}},
    {"pthread_rwlock_", {"rwlock", true, false}},
    {"pthread_spin_", {"spinlock", true, false}},
    {"pthread_cond_", {"condition variable", false, false}},
    {"cnd_", {"condition variable", false, false}},
    {"pthread_barrier_", {"barrier", false, false}},
    {"pthread_join", {"join", false, false}},
    {"pthread_clockjoin", {"join", false, false}},
    {"pthread_timedjoin", {"join", false, false}},
    {"thrd_join", {"join", false, false}},
    {"sem_wait", {"semaphore", false, false}},
    {"sem_timedwait", {"semaphore", false, false}},
    {"sem_clockwait", {"semaphore", false, false}},
    {"mtx_", {"mutex", true, false}},
    {"hl_park_", {"park", true, false}},
    {"hl_nmcs4_", {"nmcs4", true, false}},
    {"hl_nmcs_", {"nmcs", true, false}},
    {"hl_mcsflag_", {"mcsflag", true, false}},
    {"hl_mcs_", {"mcs", true, false}},
    {"hl_qspin_", {"qspin", true, false}},
    {"hl_ticket_", {"ticket", true, false}},
    {"hl_tas_", {"tas", true, false}},
    {"hl_ali_", {"ali", true, false}},
    {NULL, {NULL, false, false}},
};

// Functions of libc that take a lock of its own.
static const char *const library[] = {
    "malloc", "free", "calloc", "realloc", "memalign", "_IO_", "fputs", "fwrite", "fflush",
    "printf", "puts", "putc", "getc", "fgets", "fread", "flockfile", "random", "rand", "srand",
    "dl_iterate_phdr", "dlopen", "dlsym", "localtime", "gmtime", "mktime", "setlocale", "syslog",
    "getpwnam", "getaddrinfo", "atexit", "exit", "getenv", "setenv", "tzset", "strftime", NULL};

bool kind_of_libc(Dwfl *dwfl, uint64_t pc)
{
    Dwfl_Module *m = dwfl_addrmodule(dwfl, pc);
    const char *path = m ? dwfl_module_info(m, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *file = slash ? slash + 1 : path;
    return file && (strncmp(file, "libc.so", 7) == 0 || strncmp(file, "libpthread", 10) == 0 ||
                    strncmp(file, "libc-", 5) == 0);
}

static const known_t *find(const known_t *table, const char *name)
{
    for (; name && table->part; table++)
        if (strstr(name, table->part))
            return table;
    return NULL;
}

// What waits on a condition variable or a semaphore may be a lock itself.
static wait_kind_t made_of(Dwfl *dwfl, const unwound_t *frames, uint32_t depth, wait_kind_t part)
{
    for (uint32_t i = 0; i < depth && i < 6; i++) {
        const char *name = symbols_function(dwfl, frames[i].pc);
        const char *made = made_kind(name);
        if (made)
            return (wait_kind_t){made, true, false};
        if (name && !kind_of_libc(dwfl, frames[i].pc) && !find(known, name))
            break; // a function of its own: not one of the above
    }
    return part;
}

wait_kind_t kind_of_stack(Dwfl *dwfl, const unwound_t *frames, uint32_t depth, bool spins)
{
    bool in_libc = true;
    for (uint32_t i = 0; dwfl && i < depth && i < 8; i++) {
        const char *name = symbols_function(dwfl, frames[i].pc);
        in_libc = in_libc && kind_of_libc(dwfl, frames[i].pc);
        const known_t *k = find(known, name);
        if (k)
            return k->kind.lock ? k->kind : made_of(dwfl, frames + i, depth - i, k->kind);
        for (size_t j = 0; name && in_libc && library[j]; j++)
            if (strncmp(name, library[j], strlen(library[j])) == 0)
                return (wait_kind_t){"lock of libc", true, true};
        if (spins && !in_libc)
            break;
    }
    wait_kind_t plain = {spins ? "home-made loop" : "futex", true, false};
    return dwfl && !spins ? made_of(dwfl, frames, depth, plain) : plain;
}

uint64_t kind_base(const char *kind, uint64_t address)
{
    // pthread_rwlock_t: readers, writers, then the two words threads sleep on.
    if (strcmp(kind, "rwlock") == 0)
        return address % 8 == 4 ? address - 12 : address - 8;
    return address;
}

uint32_t kind_caller(Dwfl *dwfl, const unwound_t *frames, uint32_t depth)
{
    for (uint32_t i = 0; dwfl && i < depth; i++) {
        const char *name = symbols_function(dwfl, frames[i].pc);
        bool inside = kind_of_libc(dwfl, frames[i].pc);
        inside = inside || find(known, name) || made_kind(name);
        if (name && (strncmp(name, "std::", 5) == 0 || strncmp(name, "_ZNSt", 5) == 0))
            inside = true;
        if (!inside)
            return i;
    }
    return 0;
}

static const char *const spin_functions[] = {
    "native_queued_spin_lock_slowpath", "__pv_queued_spin_lock_slowpath",
    "queued_spin_lock_slowpath", "queued_read_lock_slowpath", "queued_write_lock_slowpath",
    "mutex_spin_on_owner", "rwsem_spin_on_owner", "osq_lock", "rwsem_optimistic_spin",
    "resilient_queued_spin_lock_slowpath", NULL};

const char *kernel_spin_function(size_t i)
{
    return i < sizeof spin_functions / sizeof *spin_functions ? spin_functions[i] : NULL;
}

bool kernel_spins(const char *function)
{
    for (size_t i = 0; function && spin_functions[i]; i++)
        if (strcmp(function, spin_functions[i]) == 0)
            return true;
    return false;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const char *kernel_class(const char *function)
{
    static const struct {
        const char *start, *name;
    } classes[] = {
        {"futex_", "futex bucket"},      {"raw_spin_rq_lock", "runqueue"},
        {"task_rq_lock", "runqueue"},    {"__task_rq_lock", "runqueue"},
        {"double_rq_lock", "runqueue"},  {"sched_balance", "runqueue"},
        {"__schedule", "runqueue"},      {"sched_tick", "runqueue"},
        {"ttwu_queue", "runqueue"},      {"prepare_to_swait", "wait queue"},
        {"swake_up", "wait queue"},      {"finish_swait", "wait queue"},
        {"folio_lruvec_lock", "LRU list"}, {"lru_", "LRU list"},
        {"__wake_up", "wait queue"},     {"prepare_to_wait", "wait queue"},
        {"finish_wait", "wait queue"},   {"add_wait_queue", "wait queue"},
        {"rmqueue", "free pages of a zone"}, {"free_pcppages_bulk", "free pages of a zone"},
        {"free_one_page", "free pages of a zone"},
        // Global ones, for kernels that do not tell the addresses of their variables.
        {"alloc_pid", "pidmap_lock"},    {"free_pid", "pidmap_lock"},
        {"__do_wait", "tasklist_lock"},  {"walk_process_tree", "tasklist_lock"},
        {"cgroup_exit", "css_set_lock"}, {NULL, NULL}};
    for (size_t i = 0; function && classes[i].start; i++)
        if (begins(function, classes[i].start))
            return classes[i].name;
    return NULL;
}

bool kernel_lock_function(const char *function)
{
    static const char *const starts[] = {
        "bpf_", "__bpf", "trace_", "__traceiter", "_raw_spin_", "_raw_read_", "_raw_write_",
        "_raw_", "native_queued_", "__pv_queued_", "queued_", "__mutex_", "mutex_", "__rwsem",
        "rwsem_", "down_", "__down_", "percpu_down", "__percpu", "osq_", "rt_mutex_",
        "__rt_mutex", "rt_spin_", "ww_mutex_", "do_raw_spin", "rwbase_", "__percpu_down",
        "lock_", "__raw_spin", NULL};
    static const char *const not[] = {"lock_mm_and_find_vma", "lock_vma_under_rcu", "lock_page",
                                      "lock_two_", "lock_rename", "lock_mount", NULL};
    for (size_t i = 0; not[i]; i++)
        if (begins(function, not[i]))
            return false;
    for (size_t i = 0; starts[i]; i++)
        if (begins(function, starts[i]))
            return true;
    return kernel_spins(function);
}
