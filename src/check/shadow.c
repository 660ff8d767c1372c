// SPDX-License-Identifier: MIT
// shadow.c - what is remembered about each byte of the program's memory: races, dead memory.
//
// Plain accesses are compared as FastTrack does (Flanagan, Freund, PLDI 2009): an access is an
// epoch, "thread t after its n-th event", and it happens before thread u's next step if u's clock
// has more than n events of t. Memory that is freed, and a frame that is left, count as a write to
// all of it: whoever still uses it, before or after in this run, without an order, is reported.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "check.h"

// The first cache line is what most accesses need.
typedef struct {
    uint32_t run;             // what follows the locations is of that run
    uint8_t loc[8];           // by byte: 1 + the atomic location it belongs to
    uint8_t written, read, dead;            // masks of bytes
    uint8_t dead_by;
    uint8_t wthread[8];                     // last plain write, by byte
    count_t wepoch[8];
    uint16_t readers;                       // a bit per thread
    uint32_t dead_pc;
    char *saved;                            // a copy of it as it is; NULL: there is none
    uint32_t wpc[8];
    struct { count_t epoch[8]; uint32_t pc[2]; } reads[MAX_THREADS];  // last plain reads: epoch + 1
                              // by byte, program counter by half
} __attribute__((aligned(64))) cell_t;

typedef struct { uintptr_t from, to; cell_t *cells; } region_t;
static region_t region[3];    // the program's data, its zeroed data, stacks and heaps
bool layout_changed;
static uint64_t bytes_of[256]; // a mask of bits as one of bytes

// Other memory has a cell only where it is used atomically.
enum { ELSEWHERE = 1024 };
static struct { uintptr_t key; cell_t cell; } *elsewhere;
static int elsewhere_count;

extern char __start_hl_data[] __attribute__((weak)), __stop_hl_data[] __attribute__((weak));
extern char __start_hl_bss[] __attribute__((weak)), __stop_hl_bss[] __attribute__((weak));

static void *reserve(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) check_unusable("not enough address space", 0);
    return p;
}

static void cover(region_t *r, const void *from, const void *to) {
    r->from = (uintptr_t)from & ~(uintptr_t)7;
    r->to = (uintptr_t)to;
    r->cells = reserve(((r->to - r->from) / 8 + 1) * sizeof *r->cells);
}

void shadow_init(void) {
    cover(&region[0], __start_hl_data, __stop_hl_data);
    cover(&region[1], __start_hl_bss, __stop_hl_bss);
    cover(&region[2], (void *)ARENA, (void *)(ARENA + MAX_THREADS * (STACK_BYTES + HEAP_BYTES)));
    elsewhere = reserve(ELSEWHERE * sizeof *elsewhere);
    for (int i = 0; i < 2048; i++)
        if (i >> 3 >> (i & 7) & 1) bytes_of[i >> 3] |= 0xffull << 8 * (i & 7);
}

// The cells of this run, as far as it is to be gone back in.
enum { TOUCHED_MOST = 4096 };
static cell_t *touched[TOUCHED_MOST];
static int touched_count;
static uint32_t touched_run;

static void touch(cell_t *c) {
    if (touched_run != run_number) touched_count = 0;
    touched_run = run_number;
    if (touched_count < TOUCHED_MOST) touched[touched_count++] = c;
    else back_no_more();
    c->saved = NULL;
}

static cell_t *fresh(cell_t *c) {
    if (c->run == run_number) return c;
    if (options.marks) touch(c);
    c->run = run_number;
    c->written = c->read = c->dead = 0;
    c->readers = 0;
    return c;
}

static cell_t *cell_of(uintptr_t a, bool create) {
    for (int i = 2; i >= 0; i--)
        if (a >= region[i].from && a < region[i].to)
            return fresh(&region[i].cells[(a - region[i].from) >> 3]);
    if (!create && !elsewhere_count) return NULL;
    uintptr_t key = a >> 3;
    for (size_t h = key * 0x9E3779B97F4A7C15ull >> 54;; h = (h + 1) % ELSEWHERE) {
        if (elsewhere[h].key == key) return fresh(&elsewhere[h].cell);
        if (elsewhere[h].key) continue;
        if (!create) return NULL;
        if (++elsewhere_count == ELSEWHERE) check_bound("atomics in memory of its own", ELSEWHERE);
        elsewhere[h].key = key;
        return fresh(&elsewhere[h].cell);
    }
}

// ------------------------------------------------------------------------- atomic locations
static uint8_t *loc_at(uintptr_t a) { return &cell_of(a, true)->loc[a & 7]; }

