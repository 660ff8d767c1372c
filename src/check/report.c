// SPDX-License-Identifier: MIT
// report.c - what the checked program's process tells the command: counts, outcomes, an execution.
//
// The report is a text file, one fact per line, first word says what. The lines that describe an
// execution (l, e, o, p) are also what --replay reads back.
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

counts_t counts;
bool found_bad;
spot_t bound_spot, bound_now;
static FILE *report;

// ------------------------------------------------------------------------- the program's output
enum { OUTPUT_MOST = 4096, OUTCOMES_MOST = 4096 };
static char output[OUTPUT_MOST];
static size_t output_length;
static struct { char *text; size_t length; uint64_t times; } outcome[OUTCOMES_MOST];
static int outcomes;

static ssize_t take_output(void *cookie, const char *bytes, size_t n) {
    (void)cookie;
    size_t room = OUTPUT_MOST - output_length, take = n < room ? n : room;
    memcpy(output + output_length, bytes, take);
    output_length += take;
    return (ssize_t)n;
}

static FILE *capture(void) {
    static char buffers[2][8192];
    static int used;
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take_output});
    if (!f) check_unusable("not enough memory", 0);
    setvbuf(f, buffers[used], _IOFBF, sizeof buffers[used]);
    used++;
    return f;
}

void report_init(void) {
    const char *file = getenv("HOTLOCK_CHECK_REPORT");
    report = file ? fopen(file, "w") : fdopen(dup(1), "w");
    if (!report) {
        fprintf(stderr, "hotlock check: %s: %s\n", file, strerror(errno));
        _exit(2);
    }
    stdout = capture();
}

static void escaped(const char *s, size_t n, FILE *out) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n') fputs("\\n", out);
        else if (s[i] == '\\') fputs("\\\\", out);
        else fputc(s[i], out);
    }
    fputc('\n', out);
}

// The output of a run counts if the run is complete; what it printed is its final state.
void report_outcome(bool complete) {
    fflush(stdout);
    size_t n = output_length;
    output_length = 0;
    if (!complete || !n) return;
    int i = 0;
    while (i < outcomes && (outcome[i].length != n || memcmp(outcome[i].text, output, n) != 0)) i++;
    if (i == OUTCOMES_MOST) check_bound("different outputs", OUTCOMES_MOST);
    if (i == outcomes) {
        outcome[i].text = malloc(n);
        if (!outcome[i].text) check_unusable("not enough memory", 0);
        memcpy(outcome[i].text, output, n);
        outcome[i].length = n;
        outcome[i].times = 0;
        outcomes++;
    }
    outcome[i].times++;
}

size_t report_bytes(void) { return output_length + __fpending(stdout); }

void report_copy(copy_t *c) {
    if (__fpending(stdout)) fflush(stdout);
    copy_bytes(c, &output_length, sizeof output_length);
    copy_bytes(c, output, output_length);
}

void report_reset(void) {
    memset(&counts, 0, sizeof counts);
    bound_spot = (spot_t){0, 0};
    outcomes = 0;
}

// ------------------------------------------------------------------------- an execution
static int strictness;        // of the order the execution at hand is shown in
static bool fewest;           // no other has fewer switches

// A value in hexadecimal; wide ones have no format of their own.
typedef struct { char text[40]; } hex_t;
static hex_t hex(vm_value_t v) {
    hex_t h;
    uint64_t high = (uint64_t)(v >> 64), low = (uint64_t)v;
    if (high) snprintf(h.text, sizeof h.text, "%" PRIx64 "%016" PRIx64, high, low);
    else snprintf(h.text, sizeof h.text, "%" PRIx64, low);
    return h;
}

static vm_value_t from_hex(const char *s) {
    vm_value_t v = 0;
    for (; *s; s++) v = v << 4 | (unsigned)(*s <= '9' ? *s - '0' : *s - 'a' + 10);
    return v;
}

// Events are told by thread * 65536 + index, whichever way the engine was built.
static int told(id_t_ e) { return e == INIT ? -1 : id_thread(e) << 16 | id_index(e); }
static id_t_ heard(int e) { return e < 0 ? INIT : id_of(e >> 16, e & 0xffff); }

