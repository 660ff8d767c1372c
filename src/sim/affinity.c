// SPDX-License-Identifier: MIT
// affinity.c - on which CPUs the program lets its threads run, as the kernel's calls say it.
//
// A CPU's number is its place in the order in which threads are placed, so that a program that pins
// its threads to 0, 1, 2... gets the placement the command was asked for.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

// Declared by nobody: the program's object calls them under these names (redirect.syms).
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { WORD_BITS = 64 };

// Those of the set that the machine has; false: none.
static bool read_set(cpu_mask_t *mask, size_t size, const cpu_set_t *set) {
    bool any = false;
    memset(mask, 0, sizeof *mask);
    for (int i = 0; i < cpu_count && (size_t)i < 8 * size; i++) {
        if (!CPU_ISSET_S((size_t)i, size, set)) continue;
        mask->word[i / WORD_BITS] |= (uint64_t)1 << (i % WORD_BITS);
        any = true;
    }
    return any;
}

static int set_of(const thread_t *t, size_t size, cpu_set_t *set) {
    if (8 * size < (size_t)cpu_count) return EINVAL;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < cpu_count; i++)
        if (may_run_on(t, &cpus[i])) CPU_SET_S((size_t)i, size, set);
    return 0;
}

static int move_to(thread_t *t, size_t size, const cpu_set_t *set) {
    cpu_mask_t mask;
    engine_passes(machine.syscall);
    if (!read_set(&mask, size, set)) return EINVAL;
    t->allowed = mask;
    t->bound = true;
    sched_obey(t);
    return 0;
}

// Threads are known to the program by a number, 1 the first (engine_self(), pthread.c).
static thread_t *thread_of(long id) {
    if (id == 0) return self;
    return id >= 1 && id <= thread_count && threads[id - 1]->state != THREAD_ENDED
               ? threads[id - 1] : NULL;
}

static int fail(int error) {
    if (!error) return 0;
    errno = error;
    return -1;
}

int vm_sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    if (!self) return sched_setaffinity(pid, size, set);
    thread_t *t = thread_of(pid == getpid() ? 1 : pid);
    return fail(t ? move_to(t, size, set) : ESRCH);
}
int vm_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    if (!self) return sched_getaffinity(pid, size, set);
    const thread_t *t = thread_of(pid == getpid() ? 1 : pid);
    return fail(t ? set_of(t, size, set) : ESRCH);
}
int vm_pthread_setaffinity_np(pthread_t id, size_t size, const cpu_set_t *set) {
    thread_t *t = thread_of((long)id);
    return t ? move_to(t, size, set) : ESRCH;
}
int vm_pthread_getaffinity_np(pthread_t id, size_t size, cpu_set_t *set) {
    const thread_t *t = thread_of((long)id);
    return t ? set_of(t, size, set) : ESRCH;
}

// What pthread_create() was given, for the thread that is made next.
void sim_next_thread(const pthread_attr_t *attr) {
    cpu_set_t set;
    cpu_mask_t mask;
    if (!attr || pthread_attr_getaffinity_np(attr, sizeof set, &set) != 0) return;
    // an attribute that says nothing gives all CPUs, among them some that the machine has not
    if (CPU_COUNT(&set) == CPU_SETSIZE || !read_set(&mask, sizeof set, &set)) return;
    sched_bind_next(&mask);
}

int vm_sched_getcpu(void) { return self ? self->cpu->id : sched_getcpu(); }

int vm_getcpu(unsigned *cpu, unsigned *node) {
    if (!self) return getcpu(cpu, node);
    if (cpu) *cpu = (unsigned)self->cpu->id;
    if (node) *node = (unsigned)self->cpu->socket;
    return 0;
}
