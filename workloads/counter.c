/* SPDX-License-Identifier: MIT */
/*
 * counter: threads that take one lock and write a few shared cache lines, over and over.
 *
 * The smallest program with a hot lock. What is shared, how long the lock is held and how long a
 * thread stays away are all options, so the same loop is a burst of empty sections or a realistic
 * one. --op fam is the fetch-and-multiply section that the literature on combining uses
 * (Fatourou and Kallimanis, PPoPP 2012): one shared number, multiplied. --private gives each thread
 * a lock and lines of its own, so that what is left is the scheduler's doing.
 */
#define WORKLOAD_COMBINERS 1
#include <string.h>

#include "../src/cli/cli.h"
#include "common/busy.h"
#include "common/run.h"

enum { LINES_MOST = 64, FACTOR = 3, NS_MOST = 1000000000 };

struct line {
    _Alignas(64) volatile uint64_t value;
};

struct counter {
    void *lock;
    unsigned lines;
    bool multiply;
    uint64_t think_ns, hold_ns;
    uint64_t think, hold; /* turns of busy() */
    struct line *line;
    bool private;
    struct counter **own; /* one per thread */
};

static inline void section(struct counter *c)
{
    if (c->multiply)
        c->line[0].value *= FACTOR;
    else
        for (unsigned i = 0; i < c->lines; i++)
            c->line[i].value++;
    busy(c->hold);
}

static void section_fn(void *c)
{
    section(c);
}

/* Uniform between nothing and twice the mean, so that threads do not fall into step. */
static inline void think(const struct counter *c, struct worker *me)
{
    if (c->think)
        busy((uint64_t)run_random(me) * (2 * c->think + 1) >> 31);
}

#define LOCK_BODY "../counter_body.h"
#include "locks/each.h"

#define LOOP counter
#define LOCK_BODY "loop_row.h"
static const struct loop loops[] = {
#include "locks/each.h"
};

enum { KEY_LINES = 0x1000, KEY_THINK, KEY_HOLD, KEY_OP, KEY_PRIVATE };

static const struct argp_option options[] = {
    { "lines", KEY_LINES, "N", 0, "cache lines written in each section (default 2)", 0 },
    { "hold", KEY_HOLD, "NS", 0, "extra time inside the section (default 0)", 0 },
    { "think", KEY_THINK, "NS", 0,
      "time outside it: uniform from 0 to twice this (default 0)", 0 },
    { "op", KEY_OP, "increment|fam", 0,
      "add one to each line, or multiply one number (fetch-and-multiply)", 0 },
    { "private", KEY_PRIVATE, 0, 0,
      "each thread has a lock and lines of its own: nobody waits for anybody", 0 },
    { 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct run *run = state->input;
    struct counter *c = run->data;
    switch (key) {
    case KEY_LINES:
        c->lines = (unsigned)cli_long("--lines", arg, 1, LINES_MOST);
        return 0;
    case KEY_THINK:
        c->think_ns = (uint64_t)cli_long("--think", arg, 0, NS_MOST);
        return 0;
    case KEY_HOLD:
        c->hold_ns = (uint64_t)cli_long("--hold", arg, 0, NS_MOST);
        return 0;
    case KEY_OP:
        c->multiply = strcmp(arg, "fam") == 0;
        if (!c->multiply && strcmp(arg, "increment") != 0)
            cli_bad("--op takes increment or fam, not '%s'", arg);
        return 0;
    case KEY_PRIVATE:
        c->private = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void fresh(const struct run *run, struct counter *c)
{
    c->lock = lock_new(run->lock, run->threads, false);
    c->line = lines_new(LINES_MOST * sizeof(struct line));
    c->line[0].value = c->multiply;
}

static void setup(struct run *run)
{
    struct counter *c = run->data;
    c->think = c->think_ns ? busy_turns((double)c->think_ns) : 0;
    c->hold = c->hold_ns ? busy_turns((double)c->hold_ns) : 0;
    fresh(run, c);
    c->own = lines_new(run->threads * sizeof(struct counter *));
    for (unsigned i = 0; i < run->threads; i++) {
        c->own[i] = c;
        if (!c->private)
            continue;
        c->own[i] = lines_new(sizeof(struct counter));
        *c->own[i] = *c;
        fresh(run, c->own[i]);
    }
}

/* FACTOR to the power n, modulo 2^64. */
static uint64_t power(uint64_t n)
{
    uint64_t result = 1;
    for (uint64_t base = FACTOR; n; n >>= 1, base *= base)
        if (n & 1)
            result *= base;
    return result;
}

static void check_lines(struct run *run, const struct counter *c, uint64_t done)
{
    uint64_t wanted = c->multiply ? power(done) : done;
    unsigned lines = c->multiply ? 1 : c->lines;
    for (unsigned i = 0; i < lines; i++)
        if (c->line[i].value != wanted)
            run_broken(run, "line %u holds %llu after %llu sections, not %llu", i,
                       (unsigned long long)c->line[i].value, (unsigned long long)done,
                       (unsigned long long)wanted);
}

static void check(struct run *run)
{
    const struct counter *c = run->data;
    for (unsigned i = 0; c->private && i < run->threads; i++)
        check_lines(run, c->own[i], run->workers[i]->sections);
    if (!c->private)
        check_lines(run, c, run_total(run));
}

static const struct workload workload = {
    .name = "counter",
    .about = "Threads take one lock and write a few shared cache lines, over and over.",
    .unit = "sections",
    .options = options,
    .option = on_option,
    .loops = loops,
    .loop_count = sizeof(loops) / sizeof(loops[0]),
    .setup = setup,
    .check = check,
    .forms = true,
};

int main(int argc, char **argv)
{
    struct counter counter = { .lines = 2 };
    return workload_main(&workload, &counter, argc, argv);
}