static void write_graph(FILE *out) {
    for (int i = 0; i < location_count; i++)
        fprintf(out, "l %d %" PRIxPTR " %d %s\n", i, locations[i].addr, locations[i].size,
                hex(locations[i].init).text);
    for (int i = 0; i < g->stamps; i++) {
        id_t_ x = g->order[i];
        const event_t *e = ev(x);
        fprintf(out, "e %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %s %s %s %x\n",
                id_thread(x), id_index(x), e->type, e->op, e->order, e->success, e->failure,
                e->offset, e->size, e->mask, e->rmw, e->hidden, e->loc, told(e->rf), e->copos,
                e->child, e->seq, hex(e->value).text, hex(e->arg).text, hex(e->expected).text,
                e->pc);
    }
    if (!fewest) fprintf(out, "few\n");
    fprintf(out, "o %d", strictness);
    for (int i = 0; i < run_ordered; i++) fprintf(out, " %d", run_order[i]);
    fputc('\n', out);
}

static _Noreturn void damaged(const char *file) {
    fprintf(stderr, "hotlock check: %s: not a trace of this program; write one with --trace\n",
            file);
    _exit(2);
}

void report_load(const char *file) {
    FILE *f = fopen(file, "r");
    if (!f) {
        fprintf(stderr, "hotlock check: %s: %s\n", file, strerror(errno));
        _exit(2);
    }
    char *line = NULL;
    size_t room = 0;
    bool any = false;
    while (getline(&line, &room, f) > 0) {
        int n[17];
        char value[40], arg[40], expected[40];
        unsigned pc;
        if (line[0] == 'l' && line[1] == ' ') {
            int loc, size;
            uintptr_t addr;
            if (sscanf(line, "l %d %" SCNxPTR " %d", &loc, &addr, &size) != 3) damaged(file);
            shadow_restore(addr, (unsigned)size);
        } else if (line[0] == 'e' && line[1] == ' ') {
            if (sscanf(line, "e %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %39s "
                       "%39s %39s %x", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6],
                       &n[7], &n[8], &n[9], &n[10], &n[11], &n[12], &n[13], &n[14], &n[15], &n[16],
                       value, arg, expected, &pc) != 21) damaged(file);
            if (n[0] < 0 || n[0] >= MAX_THREADS || n[1] != g->len[n[0]] || n[1] >= MAX_EVENTS ||
                g->stamps >= MAX_STAMPS - 2 || n[12] < 0 || n[12] >= MAX_LOCS) damaged(file);
            id_t_ x = graph_add(n[0], (ev_t)n[2], n[4], pc);
            event_t *e = ev(x);
            e->op = (uint8_t)n[3];
            e->success = (uint8_t)n[5];
            e->failure = (uint8_t)n[6];
            e->offset = (uint8_t)n[7];
            e->size = (uint8_t)n[8];
            e->mask = (uint16_t)n[9];
            e->rmw = (uint8_t)n[10];
            e->hidden = (uint8_t)n[11];
            e->loc = (uint16_t)n[12];
            e->rf = heard(n[13]);
            e->copos = (uint16_t)n[14];
            e->child = (uint8_t)n[15];
            e->value = from_hex(value);
            e->arg = from_hex(arg);
            e->expected = from_hex(expected);
            if (e->type == EV_CREATE) g->threads |= (uint16_t)(1u << e->child);
            perloc_t *l = &g->loc[e->loc];
            if (e->type == EV_READ) l->rd[l->reads++] = x;
            if (e->type == EV_WRITE && e->copos < MAX_PER_LOC) l->co[e->copos] = x, l->writes++;
            any = true;
        } else if (line[0] == 'o' && line[1] == ' ') {
            char *p = line + 1;
            strtol(p, &p, 10);  // the strictness
            for (run_ordered = 0; run_ordered < g->stamps; run_ordered++)
                run_order[run_ordered] = (uint8_t)(strtol(p, &p, 10) & (MAX_THREADS - 1));
        } else if (sscanf(line, "p %d", &run_prefer) == 1) {
            continue;
        }
    }
    free(line);
    fclose(f);
    if (!any || !run_ordered) damaged(file);
    // A revisited read's source has a later stamp: clocks settle in some rounds.
    for (bool settled = false; !settled;) {
        settled = true;
        for (int i = 0; i < g->stamps; i++) {
            event_t *e = ev(g->order[i]), old = *e;
            graph_clocks(g->order[i]);
            settled = settled && !memcmp(&old, e, offsetof(event_t, value));
        }
    }
}

// ------------------------------------------------------------------------- verdicts
static const char *const bad_name[] = {"race",  "assert", "deadlock", "freed",
                                       "stack", "exit",   "crash",    "misuse"};

// The counterexample with fewest context switches so far, as it will be reported, and what it is.
static struct { char *text; size_t size; bad_t kind; int rank; uint64_t run, seen; } best;

// Rather an interleaving than an order that only weak memory shows, then fewer switches, fewer
// events.
static int rank_of_order(void) {
    int switches = 0;
    for (int i = 1; i < run_ordered; i++) switches += run_order[i] != run_order[i - 1];
    return (2 - strictness) * 1000 * MAX_STAMPS + switches * MAX_STAMPS + g->stamps;
}

