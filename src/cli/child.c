/* SPDX-License-Identifier: MIT */
/*
 * Runs a command once and says what it did.
 *
 *   caller --fork--> keeper (own group, subreaper, SIGTERM when the caller dies)
 *                       --fork--> command (own group, SIGKILL when the keeper dies)
 *
 * The keeper waits with its signals blocked, so nothing can slip between a check and a wait. It
 * sends one report through a pipe and leaves only when it has no descendant any more.
 */
#include "child.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

#define GRACE 0.5 /* seconds between SIGTERM and SIGKILL */
#define TICK 0.25 /* seconds between looks at the amount of output */

extern char **environ;

static volatile sig_atomic_t interrupted;

typedef struct {
    child_end_t end;
    int code;
    double wall, user, system;
    long peak_kib;
} report_t;

/* What the keeper knows. */
typedef struct {
    const child_spec_t *spec;
    const sigset_t *mask; /* the command's signal mask: what the caller had */
    int out, err;         /* memory files; -1: the caller's streams */
    pid_t command;
    bool running;
    int status;
    double begin;
    report_t report;
} keeper_t;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct timespec to_timespec(double seconds)
{
    seconds = seconds > 0 ? seconds : 0;
    time_t whole = (time_t)seconds;
    return (struct timespec){whole, (long)((seconds - (double)whole) * 1e9)};
}

/* ---- interrupts, in the caller ---- */

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};

/* A signal the caller's parent had ignored (nohup) stays ignored. */
void child_watch_interrupts(void)
{
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++) {
        struct sigaction action = {.sa_handler = on_interrupt}, old;
        sigaction(interrupts[i], NULL, &old);
        if (old.sa_handler != SIG_IGN)
            sigaction(interrupts[i], &action, NULL);
    }
}

bool child_interrupted(void)
{
    return interrupted;
}

static void interrupt_set(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof interrupts / sizeof *interrupts; i++)
        sigaddset(set, interrupts[i]);
}

/* ---- the command, after the second fork ---- */

static void give_input(void)
{
    static off_t begin = -1;
    struct stat st;
    if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode)) {
        if (begin < 0)
            begin = lseek(STDIN_FILENO, 0, SEEK_CUR);
        lseek(STDIN_FILENO, begin, SEEK_SET);
    }
}

static void empty_input_unless_file(void)
{
    struct stat st;
    if (fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode))
        return;
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    if (null != STDIN_FILENO)
        close(null);
}

