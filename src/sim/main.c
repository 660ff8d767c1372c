// SPDX-License-Identifier: MIT
// main.c - the process that is simulated: its settings, and one copy of it per seed.
//
// The command builds the program with this as its main(); the program's own is renamed. The machine
// comes in HOTLOCK_SIM ("name=value" separated by blanks, times in ps) and HOTLOCK_SIM_CPUS
// ("core.l3.socket.group", separated by commas, in the order threads are placed). Each seed's
// report goes to the file that HOTLOCK_SIM_REPORT names plus ".SEED", its output to that
// plus ".out".
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "sim.h"

machine_t machine;
settings_t settings = {.lock = -1};
static int seeds = 1, jobs = 1;
static bool debug;            // one seed, in this process, for a debugger
static struct { int argc; char **argv; } program;

// By this symbol the command knows a program that was built to be simulated.
extern const char hotlock_sim_program[];
const char hotlock_sim_program[] = "hotlock-sim-program/1";

extern char **environ;

// ------------------------------------------------------------------------- settings
typedef struct { const char *name; enum { TIME, REAL, WHOLE, FLAG } type; void *at; } field_t;

static const field_t fields[] = {
    {"cycle", TIME, &machine.cycle},
    {"block", TIME, &machine.block},
    {"block_smt", TIME, &machine.block_smt},
    {"hit", TIME, &machine.hit},
    {"rmw", TIME, &machine.rmw},
    {"pause", TIME, &machine.pause},
    {"clock", TIME, &machine.clock},
    {"call", TIME, &machine.call},
    {"smt", TIME, &machine.smt},
    {"dirty_l3", TIME, &machine.dirty[NEAR_L3]},
    {"dirty_socket", TIME, &machine.dirty[NEAR_SOCKET]},
    {"dirty_remote", TIME, &machine.dirty[NEAR_REMOTE]},
    {"dirty_far", TIME, &machine.dirty[NEAR_FAR]},
    {"clean_l3", TIME, &machine.clean[NEAR_L3]},
    {"clean_socket", TIME, &machine.clean[NEAR_SOCKET]},
    {"clean_remote", TIME, &machine.clean[NEAR_REMOTE]},
    {"clean_far", TIME, &machine.clean[NEAR_FAR]},
    {"serve_l3", TIME, &machine.serve[NEAR_L3]},
    {"serve_socket", TIME, &machine.serve[NEAR_SOCKET]},
    {"serve_remote", TIME, &machine.serve[NEAR_REMOTE]},
    {"serve_far", TIME, &machine.serve[NEAR_FAR]},
    {"memory", TIME, &machine.memory},
    {"upgrade", TIME, &machine.upgrade},
    {"invalidate", TIME, &machine.invalidate},
    {"bus", TIME, &machine.bus},
    {"disorder", REAL, &machine.disorder},
    {"nearest", REAL, &machine.nearest},
    {"buffer", WHOLE, &machine.buffer},
    {"home", FLAG, &machine.home},
    {"migratory", FLAG, &machine.migratory},
    {"syscall", TIME, &machine.syscall},
    {"futex_wake", TIME, &machine.futex_wake},
    {"wake", TIME, &machine.wake},
    {"switch", TIME, &machine.switch_},
    {"migrate", TIME, &machine.migrate},
    {"slice", TIME, &machine.slice},
    {"granularity", TIME, &machine.granularity},
    {"jitter", REAL, &settings.jitter},
    {"limit", TIME, &settings.limit},
    {"seconds", REAL, &settings.seconds},
    {"lock", WHOLE, &settings.lock},
    {"skip_main", FLAG, &settings.skip_main},
    {"seeds", WHOLE, &seeds},
    {"jobs", WHOLE, &jobs},
    {"debug", FLAG, &debug},
};

static void set(const field_t *f, const char *value) {
    switch (f->type) {
    case TIME: *(ps_t *)f->at = strtoull(value, NULL, 10); break;
    case REAL: *(double *)f->at = atof(value); break;
    case WHOLE: *(int *)f->at = atoi(value); break;
    case FLAG: *(bool *)f->at = atoi(value) != 0; break;
    }
}

