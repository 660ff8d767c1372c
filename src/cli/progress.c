/* SPDX-License-Identifier: MIT */
/* One line of progress on stderr, and only if that is a terminal. */
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void progress_begin(progress_t *p, size_t total)
{
    *p = (progress_t){.on = isatty(STDERR_FILENO), .total = total, .begin = now()};
}

static void show_rest(const progress_t *p)
{
    double rest = (now() - p->begin) / (double)p->done * (double)(p->total - p->done);
    if (rest < 90)
        fprintf(stderr, ", about %.0f s left", rest);
    else
        fprintf(stderr, ", about %.0f min left", rest / 60);
}

void progress_show(const progress_t *p, const char *format, ...)
{
    va_list args;
    if (!p->on)
        return;
    fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (p->done > 0 && p->done < p->total)
        show_rest(p);
    fflush(stderr);
}

void progress_step(progress_t *p, size_t runs)
{
    p->done += runs;
}

void progress_clear(const progress_t *p)
{
    if (p->on)
        fputs("\r\033[K", stderr);
}
