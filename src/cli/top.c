// SPDX-License-Identifier: MIT
// top.c - hotlock top and hotlock report: find the hot lock of a program, a process or the machine.
#include "top.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "../trace/count_read.h"
#include "../trace/symbols.h"
#include "child.h"
#include "commands.h"
#include "nearest.h"
#include "output.h"

const top_form_t top_forms[] = {
    {"text", ".txt", top_text, "for people, at most 100 columns"},
    {"json", ".json", top_json, "everything, with a schema"},
    {"csv", ".csv", top_csv, "the table"},
    {"markdown", ".md", top_markdown, "the table and the verdicts"},
    {"html", ".html", top_html, "one page, no network"},
    {"folded", ".folded", top_folded, "stacks for flame graphs"},
    {"pprof", ".pb.gz", top_pprof, "profile.proto for go tool pprof"},
    {"prometheus", ".prom", top_prometheus, "counters"},
    {0},
};

enum { FILES_MOST = 16 };

typedef struct {
    const char *path;
    const top_form_t *form;
} save_t;

typedef struct {
    top_options_t collect;
    output_t output;
    const top_form_t *form; // on stdout
    save_t save[FILES_MOST];
    size_t save_count;
    const char *workload, *sweep;
    long limit, detailed, stacks;
    pid_t counters;
    bool live;
} options_t;

enum {
    KEY_LOCK = 0x5000, KEY_PRELOAD, KEY_TIME, KEY_LIMIT, KEY_STACKS, KEY_DETAIL, KEY_FORMAT,
    KEY_LIVE, KEY_SYMBOLS, KEY_WORKLOAD, KEY_SWEEP, KEY_HZ,
    KEY_COUNTERS, KEY_UPROBES
};

// ------------------------------------------------------------------------- options
static const struct argp_option options[] = {
    {"pid", 'p', "PID", 0, "Watch a running process", 1},
    {"all", 'a', NULL, 0, "Watch the kernel's locks, of the whole machine", 1},
    {"counters", KEY_COUNTERS, "PID", 0,
     "Only read what a running program counts of its named locks (hotlock/count.h), at once", 1},
    {"uprobes", KEY_UPROBES, NULL, 0,
     "With -p: count every lock call and time every hold, at some microseconds each", 1},
    {"time", KEY_TIME, "SECONDS", 0, "Stop after so long (default: at the end, or at Ctrl-C)", 1},
    {"lock", KEY_LOCK, "NAME[,POLICY]", 0,
     "Run CMD under this lock instead of its own (see hotlock locks)", 1},
    {"preload", KEY_PRELOAD, "FILE", 0, "The preload library of --lock, if not hotlock's own", 1},
    {"symbols", KEY_SYMBOLS, "DIR", 0, "Look for debug files here too", 1},
    {"frequency", KEY_HZ, "HZ", 0, "CPU samples a second for each processor (default 499; 0: none)",
     1},
    {"limit", KEY_LIMIT, "N", 0, "Locks in the table (default 10)", 2},
    {"detail", KEY_DETAIL, "N", 0, "Of them, explained with verdict and stacks (default 3)", 2},
    {"stacks", KEY_STACKS, "N", 0, "Stacks shown of each kind (default 3)", 2},
    {"live", KEY_LIVE, NULL, 0, "Show the table while it changes; q ends, see the manual for keys",
     2},
    {"format", KEY_FORMAT, "FORM", 0,
     "text, json, csv, markdown, html, folded, pprof or prometheus on stdout", 3},
    {"output", 'o', "FILE", 0,
     "Write FILE too, which must not exist; its end says the form: .txt .json .csv .md .html "
     ".folded .pb.gz .prom. May be repeated", 3},
    {"export-workload", KEY_WORKLOAD, "FILE.c", 0,
     "Write a program with the hottest lock's hold and think times, for hotlock sim", 3},
    {"sweep", KEY_SWEEP, "FILE.json", 0, "Draw this result of hotlock try or bench in the HTML", 3},
    {0},
};

