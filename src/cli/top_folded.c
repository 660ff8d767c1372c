// SPDX-License-Identifier: MIT
// top_folded.c - stacks as "outermost;...;innermost;[lock] microseconds" for flame graphs
// (flamegraph.pl, speedscope, inferno); and the counters of each lock for Prometheus.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "top.h"

// ------------------------------------------------------------------------- folded stacks
// The format keeps frames apart by semicolons and the count by the last space.
static void put_frame(FILE *out, const char *name)
{
    for (; *name; name++)
        fputc(*name == ';' ? ':' : iscntrl((unsigned char)*name) ? ' ' : *name, out);
}

static void put_stack(const profile_t *p, const profile_lock_t *l, const profile_stack_t *s,
                      FILE *out)
{
    static const char *const roles[] = {"waiting for ", "holding ", "spinning for ", ""};
    for (uint32_t i = s->depth; i-- > 0;) {
        const profile_frame_t *f = &p->frames[s->frame[i]];
        char *other = f->function ? NULL : top_frame_text(f);
        put_frame(out, f->function ? f->function : other);
        fputc(';', out);
        free(other);
    }
    char *lock = cli_printf("[%s%s]", roles[s->role], l->name);
    put_frame(out, lock);
    free(lock);
    fprintf(out, " %llu\n", (unsigned long long)((s->ns + 500) / 1000));
}

bool top_folded(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    for (size_t i = 0; i < p->lock_count; i++)
        for (size_t k = 0; k < p->locks[i].stack_count; k++)
            if (p->locks[i].stacks[k].role != STACK_INIT && p->locks[i].stacks[k].ns >= 500)
                put_stack(p, &p->locks[i], &p->locks[i].stacks[k], out);
    return true;
}

// ------------------------------------------------------------------------- Prometheus
// A label's value: backslash, quote and line break are escaped.
static void put_label(FILE *out, const char *value)
{
    char *json = json_dumps(json_pack("[o]", table_json_string(value)), JSON_COMPACT);
    fprintf(out, "%.*s", (int)strlen(json) - 2, json + 1);
    free(json);
}

static void put_labels(FILE *out, const profile_lock_t *l)
{
    fputs("{lock=", out);
    put_label(out, l->name);
    fputs(",kind=", out);
    put_label(out, l->kind);
    fprintf(out, ",pid=\"%d\",address=\"%#llx\"", (int)(l->pid % PROFILE_EXEC),
            (unsigned long long)l->address);
}

typedef struct {
    const char *name, *help;
    uint32_t has;
    size_t at;     // of the uint64_t in a lock
    double scale;
} counter_t;

#define AT(field) offsetof(profile_lock_t, field)
static const counter_t counters[] = {
    {"acquisitions_total", "Times the lock was taken", HAS_ACQUISITIONS, AT(acquisitions), 1},
    {"contended_total", "Times it was busy", HAS_CONTENDED, AT(contended), 1},
    {"wait_seconds_total", "Time threads waited for it", HAS_WAIT, AT(wait_ns), 1e-9},
    {"spin_seconds_total", "CPU time of that", HAS_WAIT_SPLIT, AT(spin_ns), 1e-9},
    {"hold_seconds_total", "Time it was held", HAS_HOLD, AT(hold_ns), 1e-9},
    {"calls_seconds_total", "Time inside its calls, but for waits", HAS_CALLS, AT(calls_ns), 1e-9},
    {"handoff_seconds_total", "Time it was free and waited for", HAS_HANDOFF, AT(handoff_ns), 1e-9},
    {"owner_changes_total", "Times another thread took it", HAS_OWNERS, AT(owner_changes), 1},
};

static void put_counter(FILE *out, const profile_t *p, const counter_t *c)
{
    fprintf(out, "# HELP hotlock_%s %s.\n# TYPE hotlock_%s counter\n", c->name, c->help, c->name);
    for (size_t i = 0; i < p->lock_count; i++) {
        const profile_lock_t *l = &p->locks[i];
        if (!(l->has & c->has))
            continue;
        uint64_t value = *(const uint64_t *)(const void *)((const char *)l + c->at);
        fprintf(out, "hotlock_%s", c->name);
        put_labels(out, l);
        fprintf(out, "} %.9g\n", (double)value * c->scale);
    }
}

static void put_histogram(FILE *out, const profile_t *p)
{
    fputs("# HELP hotlock_wait_seconds Waits by length.\n# TYPE hotlock_wait_seconds histogram\n",
          out);
    for (size_t i = 0; i < p->lock_count; i++) {
        const profile_lock_t *l = &p->locks[i];
        uint64_t sum = 0;
        if (!(l->has & HAS_WAIT) || !l->contended)
            continue;
        for (unsigned b = 0; b < PROFILE_BUCKETS; b++) {
            if (!l->wait_hist[b])
                continue;
            sum += l->wait_hist[b];
            fputs("hotlock_wait_seconds_bucket", out);
            put_labels(out, l);
            fprintf(out, ",le=\"%.9g\"} %llu\n", ldexp(1e-9, (int)b + 1), (unsigned long long)sum);
        }
        fputs("hotlock_wait_seconds_bucket", out);
        put_labels(out, l);
        fprintf(out, ",le=\"+Inf\"} %llu\nhotlock_wait_seconds_sum", (unsigned long long)sum);
        put_labels(out, l);
        fprintf(out, "} %.9g\nhotlock_wait_seconds_count", (double)l->wait_ns / 1e9);
        put_labels(out, l);
        fprintf(out, "} %llu\n", (unsigned long long)sum);
    }
}

bool top_prometheus(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        put_counter(out, p, &counters[i]);
    put_histogram(out, p);
    if (isfinite(p->spin_share))
        fprintf(out, "# HELP hotlock_spin_share Share of the CPU time spent spinning for locks.\n"
                     "# TYPE hotlock_spin_share gauge\nhotlock_spin_share %.9g\n", p->spin_share);
    return true;
}
