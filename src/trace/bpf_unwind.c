// SPDX-License-Identifier: MIT
// bpf_unwind.c - elfutils' unwinder on a snapshot instead of a stopped thread.
#include "bpf_unwind.h"

#include <stdlib.h>
#include <string.h>

#include "../cli/cli.h"
#include "bpf_registers.h"

struct unwinder {
    Dwfl *dwfl;
    pid_t pid;
    const record_t *record; // the one being unwound
    unwound_t *frames;
    uint32_t depth;
};

bool unwind_read(const record_t *r, uint64_t address, void *to, size_t bytes)
{
    uint64_t start = r->regs[REGISTER_SP], have = (uint64_t)r->head.chunks * RECORD_CHUNK;
    if (address < start || address - start > have || have - (address - start) < bytes)
        return false;
    memcpy(to, r->stack + (address - start), bytes);
    return true;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *result, void *arg)
{
    (void)dwfl;
    const unwinder_t *u = arg;
    return unwind_read(u->record, address, result, sizeof *result);
}

static pid_t one_thread(Dwfl *dwfl, void *arg, void **thread)
{
    (void)dwfl;
    unwinder_t *u = arg;
    if (*thread)
        return 0;
    *thread = u;
    return u->pid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread)
{
    (void)dwfl;
    unwinder_t *u = arg;
    *thread = u;
    return tid == u->pid;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
    const unwinder_t *u = arg;
    Dwarf_Word regs[REGISTER_DWARF];
    for (unsigned i = 0; i < REGISTER_DWARF; i++)
        regs[i] = u->record->regs[register_of_dwarf[i]];
    if (!dwfl_thread_state_registers(thread, 0, REGISTER_DWARF, regs))
        return false;
    dwfl_thread_state_register_pc(thread, u->record->regs[REGISTER_PC]);
    return true;
}

static int one_frame(Dwfl_Frame *frame, void *arg)
{
    unwinder_t *u = arg;
    Dwarf_Addr pc;
    bool activation;
    if (u->depth == PROFILE_DEPTH || !dwfl_frame_pc(frame, &pc, &activation) || pc == 0)
        return DWARF_CB_ABORT;
    unwound_t *f = &u->frames[u->depth];
    f->pc = activation ? pc : pc - 1;
    f->known = 0;
    for (unsigned i = 0; i < REGISTER_DWARF; i++) {
        Dwarf_Word value;
        if (dwfl_frame_reg(frame, i, &value) == 0) {
            f->reg[i] = value;
            f->known |= 1u << i;
        }
    }
    u->depth++;
    return DWARF_CB_OK;
}

unwinder_t *unwinder_new(Dwfl *dwfl, pid_t pid)
{
    static const Dwfl_Thread_Callbacks callbacks = {
        .next_thread = one_thread,
        .get_thread = get_thread,
        .memory_read = read_memory,
        .set_initial_registers = set_registers,
    };
    unwinder_t *u = cli_alloc(sizeof *u);
    u->dwfl = dwfl;
    u->pid = pid;
    if (dwfl && !dwfl_attach_state(dwfl, NULL, pid, &callbacks, u))
        u->dwfl = NULL;
    return u;
}

void unwinder_free(unwinder_t *u)
{
    free(u);
}

uint32_t unwind(unwinder_t *u, const record_t *r, unwound_t *frames)
{
    u->record = r;
    u->frames = frames;
    u->depth = 0;
    if (u->dwfl)
        dwfl_getthread_frames(u->dwfl, u->pid, one_frame, u);
    if (u->depth == 0) { // no tables for this code: where it was is still known
        frames[0] = (unwound_t){.pc = r->regs[REGISTER_PC]};
        u->depth = 1;
    }
    return u->depth;
}