static int new_location(uintptr_t a, unsigned size) {
    if (location_count == MAX_LOCS) check_bound("atomic locations", MAX_LOCS);
    int loc = location_count++;
    locations[loc] = (location_t){.addr = a, .size = (uint8_t)size};
    for (unsigned i = 0; i < size; i++) *loc_at(a + i) = (uint8_t)(loc + 1);
    return loc;
}

// The location of an access. A location that turns out to be part of a larger one (a byte of a
// word) is replaced by the larger, and the exploration begins again.
int shadow_location(uintptr_t a, unsigned size) {
    if (a & (size - 1)) check_unusable("an atomic access that is not aligned", 0);
    int loc = *loc_at(a) - 1;
    if (loc < 0 || a + size > locations[loc].addr + locations[loc].size) {
        uintptr_t from = a, to = a + size;
        for (unsigned i = 0; i < size; i++) {
            int known = *loc_at(a + i) - 1;
            if (known < 0) continue;
            const location_t *l = &locations[known];
            if (l->addr < from) from = l->addr;
            if (l->addr + l->size > to) to = l->addr + l->size;
            layout_changed = true;
        }
        unsigned block = size;
        while ((from & ~(uintptr_t)(block - 1)) + block < to) block *= 2;
        loc = new_location(from & ~(uintptr_t)(block - 1), block);
        if (layout_changed) run_stop(RUN_STOPPED);
    }
    location_t *l = &locations[loc];
    if (l->run != run_number) {
        l->run = run_number;
        l->init = 0;
        memcpy(&l->init, (void *)l->addr, l->size);
    }
    return loc;
}

void shadow_restore(uintptr_t a, unsigned size) { new_location(a, size); }

static bool done(id_t_ e) { return cpu[id_thread(e)].pos > id_index(e); }

static uint32_t pc_of(id_t_ e) { return ev(e)->pc; }

// ------------------------------------------------------------------------- races
static _Noreturn void race(const char *text, uint32_t pc, int other, uint32_t other_pc) {
    report_bad(BAD_RACE, text, pc, other, other_pc);
}

// Eight bytes as one number.
static uint64_t eight(const uint8_t *bytes) {
    uint64_t x;
    memcpy(&x, bytes, 8);
    return x;
}
static const uint64_t ones = 0x0101010101010101ull;
static void put(uint8_t *bytes, unsigned mask, unsigned value) {
    if (mask == 0xff) memset(bytes, (int)value, 8);
    else
        for (; mask; mask &= mask - 1) bytes[__builtin_ctz(mask)] = (uint8_t)value;
}
static void put_counts(count_t *counts_, unsigned mask, unsigned value) {
    if (sizeof *counts_ == 1) put((uint8_t *)counts_, mask, value);
    else
        for (; mask; mask &= mask - 1) counts_[__builtin_ctz(mask)] = (count_t)value;
}

static void check_plain_before(const cell_t *c, unsigned mask, bool write, uint32_t pc,
                               const char *mine) {
    char text[80];
    uint64_t others = (eight(c->wthread) ^ (unsigned)current * ones) & bytes_of[c->written & mask];
    if (others) {
        clk_t h = clk_of(current);
        for (unsigned m = c->written & mask; m; m &= m - 1) {
            int b = __builtin_ctz(m), t = c->wthread[b];
            if (t == current || h[t] > c->wepoch[b]) continue;
            snprintf(text, sizeof text, "data race: %s and a plain write", mine);
            race(text, pc, t, c->wpc[b]);
        }
    }
    if (!write || !(c->read & mask)) return;
    clk_t h = clk_of(current);
    for (unsigned r = c->readers & ~(1u << current); r; r &= r - 1) {
        int t = __builtin_ctz(r);
        for (unsigned m = mask; m; m &= m - 1) {
            int b = __builtin_ctz(m);
            if (c->reads[t].epoch[b] <= h[t]) continue;
            snprintf(text, sizeof text, "data race: %s and a plain read", mine);
            race(text, pc, t, c->reads[t].pc[b >> 2]);
        }
    }
}

// Every atomic access to this location that was made must happen before a plain write to it;
// every write before a plain read.
static void check_atomic_before(int loc, bool write, uint32_t pc, bad_t kind, const char *text) {
    clk_t h = clk_of(current);
    const perloc_t *l = &g->loc[loc];
    for (int i = 0; i < l->writes; i++)
        if (done(l->co[i]) && !clk_has(&h, l->co[i]))
            report_bad(kind, text, pc, id_thread(l->co[i]), pc_of(l->co[i]));
    for (int i = 0; write && i < l->reads; i++)
        if (done(l->rd[i]) && !clk_has(&h, l->rd[i]) && !ev(l->rd[i])->hidden)
            report_bad(kind, text, pc, id_thread(l->rd[i]), pc_of(l->rd[i]));
}

