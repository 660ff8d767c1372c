/* SPDX-License-Identifier: MIT */
/*
 * hotlock kernel: Linux 6.1 with another spinlock, built, booted and judged.
 *
 * The work is done by kernel/check, which leaves its results as JSON; the child module sees to it
 * that no compiler and no QEMU outlives this command. Here are the options and the tables.
 */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "child.h"
#include "commands.h"
#include "output.h"
#include "stats.h"

typedef struct {
    output_t output;
    const char *build, *source, *variants, *only, *host_cpus, *seconds, *rounds, *jobs;
    bool quick, kvm;
} options_t;

enum { BUILD = 'b', SOURCE = 's', VARIANTS = 'v', QUICK = 'q', ONLY = 1000, SECONDS, KVM, HOST_CPUS,
       ROUNDS, JOBS };

static const struct argp_option entries[] = {
    {"build", BUILD, "DIR", 0, "Where trees and kernels are kept (default: kernel-build)", 0},
    {"source", SOURCE, "FILE", 0,
     "Kernel source (default: /usr/src/linux-source-6.1.tar.xz)", 0},
    {"variants", VARIANTS, "LIST", 0,
     "Of queued, ticket, nmcs, nmcs16, nmcs-inline, ali and more (default: these six)", 0},
    {"quick", QUICK, NULL, 0, "Two variants, fewer boots, 10 s of torture", 0},
    {"only", ONLY, "LIST", 0, "Of gates, lockdep, counts, text (default: all)", 0},
    {"seconds", SECONDS, "N", 0, "Seconds of each locktorture run (default: 60)", 0},
    {"jobs", JOBS, "N", 0, "Compilers at a time (default: as many as processors)", 0},
    {"kvm", KVM, NULL, 0, "On real hardware: rank the variants' speed under KVM", 0},
    {"host-cpus", HOST_CPUS, "LIST", 0, "With --kvm: the host's processors to use, as 0-3,8", 0},
    {"rounds", ROUNDS, "N", 0, "With --kvm: rounds, the variants taken in turn (default: 7)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->output; return 0;
    case BUILD: o->build = arg; return 0;
    case SOURCE: o->source = arg; return 0;
    case VARIANTS: o->variants = arg; return 0;
    case QUICK: o->quick = true; return 0;
    case ONLY: o->only = arg; return 0;
    case KVM: o->kvm = true; return 0;
    case HOST_CPUS: o->host_cpus = arg; return 0;
    case SECONDS: (void)cli_long("--seconds", arg, 5, 86400); o->seconds = arg; return 0;
    case ROUNDS: (void)cli_long("--rounds", arg, 1, 1000); o->rounds = arg; return 0;
    case JOBS: (void)cli_long("--jobs", arg, 1, 1024); o->jobs = arg; return 0;
    case ARGP_KEY_ARG: cli_bad("unexpected word '%s'; the command takes only options", arg);
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
    .options = entries,
    .parser = parse,
    .doc = "Builds Linux 6.1 with each spinlock, boots it under QEMU with 1, 4 and 8 processors, "
           "runs workloads, locktorture and self-tests in it, and counts what an emulator can "
           "count: instructions and bytes. Speed it ranks only with --kvm.",
    .children = children,
};

/* ---- running kernel/check ---- */

/* Beside the program that is built or installed; free it. */
static char *find_check(void)
{
    char *self = realpath("/proc/self/exe", NULL);
    if (self)
        *strrchr(self, '/') = '\0';
    char *place[] = {
        cli_printf("%s/../share/hotlock/kernel/check", self ? self : "."),
        cli_printf("%s", HOTLOCK_KERNEL "/check"),
        cli_printf("%s", HOTLOCK_PREFIX "/share/hotlock/kernel/check"),
    };
    char *found = NULL;
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        if (!found && access(place[i], X_OK) == 0)
            found = place[i];
        else
            free(place[i]);
    }
    free(self);
    if (!found)
        cli_bad("kernel/check is neither in the source tree nor installed; install hotlock again");
    return found;
}