static void read_settings(const char *from) {
    char *copy = strdup(from), *save = NULL;
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *value = strchr(w, '=');
        if (!value) continue;
        *value++ = '\0';
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (!strcmp(w, fields[i].name)) set(&fields[i], value);
    }
    free(copy);
}

static void find_siblings(void) {
    for (int i = 0; i < cpu_count; i++) {
        cpus[i].sibling = i;
        for (int k = 0; k < cpu_count; k++)
            if (k != i && cpus[k].core == cpus[i].core) cpus[i].sibling = k;
    }
}

static void read_cpus(const char *at) {
    cpus = calloc(MAX_CPUS, sizeof *cpus);
    placement = calloc(MAX_CPUS, sizeof *placement);
    while (*at && cpu_count < MAX_CPUS) {
        cpu_t *c = &cpus[cpu_count];
        c->id = cpu_count;
        if (sscanf(at, "%d.%d.%d.%d", &c->core, &c->l3, &c->socket, &c->group) != 4) break;
        placement[cpu_count++] = c;
        if (c->core >= core_count) core_count = c->core + 1;
        at += strcspn(at, ",");
        if (*at) at++;
    }
    find_siblings();
}

// ------------------------------------------------------------------------- crashes
static const struct { int number; const char *name; } deadly[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"},
    {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"}, {SIGSYS, "SIGSYS"},
};

static uintptr_t pc_of(const ucontext_t *context) {
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)context->uc_mcontext.pc;
#endif
}

// Tells where every thread is, and ends. Should the program have crashed inside the C library,
// holding a lock of it, the alarm ends it without a report.
static void on_crash(int number, siginfo_t *info, void *context) {
    char text[160];
    const char *name = "a signal";
    signal(SIGALRM, SIG_DFL);
    signal(number, SIG_DFL);
    alarm(5);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (deadly[i].number == number) name = deadly[i].name;
    bool address = number == SIGSEGV || number == SIGBUS;
    if (address)
        snprintf(text, sizeof text, "%s at address %#lx, in thread %d", name,
                 (unsigned long)(uintptr_t)info->si_addr, engine_self());
    else snprintf(text, sizeof text, "%s, in thread %d", name, engine_self());
    report_crash(text, pc_of(context));
}

// One stack of their own is enough: the host runs one thread. It has room for stdio.
static void watch_crashes(void) {
    const size_t bytes = 256 << 10;
    stack_t stack = {.ss_sp = malloc(bytes), .ss_size = bytes};
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        sigaction(deadly[i].number, &action, NULL);
}

// ------------------------------------------------------------------------- one seed
static void *program_thread(void *arg) {
    (void)arg;
    report_exit(vm_program_main(program.argc, program.argv, environ));
}

static _Noreturn void simulate(void) {
    sched_init();
    line_init();
    sched_create(program_thread, NULL);
    sched_run();
}

static pid_t start(const char *report, uint64_t seed) {
    fflush(NULL);
    pid_t parent = getpid(), child = fork();
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    char *out;
    settings.seed = seed;
    if (asprintf((char **)&settings.report, "%s.%lu", report, (unsigned long)seed) < 0) _exit(1);
    if (asprintf(&out, "%s.out", settings.report) < 0) _exit(1);
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, 1) < 0) _exit(1);
    close(fd);
    watch_crashes();
    simulate();
}

// Ends with 3 if a seed could not be simulated to its end, else with what the program ended with.
int main(int argc, char **argv) {
    const char *set = getenv("HOTLOCK_SIM"), *where = getenv("HOTLOCK_SIM_CPUS");
    const char *report = getenv("HOTLOCK_SIM_REPORT");
    if (!set || !where || !report) {
        fprintf(stderr, "%s: built to be simulated; run it with: hotlock sim %s\n", argv[0],
                argv[0]);
        return 2;
    }
    read_settings(set);
    read_cpus(where);
    program.argc = argc;
    program.argv = argv;
    unsetenv("HOTLOCK_SIM_CPUS");
    if (debug) {
        settings.seed = 1;
        simulate();
    }
    int running = 0, worst = 0, status;
    for (int next = 1; next <= seeds || running;) {
        if (next <= seeds && running < jobs) {
            if (start(report, (uint64_t)next++) < 0) return 3;
            running++;
            continue;
        }
        if (wait(&status) < 0) break;
        running--;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (code > worst) worst = code;
    }
    return worst;
}
