// SPDX-License-Identifier: MIT
// count_read.c - finds and reads the counters of named locks: the memfd of a running process, or
// the files of a directory.
#include "count_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../cli/cli.h"
#include "hotlock/count.h"

static void read_lock(profile_t *p, pid_t pid, const hl_count_t *c) {
    profile_lock_t *l = profile_lock(p, pid, c->address, "named lock");
    free(l->name);
    l->name = cli_printf("%.*s", HL_COUNT_NAME, c->name);
    l->has |= HAS_ACQUISITIONS | HAS_CONTENDED | HAS_WAIT;
    l->acquisitions = c->acquisitions;
    l->contended = c->contended;
    l->wait_ns = c->wait_ns;
    l->wait_worst_ns = c->wait_worst_ns;
    for (unsigned i = 0; i < PROFILE_BUCKETS && i < HL_COUNT_BUCKETS; i++)
        l->wait_hist[i] = c->wait_hist[i];
}

static int read_file(int fd, profile_t *p) {
    struct stat st;
    int count = 0;
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(hl_counts_t)) return 0;
    void *at = mmap(NULL, sizeof(hl_counts_t), PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return 0;
    const hl_counts_t *c = at;
    if (__atomic_load_n(&c->magic, __ATOMIC_ACQUIRE) == HL_COUNT_MAGIC) {
        uint32_t used = hl_load_acq(&c->used);
        for (uint32_t i = 0; i < used && i < HL_COUNT_LOCKS; i++, count++)
            read_lock(p, (pid_t)c->pid, &c->lock[i]);
    }
    munmap(at, sizeof(hl_counts_t));
    return count;
}

int count_read_process(pid_t pid, profile_t *p) {
    char path[64], target[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) {
        ssize_t length = readlinkat(dirfd(d), e->d_name, target, sizeof target - 1);
        if (length < 0) continue;
        target[length] = '\0';
        if (strncmp(target, "/memfd:hotlock-count", 20) != 0) continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        count += read_file(fd, p);
        close(fd);
    }
    closedir(d);
    return count;
}

int count_read_directory(const char *directory, profile_t *p) {
    int count = 0;
    DIR *d = opendir(directory);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strcmp(dot, ".count") != 0) continue;
        int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        count += read_file(fd, p);
        close(fd);
    }
    closedir(d);
    return count;
}
