/* SPDX-License-Identifier: MIT */
/*
 * hotlock calibrate: measures this machine into a machine file for hotlock sim.
 *
 * Two threads, each on its CPU, pass a word to and fro by compare-exchange: half a round trip is
 * one transfer. Batches are timed and the lower quartile is kept, so that what interrupts a batch
 * drops out. What needs more CPUs than there are is estimated, and the file says so.
 */
#include <hwloc.h>
#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <hotlock/wait.h>

#include "commands.h"
#include "machine.h"
#include "output.h"
#include "progress.h"
#include "stats.h"

enum { BATCHES = 41, PAIRS_MOST = 8, CPUS_MOST = 1024, READERS_MOST = 16 };

typedef enum { APART_CORE, APART_L3, APART_SOCKET, APART_REMOTE, APARTS } apart_t;

typedef struct {
    int os, core, l3, socket;
} cpu_t;

static cpu_t cpu[CPUS_MOST];
static int cpu_count;

/* ---- the machine's shape ---- */

static int index_of(hwloc_topology_t t, hwloc_obj_t pu, hwloc_obj_type_t type, int otherwise)
{
    hwloc_obj_t o = hwloc_get_ancestor_obj_by_type(t, type, pu);
    return o ? (int)o->logical_index : otherwise;
}

/* Those CPUs this process may use; the shape as hwloc writes it. */
static char *read_shape(void)
{
    hwloc_topology_t t;
    char text[4096];
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    hwloc_topology_init(&t);
    if (hwloc_topology_load(t) != 0)
        cli_bad("hwloc cannot read this machine's topology");
    int count = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU);
    for (int i = 0; i < count && cpu_count < CPUS_MOST; i++) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, (unsigned)i);
        if (pu->os_index >= CPU_SETSIZE || !CPU_ISSET(pu->os_index, &allowed))
            continue;
        int socket = index_of(t, pu, HWLOC_OBJ_PACKAGE, 0);
        cpu[cpu_count++] = (cpu_t){(int)pu->os_index, index_of(t, pu, HWLOC_OBJ_CORE, i),
                                   index_of(t, pu, HWLOC_OBJ_L3CACHE, socket), socket};
    }
    int bad = hwloc_topology_export_synthetic(t, text, sizeof text,
                                              HWLOC_TOPOLOGY_EXPORT_SYNTHETIC_FLAG_NO_ATTRS |
                                              HWLOC_TOPOLOGY_EXPORT_SYNTHETIC_FLAG_IGNORE_MEMORY);
    if (bad < 0)
        cli_bad(
            "this machine's topology is too irregular for one line; write it with lstopo FILE.xml");
    hwloc_topology_destroy(t);
    return cli_printf("%s", text);
}

static apart_t apart(const cpu_t *a, const cpu_t *b)
{
    return a->core == b->core ? APART_CORE : a->l3 == b->l3 ? APART_L3
           : a->socket == b->socket ? APART_SOCKET : APART_REMOTE;
}

/* ---- measuring alone ---- */

