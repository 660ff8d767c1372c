// SPDX-License-Identifier: MIT
// check.c - HOTLOCK=check=1: says once, on stderr, which names of ours a program really reaches.
//
// A preload that another library shadows, or whose symbols carry the wrong version, changes half of
// a program's locks and hangs it. So each name is looked up as the loader does for the program.
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "preload.h"

void hlp_add(hlp_line_t *l, const char *text, size_t length) {
    if (length > sizeof l->text - l->used) length = sizeof l->text - l->used;
    memcpy(l->text + l->used, text, length);
    l->used += length;
}

void hlp_say(hlp_line_t *l, const char *text) { hlp_add(l, text, strlen(text)); }

void hlp_print(hlp_line_t *l) {
    int saved = errno;
    const char *at = l->text;
    ssize_t written;
    while (l->used && (written = write(STDERR_FILENO, at, l->used)) > 0) {
        at += written;
        l->used -= (size_t)written;
    }
    errno = saved;
}

void hlp_say_number(hlp_line_t *l, unsigned n) {
    char digits[12], *at = digits + sizeof digits;
    do *--at = (char)('0' + n % 10);
    while (n /= 10);
    hlp_add(l, at, (size_t)(digits + sizeof digits - at));
}

// The file a name leads to, without its folder.
static const char *owner_of(void *address, const void **base) {
    Dl_info info;
    *base = NULL;
    if (!address || !dladdr(address, &info)) return "nothing";
    *base = info.dli_fbase;
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

void hlp_check(void) {
    hlp_line_t lost = {.used = 0}, l = {.used = 0};
    const void *our_base, *base;
    unsigned reached = 0;
    owner_of(&hlp_ops, &our_base);
    for (size_t i = 0; i < HLP_NAMES; i++) {
        const char *file = owner_of(dlsym(RTLD_DEFAULT, hlp_names[i].name), &base);
        if (base == our_base) {
            reached++;
            continue;
        }
        hlp_say(&lost, lost.used ? ", " : "; not ");
        hlp_say(&lost, hlp_names[i].name);
        hlp_say(&lost, " (");
        hlp_say(&lost, file);
        hlp_say(&lost, ")");
    }
    hlp_say(&l, "hotlock: check: lock=");
    hlp_say(&l, hlp_op(name));
    hlp_say(&l, ": ");
    hlp_say_number(&l, reached);
    hlp_say(&l, " of ");
    hlp_say_number(&l, HLP_NAMES);
    hlp_say(&l, " functions reach the preload");
    hlp_add(&l, lost.text, lost.used < 800 ? lost.used : 800);
    hlp_say(&l, "\n");
    hlp_print(&l);
}
