/* SPDX-License-Identifier: MIT */
/* How much of the machine others used while we measured: /proc/stat less our own CPU time. */
#include "foreign.h"

#include <math.h>
#include <stdio.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

static double wall_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * CPU seconds of the whole machine that were not idle, time taken by a hypervisor included. Guest
 * time is already part of user time (proc(5)).
 */
static double busy_now(void)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *f = fopen("/proc/stat", "re");
    if (!f)
        return NAN;
    int got = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                     &iowait, &irq, &softirq, &steal);
    fclose(f);
    if (got != 8)
        return NAN;
    return (double)(user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

void foreign_begin(foreign_t *f)
{
    f->busy_at_begin = busy_now();
    f->wall_at_begin = wall_now();
}

void foreign_end(foreign_t *f, double own)
{
    f->capacity += (wall_now() - f->wall_at_begin) * get_nprocs();
    f->foreign += busy_now() - f->busy_at_begin - own;
}

/* Clock ticks are coarse: sums over short runs may stray a little below 0 or above 1. */
double foreign_share(const foreign_t *f)
{
    return f->capacity > 0 ? fmin(1, fmax(0, f->foreign / f->capacity)) : NAN;
}
