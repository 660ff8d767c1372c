// SPDX-License-Identifier: MIT
// record_hold.c - the accounts of a wait, and whether a holder kept its processor.
#include "record_hold.h"

enum { CLOCKED_OF = 8 }; // of so many waits, the CPU time of one is read: two system calls

// ------------------------------------------------------------------------- was the holder running?
#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
#define SIGNATURE "0x53053053"
#define TRAP      "ud2"
#else
#define SIGNATURE "0xd428bc00"
#define TRAP      "brk #0"
#endif
// A sequence nobody runs. The kernel insists on the signature before the place to go to.
__asm__(".pushsection .text\n"
        ".balign 4\n"
        ".long " SIGNATURE "\n"
        "rec_sequence_abort: " TRAP "\n"
        "rec_sequence_start: " TRAP "\n"
        "nop\n"
        ".popsection\n"
        ".pushsection .data.rel.ro,\"aw\"\n"
        ".balign 32\n"
        ".globl rec_sequence\n"
        ".hidden rec_sequence\n"
        "rec_sequence:\n"
        ".long 0, 0\n"
        ".quad rec_sequence_start, 1, rec_sequence_abort\n"
        ".popsection\n");

#endif

// ------------------------------------------------------------------------- calls
uint64_t rec_call_end(record_slot_t *s, uint64_t begin, bool drawn) {
    uint64_t now = hl_ticks(), clock = rec_head->clock;
    if (drawn && !rec_kept_running()) return now;
    uint64_t ns = now > begin + clock ? rec_ns(now - begin - clock) : 0;
    if (drawn) ns *= CALLS_PER_SAMPLE;
    (void)hl_fetch_add(&s->calls, ns);
    record_slot_t **recent = rec_recent(hl_load(&s->address));
    if (*recent != s) return now;
    uint64_t *mine = &rec_me.spent[recent - rec_me.recent];
    *mine += ns;
    // Of two threads at once the smaller may stay: the next call mends it.
    if (*mine > hl_load(&s->calls_most)) hl_store(&s->calls_most, *mine);
    return now;
}

// ------------------------------------------------------------------------- waits
// The wait of the last lock is charged to its stack only now, when nobody waits for this thread.
void rec_flush(void) {
    if (!rec_me.pending_ns) return;
    rec_charge(rec_me.pending, 1, rec_me.pending_ns);
    rec_me.pending_ns = 0;
}

rec_wait_t rec_wait_begin(record_slot_t *s, void *return_address) {
    rec_wait_t w = {.clocked = false};
    rec_flush();
    if (!rec_me.number) rec_take_number();
    w.stack = rec_stack(s, STACK_WAITER, return_address);
    if (rec_me.clock_countdown-- == 0) {
        rec_me.clock_countdown = rec_random() % (2 * CLOCKED_OF - 1);
        w.clocked = true;
        w.cpu = rec_cpu_ns();
    }
    w.begin = hl_ticks();
    w.arrival = record_arrival(w.begin);
    (void)hl_fetch_add(&s->crowd, w.arrival);
    return w;
}

// Readers of a reader-writer lock share their slot.
#define ADD(field, by)                                                          \
    (shared ? (void)__atomic_fetch_add(&(field), (by), __ATOMIC_RELAXED)        \
            : (void)((field) += (by)))

uint64_t rec_wait_end(record_slot_t *s, rec_wait_t *w, bool taken, bool shared) {
    uint64_t now = hl_ticks(), ns = now > w->begin ? rec_ns(now - w->begin) : 0;
    uint64_t cpu = w->clocked ? rec_cpu_ns() - w->cpu : 0;
    (void)hl_fetch_add(&s->crowd, -w->arrival);
    rec_me.pending = w->stack;
    rec_me.pending_ns = ns ? ns : 1;
    if (!taken) {
        (void)hl_fetch_add(&s->gave_up, 1);
        (void)hl_fetch_add(&s->gave_up_wait, ns);
        rec_flush();
        return now;
    }
    ADD(s->contended, 1);
    ADD(s->wait, ns);
    ADD(s->wait_hist[profile_bucket(ns)], 1);
    if (ns > s->wait_worst) s->wait_worst = ns;
    if (w->clocked) {
        ADD(s->clocked_wait, ns);
        ADD(s->clocked_cpu, cpu < ns ? cpu : ns);
    }
    return now;
}