_Noreturn static void become_command(const keeper_t *k, pid_t keeper, int failure)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper)
        _exit(127);
    empty_input_unless_file();
    if (k->out >= 0) {
        dup2(k->out, STDOUT_FILENO);
        dup2(k->err, STDERR_FILENO);
    }
    sigprocmask(SIG_SETMASK, k->mask, NULL);
    execve(k->spec->path, k->spec->argv, k->spec->env ? k->spec->env : environ);
    int error = errno;
    if (write(failure, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* ---- the keeper ---- */

static void add_usage(keeper_t *k, const struct rusage *u)
{
    k->report.user += (double)u->ru_utime.tv_sec + (double)u->ru_utime.tv_usec / 1e6;
    k->report.system += (double)u->ru_stime.tv_sec + (double)u->ru_stime.tv_usec / 1e6;
    if (u->ru_maxrss > k->report.peak_kib)
        k->report.peak_kib = u->ru_maxrss;
}

/* Collects one ended process; false if there is none (or, without WNOHANG, none left at all). */
static bool reap(keeper_t *k, int flags)
{
    int status;
    struct rusage usage;
    pid_t pid = wait4(-1, &status, flags, &usage);
    if (pid <= 0)
        return false;
    add_usage(k, &usage);
    if (pid == k->command) {
        k->report.wall = now() - k->begin;
        k->status = status;
        k->running = false;
    }
    return true;
}

/* Parent of the process in /proc/NAME; 0 if it has just gone. */
static pid_t parent_of(const char *name)
{
    char path[64], stat[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, stat, sizeof stat - 1);
    close(fd);
    stat[got > 0 ? got : 0] = '\0';
    const char *after_name = strrchr(stat, ')'); /* the name itself may hold anything */
    int parent = 0;
    return after_name && sscanf(after_name, ") %*c %d", &parent) == 1 ? parent : 0;
}

/*
 * SIGKILL for every child of this keeper. Their own children come to it when they die, so
 * repeating this until no child is left ends all descendants, whatever group they are in.
 */
static void kill_children(void)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    pid_t self = getpid();
    for (struct dirent *entry; (entry = readdir(proc));)
        if (isdigit((unsigned char)entry->d_name[0]) && parent_of(entry->d_name) == self)
            kill((pid_t)atoi(entry->d_name), SIGKILL);
    closedir(proc);
}

/* Asks the command to end and gives it the grace to do so. */
static void ask_command(keeper_t *k, const sigset_t *child_ended)
{
    double until = now() + GRACE;
    kill(-k->command, SIGTERM);
    kill(-k->command, SIGCONT);
    while (k->running && now() < until) {
        struct timespec rest = to_timespec(until - now());
        sigtimedwait(child_ended, NULL, &rest);
        while (reap(k, WNOHANG))
            ;
    }
}

static void end_everything(keeper_t *k)
{
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    if (k->running)
        ask_command(k, &child_ended);
    while (waitid(P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT) == 0) {
        kill_children();
        reap(k, 0);
    }
}

static bool too_much_output(const keeper_t *k)
{
    struct stat out, err;
    return k->out >= 0 && fstat(k->out, &out) == 0 && fstat(k->err, &err) == 0 &&
           (size_t)(out.st_size + err.st_size) > CHILD_OUTPUT_MOST;
}

/* Waits for the end of the command or for a reason to end it. */
static void watch(keeper_t *k, const sigset_t *signals)
{
    double deadline = k->spec->limit > 0 ? k->begin + k->spec->limit : 0;
    while (k->running) {
        double rest = TICK;
        if (deadline > 0 && deadline - now() < rest)
            rest = deadline - now();
        struct timespec timeout = to_timespec(rest);
        int got = sigtimedwait(signals, NULL, &timeout);
        if (got > 0 && got != SIGCHLD) {
            k->report.end = CHILD_INTERRUPTED;
            return;
        }
        while (reap(k, WNOHANG))
            ;
        if (k->running && too_much_output(k)) {
            k->report.end = CHILD_OUTPUT;
            return;
        }
        if (k->running && deadline > 0 && now() >= deadline) {
            k->report.end = CHILD_LIMIT;
            return;
        }
    }
    k->report.end = WIFSIGNALED(k->status) ? CHILD_SIGNALLED : CHILD_EXITED;
    k->report.code = WIFSIGNALED(k->status) ? WTERMSIG(k->status) : WEXITSTATUS(k->status);
}

/* Starts the command; false if it could not be executed. */
static bool start(keeper_t *k)
{
    int failure[2];
    pid_t self = getpid();
    if (pipe2(failure, O_CLOEXEC) != 0) {
        k->report = (report_t){.end = CHILD_NOT_STARTED, .code = errno};
        return false;
    }
    k->begin = now();
    k->command = fork();
    if (k->command == 0)
        become_command(k, self, failure[1]);
    close(failure[1]);
    int error = k->command < 0 ? errno : 0;
    if (k->command > 0) {
        setpgid(k->command, k->command); /* whoever comes first; both do it */
        k->running = true;
        if (read(failure[0], &error, sizeof error) != sizeof error)
            error = 0;
    }
    close(failure[0]);
    if (error)
        k->report = (report_t){.end = CHILD_NOT_STARTED, .code = error};
    return error == 0;
}

_Noreturn static void keep(keeper_t *k, pid_t caller, int report)
{
    sigset_t signals;
    interrupt_set(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would throw exit codes away */
    setpgid(0, 0);            /* Ctrl-C is for the caller, which then tells the keeper */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != caller)
        _exit(1);
    if (start(k))
        watch(k, &signals);
    end_everything(k);
    _exit(write(report, &k->report, sizeof k->report) == sizeof k->report ? 0 : 1);
}

/* ---- the caller ---- */

/* Waits for the keeper's report, passing an interrupt on. */
static bool await_report(int from, pid_t keeper, const sigset_t *mask, report_t *report)
{
    struct pollfd ready = {.fd = from, .events = POLLIN};
    bool told = false;
    for (;;) {
        if (interrupted && !told) {
            kill(keeper, SIGTERM);
            told = true;
        }
        if (ppoll(&ready, 1, NULL, mask) > 0)
            return read(from, report, sizeof *report) == sizeof *report;
        if (errno != EINTR)
            return false;
    }
}

static char *read_all(int fd, size_t *length)
{
    off_t size = lseek(fd, 0, SEEK_END);
    *length = size > 0 ? (size_t)size : 0;
    char *bytes = cli_alloc(*length + 1);
    size_t got = 0;
    for (ssize_t n = 1; n > 0 && got < *length; got += n > 0 ? (size_t)n : 0)
        n = pread(fd, bytes + got, *length - got, (off_t)got);
    *length = got;
    return bytes;
}

/* Written at the end always, as a log would be, whoever shares the file. */
static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0 || fcntl(fd, F_SETFL, O_APPEND) != 0)
        cli_bad("cannot keep the output of the command: %s", strerror(errno));
    return fd;
}

