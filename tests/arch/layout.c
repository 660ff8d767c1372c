// SPDX-License-Identifier: MIT
// layout.c - what the locks assume of a machine's memory: sizes, alignments, which byte of a word is
// which, which half a futex names, how a node's address is packed. TAP on stdout.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <hotlock/hotlock.h>

#if defined(__cplusplus)
#define _Static_assert static_assert
#define _Alignof alignof
#endif

#define ADDRESS sizeof(void *)
_Static_assert(sizeof(hl_tas_t) == 1, "tas");
_Static_assert(sizeof(hl_ticket_t) == 4 && _Alignof(hl_ticket_t) == 4, "ticket");
_Static_assert(sizeof(hl_mcs_t) == ADDRESS && _Alignof(hl_mcs_t) == ADDRESS, "mcs");
_Static_assert(sizeof(hl_nmcs_t) == 2 * ADDRESS && _Alignof(hl_nmcs_t) == ADDRESS, "nmcs");
_Static_assert(sizeof(hl_nmcs4_t) == 4 && _Alignof(hl_nmcs4_t) == 4, "nmcs4");
_Static_assert(sizeof(hl_mcsflag_t) == 2 * ADDRESS && _Alignof(hl_mcsflag_t) == ADDRESS, "mcsflag");
_Static_assert(sizeof(hl_qspin_t) == 4 && _Alignof(hl_qspin_t) == 4, "qspin");
_Static_assert(sizeof(hl_park_t) == 4 && _Alignof(hl_park_t) == 4, "park");
// On i386 the ABI would align eight bytes to four, and an access could cross a cache line.
_Static_assert(sizeof(hl_ali_t) == 8 && _Alignof(hl_ali_t) == 8, "ali");
_Static_assert(_Alignof(hl_node_t) >= 16, "four flags beside a node's address");
_Static_assert(_Alignof(hl_pool_node_t) >= 64, "ten flags beside a request's, shifted by four");
_Static_assert(sizeof(hl_pool_node_t) == HL_CACHELINE, "a node to a line");

static int number, bad;

static void holds(bool good, const char *what) {
    bad += !good;
    printf("%sok %d - %s\n", good ? "" : "not ", ++number, what);
}

static void halves(void) {
    hl_ticket_t t = HL_TICKET_INIT;
    hl_store(&t.half.owner, 0x1234);
    hl_store(&t.half.next, 0x5678);
    holds(hl_load(&t.word) == 0x56781234u, "ticket: owner is the low half, next the high one");
    hl_nmcs4_t n = HL_NMCS4_INIT;
    hl_store(&n.half.tail, 0x0120);
    hl_store(&n.half.first, 0xfff0);
    holds(hl_load(&n.word) == 0xfff00120u, "nmcs4: tail is the low half, first the high one");
}

static void bytes(void) {
    hl_qspin_t q = HL_QSPIN_INIT;
    hl_store(&q.flag.byte.held, 1);
    holds(hl_load(&q.flag.word) == HL_FLAG_HELD, "qspin: held is the word's lowest byte");
    hl_store(&q.flag.byte.closed, 1);
    holds(hl_load(&q.flag.half.gate) == (HL_FLAG_HELD | HL_FLAG_CLOSED), "qspin: then closed");
    hl_store(&q.flag.half.tail, 0x4320);
    holds(hl_load(&q.flag.word) == 0x43200101u, "qspin: tail is the high half");
    hl_park_t p = HL_PARK_INIT;
    hl_store(&p.byte.held, 1);
    hl_store(&p.byte.asleep, 1);
    hl_store(&p.byte.shared, 1);
    holds(hl_load(&p.word) == (HL_PARK_HELD | HL_PARK_ASLEEP | HL_PARK_SHARED), "park: its bytes");
    hl_ali_t a = HL_ALI_INIT;
    hl_store(&a.word, HL_ALI_HELD | HL_ALI_ASYNC | UINT64_C(0x123456789a000400));
    hl_store(&a.byte.held, 0);
    holds(hl_load(&a.word) == (HL_ALI_ASYNC | UINT64_C(0x123456789a000400)),
          "ali: clearing held leaves the other bytes");
}

static void small_exchanges(void) {  // each in the middle of others
    static struct { HL_ATOMIC(uint8_t) b[8]; } eight;
    bool good = true;
    for (int i = 0; i < 8; i++) hl_store(&eight.b[i], (uint8_t)(0x10 + i));
    for (int i = 0; i < 8; i++) {
        good &= !hl_cas_acq(&eight.b[i], 0, (uint8_t)0xff);
        good &= hl_cas_acq(&eight.b[i], (uint8_t)(0x10 + i), (uint8_t)(0x20 + i));
        good &= hl_xchg_acq(&eight.b[i], (uint8_t)(0x30 + i)) == 0x20 + i;
    }
    for (int i = 0; i < 8; i++) good &= hl_load(&eight.b[i]) == 0x30 + i;
    holds(good, "one byte is exchanged, its neighbours stay");
    static struct { HL_ATOMIC(uint16_t) h[4]; } four;
    good = true;
    for (int i = 0; i < 4; i++) hl_store(&four.h[i], 0xffff);
    good &= hl_fetch_add(&four.h[1], 1) == 0xffff && hl_load(&four.h[1]) == 0;
    good &= hl_fetch_add(&four.h[2], 1) == 0xffff && hl_load(&four.h[2]) == 0;
    good &= hl_load(&four.h[0]) == 0xffff && hl_load(&four.h[3]) == 0xffff;
    holds(good, "a half that overflows carries into nothing");
}

static void names(void) {
    hl_ali_req_t here;
    hl_ali_req_t *far = (hl_ali_req_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    holds(hl_ali_top(hl_ali_name(&here) | HL_ALI_FLAGS) == &here, "ali: a request on the stack");
    holds(hl_ali_top(hl_ali_name(far) | HL_ALI_FLAGS) == far, "ali: a request in mapped memory");
    hl_nmcs4_t n = HL_NMCS4_INIT;
    hl_tail_t tail = hl_nmcs4_queue(&n).tail;
    hl_node_t *last = &hl_pool.at[HL_POOL_NODES - 1].node;
    uintptr_t name = hl_name(tail, last);
    holds(name <= 0xffff && hl_named(tail, name | HL_FLAGS) == last, "nmcs4: the pool's last node");
    hl_nmcs_t w = HL_NMCS_INIT;
    tail = hl_nmcs_queue(&w).tail;
    holds(hl_named(tail, hl_name(tail, last) | HL_FLAGS) == last, "nmcs: an address and flags");
}

static void futex_half(void) {
    HL_ATOMIC(uintptr_t) word = {(uintptr_t)0x80000003u};
    holds(*(volatile uint32_t *)hl_low_half(&word) == 0x80000003u, "a futex names the low half");
}

// For the test that looks at the code.
__attribute__((noinline)) void relax_here(void) { hl_relax(); }

int main(void) {
    printf("# %s endian, %zu-byte addresses\n",
           __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? "big" : "little", sizeof(void *));
    halves();
    bytes();
    small_exchanges();
    names();
    futex_half();
    relax_here();
    printf("1..%d\n", number);
    return bad > 0;
}