static void add(char ***at, const char *name, const char *value)
{
    if (!value)
        return;
    *(*at)++ = (char *)name;
    if (*value)
        *(*at)++ = (char *)value;
}

static int run_check(const options_t *o, const char *results)
{
    char *argv[32], **at = argv, *check = find_check();
    const char *seconds = o->seconds ? o->seconds : o->quick ? "10" : NULL;
    add(&at, check, "");
    add(&at, "--build", o->build);
    add(&at, "--results", results);
    add(&at, "--source", o->source);
    add(&at, "--variants", o->variants);
    add(&at, "--only", o->only);
    add(&at, "--seconds", seconds);
    add(&at, "--rounds", o->rounds);
    add(&at, "--jobs", o->jobs);
    add(&at, "--host-cpus", o->host_cpus);
    add(&at, "--quick", o->quick ? "" : NULL);
    add(&at, "--kvm", o->kvm ? "" : NULL);
    *at = NULL;
    child_spec_t spec = {.path = check, .argv = argv};
    child_result_t result;
    child_watch_interrupts();
    child_run(&spec, &result);
    free(check);
    if (result.end == CHILD_INTERRUPTED)
        return CLI_INTERRUPTED;
    if (result.end == CHILD_NOT_STARTED)
        cli_bad("cannot start kernel/check: %s", strerror(result.code));
    if (result.end == CHILD_EXITED)
        return result.code;
    char how[64];
    cli_note("kernel/check did not come to its end: %s", child_end_text(&result, how, sizeof how));
    return CLI_NO_RESULT;
}

/* ---- tables ---- */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static const table_column_t gate_columns[] = {
    {"variant", "variant", TABLE_LEFT, TABLE_BOTH},
    {"passed", "gates", TABLE_LEFT, TABLE_BOTH},
    {"boots", "boots with N CPUs, in s", TABLE_LEFT, TABLE_BOTH},
    {"spin_lock", "torture spin_lock", TABLE_LEFT, TABLE_BOTH},
    {"spin_lock_irq", "torture spin_lock_irq", TABLE_LEFT, TABLE_BOTH},
};

static table_t *gate_table(const json_t *rows)
{
    table_t *t = table_new(gate_columns, sizeof gate_columns / sizeof *gate_columns);
    size_t i, k;
    json_t *row, *boot;
    json_array_foreach(rows, i, row) {
        bool passed = json_is_true(json_object_get(row, "passed"));
        char *boots = cli_printf("%s", ""), *more;
        json_array_foreach(json_object_get(row, "boots"), k, boot) {
            const char *reason = json_string_value(json_object_get(boot, "reason"));
            more = cli_printf("%s%s%s: %s", boots, k ? ", " : "", text_of(boot, "name"),
                              reason ? reason : "");
            free(boots);
            boots = reason ? more : cli_printf("%s%d", more, (int)json_integer_value(
                                                                  json_object_get(boot, "seconds")));
            if (!reason)
                free(more);
        }
        const json_t *torture = json_object_get(row, "torture");
        table_text(t, "%s", text_of(row, "variant"));
        table_cell(t, json_boolean(passed), passed ? "pass" : "FAIL");
        table_text(t, "%s", boots);
        table_text(t, "%s", text_of(torture, "spin_lock"));
        table_text(t, "%s", text_of(torture, "spin_lock_irq"));
        free(boots);
    }
    return t;
}

static const char *const works[] = {"hackbench", "stat", "fcntl", "kmalloc", "spin"};
enum { WORKS = sizeof works / sizeof *works };

static const table_column_t count_columns[] = {
    {"variant", "variant", TABLE_LEFT, TABLE_BOTH},
    {"hackbench", "hackbench", TABLE_RIGHT, TABLE_BOTH},
    {"stat", "stat", TABLE_RIGHT, TABLE_BOTH},
    {"fcntl", "fcntl", TABLE_RIGHT, TABLE_BOTH},
    {"kmalloc", "kmalloc", TABLE_RIGHT, TABLE_BOTH},
    {"spin", "spin", TABLE_RIGHT, TABLE_BOTH},
    {"same", "twice the same", TABLE_LEFT, TABLE_BOTH},
};

