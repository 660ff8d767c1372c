// SPDX-License-Identifier: MIT
// libc.c - finds the functions behind the preload, once, before or during the first call to one.
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload.h"

hlp_libc_t hlp_libc_found;
hlp_flag_t hlp_libc_ready;

// Every signal but those that the thread itself causes, which must not be blocked.
static void block_signals(uint64_t *before) {
    uint64_t most = ~(1ull << (SIGTRAP - 1) | 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) |
                      1ull << (SIGILL - 1) | 1ull << (SIGFPE - 1));
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &most, before, sizeof most);
}

// Two threads may both come here; they find and store the same addresses. dlsym() may lock a
// mutex of libc's own, never one of ours, and does not allocate when the name is found. A signal
// handler that interrupts it and comes here as well would wait for that mutex for ever.
void hlp_libc_find(void) {
    int saved = errno;
    uint64_t before = 0;
    block_signals(&before);
#define X(result, name, args) \
    __atomic_store_n((void **)&hlp_libc_found.name, dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED);
    HLP_LIBC(X)
#undef X
    hl_store_rel(&hlp_libc_ready, true);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    errno = saved;
}