static void pin(int os)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(os, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static double quartile(double *x, size_t n) { return stats_percentile(x, n, 25); }

static _Alignas(256) atomic_ulong word;
static volatile unsigned long sink;

static void adds(long n)
{
    unsigned long x = 1;
    for (long i = 0; i < n; i++) {
        x++;
        __asm__ volatile("" : "+r"(x)); /* neither unrolled into one nor left out */
    }
    sink = x;
}
static void atomics(long n)
{
    for (long i = 0; i < n; i++)
        atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
}
static void pauses(long n)
{
    for (long i = 0; i < n; i++)
        hl_pause();
}
static void clocks(long n)
{
    for (long i = 0; i < n; i++)
        sink = hl_ticks();
}
static void system_calls(long n)
{
    for (long i = 0; i < n; i++)
        syscall(SYS_getppid);
}
static void yields(long n)
{
    for (long i = 0; i < n; i++)
        sched_yield();
}

/* ns of one turn. */
static double each(void (*fn)(long), long n)
{
    double x[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        uint64_t begin = hl_now_ns();
        fn(n);
        x[i] = (double)(hl_now_ns() - begin) / (double)n;
    }
    return quartile(x, BATCHES);
}

/* A walk through memory in an order no prefetcher knows; ns of a step. */
static double memory_step(void)
{
    enum { LINES = 1 << 20, STEPS = 20000 };
    struct line { struct line *next; char rest[56]; } *line;
    line = mmap(NULL, LINES * sizeof *line, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0);
    if (line == MAP_FAILED)
        return 100;
    for (unsigned i = 0, at = 0; i < LINES; i++) { /* a full cycle: an odd increment */
        unsigned next = (at * 1664525u + 1013904223u) % LINES;
        line[at].next = &line[next];
        at = next;
    }
    double x[BATCHES];
    struct line *at = line;
    for (int i = 0; i < BATCHES; i++) {
        uint64_t begin = hl_now_ns();
        for (int k = 0; k < STEPS; k++)
            at = at->next;
        x[i] = (double)(hl_now_ns() - begin) / STEPS;
    }
    sink = (unsigned long)at;
    munmap(line, LINES * sizeof *line);
    return quartile(x, BATCHES);
}

/* ---- measuring together ---- */

typedef struct {
    int os, turn;
    long rounds;
    double result;
} player_t;

static pthread_barrier_t gate;

static void *pass_word(void *arg)
{
    player_t *p = arg;
    double x[BATCHES];
    pin(p->os);
    pthread_barrier_wait(&gate);
    for (int b = 0; b < BATCHES; b++) {
        uint64_t begin = hl_now_ns();
        for (long i = 0; i < p->rounds; i++) {
            unsigned long mine = (unsigned long)p->turn;
            while (!atomic_compare_exchange_weak_explicit(
                &word, &mine, (unsigned long)!p->turn, memory_order_acq_rel, memory_order_relaxed))
                mine = (unsigned long)p->turn;
        }
        x[b] = (double)(hl_now_ns() - begin) / (double)p->rounds / 2;
    }
    p->result = quartile(x, BATCHES);
    return NULL;
}

static double transfer(const cpu_t *a, const cpu_t *b)
{
    player_t p[2] = {{a->os, 0, 2000, 0}, {b->os, 1, 2000, 0}};
    pthread_t t;
    atomic_store(&word, 0);
    pthread_barrier_init(&gate, NULL, 2);
    if (pthread_create(&t, NULL, pass_word, &p[1]) != 0)
        cli_bad("cannot start a thread");
    pass_word(&p[0]);
    pthread_join(t, NULL);
    pthread_barrier_destroy(&gate);
    return p[0].result;
}

/* The median over some pairs that far apart; NaN if there are none. */
static double transfer_apart(apart_t how, double *least, double *most)
{
    double x[PAIRS_MOST];
    size_t n = 0;
    for (int stride = 1; stride < cpu_count && n < PAIRS_MOST; stride++)
        for (int i = 0; i + stride < cpu_count && n < PAIRS_MOST; i += 1 + cpu_count / PAIRS_MOST)
            if (apart(&cpu[i], &cpu[i + stride]) == how)
                x[n++] = transfer(&cpu[i], &cpu[i + stride]);
    *least = *most = NAN;
    for (size_t i = 0; i < n; i++) {
        *least = fmin(*least, x[i]);
        *most = fmax(*most, x[i]);
    }
    return stats_median(x, n);
}

/* Readers take a copy of the word in turn; each is timed, then the writer that takes it back. */
typedef struct {
    int readers;
    double first, later, write;
} readers_t;

static _Alignas(256) atomic_int whose;
static double reader_ns[READERS_MOST][BATCHES * 20];

static double timed_read(void)
{
    uint64_t begin = hl_ticks();
    sink = atomic_load_explicit(&word, memory_order_acquire);
    return (double)(hl_ticks() - begin);
}

static void *read_in_turn(void *arg)
{
    player_t *p = arg;
    pin(p->os);
    pthread_barrier_wait(&gate);
    for (long i = 0; i < BATCHES * 20; i++) {
        while (atomic_load_explicit(&whose, memory_order_acquire) != p->turn)
            hl_pause();
        reader_ns[p->turn - 1][i] = timed_read();
        atomic_store_explicit(&whose, p->turn + 1, memory_order_release);
    }
    return NULL;
}

/* In ticks of hl_ticks(), the cost of a timed read that hits taken off. */
static readers_t read_after_write(const cpu_t *const *reader, int count)
{
    enum { ROUNDS = BATCHES * 20 };
    static double writes[ROUNDS];
    pthread_t t[READERS_MOST];
    player_t p[READERS_MOST];
    pthread_barrier_init(&gate, NULL, (unsigned)count + 1);
    atomic_store(&whose, 0);
    for (int i = 0; i < count; i++) {
        p[i] = (player_t){reader[i + 1]->os, i + 1, 0, 0};
        if (pthread_create(&t[i], NULL, read_in_turn, &p[i]) != 0)
            cli_bad("cannot start a thread");
    }
    pin(reader[0]->os);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t begin = hl_ticks();
        atomic_fetch_add_explicit(&word, 1, memory_order_acq_rel);
        writes[i] = (double)(hl_ticks() - begin);
        atomic_store_explicit(&whose, 1, memory_order_release);
        while (atomic_load_explicit(&whose, memory_order_acquire) != count + 1)
            hl_pause();
    }
    double hit[BATCHES];
    for (int i = 0; i < BATCHES; i++)
        hit[i] = timed_read();
    for (int i = 0; i < count; i++)
        pthread_join(t[i], NULL);
    pthread_barrier_destroy(&gate);
    double base = quartile(hit, BATCHES);
    return (readers_t){count, quartile(reader_ns[0], ROUNDS) - base,
                       quartile(reader_ns[count - 1], ROUNDS) - base,
                       quartile(writes, ROUNDS) - base};
}

