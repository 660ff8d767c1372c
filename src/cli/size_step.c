/* SPDX-License-Identifier: MIT */
/*
 * `hotlock size`: how many instructions an operation executes when nobody else is there. Counted,
 * not timed: a child goes through the probes one instruction at a time.
 */
#include <elf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "size.h"
#include "size_probe.h"

#define STEPS_MOST 1000000 /* a child that comes nowhere is given up */

__attribute__((noinline)) void size_mark(void *lock, void *node)
{
    __asm__ __volatile__("" : : "r"(lock), "r"(node) : "memory");
}

static void go_through(const size_probe_t *probes, size_t count)
{
    static _Alignas(64) char lock[64], node[64];
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 1) /* the next lock */
            memset(lock, 0, sizeof lock);
        probes[i].probe(lock, node);
    }
}

static _Noreturn void child(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    go_through(size_probes_inline, size_probe_count);
    go_through(size_probes_called, size_probe_count);
    _exit(0);
}

/* The address of the next instruction; 0: cannot be known. */
static uintptr_t where(pid_t pid)
{
#if defined(__x86_64__) || defined(__aarch64__)
    struct user_regs_struct registers;
    struct iovec all = {&registers, sizeof registers};
    if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &all) != 0)
        return 0;
#if defined(__x86_64__)
    return registers.rip;
#else
    return registers.pc;
#endif
#else
    (void)pid;
    return 0;
#endif
}

/* Steps until the next size_mark(); the number of instructions, or 0 if it does not come. */
static unsigned to_mark(pid_t pid)
{
    for (unsigned steps = 1; steps < STEPS_MOST; steps++) {
        int status;
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid ||
            !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP)
            return 0;
        uintptr_t at = where(pid);
        if (!at)
            return 0;
        if (at == (uintptr_t)size_mark)
            return steps;
    }
    return 0;
}

static void keep(size_of_t *s, const size_probe_t *p, unsigned steps, bool inlined)
{
    for (size_t i = 0; i < s->count; i++) {
        char *name = cli_printf("hl_%s_%s", s->ops[i].lock, s->ops[i].operation);
        if (strcmp(name, p->function) == 0)
            *(inlined ? &s->ops[i].steps.inlined : &s->ops[i].steps.called) = steps;
        free(name);
    }
}

static bool count_form(size_of_t *s, pid_t pid, const size_probe_t *probes, bool inlined)
{
    unsigned reference = 0;
    for (size_t i = 0; i < size_probe_count; i++) {
        unsigned steps;
        if (!to_mark(pid) || !(steps = to_mark(pid)))
            return false;
        if (!probes[i].function)
            reference = steps;
        else
            keep(s, &probes[i], steps - reference, inlined);
    }
    return true;
}

bool size_count_steps(size_of_t *s)
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        child();
    if (pid < 0)
        return false;
    bool good = waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) &&
                ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_EXITKILL) == 0 &&
                count_form(s, pid, size_probes_inline, true) &&
                count_form(s, pid, size_probes_called, false);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return good;
}
