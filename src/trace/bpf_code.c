// SPDX-License-Identifier: MIT
// bpf_code.c - bytes of code from the program's files, decoded into op_t.
#include "bpf_code.h"

#include <capstone/capstone.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "../cli/cli.h"

#define OPS_MOST 1024

struct code {
    Dwfl *dwfl;
    pid_t pid;
    csh engine;
    cs_insn *insn;
    uint64_t given_start;
    const uint8_t *given;
    size_t given_bytes;
    op_t ops[OPS_MOST];
};

// ------------------------------------------------------------------------- bytes
// From the file: there still when the process is gone. Code made at run time is in no file.
static const uint8_t *bytes_in_file(Dwfl_Module *m, uint64_t pc, size_t *have)
{
    GElf_Addr bias;
    Elf *elf = m ? dwfl_module_getelf(m, &bias) : NULL;
    size_t count, size = 0;
    const char *raw = elf ? elf_rawfile(elf, &size) : NULL;
    if (!raw || elf_getphdrnum(elf, &count) != 0)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr h;
        if (!gelf_getphdr(elf, (int)i, &h) || h.p_type != PT_LOAD || !(h.p_flags & PF_X) ||
            pc - bias < h.p_vaddr || pc - bias >= h.p_vaddr + h.p_filesz)
            continue;
        uint64_t offset = h.p_offset + (pc - bias - h.p_vaddr);
        if (offset >= size)
            return NULL;
        *have = h.p_vaddr + h.p_filesz - (pc - bias);
        if (*have > size - offset)
            *have = size - offset;
        return (const uint8_t *)raw + offset;
    }
    return NULL;
}

void code_give(code_t *c, uint64_t start, const uint8_t *bytes, size_t count)
{
    if (!c)
        return;
    c->given_start = start;
    c->given = bytes;
    c->given_bytes = count;
}

static size_t read_code(const code_t *c, Dwfl_Module *m, uint64_t pc, uint8_t *to, size_t want)
{
    size_t have = 0;
    if (c->given) {
        have = c->given_bytes < want ? c->given_bytes : want;
        memcpy(to, c->given, have);
        return have;
    }
    const uint8_t *bytes = bytes_in_file(m, pc, &have);
    if (bytes) {
        if (have > want)
            have = want;
        memcpy(to, bytes, have);
        return have;
    }
    struct iovec here = {to, want}, there = {(void *)(uintptr_t)pc, want};
    ssize_t got = process_vm_readv(c->pid, &here, 1, &there, 1, 0);
    return got > 0 ? (size_t)got : 0;
}

#if defined(__x86_64__)
// ------------------------------------------------------------------------- x86-64
// Index in pt_regs of a register, or CODE_NONE; 8 and 16 bit parts never hold a pointer.
static uint8_t place_of(unsigned reg)
{
    static const struct {
        unsigned wide, narrow;
        uint8_t place;
    } map[] = {
        {X86_REG_RAX, X86_REG_EAX, 10},  {X86_REG_RBX, X86_REG_EBX, 5},
        {X86_REG_RCX, X86_REG_ECX, 11},  {X86_REG_RDX, X86_REG_EDX, 12},
        {X86_REG_RSI, X86_REG_ESI, 13},  {X86_REG_RDI, X86_REG_EDI, 14},
        {X86_REG_RBP, X86_REG_EBP, 4},   {X86_REG_RSP, X86_REG_ESP, 19},
        {X86_REG_R8, X86_REG_R8D, 9},    {X86_REG_R9, X86_REG_R9D, 8},
        {X86_REG_R10, X86_REG_R10D, 7},  {X86_REG_R11, X86_REG_R11D, 6},
        {X86_REG_R12, X86_REG_R12D, 3},  {X86_REG_R13, X86_REG_R13D, 2},
        {X86_REG_R14, X86_REG_R14D, 1},  {X86_REG_R15, X86_REG_R15D, 0},
    };
    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].wide == reg || map[i].narrow == reg)
            return map[i].place;
    return CODE_NONE;
}

static void decode_operand(const cs_insn *in, const cs_x86_op *op, operand_t *to)
{
    *to = (operand_t){true, CODE_NONE, CODE_NONE, 1, op->mem.disp};
    if (op->mem.segment == X86_REG_FS || op->mem.segment == X86_REG_GS) {
        to->some = false; // thread-local: nobody else can change it
        return;
    }
    if (op->mem.base == X86_REG_RIP)
        to->displacement += (int64_t)(in->address + in->size);
    else if (op->mem.base != X86_REG_INVALID)
        to->base = place_of(op->mem.base);
    if (op->mem.index != X86_REG_INVALID) {
        to->index = place_of(op->mem.index);
        to->scale = (uint8_t)op->mem.scale;
    }
}

static uint32_t flags_of_mnemonic(const cs_insn *in, bool memory)
{
    const cs_x86 *x = &in->detail->x86;
    switch (in->id) {
    case X86_INS_PAUSE:
        return OP_PAUSE;
    case X86_INS_XCHG:
        return memory ? OP_ATOMIC | OP_ATTEMPT : OP_COMPUTE;
    case X86_INS_CMPXCHG:
    case X86_INS_CMPXCHG8B:
    case X86_INS_CMPXCHG16B:
    case X86_INS_BTS:
        return x->prefix[0] == 0xf0 ? OP_ATOMIC | OP_ATTEMPT : OP_COMPUTE;
    case X86_INS_CMP:
    case X86_INS_TEST:
    case X86_INS_BT:
        return OP_COMPARE | (memory ? OP_LOAD : 0);
    case X86_INS_CALL:
    case X86_INS_SYSCALL:
        return OP_CALL;
    case X86_INS_LEA:
        return OP_ADDRESS;
    default:
        return x->prefix[0] == 0xf0 ? OP_ATOMIC : 0;
    }
}

