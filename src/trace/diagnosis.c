// SPDX-License-Identifier: MIT
// diagnosis.c - which limit a lock is at.
//
// Over the time watched a lock is held (utilisation U), or free although somebody waits for it
// (hand-off H), or free and unwanted (the rest). Beside waiting, threads spend time C inside its
// calls: on the way to its word and back, and waking others. What takes the program's time at any
// moment is the work of some thread, in a section or elsewhere; or the lock being passed on, which
// is in H; or a call, which is in C. A thread that waits while another holds the lock is not it:
// the holder is. Another lock can take away H and C, and must leave the sections, so
//
//   U near 1          the critical sections are the program's speed: no lock will help
//   H + C large       a lock that is passed on faster, or takes fewer steps, is worth at most that
//   neither, but waits  arrivals bunch up, or the holder loses its processor
//
// The bound is H + C, or 1 - U if that is less and one thread at a time holds the lock. H is no
// more than is waited. C is the share of the CPU time, as if every running thread lost as much, or
// the time of the one thread that is inside the most, over the time watched, if that is more.
#include "diagnosis.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "made.h"

#define HELD_MOST      0.80  // above: hold time is the limit
#define HANDOFF_MUCH   0.08
#define WAIT_LITTLE    0.02  // of the threads' time: below, not a lock problem
#define SPIN_MUCH      0.05  // of the CPU time
#define CALLS_MUCH     0.08
#define PREEMPTED_MUCH 0.30  // of the waiting
#define READS_MUCH     0.90

#define LINE       64
#define NEIGHBOURS 1000
#define HOME_MADE  "home-made loop"

double diagnosis_utilisation(const profile_t *p, const profile_lock_t *l) {
    if (!(l->has & HAS_HOLD) || !(p->wall_s > 0)) return NAN;
    double held = (double)l->hold_ns / 1e9 / p->wall_s;
    return l->reads ? held : fmin(held, 1); // readers hold together
}

double diagnosis_handoff_share(const profile_t *p, const profile_lock_t *l) {
    if (!(l->has & HAS_HANDOFF) || !(p->wall_s > 0)) return NAN;
    return fmin((double)l->handoff_ns / 1e9 / p->wall_s, 1);
}

double diagnosis_calls_share(const profile_t *p, const profile_lock_t *l) {
    double cpu = p->user_s + p->system_s;
    if (!(l->has & HAS_CALLS) || !(p->wall_s > 0)) return NAN;
    double one = (double)l->calls_most_ns / 1e9 / p->wall_s;
    double all = cpu > 0 ? (double)l->calls_ns / 1e9 / cpu : 0;
    return fmin(fmax(one, all), 1);
}

const char *limit_name(limit_t limit) {
    static const char *const names[] = {"no problem", "unknown", "hold time", "hand-off",
                                        "preemption", "readers", "spinning", "bursts", "calls"};
    return names[limit];
}

// ------------------------------------------------------------------------- the figures
typedef struct {
    double used, handoff;  // of the time watched
    double least;          // of it, sections of holders that kept their processor
    double calls;          // inside its functions, of the CPU time
    double waiting;        // threads waiting, on average
    double share;          // of the threads' time spent waiting
    double spin;           // of the CPU time
    double preempted;      // of the waiting
    double reads;          // of the acquisitions
    double wall;
    unsigned threads;
} figures_t;

static figures_t figures_of(const profile_t *p, const profile_lock_t *l) {
    figures_t f = {.wall = p->wall_s, .threads = p->threads ? p->threads : 1};
    f.used = diagnosis_utilisation(p, l);
    f.handoff = diagnosis_handoff_share(p, l);
    f.calls = diagnosis_calls_share(p, l);
    f.least = l->has & HAS_HOLD && l->hold_undisturbed_ns > 0
                  ? fmin(l->hold_undisturbed_ns * (double)l->acquisitions / 1e9 / p->wall_s, f.used)
                  : NAN;
    f.waiting = (double)l->wait_ns / 1e9 / p->wall_s;
    f.share = f.waiting / f.threads;
    f.spin = l->has & HAS_CPU ? l->cpu_spin_share : NAN;
    f.preempted = l->has & HAS_PREEMPTED && l->wait_ns
                      ? fmin((double)l->preempted_ns / (double)l->wait_ns, 1) : NAN;
    f.reads = l->acquisitions ? (double)l->reads / (double)l->acquisitions : NAN;
    return f;
}

// One that stays with a thread costs what every lock costs.
static bool passed_around(const profile_lock_t *l, const figures_t *f) {
    return l->reads ? f->threads > 1 : 100 * l->owner_changes > l->acquisitions;
}

