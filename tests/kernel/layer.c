// SPDX-License-Identifier: MIT
// layer: the lock headers over the kernel's layer, in a program (shim.h). Threads take a lock and
// are interrupted by signals, which take another, and are interrupted again; some have used up
// their processor's nodes before. Counts under the locks, without atomics, must come out.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HL_SLOW_BODIES
#include "shim.h"

#include <linux/hotlock/nmcs4.h>
#undef HL_SLOW
#define HL_SLOW static HL_SLOW_TEXT
#include <linux/hotlock/ali.h>

enum { THREADS = 4, ROUNDS = 2000, CONTEXTS = 3, INTERRUPTS = 150 };

_Thread_local int shim_cpu;
char *shim_copy[SHIM_CPUS];
extern char __stop_percpu_shim[];

void hl_pool_occupy(int nodes) { this_cpu_add(hl_pool_used, (unsigned)nodes); }

static hl_nmcs4_t four[CONTEXTS];
static hl_nmcs_t sixteen[CONTEXTS];
static hl_ali_t ali[CONTEXTS];
static unsigned long total[CONTEXTS][3];
static _Thread_local unsigned long due[CONTEXTS];
static unsigned long all_due[CONTEXTS];
static unsigned claimed_at_end, came[CONTEXTS];
static bool enough;

static void add(void *arg) { ++*(unsigned long *)arg; }

static void count(int context) {
    hl_nmcs4_lock(&four[context]);
    add(&total[context][0]);
    hl_nmcs4_unlock(&four[context]);
    hl_nmcs_lock(&sixteen[context]);
    add(&total[context][1]);
    hl_nmcs_unlock(&sixteen[context]);
    hl_ali_run(&ali[context], add, &total[context][2]);
    due[context]++;
}

static void interrupt(int number) {
    int context = number == SIGUSR1 ? 1 : 2;
    count(context);
    __atomic_fetch_add(&came[context], 1, __ATOMIC_RELAXED);
}

static void *processor(void *arg) {
    shim_cpu = (int)(intptr_t)arg;
    for (int i = 0; i < ROUNDS || !READ_ONCE(enough); i++) {
        int taken = (i + shim_cpu) % 5;  // 4: no node is left
        hl_pool_occupy(taken);
        count(0);
        hl_pool_occupy(-taken);
    }
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int c = 0; c < CONTEXTS; c++) __atomic_fetch_add(&all_due[c], due[c], __ATOMIC_RELAXED);
    __atomic_fetch_add(&claimed_at_end, *this_cpu_ptr(&hl_pool_used), __ATOMIC_RELAXED);
    return NULL;
}

static void set_up(void) {
    size_t size = (size_t)(__stop_percpu_shim - __start_percpu_shim);
    for (int i = 0; i < SHIM_CPUS; i++) {
        shim_copy[i] = aligned_alloc(64, (size + 63) / 64 * 64);
        memcpy(shim_copy[i], __start_percpu_shim, size);
    }
    struct sigaction one = {.sa_handler = interrupt};
    sigaddset(&one.sa_mask, SIGUSR1);  // SIGUSR2, the NMI, may interrupt SIGUSR1
    sigaction(SIGUSR1, &one, NULL);
    sigaddset(&one.sa_mask, SIGUSR2);
    sigaction(SIGUSR2, &one, NULL);
}

static int verdict(int n, const char *name, unsigned long counted, unsigned long wanted) {
    printf("%sok %d - %s\n", counted == wanted ? "" : "not ", n, name);
    if (counted != wanted) printf("# %lu counted, %lu due\n", counted, wanted);
    return counted != wanted;
}

int main(void) {
    static const char *const lock[] = {"nmcs4", "nmcs", "ali"};
    static const char *const where[] = {"tasks", "interrupts", "interrupted interrupts"};
    pthread_t thread[THREADS];
    int bad = 0, n = 0;
    set_up();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, processor, (void *)(intptr_t)i);
    for (int i = 0; READ_ONCE(came[1]) < INTERRUPTS || READ_ONCE(came[2]) < INTERRUPTS; i++) {
        (void)pthread_kill(thread[i % THREADS], i % 3 ? SIGUSR1 : SIGUSR2);
        sched_yield();
    }
    WRITE_ONCE(enough, true);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int c = 0; c < CONTEXTS; c++)
        for (int l = 0; l < 3; l++) {
            char name[64];
            snprintf(name, sizeof name, "%s in %s", lock[l], where[c]);
            bad |= verdict(++n, name, total[c][l], all_due[c]);
        }
    bad |= verdict(++n, "no node is left claimed", claimed_at_end, 0);
    printf("1..%d\n", n);
    return bad;
}
