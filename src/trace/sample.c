// SPDX-License-Identifier: MIT
// sample.c - CPU samples by perf_event_open(2), one event per processor, inherited by the program.
//
// A sample carries the registers and the top of the stack. What to make of it, is this a loop that
// waits and for what, is told by the same code that serves `top -p` (bpf_gather.h).
#include "sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"

#if defined(HOTLOCK_GATHER) && (defined(__x86_64__) || defined(__aarch64__))
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "bpf_gather.h"

enum {
    RING_MOST = 256, RING_LEAST = 16, // pages; how many an ordinary user may have differs
    PROCESSES_MOST = 64,
    FEWEST = 5,  // samples that make a loop worth a row
    STACK_BYTES = RECORD_SHORT_STACK
};

typedef struct {
    int fd;
    struct perf_event_mmap_page *head;
    size_t size;           // of the events, behind one page of head
    uint64_t read;
} ring_t;

struct sampler {
    ring_t *ring;
    int count;
    size_t page;
    unsigned hz;
    bool kernel;           // the kernel's share is sampled too
    const char *symbols;
    struct { pid_t pid; gather_t *gather; } process[PROCESSES_MOST];
    size_t process_count;
    uint64_t lost, other;  // samples: not delivered; of processes beyond PROCESSES_MOST
    unsigned char event[65536];
};

// ------------------------------------------------------------------------- registers
// perf's order of registers (uapi/asm/perf_regs.h) -> that of struct pt_regs.
#if defined(__x86_64__)
enum { REGISTERS = 18 };
#define REGISTER_MASK 0xff03ffull // AX..IP, FLAGS, R8..R15
static const unsigned char place[REGISTERS] = {10, 5, 11, 12, 13, 14, 4, 19, 16, 18,
                                               9,  8, 7,  6,  3,  2,  1, 0};
#else
enum { REGISTERS = 33 };
#define REGISTER_MASK 0x1ffffffffull // X0..X29, LR, SP, PC
static const unsigned char place[REGISTERS] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
#endif