// ------------------------------------------------------------------------- other threads' stacks
static int stack_owner(uintptr_t a) {
    if (a < ARENA || a >= ARENA + MAX_THREADS * STACK_BYTES) return -1;
    return (int)((a - ARENA) / STACK_BYTES);
}

// Access to another thread's stack: the thread must run, the frame must be there, and what led
// here must have begun after the frame did (else the address is of an earlier frame).
static void check_stack(uintptr_t a, int epoch_at, const clk_t *known, uint32_t pc) {
    int t = stack_owner(a);
    if (t < 0 || t == current) return;
    back_ran(t);
    vcpu_t *v = &cpu[t];
    if (v->ended) report_bad(BAD_STACK, "use of the stack of a thread that has ended", pc, t, 0);
    if (a >= (uintptr_t)v->fiber.base) return;  // its thread-local variables
    if (a < v->low)
        report_bad(BAD_STACK, "use of the frame of a function that has returned", pc, t, 0);
    int i = (v->calls < MAX_CALLS ? v->calls : MAX_CALLS) - 1;
    while (i > 0 && a >= v->call[i - 1].low) i--;  // the frame it lies in
    if (i >= 0 && (*known)[t] <= v->call[i].born)
        report_bad(BAD_STACK, "use of a stack address that was passed on by an earlier call", pc, t,
                   0);
    uintptr_t word = a & ~(uintptr_t)7;
    for (int k = 0; k < v->foreigns; k++) {
        foreign_t *f = &v->foreign[k];
        if (f->addr != word || f->thread != current) continue;
        f->epoch = (count_t)epoch_at;
        f->pc = pc;
        return;
    }
    if (v->foreigns == MAX_FOREIGN) check_bound("words of a stack used by others", MAX_FOREIGN);
    v->foreign[v->foreigns++] = (foreign_t){word, pc, (uint8_t)current, (count_t)epoch_at};
}

void shadow_leave(uintptr_t low, uintptr_t high, uint32_t pc) {
    vcpu_t *v = &cpu[current];
    clk_t h = clk_of(current);
    int kept = 0;
    for (int i = 0; i < v->foreigns; i++) {
        const foreign_t *f = &v->foreign[i];
        if (f->addr < low || f->addr >= high) {
            v->foreign[kept++] = *f;
        } else if (h[f->thread] <= f->epoch) {
            report_bad(BAD_STACK, "the function returns while another thread still uses its frame",
                       pc, f->thread, f->pc);
        }
    }
    v->foreigns = kept;
}

// ------------------------------------------------------------------------- accesses
static void check_dead(const cell_t *c, unsigned mask, uint32_t pc) {
    if (c->dead & mask)
        report_bad(BAD_FREED, "use of memory that has been freed", pc, c->dead_by, c->dead_pc);
}

void shadow_atomic(int loc, unsigned mask, bool write, uint32_t pc) {
    uintptr_t a = locations[loc].addr;
    int pos = cpu[current].pos;
    clk_t known = pos >= 2 ? g->e[current][pos - 2].porf : (clk_t){0};
    check_stack(a, pos - 1, &known, pc);
    mask <<= a & 7;
    for (; mask; mask >>= 8, a += 8) {
        cell_t *c = cell_of(a, true);
        check_dead(c, mask & 0xff, pc);
        check_plain_before(c, mask & 0xff, write, pc, write ? "an atomic write" : "an atomic read");
    }
}

// The newest value that happens before thread t's next step, put into real memory.
static void settle(int loc) {
    clk_t h = clk_of(current);
    const perloc_t *l = &g->loc[loc];
    vm_value_t value = locations[loc].init;
    for (int i = 0; i < l->writes; i++)
        if (clk_has(&h, l->co[i])) value = ev(l->co[i])->value;
    memcpy((void *)locations[loc].addr, &value, locations[loc].size);
}

static void plain_on_atomic(cell_t *c, unsigned mask, bool write, uint32_t pc) {
    int last = 0;
    for (unsigned m = mask; m; m &= m - 1) {
        int l = c->loc[__builtin_ctz(m)];
        if (!l || l == last || locations[l - 1].run != run_number) continue;
        last = l;
        check_atomic_before(l - 1, write, pc, BAD_RACE,
                            write ? "data race: a plain write and an atomic access"
                                  : "data race: a plain read and an atomic write");
        settle(l - 1);
        if (!write) continue;
        cpu[current].plain_loc = l - 1;
        cpu[current].plain_pc = pc;
    }
}

static void note_write(cell_t *c, unsigned mask, uint32_t pc) {
    c->saved = NULL;
    put(c->wthread, mask, (unsigned)current);
    put_counts(c->wepoch, mask, (unsigned)cpu[current].pos);
    c->written |= (uint8_t)mask;
    for (; mask; mask &= mask - 1) c->wpc[__builtin_ctz(mask)] = pc;
}

