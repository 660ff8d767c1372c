/* SPDX-License-Identifier: MIT */
/*
 * pair: what one uncontended lock and unlock costs, for every lock, inlined and called.
 *
 * All candidates are timed in turn, a burst each, round after round, so that noise hits all alike;
 * the fastest burst and the median count. Beside them stand the empty loop and the reference
 * every lock is compared with: one C11 exchange and one store, the least a lock can do. Idle
 * threads exist meanwhile, for libc leaves atomics out of its mutex while a process has one thread.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/cli/cli.h"
#include "../src/cli/stats.h"
#include "common/options.h"
#include "pair.h"

enum { PAIRS = 40000, ROUNDS_LEAST = 5, CANDIDATES_MOST = 64 };

struct candidate {
    const char *name, *form;
    const struct lock_info *info; /* NULL: a reference */
    void (*loop)(void *lock, uint64_t pairs);
    void *lock;
    double *ns; /* per pair, one per round */
};

struct contest {
    struct candidate candidate[CANDIDATES_MOST];
    size_t count, rounds;
};

/* ---------------------------------------------------------------- references */

static __attribute__((noinline, aligned(64))) void empty_loop(void *unused, uint64_t pairs)
{
    (void)unused;
    for (; pairs; pairs--)
        __asm__ __volatile__("" ::: "memory");
}

static __attribute__((noinline, aligned(64))) void exchange_store(void *word, uint64_t pairs)
{
    atomic_uint *w = word;
    for (; pairs; pairs--) {
        while (atomic_exchange_explicit(w, 1, memory_order_acquire))
            ;
        __asm__ __volatile__("" ::: "memory");
        atomic_store_explicit(w, 0, memory_order_release);
    }
}

/* The same in one byte: a processor may forward stores of words to atomics, and not of bytes. */
static __attribute__((noinline, aligned(64))) void exchange_store_byte(void *byte, uint64_t pairs)
{
    atomic_uchar *b = byte;
    for (; pairs; pairs--) {
        while (atomic_exchange_explicit(b, 1, memory_order_acquire))
            ;
        __asm__ __volatile__("" ::: "memory");
        atomic_store_explicit(b, 0, memory_order_release);
    }
}

/* ---------------------------------------------------------------- candidates */

static void add(struct contest *c, const char *name, const char *form,
                const struct lock_info *info, void (*loop)(void *, uint64_t))
{
    if (!loop)
        return;
    void *lock = info ? lock_new(info, 2, false) : lines_new(sizeof(atomic_uint));
    c->candidate[c->count++] = (struct candidate){ name, form, info, loop, lock, NULL };
}

static const struct lock_info *info_of(const char *name)
{
    for (size_t i = 0; i < lock_count; i++)
        if (strcmp(lock_catalogue[i].name, name) == 0)
            return &lock_catalogue[i];
    return NULL;
}

static void add_loops(struct contest *c, const struct run *run, const struct pair_loop *loops,
                      size_t count, const char *lock_form, const char *run_form)
{
    for (size_t i = 0; i < count; i++) {
        if (run->lock && strcmp(run->lock->name, loops[i].lock) != 0)
            continue;
        const struct lock_info *info = info_of(loops[i].lock);
        add(c, loops[i].lock, lock_form, info, loops[i].sections);
        add(c, loops[i].lock, run_form, info, loops[i].functions);
    }
}

static double burst(const struct candidate *c)
{
    uint64_t begin = hl_now_ns();
    c->loop(c->lock, PAIRS);
    return (double)(hl_now_ns() - begin) / PAIRS;
}

static void compete(struct contest *c, double seconds)
{
    uint64_t end = hl_now_ns() + (uint64_t)(1e9 * seconds);
    for (size_t i = 0; i < c->count; i++)
        burst(&c->candidate[i]); /* caches and branch predictors */
    for (; c->rounds < ROUNDS_LEAST || hl_now_ns() < end; c->rounds++) {
        for (size_t i = 0; i < c->count; i++) {
            struct candidate *now = &c->candidate[(i + c->rounds) % c->count];
            now->ns = cli_grow(now->ns, c->rounds + 1, sizeof(double));
            now->ns[c->rounds] = burst(now);
        }
    }
}

/* ---------------------------------------------------------------- report */