// ------------------------------------------------------------------------- start
static int open_event(int cpu, unsigned hz, bool kernel) {
    struct perf_event_attr a = {
        .size = sizeof a,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_freq = hz,
        .freq = 1,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER |
                       PERF_SAMPLE_STACK_USER,
        .disabled = 1,
        .inherit = 1,
        .enable_on_exec = 1,
        .exclude_kernel = !kernel,
        .exclude_hv = 1,
        .exclude_callchain_user = 1,
        .sample_regs_user = REGISTER_MASK,
        .sample_stack_user = STACK_BYTES,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
    };
    return (int)syscall(SYS_perf_event_open, &a, 0, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool open_ring(sampler_t *s, int cpu) {
    int fd = open_event(cpu, s->hz, s->kernel);
    if (fd < 0 && s->count == 0 && s->kernel) {  // an ordinary user may look at programs only
        s->kernel = false;
        fd = open_event(cpu, s->hz, false);
    }
    if (fd < 0) return errno == ENODEV;  // a processor that is off
    for (size_t pages = RING_MOST; pages >= RING_LEAST; pages /= 2) {
        void *at = mmap(NULL, (pages + 1) * s->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) continue;
        s->ring[s->count++] = (ring_t){fd, at, pages * s->page, 0};
        return true;
    }
    close(fd);
    return false;
}

sampler_t *sampler_start(unsigned hz, const char *symbols, profile_t *p) {
    if (!hz) return NULL;
    sampler_t *s = cli_alloc(sizeof *s);
    int cpus = get_nprocs_conf(), error = 0;
    *s = (sampler_t){.hz = hz, .symbols = symbols, .kernel = true,
                     .page = (size_t)sysconf(_SC_PAGESIZE)};
    s->ring = cli_alloc((size_t)cpus * sizeof *s->ring);
    for (int cpu = 0; cpu < cpus && !error; cpu++)
        if (!open_ring(s, cpu)) error = errno;
    if (!error) return s;
    profile_note(p, "no CPU samples (%s); spinning is told from the CPU time of waits, home-made "
                    "loops are not seen; as root, or with kernel.perf_event_paranoid 2, they are",
                 strerror(error));
    sampler_stop(s);
    return NULL;
}

void sampler_stop(sampler_t *s) {
    if (!s) return;
    for (int i = 0; i < s->count; i++) {
        munmap(s->ring[i].head, s->ring[i].size + s->page);
        close(s->ring[i].fd);
    }
    for (size_t i = 0; i < s->process_count; i++) gather_free(s->process[i].gather);
    free(s->ring);
    free(s);
}

// ------------------------------------------------------------------------- samples
static gather_t *gather_of(sampler_t *s, pid_t pid) {
    for (size_t i = 0; i < s->process_count; i++)
        if (s->process[i].pid == pid) return s->process[i].gather;
    if (s->process_count == PROCESSES_MOST) return NULL;
    gather_t *g = gather_new(pid, s->symbols);
    if (!g) return NULL;  // gone already; the next one with this number may live longer
    s->process[s->process_count].pid = pid;
    s->process[s->process_count++].gather = g;
    return g;
}

// The body of a sample: pid, tid, kernel call chain, registers, stack; as asked for above.
static void take_sample(sampler_t *s, const unsigned char *at, const unsigned char *end) {
    static record_t r;
    uint32_t ids[2];
    uint64_t count, abi, bytes, pc;
    memset(&r.head, 0, sizeof r.head);
    memcpy(ids, at, sizeof ids);
    memcpy(&count, at + 8, sizeof count);
    at += 16;
    if (count > (uint64_t)(end - at) / 8) return;
    for (uint64_t i = 0, kept = 0; i < count && kept < RECORD_KERNEL_FRAMES; i++) {
        memcpy(&pc, at + 8 * i, sizeof pc);
        if (pc < (uint64_t)-4095) r.head.kernel[kept++] = pc;  // above: marks, not addresses
    }
    at += 8 * count;
    memcpy(&abi, at, sizeof abi);
    at += 8;
    memset(r.regs, 0, sizeof r.regs);
    for (unsigned i = 0; abi && i < REGISTERS; i++, at += 8) memcpy(&r.regs[place[i]], at, 8);
    memcpy(&bytes, at, sizeof bytes);
    at += 8;
    if (bytes && bytes + 8 <= (uint64_t)(end - at)) {
        uint64_t real;
        memcpy(&real, at + bytes, sizeof real);
        r.head.chunks = (uint32_t)((real < bytes ? real : bytes) / RECORD_CHUNK);
        memcpy(r.stack, at, (size_t)r.head.chunks * RECORD_CHUNK);
    }
    r.head.kind = RECORD_TICK;
    r.head.tid = ids[1];
    r.head.weight = 1;
    gather_t *g = gather_of(s, (pid_t)ids[0]);
    if (g) gather_record(g, &r, sizeof r);
    else s->other++;
}

static void take_event(sampler_t *s, const struct perf_event_header *h) {
    const unsigned char *body = (const unsigned char *)(h + 1);
    const unsigned char *end = (const unsigned char *)h + h->size;
    if (h->type == PERF_RECORD_SAMPLE && h->size > sizeof *h + 40) take_sample(s, body, end);
    if (h->type == PERF_RECORD_LOST) {
        uint64_t lost;
        memcpy(&lost, body + 8, sizeof lost);
        s->lost += lost;
    }
}

// An event may lie across the end of the ring, so it is copied out first.
static void drain(sampler_t *s, ring_t *r) {
    size_t size = r->size;
    const unsigned char *data = (const unsigned char *)r->head + s->page;
    uint64_t head = __atomic_load_n(&r->head->data_head, __ATOMIC_ACQUIRE);
    while (r->read < head) {
        struct perf_event_header h;
        for (size_t i = 0; i < sizeof h; i++)
            ((unsigned char *)&h)[i] = data[(r->read + i) % size];
        if (h.size < sizeof h || r->read + h.size > head) break;
        size_t at = r->read % size, first = size - at < h.size ? size - at : h.size;
        memcpy(s->event, data + at, first);
        memcpy(s->event + first, data, h.size - first);
        take_event(s, (const struct perf_event_header *)(const void *)s->event);
        r->read += h.size;
    }
    __atomic_store_n(&r->head->data_tail, r->read, __ATOMIC_RELEASE);
}

void sampler_poll(sampler_t *s) {
    if (!s) return;
    for (int i = 0; i < s->count; i++) drain(s, &s->ring[i]);
    for (size_t i = 0; i < s->process_count; i++) gather_work(s->process[i].gather);
}

// ------------------------------------------------------------------------- the profile
// The recorded lock at this address, whichever of the process's programs it belongs to.
static profile_lock_t *recorded(profile_t *p, pid_t pid, uint64_t address) {
    profile_lock_t *l = NULL;
    for (int k = 0; k < 16 && address && !l; k++)
        l = profile_find(p, pid + k * PROFILE_EXEC, address);
    return l;
}

static void copy_stacks(profile_t *p, profile_lock_t *to, const profile_t *q,
                        const profile_lock_t *from) {
    uint32_t frames[PROFILE_DEPTH];
    for (size_t i = 0; i < from->stack_count; i++) {
        const profile_stack_t *k = &from->stacks[i];
        for (uint32_t f = 0; f < k->depth; f++)
            frames[f] = profile_frame(p, to->pid, q->frames[k->frame[f]].pc);
        profile_stack(to, k->role, frames, k->depth, k->count, k->ns);
    }
}

static void copy_maps(profile_t *p, const profile_t *q, pid_t pid) {
    for (size_t i = 0; i < p->map_count; i++)
        if (p->maps[i].pid == pid) return;
    for (size_t i = 0; i < q->map_count; i++) {
        const profile_map_t *m = &q->maps[i];
        profile_map(p, pid, m->start, m->end, m->offset, m->executable, m->path);
    }
}

// The rest of the wait is sleep, or time without a processor.
static void set_spin(profile_lock_t *l, uint64_t ns) {
    l->has |= HAS_WAIT_SPLIT;
    l->spin_ns = ns < l->wait_ns ? ns : l->wait_ns;
    l->sleep_ns = l->wait_ns - l->spin_ns;
}

// The C library's own counters, and the clock's page: loops over these are no locks of the program.
static bool is_of_libc(const char *path) {
    return strncmp(path, "[vvar", 5) == 0 || strstr(path, "/libc.so") || strstr(path, "/ld-linux");
}

// What was recorded stays; samples add the CPU time. What was not recorded is a loop of its own.
static void merge(profile_t *p, const profile_t *q, pid_t pid, unsigned hz) {
    for (size_t i = 0; i < q->lock_count; i++) {
        const profile_lock_t *from = &q->locks[i];
        const profile_map_t *map = from->address ? profile_map_at(q, pid, from->address) : NULL;
        if (map && is_of_libc(map->path)) continue;
        profile_lock_t *to = recorded(p, pid, from->address);
        if (!to && (double)from->spin_ns * hz < FEWEST * 1e9) continue;
        if (!to) {
            to = profile_lock(p, pid, from->address, from->kind);
            to->has = HAS_CPU;
            to->spin_ns = from->spin_ns;
            copy_maps(p, q, pid);
        }
        if (!to->name && from->name) to->name = cli_printf("%s", from->name);
        if (from->has & HAS_CPU) {
            to->has |= HAS_CPU;
            to->cpu_spin_share = from->cpu_spin_share;
            if (to->has & HAS_WAIT) set_spin(to, from->spin_ns);
        }
        copy_stacks(p, to, q, from);
    }
}

void sampler_fill(sampler_t *s, profile_t *p) {
    uint64_t all = 0, spinning = 0, kernel = 0;
    if (!s) return;
    for (size_t i = 0; i < s->process_count; i++) {
        uint64_t a, b, c;
        gather_ticks(s->process[i].gather, &a, &b, &c);
        all += a;
        spinning += b;
        kernel += c;
    }
    p->dropped.samples += s->lost + s->other;
    if (!all) return;
    for (size_t i = 0; i < p->lock_count; i++) {  // recorded, and no sample found it spinning
        p->locks[i].has |= HAS_CPU;
        p->locks[i].cpu_spin_share = 0;
        set_spin(&p->locks[i], 0);
    }
    for (size_t i = 0; i < s->process_count; i++) {
        profile_t q;
        uint64_t of_process, unused;
        profile_init(&q);
        q.wall_s = p->wall_s;
        gather_fill(s->process[i].gather, &q, s->hz);
        gather_ticks(s->process[i].gather, &of_process, &unused, &unused);
        for (size_t k = 0; k < q.lock_count; k++)  // shares of the process -> of the whole run
            q.locks[k].cpu_spin_share *= (double)of_process / (double)all;
        merge(p, &q, s->process[i].pid, s->hz);
        profile_free(&q);
        for (size_t k = 0; k < p->lock_count; k++)
            if (p->locks[k].pid % PROFILE_EXEC == s->process[i].pid)
                gather_beside(s->process[i].gather, p, &p->locks[k]);
    }
    p->spin_share = 0;
    for (size_t i = 0; i < p->lock_count; i++) {
        double share = p->locks[i].cpu_spin_share;
        p->spin_share += isnan(share) ? 0 : share;
    }
    if (p->spin_share > (double)spinning / (double)all)
        p->spin_share = (double)spinning / (double)all;
    if (s->kernel) p->kernel_spin_share = (double)kernel / (double)all;
    else profile_note(p, "CPU samples are of the program's own code only, not of the kernel's");
    p->samples = all;
}

#else

sampler_t *sampler_start(unsigned hz, const char *symbols, profile_t *p) {
    (void)symbols;
    if (hz)
        profile_note(p, "no CPU samples: built without libbpf and capstone; spinning is told from "
                        "the CPU time of waits, home-made loops are not seen");
    return NULL;
}
void sampler_poll(sampler_t *s) { (void)s; }
void sampler_fill(sampler_t *s, profile_t *p) { (void)s; (void)p; }
void sampler_stop(sampler_t *s) { (void)s; }

#endif
