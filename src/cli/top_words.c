// SPDX-License-Identifier: MIT
// top_words.c - the pieces of text that several forms of `hotlock top` share.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../trace/made.h"
#include "cli.h"
#include "top.h"

const char *top_duration(double ns, char *buffer)
{
    static const struct { double unit; const char *name; } units[] = {
        {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    size_t u = 0;
    if (isnan(ns))
        return strcpy(buffer, "-");
    while (u < 3 && ns < 0.9995 * units[u].unit)
        u++;
    double value = ns / units[u].unit;
    snprintf(buffer, 32, "%.*f %s", u == 3 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2, value,
             units[u].name);
    return buffer;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *top_frame_text(const profile_frame_t *f)
{
    if (f->function && f->file && f->line)
        return cli_printf("%s (%s:%d)", f->function, base_name(f->file), f->line);
    if (f->function)
        return cli_printf("%s", f->function);
    if (f->module)
        return cli_printf("%#llx (%s)", (unsigned long long)f->pc, base_name(f->module));
    return cli_printf("%#llx", (unsigned long long)f->pc);
}

char *top_stack_text(const profile_t *p, const profile_stack_t *s, size_t frames)
{
    char *text = cli_printf("%s", "");
    for (size_t i = 0; i < s->depth && i < frames; i++) {
        char *one = top_frame_text(&p->frames[s->frame[i]]);
        char *more = cli_printf("%s%s%s", text, i ? " < " : "", one);
        free(one);
        free(text);
        text = more;
    }
    return text;
}

uint64_t top_role_ns(const profile_lock_t *l, profile_role_t role)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < l->stack_count; i++)
        sum += l->stacks[i].role == role ? l->stacks[i].ns : 0;
    return sum;
}

double top_utilisation(const profile_t *p, const profile_lock_t *l)
{
    return diagnosis_utilisation(p, l);
}

char *top_summary(const profile_t *p)
{
    char *text, wait[32], spin[32];
    size_t size;
    uint64_t waited = 0, spun = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < p->lock_count; i++) {
        waited += p->locks[i].wait_ns;
        spun += p->locks[i].has & HAS_WAIT ? p->locks[i].spin_ns : 0;
    }
    fprintf(out, "%.2f s", p->wall_s);
    if (isfinite(p->user_s))
        fprintf(out, ", %.2f s of CPU time", p->user_s + p->system_s);
    if (p->threads)
        fprintf(out, ", %u thread%s", p->threads, p->threads == 1 ? "" : "s");
    fprintf(out, ", %u processor%s", p->processors, p->processors == 1 ? "" : "s");
    fputs(p->partial ? "; stopped before its end. " : ". ", out);
    if (isfinite(p->spin_share))
        fprintf(out, "%.1f %% of the CPU time was spent spinning for locks. ",
                100 * p->spin_share);
    if (isfinite(p->kernel_spin_share))
        fprintf(out, "%.1f %% in the kernel's spinlocks. ", 100 * p->kernel_spin_share);
    fprintf(out, "Threads waited %s, %s of it spinning.", top_duration((double)waited, wait),
            top_duration((double)spun, spin));
    fclose(out);
    return text;
}

// Another lock, or none, can be put in its place from outside.
static bool reached(const profile_lock_t *l)
{
    return l->pid && strcmp(l->kind, "home-made loop") != 0 && strcmp(l->kind, MADE_GIL) != 0;
}

static bool curable(limit_t limit)
{
    return limit == LIMIT_HANDOFF || limit == LIMIT_SPIN || limit == LIMIT_BURSTS ||
           limit == LIMIT_CALLS || limit == LIMIT_READERS;
}

char *top_next(const top_result_t *r)
{
    const profile_t *p = r->profile;
    for (size_t i = 0; r->command && i < p->lock_count && i < r->limit; i++) {
        limit_t limit = r->diagnoses[i].limit;
        if (!reached(&p->locks[i]))
            continue;
        if (curable(limit))
            return cli_printf("hotlock try %s", r->command);
        if (limit == LIMIT_HOLD || limit == LIMIT_PREEMPTED)
            return cli_printf("hotlock top --export-workload hold.c %s\nhotlock sim hold.c",
                              r->command);
    }
    return NULL;
}

char **top_remarks(const profile_t *p)
{
    char **all = cli_alloc((p->note_count + 16) * sizeof *all);
    size_t count = 0;
    const profile_dropped_t *d = &p->dropped;
    for (size_t i = 0; i < p->note_count; i++)
        all[count++] = cli_printf("%s", p->notes[i]);
    if (d->acquisitions)
        all[count++] = cli_printf("dropped: %llu acquisitions of locks beyond the most that are "
                                  "kept, not in the table", (unsigned long long)d->acquisitions);
    if (d->locks)
        all[count++] = cli_printf("dropped: %llu rows beyond the most that are kept",
                                  (unsigned long long)d->locks);
    if (d->waits)
        all[count++] = cli_printf("dropped: %llu waits for locks beyond the most that are kept, not "
                                  "in the table", (unsigned long long)d->waits);
    if (d->gone_locks)
        all[count++] = cli_printf("not listed: %llu locks that were destroyed and never waited "
                                  "for, with %llu acquisitions", (unsigned long long)d->gone_locks,
                                  (unsigned long long)d->gone_acquisitions);
    if (d->stacks)
        all[count++] = cli_printf("dropped: the stacks of %llu waits and holds; their times are "
                                  "counted", (unsigned long long)d->stacks);
    if (d->samples || d->events)
        all[count++] = cli_printf("dropped: %llu CPU samples and %llu events the kernel could not "
                                  "deliver", (unsigned long long)d->samples,
                                  (unsigned long long)d->events);
    return all;
}
