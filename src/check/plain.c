// SPDX-License-Identifier: MIT
// plain.c - plain depth-first search: every choice of every execution, one after the other.
//
// Nothing is reduced here, which is the point: the search shares the graphs, the models and the
// way programs are run with explore.c, but not its algorithm. Choices are who goes on before each
// memory access, which source a read takes, where a write goes in modification order, and the
// program's own. They are kept on a stack; an execution repeats the choices on it, then takes the
// first of each new one; the next execution takes the next at the last choice that has one.
//
// Switching away from a thread that could go on is a preemption (Musuvathi, Qadeer, PLDI 2007).
// With a bound on them, searches with 0, 1, 2... are made in turn, so a counterexample found has
// as few as any. What a weak memory model allows is not counted.
#include "check.h"

enum { MAX_CHOICES = 1 << 16, MAX_VALUES = 1 << 20 };
static struct { int first, count, taken; } choice[MAX_CHOICES];
static uint16_t values[MAX_VALUES];
static int choices, at;       // on the stack, and made in this execution
static int preempted, allowed, last;   // last: the thread of the last access; or -1

int plain_allowed(void) { return allowed; }

void plain_begin(int preemptions) {
    choices = at = preempted = 0;
    last = -1;
    allowed = preemptions;
    counts.cut = 0;
}

// Prepares the next execution; false: there is none.
bool plain_next(void) {
    while (choices && choice[choices - 1].taken + 1 == choice[choices - 1].count) choices--;
    if (!choices) return false;
    choice[choices - 1].taken++;
    at = preempted = 0;
    last = -1;
    return true;
}

bool plain_known(unsigned *value) {
    if (at == choices) return false;
    *value = values[choice[at].first + choice[at].taken];
    at++;
    return true;
}

unsigned plain_first(const uint16_t *list, int n) {
    int first = choices ? choice[choices - 1].first + choice[choices - 1].count : 0;
    if (choices == MAX_CHOICES || first + n > MAX_VALUES) check_bound("choices", MAX_CHOICES);
    for (int i = 0; i < n; i++) values[first + i] = list[i];
    choice[choices].first = first;
    choice[choices].count = n;
    choice[choices++].taken = 0;
    at = choices;
    return list[0];
}

// Who goes on; -1: nobody can. First whoever is not yet at its next access: what it does until then
// concerns nobody. Then the thread of the last access: executions with few switches come early.
int plain_thread(void) {
    uint16_t able[MAX_THREADS];
    int n = 0, threads = run_threads();
    for (int t = 0; t < threads; t++)
        if (!cpu[t].pending && run_can_extend(t)) return t;
    bool goes_on = last >= 0 && run_can_extend(last);
    if (goes_on) able[n++] = (uint16_t)last;
    for (int t = 0; t < threads; t++)
        if (t != last && run_can_extend(t)) able[n++] = (uint16_t)t;
    if (!n) return -1;
    unsigned t = able[0];
    if (goes_on && n > 1 && allowed >= 0 && preempted == allowed) counts.cut++;
    else if (n > 1 && !plain_known(&t)) t = plain_first(able, n);
    if (goes_on && (int)t != last) preempted++;
    last = (int)t;
    return last;
}