/* All CPUs add to one word; ns per add. */
static atomic_bool stop;

static void *add_on(void *arg)
{
    player_t *p = arg;
    pin(p->os);
    pthread_barrier_wait(&gate);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
        p->rounds++;
    }
    return NULL;
}

static double contended_add(void)
{
    pthread_t t[CPUS_MOST];
    player_t *p = cli_alloc((size_t)cpu_count * sizeof *p);
    atomic_store(&stop, false);
    pthread_barrier_init(&gate, NULL, (unsigned)cpu_count + 1);
    for (int i = 0; i < cpu_count; i++) {
        p[i].os = cpu[i].os;
        if (pthread_create(&t[i], NULL, add_on, &p[i]) != 0)
            cli_bad("cannot start a thread");
    }
    pthread_barrier_wait(&gate);
    uint64_t begin = hl_now_ns();
    hl_nap(100000000);
    atomic_store(&stop, true);
    double took = (double)(hl_now_ns() - begin);
    long sum = 0;
    for (int i = 0; i < cpu_count; i++) {
        pthread_join(t[i], NULL);
        sum += p[i].rounds;
    }
    pthread_barrier_destroy(&gate);
    free(p);
    return took / (double)sum;
}

/* A futex woken across CPUs: the waker's call, and from the call to the sleeper's first
 * instruction. */
static atomic_uint bell;
static atomic_ulong awake_at;

static void *sleep_on(void *arg)
{
    pin(((player_t *)arg)->os);
    for (unsigned i = 0; i < BATCHES; i++) {
        while (atomic_load(&bell) == i)
            syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, i, NULL, NULL, 0);
        atomic_store(&awake_at, hl_now_ns());
    }
    return NULL;
}

static void futex_times(double *call, double *wake)
{
    player_t p = {.os = cpu[cpu_count - 1].os};
    double calls[BATCHES], wakes[BATCHES];
    pthread_t t;
    pin(cpu[0].os);
    atomic_store(&bell, 0);
    if (pthread_create(&t, NULL, sleep_on, &p) != 0)
        cli_bad("cannot start a thread");
    for (unsigned i = 0; i < BATCHES; i++) {
        hl_nap(300000); /* it must be asleep, or this batch shows no wake-up and the quartile hides
                           it */
        atomic_store(&awake_at, 0);
        uint64_t begin = hl_now_ns(), at;
        atomic_store(&bell, i + 1);
        syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        calls[i] = (double)(hl_now_ns() - begin);
        while ((at = atomic_load(&awake_at)) == 0)
            hl_pause();
        wakes[i] = (double)(at - begin);
    }
    pthread_join(t, NULL);
    *call = stats_median(calls, BATCHES);
    *wake = stats_median(wakes, BATCHES);
}

