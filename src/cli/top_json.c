// SPDX-License-Identifier: MIT
// top_json.c - everything `hotlock top` found, for programs. The schema is described in the manual;
// a member that was not measured is null, and none is ever left out.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "output.h"
#include "top.h"

#define SCHEMA "hotlock-top/1"

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(bool known, uint64_t value)
{
    return known ? json_integer((json_int_t)value) : json_null();
}

static json_t *text(const char *bytes)
{
    return bytes ? table_json_string(bytes) : json_null();
}

static json_t *hex(uint64_t address)
{
    char *name = address ? cli_printf("%#llx", (unsigned long long)address) : NULL;
    json_t *value = text(name);
    free(name);
    return value;
}

// [[from ns, count], ...] of the buckets that are not empty.
static json_t *histogram(bool known, const uint64_t hist[PROFILE_BUCKETS])
{
    if (!known)
        return json_null();
    json_t *all = json_array();
    for (unsigned i = 0; i < PROFILE_BUCKETS; i++)
        if (hist[i])
            json_array_append_new(all, json_pack("[I, I]", (json_int_t)(i ? 1ull << i : 0),
                                                 (json_int_t)hist[i]));
    return all;
}

static json_t *frame(const profile_frame_t *f)
{
    return json_pack("{s:o, s:o, s:i, s:o, s:o, s:b}", "function", text(f->function), "file",
                     text(f->file), "line", f->line, "module", text(f->module), "pc", hex(f->pc),
                     "inlined", f->inlined);
}

static json_t *stacks(const profile_t *p, const profile_lock_t *l)
{
    static const char *const roles[STACK_ROLES] = {"waiter", "holder", "spinner", "init",
                                                     "sleeper"};
    json_t *all = json_array();
    for (size_t i = 0; i < l->stack_count; i++) {
        const profile_stack_t *s = &l->stacks[i];
        json_t *frames = json_array();
        for (uint32_t k = 0; k < s->depth; k++)
            json_array_append_new(frames, frame(&p->frames[s->frame[k]]));
        json_array_append_new(all, json_pack("{s:s, s:I, s:I, s:o}", "role", roles[s->role],
                                             "count", (json_int_t)s->count, "ns",
                                             (json_int_t)s->ns, "frames", frames));
    }
    return all;
}

static json_t *beside(const profile_beside_t *b)
{
    if (!b->samples)
        return json_null();
    return json_pack("{s:o, s:o, s:I, s:I}", "name", text(b->name), "address", hex(b->address),
                     "samples", (json_int_t)b->samples, "samples_of_line",
                     (json_int_t)b->of_line);
}

static json_t *lock(const profile_t *p, const profile_lock_t *l, const diagnosis_t *d)
{
    uint32_t has = l->has;
    json_t *o = json_object();
    const struct { const char *name; json_t *value; } members[] = {
        {"name", text(l->name)},
        {"kind", text(l->kind)},
        {"pid", l->pid ? json_integer(l->pid % PROFILE_EXEC) : json_null()},
        {"address", hex(l->address)},
        {"where", text(l->where)},
        {"acquisitions", count(has & HAS_ACQUISITIONS, l->acquisitions)},
        {"contended", count(has & HAS_CONTENDED, l->contended)},
        {"reads", count(has & HAS_ACQUISITIONS, l->reads)},
        {"reads_contended", count(has & HAS_CONTENDED, l->reads_contended)},
        {"wait_ns", count(has & HAS_WAIT, l->wait_ns)},
        {"wait_worst_ns", count(has & HAS_WAIT, l->wait_worst_ns)},
        {"spin_ns", count(has & HAS_WAIT_SPLIT, l->spin_ns)},
        {"sleep_ns", count(has & HAS_WAIT_SPLIT, l->sleep_ns)},
        {"cpu_spin_share", real(has & HAS_CPU ? l->cpu_spin_share : NAN)},
        {"hold_ns", count(has & HAS_HOLD, l->hold_ns)},
        {"hold_worst_ns", count(has & HAS_HOLD && l->hold_worst_ns, l->hold_worst_ns)},
        {"hold_samples", count(has & HAS_HOLD, l->hold_samples)},
        {"hold_undisturbed_ns", real(l->hold_undisturbed_ns > 0 ? l->hold_undisturbed_ns : NAN)},
        {"utilisation", real(diagnosis_utilisation(p, l))},
        {"handoff_ns", count(has & HAS_HANDOFF, l->handoff_ns)},
        {"handoff_worst_ns", count(has & HAS_HANDOFF, l->handoff_worst_ns)},
        {"handoffs", count(has & HAS_HANDOFF, l->handoffs)},
        {"waiters_sum", count(has & HAS_WAITERS, l->waiters_sum)},
        {"waiters_most", count(has & HAS_WAITERS, l->waiters_most)},
        {"owner_changes", count(has & HAS_OWNERS, l->owner_changes)},
        {"calls_ns", count(has & HAS_CALLS, l->calls_ns)},
        {"calls_most_ns", count(has & HAS_CALLS, l->calls_most_ns)},
        {"calls_share", real(diagnosis_calls_share(p, l))},
        {"preempted", count(has & HAS_PREEMPTED, l->preempted)},
        {"preempted_ns", count(has & HAS_PREEMPTED, l->preempted_ns)},
        {"joined", hex(l->joined)},
        {"beside", beside(&l->beside)},
        {"limit", text(limit_name(d->limit))},
        {"verdict", text(d->verdict)},
        {"arithmetic", text(d->arithmetic)},
        {"advice", text(d->advice)},
        {"bound", real(d->bound)},
        {"wait_histogram", histogram(has & HAS_WAIT, l->wait_hist)},
        {"hold_histogram", histogram(has & HAS_HOLD && l->hold_worst_ns, l->hold_hist)},
        {"handoff_histogram", histogram(has & HAS_HANDOFF, l->handoff_hist)},
        {"stacks", stacks(p, l)},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        json_object_set_new(o, members[i].name, members[i].value);
    return o;
}

static json_t *dropped(const profile_dropped_t *d)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "locks", (json_int_t)d->locks,
                     "acquisitions", (json_int_t)d->acquisitions, "wait_ns",
                     (json_int_t)d->wait_ns, "waits", (json_int_t)d->waits,
                     "gone_locks", (json_int_t)d->gone_locks,
                     "gone_acquisitions", (json_int_t)d->gone_acquisitions, "stacks",
                     (json_int_t)d->stacks, "samples", (json_int_t)d->samples, "events",
                     (json_int_t)d->events);
}

