// SPDX-License-Identifier: MIT
// libc.c - finds the functions behind the preload, once, before or during the first call to one.
#include <dlfcn.h>

#include "preload.h"

hlp_libc_t hlp_libc_found;
hlp_flag_t hlp_libc_ready;

// Two threads may both come here; they find and store the same addresses. dlsym() may lock a
// mutex of libc's own, never one of ours, and does not allocate when the name is found.
void hlp_libc_find(void) {
#define X(result, name, args) \
    __atomic_store_n((void **)&hlp_libc_found.name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);
    HLP_LIBC(X)
#undef X
    hl_store_rel(&hlp_libc_ready, true);
}