static void note_read(cell_t *c, unsigned mask, uint32_t pc) {
    __typeof__(c->reads[0]) *r = &c->reads[current];
    c->saved = NULL;
    if (!(c->readers >> current & 1)) memset(r->epoch, 0, sizeof r->epoch);
    c->readers |= (uint16_t)(1u << current);
    put_counts(r->epoch, mask, (unsigned)cpu[current].pos + 1);
    if (mask & 0x0f) r->pc[0] = pc;
    if (mask & 0xf0) r->pc[1] = pc;
    c->read |= (uint8_t)mask;
}

void shadow_plain(uintptr_t a, size_t size, bool write, uint32_t pc) {
    vcpu_t *v = &cpu[current];
    while (size) {
        unsigned off = a & 7, n = 8 - off < size ? 8 - off : (unsigned)size;
        unsigned mask = ((1u << n) - 1) << off;
        cell_t *c = cell_of(a, false);
        if (c) {
            check_dead(c, mask, pc);
            if (stack_owner(a) != current) {
                clk_t known = v->pos ? g->e[current][v->pos - 1].porf : (clk_t){0};
                check_stack(a, v->pos, &known, pc);
            }
            uint64_t atomic;
            memcpy(&atomic, c->loc, 8);
            if (__builtin_expect(atomic != 0, 0)) {
                if (v->plain_loc >= 0) run_flush();
                plain_on_atomic(c, mask, write, pc);
            }
            check_plain_before(c, mask, write, pc, write ? "a plain write" : "a plain read");
            if (write) note_write(c, mask, pc);
            else note_read(c, mask, pc);
        }
        a += n;
        size -= n;
    }
}

void shadow_free(uintptr_t a, size_t size, uint32_t pc) {
    for (uintptr_t end = a + size; a < end; a += 8) {
        cell_t *c = cell_of(a, true);
        unsigned mask = end - a >= 8 ? 0xff : (1u << (end - a)) - 1;
        check_plain_before(c, mask, true, pc, "a free()");
        for (unsigned m = mask; m; m &= m - 1) {
            int l = c->loc[__builtin_ctz(m)];
            if (l && locations[l - 1].run == run_number)
                check_atomic_before(l - 1, true, pc, BAD_FREED,
                                    "memory is freed while another thread still uses it");
        }
        c->saved = NULL;
        c->dead |= (uint8_t)mask;
        c->dead_by = (uint8_t)current;
        c->dead_pc = pc;
    }
}

// ------------------------------------------------------------------------- marks
// A cell is copied when it has changed since it was copied last; a mark refers to the copies. Cells
// that a run has touched since are as good as new after their run is no more this one. Locations
// are for good, so a cell keeps what it has learnt of them since.
static void copy_cell(copy_t *c, cell_t *cell) {
    size_t from = offsetof(cell_t, written);
    copy_bytes(c, &cell->written, offsetof(cell_t, reads) - from);
    for (unsigned r = cell->readers; r; r &= r - 1) {
        int t = __builtin_ctz(r);
        copy_bytes(c, &cell->reads[t], sizeof cell->reads[t]);
    }
}

typedef struct { cell_t *cell; char *saved; } kept_t;

size_t shadow_bytes(void) {
    return sizeof locations[0] * (size_t)location_count + sizeof(kept_t) * (size_t)touched_count;
}
size_t shadow_most(void) { return sizeof(cell_t) * (size_t)touched_count; }

void shadow_save(copy_t *c) {
    for (int i = 0; i < touched_count; i++) {
        cell_t *cell = touched[i];
        if (cell->saved) continue;
        cell->saved = c->at;
        copy_cell(c, cell);
    }
}

static void copy_kept(copy_t *c, int i) {
    kept_t kept;
    if (c->save) kept = (kept_t){touched[i], touched[i]->saved};
    copy_bytes(c, &kept, sizeof kept);
    if (c->save) return;
    touched[i] = kept.cell;
    kept.cell->run = run_number;
    if (kept.cell->saved == kept.saved) return;
    copy_t from = {kept.saved, false};
    copy_cell(&from, kept.cell);
}

void shadow_copy(copy_t *c) {
    int there = location_count;
    for (int i = 0; !c->save && i < touched_count; i++) touched[i]->run = 0;
    copy_bytes(c, &touched_count, sizeof touched_count);
    copy_bytes(c, &there, sizeof there);
    copy_bytes(c, locations, sizeof locations[0] * (size_t)there);
    for (int i = there; i < location_count; i++) locations[i].run = 0;
    for (int i = 0; i < touched_count; i++) copy_kept(c, i);
    touched_run = run_number;
}