/* ---- the file ---- */

typedef struct {
    json_t *numbers;
    char *measured; /* the source of what was measured */
} file_t;

static void put(file_t *f, const char *key, const char *unit, double value, number_kind_t kind,
                const char *source)
{
    const char *absurd = machine_absurd(key, value);
    if (absurd)
        cli_note("%s came out as %g, %s; correct it by hand", key, value, absurd);
    json_object_set_new(f->numbers, key, json_pack("{s:o, s:s, s:s}", unit,
                        json_real(round(value * 1000) / 1000), "kind", machine_kind_names[kind],
                        "source", source));
}

static void measured(file_t *f, const char *key, double ns)
{
    put(f, key, "ns", ns, KIND_MEASURED, f->measured);
}

static void estimated(file_t *f, const char *key, const char *unit, double value, const char *why)
{
    put(f, key, unit, value, KIND_ESTIMATED, why);
}

static void alone(file_t *f)
{
    double add = each(adds, 100000);
    put(f, "clock_ghz", "value", 1 / add, KIND_MEASURED, "dependent additions, one a cycle");
    measured(f, "rmw", each(atomics, 20000));
    measured(f, "pause", each(pauses, 5000));
    measured(f, "clock", each(clocks, 20000));
    measured(f, "syscall", each(system_calls, 2000));
    measured(f, "memory", memory_step());
    double yield = each(yields, 2000);
    estimated(f, "switch", "ns", yield * 3,
              "three times an idle sched_yield(): the queue, the change, cold caches");
    estimated(f, "block", "cycles", 3,
              "about five instructions and a share of a mispredicted branch");
    estimated(f, "hit", "cycles", 4, "first-level cache, load to use");
}

/* Transfers, and what readers of a clean line pay, for one distance. */
static double distance(file_t *f, apart_t how, const char *suffix)
{
    double least, most, t = transfer_apart(how, &least, &most);
    if (isnan(t))
        return NAN;
    char *dirty = cli_printf("dirty_%s", suffix), *clean = cli_printf("clean_%s", suffix);
    char *serve = cli_printf("serve_%s", suffix);
    char *source = cli_printf("%s; %.0f to %.0f over the pairs", f->measured, least, most);
    put(f, dirty, "ns", t, KIND_MEASURED, source);
    estimated(f, clean, "ns", t * 0.8, "four fifths of a modified line's transfer");
    estimated(f, serve, "ns", t * 0.13, "an eighth of a transfer, as on other machines");
    free(dirty);
    free(clean);
    free(serve);
    free(source);
    return t;
}

/* With three CPUs of one L3 or more: a clean line, and what invalidating k readers takes. */
static void readers(file_t *f, double dirty)
{
    const cpu_t *in[READERS_MOST + 1];
    int n = 0;
    for (int i = 0; i < cpu_count && n < READERS_MOST + 1; i++) {
        bool fresh = cpu[i].l3 == cpu[0].l3;
        for (int k = 0; k < n; k++)
            fresh = fresh && in[k]->core != cpu[i].core;
        if (fresh)
            in[n++] = &cpu[i];
    }
    if (n < 3) {
        estimated(f, "upgrade", "ns", dirty * 0.5,
                  "half a transfer; fewer than three cores share an L3 here");
        estimated(f, "invalidate", "ns", 1,
                  "as on other machines; fewer than three cores share an L3 here");
        return;
    }
    readers_t few = read_after_write(in, 2), many = read_after_write(in, n - 1);
    double ns = 1024.0 / (double)hl_ns_to_ticks(1024);
    measured(f, "clean_l3", few.later * ns);
    measured(f, "upgrade", fmin(few.write, few.first) * ns / 2);
    double slope = n > 3 ? (many.write - few.write) / (n - 3) * ns : 1;
    put(f, "invalidate", "ns", fmax(slope, 0), KIND_MEASURED, f->measured);
}