static void decode(csh engine, const cs_insn *in, op_t *to)
{
    const cs_x86 *x = &in->detail->x86;
    *to = (op_t){.pc = in->address};
    if (in->id == X86_INS_NOP)
        return; // its operand is only there to make it long
    const cs_x86_op *memory = NULL;
    bool constant = x->op_count > 1 && x->operands[1].type == X86_OP_IMM;
    for (int i = 0; i < x->op_count; i++)
        if (x->operands[i].type == X86_OP_MEM)
            memory = &x->operands[i];
    if (memory)
        decode_operand(in, memory, &to->memory);
    to->flags = flags_of_mnemonic(in, memory != NULL);
    if (in->id == X86_INS_XOR && x->op_count == 2 && x->operands[0].type == X86_OP_REG &&
        x->operands[1].type == X86_OP_REG && x->operands[0].reg == x->operands[1].reg)
        constant = true;
    cs_regs read, write;
    uint8_t reads = 0, writes = 0;
    if (cs_regs_access(engine, in, read, &reads, write, &writes) == 0)
        for (int i = 0; i < writes; i++) {
            uint8_t place = place_of(write[i]);
            if (place != CODE_NONE)
                to->writes |= 1u << place;
        }
    if (cs_insn_group(engine, in, X86_GRP_JUMP)) {
        to->flags |= OP_BRANCH;
        if (x->op_count == 1 && x->operands[0].type == X86_OP_IMM)
            to->target = (uint64_t)x->operands[0].imm;
        return;
    }
    if (to->flags)
        return;
    bool loads = in->id == X86_INS_MOV || in->id == X86_INS_MOVZX || in->id == X86_INS_MOVSX ||
                 in->id == X86_INS_MOVSXD;
    bool to_memory = memory && memory == &x->operands[0];
    if (to_memory)
        to->flags = OP_STORE;
    else if (memory && loads)
        to->flags = OP_LOAD;
    else if (constant && (in->id == X86_INS_MOV || in->id == X86_INS_XOR))
        to->flags = OP_CONSTANT;
    else if (to->writes)
        to->flags = OP_COMPUTE;
}

static bool open_engine(csh *engine)
{
    return cs_open(CS_ARCH_X86, CS_MODE_64, engine) == CS_ERR_OK;
}
#else
static void decode(csh engine, const cs_insn *in, op_t *to)
{
    (void)engine;
    *to = (op_t){.pc = in->address};
}

static bool open_engine(csh *engine)
{
    (void)engine;
    return false; // only x86-64 is decoded so far
}
#endif

// ------------------------------------------------------------------------- windows
code_t *code_new(Dwfl *dwfl, pid_t pid)
{
    code_t *c = cli_alloc(sizeof *c);
    c->dwfl = dwfl;
    c->pid = pid;
    if (!open_engine(&c->engine)) {
        free(c);
        return NULL;
    }
    cs_option(c->engine, CS_OPT_DETAIL, CS_OPT_ON);
    cs_option(c->engine, CS_OPT_SKIPDATA, CS_OPT_ON);
    c->insn = cs_malloc(c->engine);
    return c;
}

void code_free(code_t *c)
{
    if (!c)
        return;
    cs_free(c->insn, 1);
    cs_close(&c->engine);
    free(c);
}

// Where decoding begins: the function's start, so that instructions are cut right. Without a
// symbol, or in a large function, a little before; x86 code falls into step after a few.
static uint64_t start_of(const code_t *c, Dwfl_Module *m, uint64_t pc)
{
    GElf_Off offset;
    GElf_Sym sym;
    if (c->given)
        return c->given_start;
    const char *name = m ? dwfl_module_addrinfo(m, pc, &offset, &sym, NULL, NULL, NULL) : NULL;
    if (name && sym.st_size && offset < sym.st_size && offset <= 8 * CODE_WINDOW)
        return pc - offset;
    return pc - CODE_WINDOW - 64;
}

uint32_t code_around(code_t *c, uint64_t pc, const op_t **ops, uint32_t *at)
{
    uint8_t bytes[10 * CODE_WINDOW];
    Dwfl_Module *m = c->dwfl ? dwfl_addrmodule(c->dwfl, pc) : NULL;
    uint64_t start = start_of(c, m, pc);
    size_t want = pc + CODE_WINDOW - start;
    size_t have = read_code(c, m, start, bytes, want < sizeof bytes ? want : sizeof bytes);
    if (have == 0) { // the window began before the code does
        start = pc;
        have = read_code(c, m, start, bytes, CODE_WINDOW);
    }
    const uint8_t *next = bytes;
    uint64_t address = start;
    uint32_t count = 0;
    *at = OPS_MOST;
    while (cs_disasm_iter(c->engine, &next, &have, &address, c->insn) && count < OPS_MOST) {
        const cs_insn *in = c->insn;
        if (in->address + CODE_WINDOW < pc)
            continue;
        if (in->id == 0)
            c->ops[count] = (op_t){.pc = in->address, .flags = OP_COMPUTE};
        else
            decode(c->engine, in, &c->ops[count]);
        if (pc >= in->address && pc < in->address + in->size)
            *at = count;
        count++;
    }
    *ops = c->ops;
    return *at < count ? count : 0;
}