static json_t *next_commands(const top_result_t *r)
{
    char *lines = top_next(r), *rest = lines;
    json_t *all = json_array();
    for (char *line; (line = strsep(&rest, "\n"));)
        json_array_append_new(all, text(line));
    free(lines);
    return all;
}

// Text of an object, each line but the first a step to the right.
static void put_inside(json_t *value, FILE *out)
{
    char *bytes = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (!bytes)
        cli_bad("out of memory");
    for (const char *at = bytes; *at; at++) {
        fputc(*at, out);
        if (*at == '\n')
            fputs("    ", out);
    }
    free(bytes);
}

// The locks are made and written one by one: all at once they take ten times their text.
static void put_with_locks(json_t *d, const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    char *head = json_dumps(d, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    if (!head)
        cli_bad("out of memory");
    fprintf(out, "%.*s,\n  \"locks\": [", (int)strlen(head) - 2, head); // without its "\n}"
    for (size_t i = 0; i < p->lock_count; i++) {
        json_t *one = lock(p, &p->locks[i], &r->diagnoses[i]);
        fputs(i ? ",\n    " : "\n    ", out);
        put_inside(one, out);
        json_decref(one);
    }
    fputs(p->lock_count ? "\n  ]\n}\n" : "]\n}\n", out);
    free(head);
}

bool top_json(const top_result_t *r, FILE *out)
{
    const profile_t *p = r->profile;
    json_t *notes = json_array();
    for (size_t i = 0; i < p->note_count; i++)
        json_array_append_new(notes, text(p->notes[i]));
    json_t *d = json_object();
    const struct { const char *name; json_t *value; } members[] = {
        {"schema", json_string(SCHEMA)},
        {"version", json_string(HOTLOCK_VERSION)},
        {"what", text(p->what)},
        {"how", text(p->how)},
        {"pid", p->pid ? json_integer(p->pid % PROFILE_EXEC) : json_null()},
        {"wall_s", real(p->wall_s)},
        {"user_s", real(p->user_s)},
        {"system_s", real(p->system_s)},
        {"spin_share", real(p->spin_share)},
        {"kernel_spin_share", real(p->kernel_spin_share)},
        {"processors", json_integer(p->processors)},
        {"threads", count(p->threads, p->threads)},
        {"partial", json_boolean(p->partial)},
        {"exit_code", p->exit_code >= 0 ? json_integer(p->exit_code) : json_null()},
        {"exit_signal", p->exit_signal ? json_integer(p->exit_signal) : json_null()},
        {"next", next_commands(r)},
        {"dropped", dropped(&p->dropped)},
        {"notes", notes},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        json_object_set_new(d, members[i].name, members[i].value);
    put_with_locks(d, r, out);
    json_decref(d);
    return true;
}