static const top_form_t *form_by_name(const char *name)
{
    const char *names[16];
    size_t count = 0;
    for (const top_form_t *f = top_forms; f->name; f++) {
        if (strcmp(f->name, name) == 0)
            return f;
        names[count++] = f->name;
    }
    cli_bad("unknown format '%s'; nearest is '%s'", name, nearest_name(name, names, count));
}

static const top_form_t *form_by_suffix(const char *file)
{
    size_t length = strlen(file);
    for (const top_form_t *f = top_forms; f->name; f++) {
        size_t suffix = strlen(f->suffix);
        if (length > suffix && strcmp(file + length - suffix, f->suffix) == 0)
            return f;
    }
    cli_bad("'%s' does not say its form; end it with .txt, .json, .csv, .md, .html, .folded, "
            ".pb.gz or .prom", file);
}

static void add_save(options_t *o, char *path)
{
    if (o->save_count == FILES_MOST)
        cli_bad("more than %d files; write fewer", FILES_MOST);
    o->save[o->save_count++] = (save_t){path, form_by_suffix(path)};
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    options_t *o = state->input;
    top_options_t *c = &o->collect;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->output;
        return 0;
    case 'p':
        c->pid = (pid_t)cli_long("--pid", arg, 1, 1 << 22);
        return 0;
    case KEY_COUNTERS:
        o->counters = (pid_t)cli_long("--counters", arg, 1, 1 << 22);
        return 0;
    case 'a':
        c->all = true;
        return 0;
    case KEY_UPROBES:
        c->uprobes = true;
        return 0;
    case 'o':
        add_save(o, arg);
        return 0;
    case KEY_TIME:
        c->seconds = cli_seconds("--time", arg);
        return 0;
    case KEY_LOCK:
        c->lock = arg;
        return 0;
    case KEY_PRELOAD:
        c->preload = arg;
        return 0;
    case KEY_SYMBOLS:
        c->symbols = arg;
        return 0;
    case KEY_HZ:
        c->sample_hz = (unsigned)cli_long("--frequency", arg, 0, 10000);
        return 0;
    case KEY_LIMIT:
        o->limit = cli_long("--limit", arg, 1, 1000000);
        return 0;
    case KEY_DETAIL:
        o->detailed = cli_long("--detail", arg, 0, 1000000);
        return 0;
    case KEY_STACKS:
        o->stacks = cli_long("--stacks", arg, 0, PROFILE_STACKS);
        return 0;
    case KEY_LIVE:
        o->live = true;
        return 0;
    case KEY_FORMAT:
        o->form = form_by_name(arg);
        return 0;
    case KEY_WORKLOAD:
        o->workload = arg;
        return 0;
    case KEY_SWEEP:
        o->sweep = arg;
        return 0;
    case ARGP_KEY_ARG:
        c->command = cli_rest(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&output_format_argp, 0, NULL, 0}, {0}};

static const struct argp top_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "[-p PID] [-a] [-- CMD [ARG...]]",
    .doc = "Finds the hot lock: what it costs, who waits for it, who makes them wait, and whether "
           "another lock would help. What CMD prints goes to stderr.",
};

static const struct argp report_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .args_doc = "-o FILE.html [-p PID] [-a] [-- CMD [ARG...]]",
    .doc = "Finds the hot lock as hotlock top does, and writes one HTML page that loads nothing.",
};

// ------------------------------------------------------------------------- before
static void check_new_file(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        cli_bad("'%s' is there already; remove it or name another file", path);
    output_check(&(output_t){.file = path});
}

