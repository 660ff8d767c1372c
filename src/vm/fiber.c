// SPDX-License-Identifier: MIT
// fiber.c - switching between virtual CPUs by hand: stack pointer and thread pointer; or, where
// that cannot be, by real threads that hand over.
#include "fiber.h"

#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

// Saves what the ABI calls callee-saved, changes stack and thread pointer, restores. A hook is
// an ordinary call, so nothing else is live.
#if defined(__x86_64__)
enum { SAVED_WORDS = 6 };
__asm__(".text\n.globl fiber_swap_\n.type fiber_swap_,@function\n"
        "fiber_swap_:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp,(%rdi)\n  mov %rsi,%rsp\n  wrfsbase %rdx\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n.size fiber_swap_,.-fiber_swap_\n"
        ".globl fiber_keep_\n.type fiber_keep_,@function\n"
        "fiber_keep_:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp,(%rdi)\n  sub $8,%rsp\n  call *%rsi\n  add $56,%rsp\n"
        "  ret\n.size fiber_keep_,.-fiber_keep_\n"
        ".globl fiber_begin_\n.type fiber_begin_,@function\n"
        "fiber_begin_:\n"
        "  mov %rdi,%rsp\n  push $0\n  jmp *%rsi\n.size fiber_begin_,.-fiber_begin_\n");

static uintptr_t thread_pointer(void) {
    uintptr_t tp;
    __asm__("mov %%fs:0,%0" : "=r"(tp));  // the block begins with its own address
    return tp;
}
#elif defined(__aarch64__)
enum { SAVED_WORDS = 20, LINK_WORD = 11 };
__asm__(".text\n.globl fiber_swap_\n.type fiber_swap_,%function\n"
        "fiber_swap_:\n"
        "  sub sp,sp,#160\n"
        "  stp x19,x20,[sp]\n  stp x21,x22,[sp,#16]\n  stp x23,x24,[sp,#32]\n"
        "  stp x25,x26,[sp,#48]\n  stp x27,x28,[sp,#64]\n  stp x29,x30,[sp,#80]\n"
        "  stp d8,d9,[sp,#96]\n  stp d10,d11,[sp,#112]\n  stp d12,d13,[sp,#128]\n"
        "  stp d14,d15,[sp,#144]\n"
        "  mov x9,sp\n  str x9,[x0]\n  mov sp,x1\n  msr tpidr_el0,x2\n"
        "  ldp x19,x20,[sp]\n  ldp x21,x22,[sp,#16]\n  ldp x23,x24,[sp,#32]\n"
        "  ldp x25,x26,[sp,#48]\n  ldp x27,x28,[sp,#64]\n  ldp x29,x30,[sp,#80]\n"
        "  ldp d8,d9,[sp,#96]\n  ldp d10,d11,[sp,#112]\n  ldp d12,d13,[sp,#128]\n"
        "  ldp d14,d15,[sp,#144]\n"
        "  add sp,sp,#160\n  ret\n.size fiber_swap_,.-fiber_swap_\n"
        ".globl fiber_keep_\n.type fiber_keep_,%function\n"
        "fiber_keep_:\n"
        "  sub sp,sp,#160\n"
        "  stp x19,x20,[sp]\n  stp x21,x22,[sp,#16]\n  stp x23,x24,[sp,#32]\n"
        "  stp x25,x26,[sp,#48]\n  stp x27,x28,[sp,#64]\n  stp x29,x30,[sp,#80]\n"
        "  stp d8,d9,[sp,#96]\n  stp d10,d11,[sp,#112]\n  stp d12,d13,[sp,#128]\n"
        "  stp d14,d15,[sp,#144]\n"
        "  mov x9,sp\n  str x9,[x0]\n  blr x1\n  ldp x29,x30,[sp,#80]\n"
        "  add sp,sp,#160\n  ret\n.size fiber_keep_,.-fiber_keep_\n"
        ".globl fiber_begin_\n.type fiber_begin_,%function\n"
        "fiber_begin_:\n"
        "  mov sp,x0\n  mov x29,#0\n  mov x30,#0\n  br x1\n.size fiber_begin_,.-fiber_begin_\n");

static uintptr_t thread_pointer(void) {
    uintptr_t tp;
    __asm__("mrs %0,tpidr_el0" : "=r"(tp));
    return tp;
}
#endif

// The program's initial thread-local variables, and where a thread keeps its copy.
static struct { const void *image; size_t filled, size; ptrdiff_t from_tp; } tls;

static int find_tls(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    (void)data;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_TLS || !p->p_memsz) continue;
        size_t align = p->p_align ? p->p_align : 1;
        tls.image = (const void *)(info->dlpi_addr + p->p_vaddr);
        tls.filled = p->p_filesz;
        tls.size = p->p_memsz;
#if defined(__x86_64__)
        tls.from_tp = -(ptrdiff_t)((p->p_memsz + align - 1) & ~(align - 1));
#else
        tls.from_tp = (ptrdiff_t)((16 + align - 1) & ~(align - 1));
#endif
    }
    return 1;  // the executable comes first, and its block is the only one we reset
}

static _Noreturn void die(const char *what) {
    fprintf(stderr, "hotlock check: %s\n", what);
    _exit(2);
}

