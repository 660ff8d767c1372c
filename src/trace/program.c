// SPDX-License-Identifier: MIT
// program.c - `hotlock top -- CMD`: runs a program with the recorder in it, reads what it counted.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "../cli/child.h"
#include "../cli/cli.h"
#include "../cli/lockname.h"
#include "../cli/preload.h"
#include "../cli/program.h"
#include "count_read.h"
#include "hotlock/wait.h"
#include "kernel_watch.h"
#include "profile.h"
#include "record.h"
#include "record_read.h"
#include "sample.h"

#define POLL_NS 50000000
#define LOOK_NS 1000000000

typedef struct {
    const top_options_t *o;
    char *directory;
    sampler_t *sampler;
    kernel_watch_t *kernel; // -a; NULL: not asked
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t done_changed;
    bool done;
} watch_t;

// ------------------------------------------------------------------------- where records go
// Only files are in it: the recorder makes no directories.
static void remove_directory(const char *directory) {
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(d), e->d_name, 0);
    if (d) closedir(d);
    rmdir(directory);
}

// What a hotlock that was killed left behind.
static void remove_stale(const char *place) {
    DIR *d = opendir(place);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        int pid, end = 0;
        if (sscanf(e->d_name, "hotlock-%d-%n", &pid, &end) != 1 || !end || pid < 1) continue;
        if (strlen(e->d_name + end) != 6 || kill(pid, 0) == 0 || errno != ESRCH) continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) continue;
        char *path = cli_printf("%s/%s", place, e->d_name);
        remove_directory(path);
        free(path);
    }
    if (d) closedir(d);
}

// Memory, if there is a file system in it: what a program counts should not go to a disk.
static char *make_directory(void) {
    const char *places[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!places[i] || !places[i][0] || access(places[i], W_OK) != 0) continue;
        remove_stale(places[i]);
        char *directory = cli_printf("%s/hotlock-%d-XXXXXX", places[i], (int)getpid());
        if (mkdtemp(directory)) return directory;
        free(directory);
    }
    cli_bad("cannot make a directory for the records in /dev/shm or /tmp: %s", strerror(errno));
}

// ------------------------------------------------------------------------- the environment
static char *lock_library(const top_options_t *o, char **setting) {
    *setting = NULL;
    if (!o->lock) return NULL;
    lockname_t lock = lockname_parse(o->lock);
    if (lock.libc) return NULL;
    char *preload = preload_find(o->preload);
    lockname_require(&lock, preload);
    *setting = lockname_setting(&lock, false);
    return preload;
}

static char **make_environment(const char *record, const char *locks, const char *setting,
                               const char *directory) {
    char *list = locks ? cli_printf("%s:%s", record, locks) : cli_printf("%s", record);
    char **plain = preload_env(list, setting);
    char **recorded = child_env(plain, RECORD_ENV, directory);
    char **env = child_env(recorded, "HOTLOCK_COUNTERS", directory);
    child_free_env(plain);
    child_free_env(recorded);
    free(list);
    return env;
}

// ------------------------------------------------------------------------- looking meanwhile
static bool look(const watch_t *w, uint64_t begin) {
    profile_t now;
    profile_init(&now);
    now.wall_s = (double)(hl_now_ns() - begin) / 1e9;
    record_read(w->directory, &now);
    if (w->sampler) sampler_fill(w->sampler, &now);
    if (w->kernel) kernel_watch_fill(w->kernel, &now);
    bool on = w->o->look(&now, w->o->looker);
    profile_free(&now);
    return on;
}

static void *watch(void *arg) {
    watch_t *w = arg;
    uint64_t begin = hl_now_ns(), next = begin + LOOK_NS;
    pthread_mutex_lock(&w->lock);
    for (bool stopped = false; !w->done;) {
        struct timespec at;
        clock_gettime(CLOCK_REALTIME, &at);
        at.tv_nsec += POLL_NS;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&w->done_changed, &w->lock, &at);
        pthread_mutex_unlock(&w->lock);
        sampler_poll(w->sampler);
        if (w->kernel) kernel_watch_poll(w->kernel);
        uint64_t now = hl_now_ns();
        if (w->o->look && !stopped) {
            stopped = now < next ? !w->o->look(NULL, w->o->looker) : !look(w, begin);
            if (stopped) kill(getpid(), SIGINT);
            uint64_t took = hl_now_ns() - now;  // naming much code takes long
            if (now >= next) next = hl_now_ns() + (LOOK_NS > 5 * took ? LOOK_NS : 5 * took);
        }
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

// Looking at samples takes a processor, and a program that loses one is another program: it is done
// when nobody else wants to run. What is shown while it changes must come in time.
static void give_way(const watch_t *w, bool to_all) {
    struct sched_param none = {0};
    if (!w->o->look) pthread_setschedparam(w->thread, to_all ? SCHED_IDLE : SCHED_OTHER, &none);
}

// Signals are for the main thread, which waits for the program.
static void watch_begin(watch_t *w) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&w->thread, NULL, watch, w) != 0) cli_bad("cannot start a thread");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    give_way(w, true);
}