static void take_output(const keeper_t *k, child_result_t *result)
{
    if (k->out < 0)
        return;
    result->out = read_all(k->out, &result->out_len);
    result->err = read_all(k->err, &result->err_len);
    close(k->out);
    close(k->err);
}

void child_run(const child_spec_t *spec, child_result_t *result)
{
    sigset_t block, mask;
    *result = (child_result_t){.end = CHILD_INTERRUPTED};
    keeper_t k = {.spec = spec, .mask = &mask, .out = -1, .err = -1};
    report_t report = {.end = CHILD_NOT_STARTED, .code = ECHILD};
    int channel[2];
    if (interrupted)
        return;
    if (spec->capture) {
        k.out = memory_file("stdout");
        k.err = memory_file("stderr");
    }
    if (pipe2(channel, O_CLOEXEC) != 0)
        cli_bad("cannot start the command: %s", strerror(errno));
    give_input();
    interrupt_set(&block);
    sigprocmask(SIG_BLOCK, &block, &mask);
    pid_t caller = getpid(), keeper = fork();
    if (keeper < 0)
        cli_bad("cannot start the command: %s", strerror(errno));
    if (keeper == 0)
        keep(&k, caller, channel[1]);
    close(channel[1]);
    if (!await_report(channel[0], keeper, &mask, &report))
        report = (report_t){.end = CHILD_NOT_STARTED, .code = ECHILD};
    close(channel[0]);
    while (waitpid(keeper, NULL, 0) < 0 && errno == EINTR)
        ;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    result->end = report.end;
    result->code = report.code;
    result->wall = report.wall;
    result->user = report.user;
    result->system = report.system;
    result->peak_kib = report.peak_kib;
    take_output(&k, result);
}

void child_free(child_result_t *result)
{
    free(result->out);
    free(result->err);
    result->out = result->err = NULL;
}

const char *child_end_text(const child_result_t *result, char *buffer, size_t size)
{
    const char *name;
    switch (result->end) {
    case CHILD_EXITED:
        snprintf(buffer, size, "exit %d", result->code);
        break;
    case CHILD_SIGNALLED:
        name = sigabbrev_np(result->code); /* real-time signals have none */
        if (name)
            snprintf(buffer, size, "killed by SIG%s", name);
        else
            snprintf(buffer, size, "killed by signal %d", result->code);
        break;
    case CHILD_LIMIT:
        snprintf(buffer, size, "over the time limit");
        break;
    case CHILD_OUTPUT:
        snprintf(buffer, size, "over %zu MiB of output", CHILD_OUTPUT_MOST >> 20);
        break;
    case CHILD_INTERRUPTED:
        snprintf(buffer, size, "interrupted");
        break;
    case CHILD_NOT_STARTED:
        snprintf(buffer, size, "not started: %s", strerror(result->code));
        break;
    }
    return buffer;
}

/* ---- environments ---- */

char **child_env(char *const *base, const char *name, const char *value)
{
    size_t count = 0, kept = 0, length = strlen(name);
    while (base[count])
        count++;
    char **env = cli_alloc((count + 2) * sizeof *env);
    for (size_t i = 0; i < count; i++)
        if (strncmp(base[i], name, length) != 0 || base[i][length] != '=')
            env[kept++] = cli_printf("%s", base[i]);
    if (value)
        env[kept++] = cli_printf("%s=%s", name, value);
    return env;
}

void child_free_env(char **env)
{
    for (char **e = env; *e; e++)
        free(*e);
    free(env);
}
