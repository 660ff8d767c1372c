// SPDX-License-Identifier: MIT
/*
 * The loops around a program counter, decoded by capstone into what a spin finder must know.
 */
#ifndef HOTLOCK_TRACE_BPF_CODE_H
#define HOTLOCK_TRACE_BPF_CODE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CODE_WINDOW 1024 // bytes on either side that are looked at
#define CODE_NONE 255

typedef enum {
    OP_PAUSE = 1 << 0,
    OP_ATOMIC = 1 << 1,
    OP_ATTEMPT = 1 << 2,   // an atomic that can fail, or shows it failed: exchange, cmpxchg, bts
    OP_LOAD = 1 << 3,
    OP_COMPARE = 1 << 4,
    OP_STORE = 1 << 5,
    OP_CALL = 1 << 6,
    OP_BRANCH = 1 << 7,
    OP_COMPUTE = 1 << 8,   // writes a register with something not just loaded
    OP_CONSTANT = 1 << 9,  // writes a register with a constant
    OP_ADDRESS = 1 << 10,  // lea: the operand is the result
} op_flags_t;

// A memory operand: base and index are indices into struct pt_regs, CODE_NONE if absent.
typedef struct {
    bool some;
    uint8_t base, index, scale;
    int64_t displacement; // the whole address if there is neither base nor index
} operand_t;

typedef struct {
    uint64_t pc, target; // target of a branch, else 0
    uint32_t flags;
    uint32_t writes;     // bit per register, by index in pt_regs
    operand_t memory;
} op_t;

typedef struct code code_t;

code_t *code_new(Dwfl *dwfl, pid_t pid); // NULL: this processor's code is not known
void code_free(code_t *c);

// Code that is in no file one can read: the kernel's. NULL: from the files again.
void code_give(code_t *c, uint64_t start, const uint8_t *bytes, size_t count);

// Instructions around PC in order; *at is the one that contains it. 0 if it cannot be decoded.
uint32_t code_around(code_t *c, uint64_t pc, const op_t **ops, uint32_t *at);

#endif