static void together(file_t *f, progress_t *progress)
{
    static const char *const suffix[] = {"smt", "l3", "socket", "remote"};
    double least, most, smt = transfer_apart(APART_CORE, &least, &most), near = NAN;
    if (!isnan(smt)) {
        measured(f, "smt", smt);
        estimated(f, "smt_slow", "value", 1.5,
                  "two busy siblings together do about 1.3 times the work of one");
    }
    for (apart_t how = APART_L3; how < APARTS; how++) {
        progress_show(progress, "transfers, distance %s", suffix[how]);
        double t = distance(f, how, suffix[how]);
        near = isnan(near) ? t : near;
        progress_step(progress, 1);
    }
    if (isnan(near))
        near = 100;
    if (!json_object_get(f->numbers, "dirty_l3")) {
        estimated(f, "dirty_l3", "ns", near, "no two cores share an L3 here");
        estimated(f, "clean_l3", "ns", near * 0.8, "no two cores share an L3 here");
        estimated(f, "serve_l3", "ns", near * 0.13, "no two cores share an L3 here");
    }
    progress_show(progress, "readers");
    readers(f, near);
    progress_step(progress, 1);
}

static void kernel(file_t *f)
{
    double call, wake;
    futex_times(&call, &wake);
    measured(f, "futex_wake", call);
    measured(f, "wake", wake);
    estimated(f, "migrate", "ns", 2000, "order of magnitude of Linux");
    estimated(f, "slice", "ns", 3e6, "Linux CFS minimum granularity with 8 CPUs or more");
    estimated(f, "granularity", "ns", 1e6, "Linux CFS wake-up granularity");
    estimated(f, "home", "value", 1, "requests for one line wait at its home; not measured");
    estimated(f, "disorder", "value", 0.25,
              "caches do not queue strictly; how much is not measured");
    estimated(f, "buffer", "value", 48, "order of magnitude of today's store buffers");
}

static char *processor_name(void)
{
    char line[256], *name = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && !name && fgets(line, sizeof line, f))
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':'))
            name = cli_printf("%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"),
                              strchr(line, ':') + 2);
    if (f)
        fclose(f);
    return name ? name : cli_printf("this machine");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static cli_word_t none;
    output_t *output = state->input;
    switch (key) {
    case 'o':
        output->file = arg;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &none;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write the machine file to FILE", 1},
    {0},
};
static const struct argp_child children[] = {{&cli_word_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Measures this machine into a machine file for hotlock sim: transfers between cores by "
           "distance, invalidation of readers, contended add, pause, futexes. Takes some seconds; "
           "run it on an idle machine. What cannot be measured here is estimated, and says so.",
};

int cmd_calibrate(int argc, char **argv)
{
    output_t output = {0};
    progress_t progress;
    char *text, *name = processor_name(), date[16];
    size_t size;
    time_t now = time(NULL);
    cli_parse(&argp, argc, argv, false, &output);
    output_check(&output);
    char *shape = read_shape();
    if (cpu_count < 2)
        cli_bad("this process may use one CPU only; transfers need two");
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    file_t f = {json_object(), cli_printf("hotlock calibrate, %s, lower quartile", date)};
    progress_begin(&progress, 7);
    progress_show(&progress, "one CPU");
    pin(cpu[0].os);
    alone(&f);
    progress_step(&progress, 1);
    together(&f, &progress);
    progress_show(&progress, "futexes, contended add");
    kernel(&f);
    double add = contended_add();
    progress_clear(&progress);
    char *about =
        cli_printf("Measured by hotlock calibrate on %d CPUs. %d CPUs that add to one word take "
                   "%.0f ns an add.",
                   cpu_count, cpu_count, add);
    FILE *out = open_memstream(&text, &size);
    output_json(json_pack("{s:s, s:s, s:s, s:s, s:o}", "schema", "hotlock-machine/1", "name", name,
                          "about", about, "topology", shape, "numbers", f.numbers), out);
    fclose(out);
    bool good = output_write(output.file, text, size);
    free(text);
    free(about);
    free(shape);
    free(name);
    free(f.measured);
    return good ? CLI_OK : CLI_NO_RESULT;
}