static limit_t limit_of(const profile_lock_t *l, const figures_t *f) {
    limit_t quiet = f->calls > CALLS_MUCH && passed_around(l, f) ? LIMIT_CALLS : LIMIT_NONE;
    if (f->reads > READS_MUCH && quiet) return LIMIT_READERS;
    if (l->has & HAS_CONTENDED && !l->contended && !(f->spin > SPIN_MUCH)) return quiet;
    if (!(l->has & HAS_WAIT))
        return f->spin > SPIN_MUCH ? LIMIT_SPIN : isnan(f->spin) ? LIMIT_UNKNOWN : LIMIT_NONE;
    if (f->share < WAIT_LITTLE && !(f->spin > SPIN_MUCH)) return quiet;
    if (f->preempted > PREEMPTED_MUCH) return LIMIT_PREEMPTED;
    if (f->reads > READS_MUCH) return LIMIT_READERS;
    if (f->used > HELD_MOST) return LIMIT_HOLD;
    if (f->handoff > HANDOFF_MUCH) return LIMIT_HANDOFF;
    if (f->spin > SPIN_MUCH) return LIMIT_SPIN;
    if (quiet) return quiet;
    if (isnan(f->used) && isnan(f->handoff)) return LIMIT_UNKNOWN;
    return LIMIT_BURSTS;
}

// ------------------------------------------------------------------------- words
static char *percent(char *to, double share) {
    if (isnan(share)) return strcpy(to, "an unknown share");
    sprintf(to, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
    return to;
}

static void say(diagnosis_t *d, const profile_lock_t *l, const figures_t *f) {
    char used[32], handoff[32], bound[32], spin[32], preempted[32], share[32], calls[32];
    char worth[160], inside[96] = "";
    bool shared = !strcmp(l->kind, "rwlock");
    const char *other = shared ? "another reader-writer lock" : "a queue or combining lock";
    percent(used, f->used);
    percent(handoff, f->handoff);
    percent(spin, f->spin);
    percent(preempted, f->preempted);
    percent(share, f->share);
    percent(bound, d->bound);
    percent(calls, f->calls);
    sprintf(worth, "is worth at most %s%s", bound,
            isnan(f->calls) ? ", and the time inside its calls, which was not measured" : "");
    if (!isnan(f->calls)) sprintf(inside, ", and %s of the CPU time is inside its calls", calls);
    switch (d->limit) {
    case LIMIT_NONE:
        d->verdict = cli_printf("not a lock problem: its waits are %s of the threads' time%s",
                                l->contended ? share : "none",
                                f->calls > CALLS_MUCH ? ", and its calls cost what any lock's do"
                                                      : "");
        d->advice = cli_printf(f->calls > CALLS_MUCH ? "take it less often" : "look elsewhere");
        break;
    case LIMIT_UNKNOWN:
        d->verdict = cli_printf("waited for, but how long it is held was not measured");
        d->advice = cli_printf("run the program under `hotlock top -- CMD`");
        break;
    case LIMIT_HOLD:
        d->verdict = cli_printf("hold time is the limit: held %s of the time, so no lock will help",
                                used);
        d->advice = cli_printf("do less under it, shard it, or take it less often");
        break;
    case LIMIT_HANDOFF:
        d->verdict = cli_printf("hand-off is the limit: free but waited for %s of the time%s; "
                                "%s %s", handoff, inside, other, worth);
        d->advice = cli_printf("try other locks");
        break;
    case LIMIT_PREEMPTED:
        d->verdict = cli_printf("its holder loses the processor while others wait: %s of the "
                                "waiting was behind a holder that did not run", preempted);
        d->advice = cli_printf("no fault, input or output, or sleep under it; no more threads than "
                               "processors");
        break;
    case LIMIT_READERS:
        d->verdict = cli_printf("nearly all are readers: %.1f %% of the acquisitions; another lock "
                                "%s", 100 * f->reads, worth);
        d->advice = cli_printf("a reader-writer lock that readers do not share a line of, or RCU");
        break;
    case LIMIT_SPIN:
        d->verdict = cli_printf("waiting burns CPU time: %s of the program's went into spinning "
                                "for it", spin);
        d->advice = cli_printf("try other locks, or one that sleeps");
        break;
    case LIMIT_BURSTS:
        d->verdict = cli_printf("threads come to it together: held only %s of the time, yet waited "
                                "for%s; a better lock %s", used, inside, worth);
        d->advice = cli_printf("spread the arrivals, or shorten the longest holds");
        break;
    case LIMIT_CALLS:
        d->verdict = cli_printf("its own calls are the limit, not waits: %s of the CPU time goes "
                                "into taking and freeing it; a cheaper lock %s", calls, worth);
        d->advice = cli_printf("take it less often, give each thread its own, or try other locks");
        break;
    }
}

// Between two figures of a sentence; nothing before the first.
static const char *apart(FILE *out) { return ftell(out) > 0 ? "; " : ""; }

static char *arithmetic(const profile_t *p, const profile_lock_t *l, const figures_t *f) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (l->has & HAS_HOLD && l->acquisitions)
        fprintf(out, "held %llu x %.3g us = %.3g s of %.3g s",
                (unsigned long long)l->acquisitions,
                (double)l->hold_ns / 1e3 / (double)l->acquisitions, (double)l->hold_ns / 1e9,
                p->wall_s);
    if (l->has & HAS_HANDOFF && l->handoffs)
        fprintf(out, "%sfreed with somebody waiting %llu x %.3g us = %.3g s", apart(out),
                (unsigned long long)l->handoffs,
                (double)l->handoff_ns / 1e3 / (double)l->handoffs, (double)l->handoff_ns / 1e9);
    if (l->has & HAS_CALLS)
        fprintf(out, "%sin its calls %.3g s, at most %.3g s of one thread", apart(out),
                (double)l->calls_ns / 1e9, (double)l->calls_most_ns / 1e9);
    if (l->has & HAS_WAIT)
        fprintf(out, "%swaited %.3g s = %.3g threads on average", apart(out),
                (double)l->wait_ns / 1e9, f->waiting);
    if (!isnan(f->spin))
        fprintf(out, "%s%.1f %% of the CPU time spinning", apart(out), 100 * f->spin);
    fclose(out);
    return text;
}

