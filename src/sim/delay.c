// SPDX-License-Identifier: MIT
// delay.c - loops that do nothing but look at the clock, as a back-off does: not run turn by turn.
//
// Between two looks of such a loop nothing happens but its own computing, and the registers and the
// stack are the same at both but for the time itself. Then it ends when the clock shows a number
// that was in them from the start, alone (a deadline) or added to the look before the loop (a
// duration). Which word it is, is found out per loop by leaving out those that were wrong; after
// that the thread goes on at once to the last look before the end. The end itself is run, which
// also checks it, so that the result is the same as with every turn run; should a loop end early after
// all, that one is late, and the word is left out.
#include <string.h>

#include "sim.h"

enum {
    SITES = 256, SURE = 8, MISTAKES = 4,
    LEAST = 3, MOST = 8,      // looks before and until a loop may be cut short
    WORTH = 2,                // turns that take longer to run than to skip
    WORD_BITS = 64, MASKS = 2 * DELAY_WORDS / WORD_BITS
};

// Of a loop: which words may say when it ends, first alone, then as durations.
static struct { uintptr_t pc; uint64_t may[MASKS]; int right, wrong; } site[SITES];

static unsigned site_of(uintptr_t pc) { return (unsigned)(pc * 0x9e3779b1u >> 16) % SITES; }

static uint64_t end_by(const delay_t *d, int which) {
    return which < DELAY_WORDS ? d->word[which] : d->base + d->word[which - DELAY_WORDS];
}

// The delay is over: the look before the last went on, the last ended it.
static void delay_learn(const delay_t *d) {
    unsigned s = site_of(d->pc);
    if (site[s].pc != d->pc) {
        site[s].pc = d->pc;
        site[s].right = site[s].wrong = 0;
    }
    uint64_t left = 0;
    for (int m = 0; m < MASKS; m++) {
        uint64_t fit = site[s].right ? site[s].may[m] : ~(uint64_t)0, may = 0;
        for (; fit; fit &= fit - 1) {
            uint64_t end = end_by(d, m * WORD_BITS + __builtin_ctzll(fit));
            if (d->before <= end && end <= d->last) may |= fit & -fit;
        }
        left |= site[s].may[m] = may;
    }
    site[s].right = left ? site[s].right + 1 : 0;
    site[s].wrong += !left;
}

// The earliest end that any word speaks for; 0: not known.
static uint64_t delay_end(const delay_t *d) {
    unsigned s = site_of(d->pc);
    uint64_t least = UINT64_MAX;
    if (site[s].pc != d->pc || site[s].right < SURE || site[s].wrong > MISTAKES) return 0;
    for (int m = 0; m < MASKS; m++)
        for (uint64_t may = site[s].may[m]; may; may &= may - 1) {
            uint64_t end = end_by(d, m * WORD_BITS + __builtin_ctzll(may));
            if (end < least) least = end;
        }
    return least;
}

static void keep_words(delay_t *d) {
    d->kept_at = d->last;
    uintptr_t end = d->sp + sizeof d->word, base = (uintptr_t)self->fiber.base;
    if (end > base) memset(d->word, 0, sizeof d->word);
    memcpy(d->word, (const void *)d->sp, (end < base ? end : base) - d->sp);
}

// Only what the clock showed may differ, and what was computed from it: by as much as the clock.
static bool same_words(delay_t *d) {
    uint64_t old[DELAY_WORDS], moved = d->last - d->kept_at;
    memcpy(old, d->word, sizeof old);
    keep_words(d);
    for (int i = 0; i < DELAY_WORDS; i++)
        if (d->word[i] != old[i] && d->word[i] - old[i] != moved) return false;
    return true;
}

static delay_pace_t pace(void) {
    return (delay_pace_t){here->now, self->spun, self->spun_to, self->pause_at};
}

static uint64_t deeds(void) {
    return counts.loads + counts.stores + counts.changes + counts.events + self->acts;
}

// How many turns are left before the last look that does not end it.
static uint64_t turns_left(const delay_t *d, ps_t turn) {
    uint64_t end = delay_end(d);
    if (!turn || end <= CLOCK_BEGIN_NS) return 0;
    ps_t until = (end - CLOCK_BEGIN_NS) * 1000 - 1, slice = here->slice_end - turn;
    if (until > slice) until = slice;
    return until > here->now ? (until - here->now) / turn : 0;
}

// As if that many turns had been run.
static void delay_skip(const delay_pace_t *was, ps_t turn, uint64_t turns) {
    const delay_pace_t is = pace();
    here->now += turns * turn;
    self->spun += turns * (is.spun - was->spun);
    self->spun_to += turns * (is.spun_to - was->spun_to);
    self->pause_at += turns * (is.pause_at - was->pause_at);
    counts.skipped += turns;
}

// Every turn takes this long, the counts of waiting included; 0: not yet.
static ps_t steady(const delay_pace_t *a, const delay_pace_t *b, const delay_pace_t *c) {
    bool even = c->now - b->now == b->now - a->now && c->spun - b->spun == b->spun - a->spun &&
                c->spun_to - b->spun_to == b->spun_to - a->spun_to &&
                c->pause_at - b->pause_at == b->pause_at - a->pause_at;
    return even ? c->now - b->now : 0;
}

static uint64_t clock_shows(void) { return CLOCK_BEGIN_NS + here->now / 1000; }

// The thread looks at the clock.
static void delay_look(vm_site_t at) {
    delay_t *d = &self->delay;
    delay_pace_t now = pace();
    bool same = d->pc == at.pc && d->sp == at.sp, idle = d->deeds == deeds();
    d->turns++;
    if (!same || !idle) {
        if (!same && !d->cut && d->turns > LEAST) delay_learn(d);
        d->pc = at.pc, d->sp = at.sp, d->base = d->last;
        d->deeds = deeds();
        d->turns = 0;
        d->cut = same;   // preempted, most likely: what came before the loop is lost
    }
    if (d->turns == 1) keep_words(d);
    if (d->turns >= LEAST && d->turns <= MOST && !d->cut) {
        ps_t turn = steady(&d->pace[0], &d->pace[1], &now);
        uint64_t turns = turns_left(d, turn);
        if (turns > WORTH && same_words(d)) delay_skip(&d->pace[1], turn, turns);
    }
    d->pace[0] = d->pace[1];
    d->pace[1] = pace();
    d->before = d->last;
    d->last = clock_shows();
}
