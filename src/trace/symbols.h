// SPDX-License-Identifier: MIT
/*
 * Names for addresses: function, file and line of code; variable, field and type of a lock.
 *
 * Works from the maps kept in the profile, so a process that has ended, or whose addresses are
 * random, is no different from a running one. Where there is no debug information the symbol
 * tables serve; where there are none of these either, module and offset.
 */
#ifndef HOTLOCK_SYMBOLS_H
#define HOTLOCK_SYMBOLS_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

#include "profile.h"

// Fills the names of every frame and of every lock that has none, and inserts the frames that
// were inlined into the stacks. Debug files are also looked for in DIRECTORY (NULL: only in the
// usual places). Notes in the profile say what had no symbols.
void symbols_resolve(profile_t *p, const char *directory);

// Adds the maps of a running process to the profile; false if it is gone.
bool symbols_read_maps(profile_t *p, pid_t pid);

// elfutils' view of the process; NULL if nothing of it could be opened.
Dwfl *symbols_dwfl(const profile_t *p, pid_t pid, const char *directory);
void symbols_end(Dwfl *dwfl);

// The function this code address lies in, by the symbol tables only; NULL if in none. No copy.
const char *symbols_function(Dwfl *dwfl, uint64_t pc);

// A symbol's name as people write it: demangled, without a version. Free it.
char *symbols_readable(const char *name);

// Whom the call before this return address (pc is inside the call) goes to, if that is known and
// is a function of the same file.
typedef struct {
    Dwarf_Die die;
    Dwarf_Addr bias;
} symbols_callee_t;
bool symbols_callee(Dwfl *dwfl, uint64_t pc, symbols_callee_t *callee);
bool symbols_callee_has(symbols_callee_t *callee, uint64_t pc); // is this address in it?

// "db.lock" for data of the program, from debug information or the symbol table; NULL: neither.
// Free it.
char *symbols_variable(Dwfl *dwfl, uint64_t address);

// Where in a structure of this type the byte lies: ".lock", ".shard[3].lock"; "" for itself.
// False if not inside. Appends to TEXT.
bool symbols_field(Dwarf_Die *type, uint64_t offset, char *text, size_t size);

// The structure that a pointer or reference variable points to; false if it is none.
bool symbols_pointee(Dwarf_Die *variable, Dwarf_Die *type);

// "db->lock": a global variable that points to what is at the address. READ reads a word of the
// process. NULL: none. Free it.
char *symbols_pointer_to(Dwfl *dwfl, uint64_t address,
                         bool (*read)(void *arg, uint64_t address, uint64_t *value), void *arg);

// Kernel function names; offset from its start if OFFSET is not NULL. NULL: none can be read.
const char *symbols_kernel(uint64_t pc, uint64_t *offset);
bool symbols_kernel_range(const char *function, uint64_t *start, uint64_t *end);

// A variable of the kernel, if it tells where its variables are. No copy.
const char *symbols_kernel_variable(uint64_t address);

#endif