static void check(options_t *o)
{
    const top_options_t *c = &o->collect;
    if (!c->pid && !c->all && !c->command && !o->counters)
        cli_bad("nothing to watch; give -- CMD, -p PID or -a");
    if (o->counters && (c->pid || c->all || c->command))
        cli_bad("--counters only reads; leave -p, -a and -- CMD out");
    if (c->command && c->pid)
        cli_bad("-- CMD cannot go with -p; watch one of them");
    if (c->uprobes && !c->pid)
        cli_bad("--uprobes needs a running process; give -p PID, or leave it out: -- CMD counts "
                "every call anyway");
    if ((c->lock || c->preload) && !c->command)
        cli_bad("--lock and --preload need a program to start; write it after --");
    int terminal = o->live ? open("/dev/tty", O_RDWR | O_CLOEXEC) : STDIN_FILENO;
    if (terminal < 0)
        cli_bad("--live needs a terminal; leave it out for a report at the end");
    if (o->live)
        close(terminal);
    struct stat st;
    if (c->symbols && (stat(c->symbols, &st) != 0 || !S_ISDIR(st.st_mode)))
        cli_bad("--symbols '%s' is no directory; name one with debug files", c->symbols);
    for (size_t i = 0; i < o->save_count; i++)
        check_new_file(o->save[i].path);
    if (o->workload)
        check_new_file(o->workload);
    static const char *const of_format[] = {"text", "csv", "markdown", "json"};
    if (!o->form)
        o->form = form_by_name(of_format[o->output.format]);
}

static json_t *read_sweep(const char *file)
{
    json_error_t error;
    if (!file)
        return NULL;
    json_t *sweep = json_load_file(file, 0, &error);
    if (!sweep)
        cli_bad("cannot read '%s': %s", file, error.text);
    if (!json_is_array(json_object_get(sweep, "sections")) &&
        !json_is_array(json_object_get(sweep, "cells")))
        cli_bad("'%s' has no results; give what hotlock try --json or bench --json wrote", file);
    return sweep;
}

// ------------------------------------------------------------------------- after
// A new file only its owner can read, never one that is there, never through a link.
static bool save(const char *path, const char *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0;
    while (good && size) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR)
            continue;
        good = done > 0;
        bytes += good ? done : 0;
        size -= good ? (size_t)done : 0;
    }
    int error = errno;
    if (fd >= 0 && close(fd) != 0)
        good = false;
    if (!good && fd >= 0)
        unlink(path);
    if (!good)
        cli_note("cannot write '%s': %s", path, strerror(error));
    return good;
}

static bool write_form(const top_result_t *r, const top_form_t *form, const char *path)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    bool good = form->write(r, out);
    fclose(out);
    if (!good)
        cli_note("cannot write '%s': nothing of the kind was measured", path ? path : "stdout");
    else
        good = path ? save(path, bytes, size) : output_write(NULL, bytes, size);
    free(bytes);
    return good;
}

// Of a process, its own words as they are now: it may be gone at the end.
static char *process_words(pid_t pid)
{
    static char text[65536];
    char *words[1024], path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *f = fopen(path, "re");
    size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    for (char *at = text; at < text + size && count < 1023; at += strlen(at) + 1)
        words[count++] = at;
    words[count] = NULL;
    return count && size < sizeof text - 1 && count < 1023 ? cli_shell_words(words) : NULL;
}

static char *command_words(const top_options_t *c)
{
    char *words = c->command ? cli_shell_words(c->command) : c->pid ? process_words(c->pid) : NULL;
    char *text = words ? cli_printf("-- %s", words) : NULL;
    free(words);
    return text;
}

// When a process began, in seconds since the machine did.
static double started(pid_t pid)
{
    char path[64], text[1024];
    unsigned long long ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = '\0';
    const char *after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                                    "%*d %*d %*d %*d %llu", &ticks) != 1)
        return NAN;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static int read_counters(pid_t pid, profile_t *p)
{
    struct timespec now;
    p->pid = pid;
    p->what = cli_printf("PID %d", (int)pid);
    p->how = "what the program counted of its named locks since it named them";
    p->processors = (unsigned)get_nprocs();
    int count = count_read_process(pid, p);
    if (count < 0)
        cli_bad("cannot read the counters of process %d: %s", (int)pid,
                errno == ENOENT ? "there is no such process" : strerror(errno));
    if (count == 0)
        cli_bad("process %d counts no locks; name some with hl_lock_name() (hotlock/count.h)",
                (int)pid);
    clock_gettime(CLOCK_BOOTTIME, &now);
    p->wall_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - started(pid);
    return CLI_OK;
}