// A system call without a function of the C library: its first call would be bound by the dynamic
// linker, on more stack than there is above the program's part.
static inline long kernel(long n, long first, long second, long third) {
#if defined(__x86_64__)
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    __asm__ volatile("syscall" : "+a"(n)
                     : "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return n;
#else
    register long number __asm__("x8") = n, a __asm__("x0") = first, b __asm__("x1") = second;
    register long c __asm__("x2") = third, d __asm__("x3") = 0, e __asm__("x4") = 0;
    __asm__ volatile("svc 0" : "+r"(a) : "r"(number), "r"(b), "r"(c), "r"(d), "r"(e) : "memory");
    return a;
#endif
}

// The program's part begins below what the caller, a thread's first function, has of its own: at the
// same place of the stack either way, so that the same variables share cache lines.
static void tell_lent(fiber_t *f, const char *frame) {
    f->base = (char *)(((uintptr_t)frame - 512) & ~(uintptr_t)63);
    f->sp = f->base;
    __atomic_store_n(&f->lent, 1, __ATOMIC_RELEASE);
    kernel(SYS_futex, (long)&f->lent, FUTEX_WAKE_PRIVATE, 1);
}

// The real thread never touches its stack again: it sleeps in a loop of pure system calls.
static void *park(void *arg) {
    fiber_t *f = arg;
    f->tp = thread_pointer();
    tell_lent(f, __builtin_frame_address(0));
    for (;;) kernel(SYS_ppoll, 0, 0, 0);
    return NULL;
}

// ------------------------------------------------------------------------- threads that hand over
struct turn {
    uint32_t mine;            // a futex: this thread may run
    bool fresh;               // it shall begin anew
    void (*entry)(void);
    jmp_buf begin;
};
#ifndef FIBER_THREADS
#define FIBER_THREADS 0
#endif
// Its place does not depend on its value: then a program's own variables do not move either.
__attribute__((section(".data"))) bool fiber_by_threads = FIBER_THREADS;

static void await_turn(struct turn *t) {
    while (!__atomic_exchange_n(&t->mine, 0, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &t->mine, FUTEX_WAIT_PRIVATE, 0, NULL);
}

void fiber_hand_over_(fiber_t *from, const fiber_t *to) {
    struct turn *mine = from->turn;
    __atomic_store_n(&to->turn->mine, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &to->turn->mine, FUTEX_WAKE_PRIVATE, 1);
    await_turn(mine);
    if (mine->fresh) longjmp(mine->begin, 1);
}

static void *lend(void *arg) {
    fiber_t *f = arg;
    f->tp = thread_pointer();
    tell_lent(f, __builtin_frame_address(0));
    if (!setjmp(f->turn->begin)) await_turn(f->turn);   // a reset comes back here in its turn
    f->turn->fresh = false;
    fiber_begin_(f->base, f->turn->entry);
}

// Not from the heap: what the program finds there must not depend on how its CPUs are switched.
static struct turn *new_turn(void) {
    if (!fiber_by_threads) return NULL;
    void *t = mmap(NULL, sizeof(struct turn), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    if (t == MAP_FAILED) die("out of memory for threads");
    return t;
}

// May a program set its thread pointer by itself?
static void choose_way(void) {
    const char *way = getenv("HOTLOCK_FIBERS");
    if (way && !strcmp(way, "threads")) fiber_by_threads = true;
#if defined(__x86_64__)
    const unsigned long fsgsbase = 2;
    if (!(getauxval(AT_HWCAP2) & fsgsbase)) fiber_by_threads = true;
#endif
}

// ------------------------------------------------------------------------- making and resetting
void fiber_make(fiber_t *f, void *stack, size_t size) {
    choose_way();
    if (!tls.size) dl_iterate_phdr(find_tls, NULL);
    pthread_attr_t attr;
    pthread_t thread;
    mprotect(stack, PAGE, PROT_NONE);
    pthread_attr_init(&attr);
    pthread_attr_setstack(&attr, (char *)stack + PAGE, size - PAGE);
    f->lent = 0;
    f->turn = new_turn();
    f->low = (char *)stack + PAGE;
    if (pthread_create(&thread, &attr, fiber_by_threads ? lend : park, f) != 0)
        die("cannot start a thread");
    pthread_attr_destroy(&attr);
    while (!__atomic_load_n(&f->lent, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &f->lent, FUTEX_WAIT_PRIVATE, 0, NULL);
}

void fiber_host(fiber_t *f) {
    f->tp = thread_pointer();
    f->turn = new_turn();
}

void *fiber_locals(const fiber_t *f, size_t *size) {
    *size = tls.size;
    return (char *)f->tp + tls.from_tp;
}

void *fiber_theirs(const fiber_t *f, void *mine) {
    return (char *)f->tp + ((uintptr_t)mine - thread_pointer());
}

void fiber_reset(fiber_t *f, void (*entry)(void)) {
    void **sp = (void **)(fiber_by_threads ? f->low + 4096 : f->base);   // a thread has its own
#if defined(__x86_64__)
    *--sp = NULL;  // what entry() would return to; it never does
    *--sp = (void *)entry;
    for (int i = 0; i < SAVED_WORDS; i++) *--sp = NULL;
#else
    sp -= SAVED_WORDS;
    memset(sp, 0, SAVED_WORDS * sizeof *sp);
    sp[LINK_WORD] = (void *)entry;
#endif
    f->sp = sp;
    if (fiber_by_threads) {
        f->turn->entry = entry;
        f->turn->fresh = true;
    }
    if (!tls.size) return;
    size_t size;
    char *block = fiber_locals(f, &size);
    memcpy(block, tls.image, tls.filled);
    memset(block + tls.filled, 0, tls.size - tls.filled);
}