static double fastest(const struct contest *c, size_t i)
{
    double least = c->candidate[i].ns[0];
    for (size_t r = 1; r < c->rounds; r++)
        if (c->candidate[i].ns[r] < least)
            least = c->candidate[i].ns[r];
    return least;
}

static void print_text(const struct contest *c)
{
    printf("%-15s %-13s %8s %8s %8s %9s %6s\n", "lock", "form", "min ns", "median", "ratio",
           "atomics", "bytes");
    for (size_t i = 0; i < c->count; i++) {
        const struct candidate *k = &c->candidate[i];
        printf("%-15s %-13s %8.2f %8.2f", k->name, k->form, fastest(c, i),
               stats_median(k->ns, c->rounds));
        if (k->info)
            printf(" %8.2f %9u %6zu\n", fastest(c, i) / fastest(c, 1), k->info->atomics,
                   k->info->bytes);
        else
            printf(" %8s %9s %6s\n", i == 1 ? "1.00" : "", i == 1 ? "1" : "", i == 1 ? "4" : "");
    }
    printf("%zu rounds of %d pairs; the loop's own time is included; ratio of the fastest\n",
           c->rounds, PAIRS);
}

static void print_json(const struct contest *c, const struct run *run)
{
    printf("{\"schema\":\"hotlock-workload/1\",\"workload\":\"pair\",\"threads\":%u,"
           "\"rounds\":%zu,\"pairs\":%d,\"candidates\":[", run->threads, c->rounds, PAIRS);
    for (size_t i = 0; i < c->count; i++) {
        const struct candidate *k = &c->candidate[i];
        printf("%s{\"lock\":\"%s\",\"form\":\"%s\",\"min_ns\":%.6g,\"median_ns\":%.6g,"
               "\"ratio\":%.6g,\"median_ratio\":%.6g", i ? "," : "", k->name, k->form,
               fastest(c, i), stats_median(k->ns, c->rounds), fastest(c, i) / fastest(c, 1),
               stats_median(k->ns, c->rounds) / stats_median(c->candidate[1].ns, c->rounds));
        if (k->info)
            printf(",\"atomics_per_pair\":%u,\"lock_bytes\":%zu", k->info->atomics,
                   k->info->bytes);
        printf("}");
    }
    printf("]}\n");
}

/* ---------------------------------------------------------------- idle threads */

static pthread_mutex_t asleep = PTHREAD_MUTEX_INITIALIZER;

static void *idle(void *unused)
{
    pthread_mutex_lock(&asleep); /* until the contest is over */
    pthread_mutex_unlock(&asleep);
    return unused;
}

int main(int argc, char **argv)
{
    struct loop *loops = cli_alloc(pair_inline_count * sizeof(*loops));
    for (size_t i = 0; i < pair_inline_count; i++)
        loops[i].lock = pair_inline[i].lock;
    const struct workload workload = {
        .name = "pair",
        .about = "What one uncontended lock and unlock costs, for every lock or the one given.",
        .loops = loops,
        .loop_count = pair_inline_count,
        .every_lock = true,
    };
    struct run run = { .workload = &workload };
    argv[0] = (char *)workload.name;
    options_parse(&run, argc, argv);

    pthread_t *threads = cli_alloc(run.threads * sizeof(*threads));
    pthread_mutex_lock(&asleep);
    for (unsigned i = 1; i < run.threads; i++)
        if (pthread_create(&threads[i], NULL, idle, NULL) != 0)
            cli_bad("cannot start %u threads; use fewer with --threads", run.threads);

    struct contest contest = { 0 };
    add(&contest, "empty loop", "reference", NULL, empty_loop);
    add(&contest, "exchange+store", "reference", NULL, exchange_store);
    add(&contest, "exchange+store", "one byte", NULL, exchange_store_byte);
    add_loops(&contest, &run, pair_inline, pair_inline_count, "inline", "run");
    add_loops(&contest, &run, pair_called, pair_called_count, "called", "run, called");
    compete(&contest, run.seconds > 0 ? run.seconds : 1);
    if (run.json)
        print_json(&contest, &run);
    else
        print_text(&contest);

    pthread_mutex_unlock(&asleep);
    for (unsigned i = 1; i < run.threads; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < contest.count; i++)
        free(contest.candidate[i].ns);
    free(threads);
    free(loops);
    return 0;
}