/* Millions of instructions in the row that is the base, and what others differ by. */
static void count_cells(table_t *t, const json_t *counts, const json_t *base, bool first)
{
    for (int w = 0; w < WORKS; w++) {
        json_t *n = json_object_get(counts, works[w]);
        double here = (double)json_integer_value(n);
        double there = (double)json_integer_value(json_object_get(base, works[w]));
        if (!n)
            table_none(t);
        else if (first)
            table_cell(t, json_incref(n), "%.3f M", here / 1e6);
        else
            table_cell(t, json_incref(n), "%+.2f %%", 100 * (here / there - 1));
    }
}

static table_t *count_table(const json_t *rows)
{
    table_t *t = table_new(count_columns, sizeof count_columns / sizeof *count_columns);
    const json_t *base = json_object_get(json_array_get(rows, 0), "counts");
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        table_text(t, "%s", text_of(row, "variant"));
        count_cells(t, json_object_get(row, "counts"), base, i == 0);
        bool same = json_is_true(json_object_get(row, "same"));
        table_cell(t, json_boolean(same), same ? "yes" : "no");
    }
    return t;
}

static const table_column_t text_columns[] = {
    {"variant", "variant", TABLE_LEFT, TABLE_BOTH},
    {"bytes", "bytes of functions", TABLE_RIGHT, TABLE_BOTH},
    {"more", "to calls", TABLE_RIGHT, TABLE_PEOPLE},
    {"hackbench", "hackbench", TABLE_RIGHT, TABLE_BOTH},
    {"stat", "stat", TABLE_RIGHT, TABLE_BOTH},
    {"fcntl", "fcntl", TABLE_RIGHT, TABLE_BOTH},
    {"kmalloc", "kmalloc", TABLE_RIGHT, TABLE_BOTH},
    {"spin", "spin", TABLE_RIGHT, TABLE_BOTH},
};

/* Each lock's kernels beside the one in which no operation is inlined, which comes first. */
static table_t *text_table(const json_t *rows)
{
    table_t *t = table_new(text_columns, sizeof text_columns / sizeof *text_columns);
    const json_t *base = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        long long bytes = json_integer_value(json_object_get(row, "bytes"));
        bool first = !base || strstr(text_of(row, "variant"), "-calls");
        base = first ? row : base;
        long long more = bytes - json_integer_value(json_object_get(base, "bytes"));
        table_text(t, "%s", text_of(row, "variant"));
        table_int(t, bytes);
        if (first)
            table_none(t);
        else
            table_text(t, "%+lld (%+.2f %%)", more, 100.0 * (double)more / (double)(bytes - more));
        count_cells(t, json_object_get(row, "counts"), json_object_get(base, "counts"), first);
    }
    return t;
}

/* ---- speed, on real hardware ---- */

static const table_column_t speed_columns[] = {
    {"variant", "variant", TABLE_LEFT, TABLE_BOTH},
    {"measure", "measure", TABLE_LEFT, TABLE_BOTH},
    {"median", "median", TABLE_RIGHT, TABLE_BOTH},
    {"ratio", "to the first", TABLE_RIGHT, TABLE_BOTH},
    {"low", "95 % low", TABLE_RIGHT, TABLE_BOTH},
    {"high", "95 % high", TABLE_RIGHT, TABLE_BOTH},
};
static const char *const measures[] = {"spin", "ali", "kmalloc", "hackbench", "stat", "fcntl",
                                       "ranges"};
enum { ROUNDS_MOST = 1000 };

static size_t samples_of(const json_t *rows, const char *variant, const char *key, double *x)
{
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(rows, i, row) {
        const json_t *value = json_object_get(row, key);
        if (strcmp(text_of(row, "variant"), variant) == 0 && value && n < ROUNDS_MOST)
            x[n++] = json_number_value(value);
    }
    return n;
}

