// SPDX-License-Identifier: MIT
// files.c - system calls on files: done by the real kernel, at the price of one system call each.
//
// What the kernel does in them takes no simulated time, and its locks are not there. A record lock
// that would block is asked for again until it is had, for the real kernel would stop everybody.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

// Declared by nobody: the program's object calls them under these names (redirect.syms).
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { RETRY_PS = 2000000 };

static void pay(void) {
    if (self) engine_passes(machine.syscall);
}

static bool would_block(int r) { return r != 0 && (errno == EAGAIN || errno == EACCES); }

static int lock_record(int fd, int command, void *lock) {
    int try = command == F_OFD_SETLKW ? F_OFD_SETLK : F_SETLK, r;
    while (would_block(r = fcntl(fd, try, lock))) {
        sched_sleep(self->cpu->now + RETRY_PS);
        pay();
    }
    return r;
}

int vm_fcntl(int fd, int command, ...) {
    va_list ap;
    va_start(ap, command);
    void *argument = va_arg(ap, void *);
    va_end(ap);
    pay();
    if (self && (command == F_OFD_SETLKW || command == F_SETLKW))
        return lock_record(fd, command, argument);
    return fcntl(fd, command, argument);
}

int vm_stat(const char *name, struct stat *s) {
    pay();
    return stat(name, s);
}
int vm_fstatat(int fd, const char *name, struct stat *s, int flags) {
    pay();
    return fstatat(fd, name, s, flags);
}
DIR *vm_opendir(const char *name) {
    pay();
    return opendir(name);
}
DIR *vm_fdopendir(int fd) {
    pay();
    return fdopendir(fd);
}
int vm_closedir(DIR *d) {
    pay();
    return closedir(d);
}
int vm_close(int fd) {
    pay();
    return close(fd);
}
ssize_t vm_read(int fd, void *to, size_t n) {
    pay();
    return read(fd, to, n);
}
ssize_t vm_write(int fd, const void *from, size_t n) {
    pay();
    return write(fd, from, n);
}

// With large files, which on 64-bit machines are no different; an object may know either name.
int vm_fcntl64(int fd, int command, ...) __attribute__((alias("vm_fcntl")));
int vm_stat64(const char *name, struct stat *s) __attribute__((alias("vm_stat")));
int vm_fstatat64(int fd, const char *name, struct stat *s, int flags)
    __attribute__((alias("vm_fstatat")));
