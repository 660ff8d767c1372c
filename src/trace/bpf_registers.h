// SPDX-License-Identifier: MIT
/*
 * Where the registers lie in what the kernel saves (struct pt_regs), and DWARF's numbers of them.
 */
#ifndef HOTLOCK_TRACE_BPF_REGISTERS_H
#define HOTLOCK_TRACE_BPF_REGISTERS_H

#if defined(__x86_64__)

enum { REGISTER_PC = 16, REGISTER_SP = 19, REGISTER_FIRST_ARGUMENT = 14, REGISTER_DWARF = 16 };

// rax rdx rcx rbx rsi rdi rbp rsp r8..r15
static const unsigned char register_of_dwarf[REGISTER_DWARF] = {10, 12, 11, 5, 13, 14, 4, 19,
                                                                9,  8,  7,  6, 3,  2,  1, 0};

#elif defined(__aarch64__)

enum { REGISTER_PC = 32, REGISTER_SP = 31, REGISTER_FIRST_ARGUMENT = 0, REGISTER_DWARF = 32 };

static const unsigned char register_of_dwarf[REGISTER_DWARF] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

#endif

#endif