static double bound_of(const profile_lock_t *l, const figures_t *f) {
    double most = isnan(f->handoff) ? f->share : fmin(f->handoff, f->waiting);
    if (!isnan(f->calls)) most += f->calls;
    if (!l->reads) most = fmin(most, 1 - (isnan(f->least) ? 0 : f->least));
    return isnan(most) ? NAN : fmin(most, 1);
}

// Another lock in the same cache line, taken a tenth as often or more: each slows the other.
static const profile_lock_t *neighbour(const profile_t *p, const profile_lock_t *l) {
    for (size_t i = 0; l->address && i < p->lock_count && i < NEIGHBOURS; i++) {
        const profile_lock_t *o = &p->locks[i];
        if (o != l && o->pid == l->pid && o->address / LINE == l->address / LINE &&
            o->owner_changes && 10 * o->acquisitions > l->acquisitions)
            return o;
    }
    return NULL;
}

static void add_advice(diagnosis_t *d, char *more) {
    char *both = cli_printf("%s; %s", d->advice, more);
    free(d->advice);
    free(more);
    d->advice = both;
}

// Of any lock, waited for or not: taking it is slow, too, while others have its line.
static void say_beside(diagnosis_t *d, const profile_lock_t *l) {
    char share[32];
    if (!l->beside.samples) return;
    percent(share, (double)l->beside.samples / (double)l->beside.of_line);
    char *more = cli_printf("%s; another hot field shares its cache line: %s, %s of the samples in "
                            "that line", d->verdict, l->beside.name, share);
    free(d->verdict);
    d->verdict = more;
    add_advice(d, cli_printf("give %s a line of its own", l->beside.name));
}

static void advise_more(diagnosis_t *d, const profile_t *p, const profile_lock_t *l) {
    const profile_lock_t *o = d->limit == LIMIT_NONE ? NULL : neighbour(p, l);
    if (o) add_advice(d, cli_printf("%s lies in the same cache line: move them apart", o->name));
    if (d->limit == LIMIT_NONE) return;
    if (!strcmp(l->kind, HOME_MADE)) {
        free(d->advice);
        d->advice = cli_printf("no preload reaches it: put a lock of hotlock's headers in its "
                               "place (hotlock locks)");
    } else if (!strcmp(l->kind, MADE_GIL)) {
        free(d->verdict);
        free(d->advice);
        d->verdict = cli_printf("Python runs one thread at a time: %.3g threads wait for that on "
                                "average, and no other lock changes it",
                                (double)l->wait_ns / 1e9 / p->wall_s);
        d->advice = cli_printf("processes instead of threads, or a Python without this lock");
    }
}

diagnosis_t *diagnose(const profile_t *p) {
    diagnosis_t *all = cli_alloc((p->lock_count + 1) * sizeof *all);
    for (size_t i = 0; i < p->lock_count; i++) {
        const profile_lock_t *l = &p->locks[i];
        figures_t f = figures_of(p, l);
        all[i].limit = limit_of(l, &f);
        all[i].bound = bound_of(l, &f);
        say(&all[i], l, &f);
        all[i].arithmetic = arithmetic(p, l, &f);
        advise_more(&all[i], p, l);
        say_beside(&all[i], l);
    }
    return all;
}

void diagnosis_free(diagnosis_t *d, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(d[i].verdict);
        free(d[i].arithmetic);
        free(d[i].advice);
    }
    free(d);
}