static int collect(const options_t *o, profile_t *p)
{
    const top_options_t *c = &o->collect;
    if (o->counters)
        return read_counters(o->counters, p);
    if (c->command)
        return collect_program(c, p);
    int code = c->all ? collect_system(c, p) : CLI_OK;
    if (code == CLI_OK && c->pid && !c->all)
        code = collect_process(c, p);
    return code;
}

static bool write_all(const options_t *o, top_result_t *r, bool to_stdout)
{
    bool good = !to_stdout || write_form(r, o->form, NULL);
    for (size_t i = 0; i < o->save_count; i++)
        good = write_form(r, o->save[i].form, o->save[i].path) && good;
    if (o->workload)
        good = write_form(r, &(top_form_t){.write = top_export_workload}, o->workload) && good;
    return good;
}

// Of a stripped program in which not one lock could be named, people need to hear what to mend
// before they read on. What was measured is written all the same: it cost a run.
static bool without_names(const profile_t *p)
{
    for (size_t i = 0; i < p->lock_count; i++)
        if (!p->locks[i].told_by_place)
            return false;
    if (!p->stripped || !p->lock_count)
        return false;
    cli_note("%s: stripped, no lock could be named; each is told by its place, all else in the "
             "report holds; install its debug symbols, or give --symbols DIR", p->what);
    return true;
}

static int run(options_t *o, bool to_stdout)
{
    profile_t p;
    check(o);
    json_t *sweep = read_sweep(o->sweep);
    child_watch_interrupts();
    profile_init(&p);
    top_live_t *live = o->live ? top_live_begin(o->collect.command ? o->collect.command[0] : "")
                               : NULL;
    if (live) {
        o->collect.look = top_live_look;
        o->collect.looker = live;
    }
    char *words = command_words(&o->collect);
    int code = collect(o, &p);
    if (live)
        top_live_end(live);
    if (code != CLI_OK)
        return code;
    symbols_resolve(&p, o->collect.symbols);
    profile_finish(&p);
    top_result_t r = {.profile = &p, .limit = (size_t)o->limit, .detailed = (size_t)o->detailed,
                      .stacks = (size_t)o->stacks, .sweep = sweep, .sweep_name = o->sweep};
    diagnosis_t *diagnoses = diagnose(&p);
    r.diagnoses = diagnoses;
    r.command = words;
    bool good = write_all(o, &r, to_stdout);
    code = !good                 ? CLI_NO_RESULT
           : child_interrupted() ? CLI_INTERRUPTED
           : !p.lock_count       ? CLI_NO_RESULT
           : without_names(&p)   ? CLI_BAD_INPUT
                                 : CLI_OK;
    diagnosis_free(diagnoses, p.lock_count);
    profile_free(&p);
    json_decref(sweep);
    free(words);
    return code;
}

int cmd_top(int argc, char **argv)
{
    options_t o = {.limit = 10, .detailed = 3, .stacks = 3, .collect.sample_hz = 499};
    cli_parse(&top_argp, argc, argv, true, &o);
    return run(&o, true);
}

int cmd_report(int argc, char **argv)
{
    options_t o = {.limit = 50, .detailed = 10, .stacks = 8, .collect.sample_hz = 499};
    cli_parse(&report_argp, argc, argv, true, &o);
    if (!o.save_count)
        cli_bad("no file given; use -o FILE.html");
    int code = run(&o, false);
    for (size_t i = 0; i < o.save_count; i++)
        if (access(o.save[i].path, F_OK) == 0) // it was not there before
            printf("%s\n", o.save[i].path);
    return code;
}