static void write_bad(bad_t kind, const char *text, uint32_t pc, int thread, int other,
                      uint32_t other_pc, FILE *out) {
    fprintf(out, "bad %s %d %x %d %x %s\n", bad_name[kind], thread, pc, other, other_pc, text);
    for (int t = 0; kind == BAD_DEADLOCK && t < MAX_THREADS; t++)
        if (cpu[t].started && !cpu[t].ended && (cpu[t].parked || cpu[t].joining >= 0))
            fprintf(out, "waits %d %d %x %d\n", t, cpu[t].joining,
                    cpu[t].parked ? g->e[t][cpu[t].parked_from].pc : 0, cpu[t].parked_from);
    write_graph(out);
    fprintf(out, "p %d\n", thread);
    if (output_length) {
        fputs("printed ", out);
        escaped(output, output_length, out);
    }
}

static void keep_bad(bad_t kind, const char *text, uint32_t pc, int thread, int other,
                     uint32_t other_pc) {
    fflush(stdout);
    if (!best.seen++) best.run = counts.runs;
    found_bad = true;
    strictness = order_events(&fewest);
    if (!best.text || (kind == best.kind && rank_of_order() < best.rank)) {
        free(best.text);
        FILE *out = open_memstream(&best.text, &best.size);
        if (!out) check_unusable("not enough memory", 0);
        best.kind = kind;
        best.rank = rank_of_order();
        write_bad(kind, text, pc, thread, other, other_pc, out);
        fclose(out);
    }
    run_ordered = 0;
    output_length = 0;
}

// Is it worth while to look for a shorter counterexample?
bool report_wants_more(void) {
    enum { ENOUGH = 32 };
    return !options.replay && best.kind != BAD_CRASH && options.search != SEARCH_PLAIN &&
           best.seen < ENOUGH && counts.runs - best.run < options.more;
}

void report_bad(bad_t kind, const char *text, uint32_t pc, int other, uint32_t other_pc) {
    hl_check_found(text);
    keep_bad(kind, text, pc, current, other, other_pc);
    run_stop(RUN_BAD);
}

void report_bad_here(bad_t kind, const char *text) {
    hl_check_found(text);
    keep_bad(kind, text, 0, -1, -1, 0);
}

// A debugger stops here: the program is at the end of the execution.
__attribute__((noinline)) void hl_check_found(const char *text) {
    __asm__ volatile("" : : "r"(text));
}

void report_end(const char *why, double seconds) {
    if (best.text) {
        fputs(best.text, report);
        fprintf(report, "found %" PRIu64 " %" PRIu64 "\n", best.run, best.seen);
    }
    for (int i = 0; i < outcomes; i++) {
        fprintf(report, "outcome %" PRIu64 " ", outcome[i].times);
        escaped(outcome[i].text, outcome[i].length, report);
    }
    for (int i = 0; i < site_count; i++)
        fprintf(report, "site %x %d %d %d\n", sites[i].pc, sites[i].op, sites[i].order,
                sites[i].failure);
    if (counts.bounded) fprintf(report, "bound %d %x\n", bound_spot.thread, bound_spot.pc);
    fprintf(report, "counts %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
            " %" PRIu64 " %d %.6f\n", counts.complete, counts.blocked, counts.runs, counts.bounded,
            counts.moot, counts.clashes, counts.revisits, counts.frames, seconds);
    if (counts.deadlocks) fprintf(report, "deadlocks %" PRIu64 "\n", counts.deadlocks);
    if (options.search == SEARCH_PLAIN)
        fprintf(report, "plain %d %" PRIu64 "\n", plain_allowed(), counts.cut);
    fprintf(report, "end %s\n", why);
    fclose(report);
}

// The search ends here; if it was for a shorter counterexample, with the one that was found.
static void end_with_found(void) {
    if (!found_bad) return;
    report_end("bad", 0);
    _exit(1);
}

void check_bound(const char *what, int limit) {
    if (options.search != SEARCH_ALL && current >= 0) run_stop(RUN_BOUND);  // one sample less
    end_with_found();
    fprintf(report, "limit %d %s\n", limit, what);
    report_end("limit", 0);
    _exit(3);
}

void check_unusable(const char *text, uint32_t pc) {
    if (!report) {
        fprintf(stderr, "hotlock check: %s\n", text);
        _exit(2);
    }
    end_with_found();
    fprintf(report, "unusable %x %s\n", pc, text);
    report_end("unusable", 0);
    _exit(2);
}