static void watch_end(watch_t *w) {
    give_way(w, false);
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->done_changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
}

// ------------------------------------------------------------------------- the run
// The report has stdout for itself; what the program prints there goes to stderr.
static int stdout_to_stderr(void) {
    fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return saved;
}

static void stdout_back(int saved) {
    if (saved < 0) return;
    dup2(saved, STDOUT_FILENO);
    close(saved);
}

static char *words(char **command) {
    char *text = cli_printf("%s", command[0]);
    for (char **w = command + 1; *w; w++) {
        char *more = cli_printf("%s %s", text, *w);
        free(text);
        text = more;
    }
    return text;
}

static void note_end(profile_t *p, const child_result_t *r) {
    char how[100];
    p->wall_s = r->wall;
    p->user_s = r->user;
    p->system_s = r->system;
    if (r->end == CHILD_EXITED) p->exit_code = r->code;
    if (r->end == CHILD_SIGNALLED) p->exit_signal = r->code;
    p->partial = r->end == CHILD_INTERRUPTED || r->end == CHILD_LIMIT;
    if (r->end == CHILD_SIGNALLED)
        profile_note(p, "the program was %s: what it did until then is here",
                     child_end_text(r, how, sizeof how));
    if (r->end == CHILD_EXITED && r->code != 0)
        profile_note(p, "the program ended with exit code %d", r->code);
}

// What perf top shows as the share of the lock functions: waiting that burned CPU time.
static void share_cpu(profile_t *p) {
    double cpu = p->user_s + p->system_s, spin = 0;
    if (!(cpu > 0)) return;
    for (size_t i = 0; i < p->lock_count; i++) {
        profile_lock_t *l = &p->locks[i];
        if (!(l->has & HAS_WAIT_SPLIT)) continue;
        l->has |= HAS_CPU;
        l->cpu_spin_share = fmin((double)l->spin_ns / 1e9 / cpu, 1);
        spin += l->cpu_spin_share;
    }
    p->spin_share = fmin(spin, 1);
}

int collect_program(const top_options_t *o, profile_t *p) {
    kernel_watch_t *kernel = o->all ? kernel_watch_start(o) : NULL; // may end it all
    char *setting, *locks = lock_library(o, &setting);
    char *record = preload_companion(RECORD_LIBRARY, "trace");
    char *file = program_find(o->command[0], record);
    watch_t w = {.o = o, .kernel = kernel, .lock = PTHREAD_MUTEX_INITIALIZER,
                 .done_changed = PTHREAD_COND_INITIALIZER, .directory = make_directory()};
    char **env = make_environment(record, locks, setting, w.directory);
    child_spec_t spec = {file, o->command, env, o->seconds, o->look != NULL};
    child_result_t r;
    int saved = stdout_to_stderr();
    w.sampler = sampler_start(o->sample_hz, o->symbols, p);
    watch_begin(&w);
    child_run(&spec, &r);
    watch_end(&w);
    sampler_poll(w.sampler);
    stdout_back(saved);
    size_t processes = record_read(w.directory, p);
    count_read_directory(w.directory, p);
    remove_directory(w.directory);
    if (r.end == CHILD_NOT_STARTED) cli_bad("cannot run '%s': %s", file, strerror(r.code));
    note_end(p, &r);
    share_cpu(p);
    sampler_fill(w.sampler, p);
    sampler_stop(w.sampler);
    if (kernel) kernel_watch_fill(kernel, p);
    kernel_watch_stop(kernel);
    p->what = words(o->command);
    p->processors = (unsigned)get_nprocs();
    p->how = "every lock call was counted, every wait timed, and one hold in eight where they are "
             "frequent; CPU time of one wait in eight";
    if (p->samples)
        p->how = "every lock call was counted, every wait timed, and one hold in eight where they "
                 "are frequent; shares of CPU time are of samples";
    if (o->all)
        profile_note(p, "the kernel's locks are of the whole machine, seen by BPF while the program "
                        "ran; their share of CPU time is of every processor's");
    if (!processes)
        profile_note(p, "no process of the program could be recorded: it may be static, or "
                        "unset LD_PRELOAD");
    child_free(&r);
    child_free_env(env);
    free(w.directory);
    free(file);
    free(record);
    free(locks);
    free(setting);
    return CLI_OK;
}