static void speed_row(table_t *t, const json_t *rows, const char *variant, const char *measure)
{
    static double x[ROUNDS_MOST], base[ROUNDS_MOST];
    size_t n = samples_of(rows, variant, measure, x);
    size_t m = samples_of(rows, text_of(json_array_get(rows, 0), "variant"), measure, base);
    stats_estimate_t r = stats_ratio_interval(x, n, base, m, n == m, 0.95);
    table_text(t, "%s", variant);
    table_text(t, "%s", measure);
    table_real(t, stats_median(x, n), stats_median(x, n) < 1000 ? 4 : 0);
    table_real(t, r.mid, 3);
    table_real(t, r.lo, 3);
    table_real(t, r.hi, 3);
}

static table_t *speed_table(const json_t *rows)
{
    table_t *t = table_new(speed_columns, sizeof speed_columns / sizeof *speed_columns);
    size_t i;
    json_t *row;
    for (size_t k = 0; k < sizeof measures / sizeof *measures; k++)
        json_array_foreach(rows, i, row)
            if (json_integer_value(json_object_get(row, "round")) == 1)
                speed_row(t, rows, text_of(row, "variant"), measures[k]);
    return t;
}

/* ---- printing ---- */

static const struct {
    const char *key, *title;
    table_t *(*make)(const json_t *rows);
} parts[] = {
    {"gates", "Gates: boots under an emulator, with everything that ran in them", gate_table},
    {"counts", "Instructions of the same work, one processor, uncontended", count_table},
    {"text", "Inlining: bytes of the kernel's functions, and instructions", text_table},
    {"samples", "Speed under KVM, the variants taken in turn; cycles or seconds", speed_table},
};

static void print(const json_t *results, table_format_t format, FILE *out)
{
    bool first = true;
    if (!json_is_true(json_object_get(results, "complete")))
        fprintf(out, "%sThis is a part of the results: the run did not come to its end.\n\n",
                format == TABLE_CSV ? "# " : "");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *rows = json_object_get(results, parts[i].key);
        if (!json_array_size(rows))
            continue;
        table_t *t = parts[i].make(rows);
        fprintf(out, "%s%s%s\n", first ? "" : "\n", format == TABLE_CSV ? "# " : "",
                parts[i].title);
        if (format == TABLE_MARKDOWN)
            fputc('\n', out);
        table_print(t, format, out);
        table_free(t);
        first = false;
    }
    if (json_is_true(json_object_get(results, "emulated")) && format != TABLE_CSV)
        fprintf(out, "\nno ranking of speed: under emulation the same kernel's rates vary tenfold "
                     "from boot to\n       boot; a machine with KVM gives one with --kvm\n");
}

/* ---- cleaning up ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

/* The tree that an interrupted run was unpacking or patching: kernel/check had no time for it. */
static void remove_half(const char *build)
{
    char *half = cli_printf("%s/linux-half", build);
    if (access(half, F_OK) == 0)
        cli_note("removing %s, which is not whole", half);
    nftw(half, remove_entry, 32, FTW_DEPTH | FTW_PHYS);
    free(half);
}

int cmd_kernel(int argc, char **argv)
{
    options_t o = {.build = "kernel-build"};
    char *text;
    size_t size;
    json_error_t error;
    cli_parse(&argp, argc, argv, false, &o);
    output_check(&o.output);
    if (mkdir(o.build, 0755) != 0 && errno != EEXIST)
        cli_bad("%s: %s; give a folder to work in with --build", o.build, strerror(errno));
    char *file = cli_printf("%s/results.json", o.build);
    unlink(file);
    int code = run_check(&o, file);
    remove_half(o.build);
    json_t *results = json_load_file(file, 0, &error);
    free(file);
    if (!results)
        return code == CLI_OK ? CLI_NO_RESULT : code;
    FILE *f = open_memstream(&text, &size);
    if (o.output.format == TABLE_JSON)
        output_json(results, f);
    else
        print(results, o.output.format, f);
    fclose(f);
    if (o.output.format != TABLE_JSON)
        json_decref(results);
    bool good = output_write(o.output.file, text, size);
    free(text);
    return good ? code : CLI_NO_RESULT;
}
