// SPDX-License-Identifier: MIT
/*
 * symbols_tail.c - functions that left no frame because their last call was a jump.
 *
 * A function that ends with an unlock does not call it, it jumps there, and is missing in the
 * stack: exactly the function that held the lock. But the one that called it, whose frame is
 * there, says in its debug information whom it called at that place.
 */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "symbols.h"

// The call site that returns to this address, below a scope.
static bool find_site(Dwarf_Die *scope, Dwarf_Addr returns, Dwarf_Die *site, int depth)
{
    Dwarf_Die die;
    if (depth > 16 || dwarf_child(scope, &die) != 0)
        return false;
    do {
        Dwarf_Attribute a;
        Dwarf_Addr at;
        switch (dwarf_tag(&die)) {
        case DW_TAG_call_site:
        case DW_TAG_GNU_call_site:
            if (((dwarf_attr(&die, DW_AT_call_return_pc, &a) && dwarf_formaddr(&a, &at) == 0) ||
                 (dwarf_attr(&die, DW_AT_low_pc, &a) && dwarf_formaddr(&a, &at) == 0)) &&
                at == returns) {
                *site = die;
                return true;
            }
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_inlined_subroutine:
            if (find_site(&die, returns, site, depth + 1))
                return true;
            break;
        default:
            break;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
    return false;
}

bool symbols_callee(Dwfl *dwfl, uint64_t pc, symbols_callee_t *callee)
{
    Dwarf_Die *scopes = NULL, site;
    Dwarf_Attribute a;
    Dwfl_Module *m = dwfl ? dwfl_addrmodule(dwfl, pc) : NULL;
    Dwarf_Die *cu = m ? dwfl_module_addrdie(m, pc, &callee->bias) : NULL;
    int count = cu ? dwarf_getscopes(cu, pc - callee->bias, &scopes) : 0;
    bool found = false;
    for (int i = 0; i < count && !found; i++)
        found = dwarf_tag(&scopes[i]) == DW_TAG_subprogram &&
                find_site(&scopes[i], pc + 1 - callee->bias, &site, 0);
    if (count > 0)
        free(scopes);
    if (!found || !(dwarf_attr(&site, DW_AT_call_origin, &a) ||
                    dwarf_attr(&site, DW_AT_abstract_origin, &a)) ||
        !dwarf_formref_die(&a, &callee->die))
        return false;
    // A declaration is a function elsewhere, such as the unlock itself: it would be in the stack.
    return !dwarf_attr(&callee->die, DW_AT_declaration, &a) &&
           dwarf_diename(&callee->die) != NULL;
}

bool symbols_callee_has(symbols_callee_t *callee, uint64_t pc)
{
    return dwarf_haspc(&callee->die, pc - callee->bias) > 0;
}
