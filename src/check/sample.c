// SPDX-License-Identifier: MIT
// sample.c - single executions of programs too big for all of them: random, or by priorities.
//
// The same graphs, built the same way, but each choice is drawn: which thread goes on, which source
// a read takes, where a write goes. Weak behaviours are drawn as well; each draw is tested for
// consistency. The second way is PCT (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010):
// the thread of highest priority runs, and at DEPTH - 1 events drawn beforehand it falls to the
// bottom; a bug that needs d ordering constraints is hit with a known least probability.
#include "check.h"

static uint64_t state;
static int priority[MAX_THREADS], changes[MAX_DEPTH], length = 64, lowest;

static uint64_t draw(void) {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717ull;
}

unsigned sample_below(unsigned n) { return (unsigned)((draw() >> 33) % n); }
bool sample_rarely(void) { return sample_below(4) == 0; }

void sample_begin(uint64_t number) {
    state = (options.seed + 1) * 0x9E3779B97F4A7C15ull ^ (number + 1) * 0xD1B54A32D192ED03ull;
    if (!state) state = 1;
    if (g->stamps > length) length = g->stamps;  // of the run before: where changes may fall
    for (int t = 0; t < MAX_THREADS; t++) priority[t] = MAX_DEPTH + (int)sample_below(1 << 20);
    for (int i = 0; i < options.depth - 1; i++) changes[i] = (int)sample_below((unsigned)length);
    lowest = options.depth - 1;
}

// Who goes on; -1: nobody can.
int sample_thread(void) {
    int best = -1, able = 0;
    if (options.search == SEARCH_PCT && current >= 0)
        for (int i = 0; i < options.depth - 1; i++)
            if (changes[i] == g->stamps) priority[current] = --lowest, changes[i] = -1;
    for (int t = 0, threads = run_threads(); t < threads; t++) {
        if (!run_can_extend(t)) continue;
        able++;
        if (options.search == SEARCH_PCT ? best < 0 || priority[t] > priority[best]
                                         : sample_below((unsigned)able) == 0)
            best = t;
    }
    return best;
}
