// SPDX-License-Identifier: MIT
// count.c - where the counters of named locks live (count.h): made at the first name, made anew in a
// forked child, gone with the process.
#include <hotlock/count.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <hotlock/tas.h>

#define COUNTERS "HOTLOCK_COUNTERS"

static hl_counts_t *counts;
static hl_tas_t naming;

static int make_file(void) {
    const char *directory = secure_getenv(COUNTERS);
    char path[4096];
    if (!directory || !*directory) return memfd_create("hotlock-count", MFD_CLOEXEC);
    int length = snprintf(path, sizeof path, "%s/%d.count", directory, (int)getpid());
    if (length < 0 || (size_t)length >= sizeof path) return -1;
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

// At `place` if that is not NULL. The descriptor stays open: it is how others find the file.
static hl_counts_t *make(void *place) {
    int flags = place ? MAP_FIXED : 0, fd = make_file();
    if (fd >= 0 && (fchmod(fd, 0600) != 0 || ftruncate(fd, sizeof(hl_counts_t)) != 0)) {
        close(fd);
        fd = -1;
    }
    void *at = mmap(place, sizeof(hl_counts_t), PROT_READ | PROT_WRITE,
                    flags | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), fd, 0);
    if (at == MAP_FAILED) return NULL;
    hl_counts_t *c = at;
    c->pid = (uint32_t)getpid();
    __atomic_store_n(&c->magic, HL_COUNT_MAGIC, __ATOMIC_RELEASE);
    return c;
}

// The child's locks are at the same addresses and so are its counters, beginning again at 0; of
// the parent's it keeps the names.
static void in_child(void) {
    static struct { uint64_t address; char name[HL_COUNT_NAME]; } kept[HL_COUNT_LOCKS];
    naming = (hl_tas_t)HL_TAS_INIT;
    if (!counts) return;
    uint32_t used = hl_load(&counts->used);
    for (uint32_t i = 0; i < used; i++) {
        kept[i].address = counts->lock[i].address;
        memcpy(kept[i].name, counts->lock[i].name, HL_COUNT_NAME);
    }
    if (!make(counts)) return;
    for (uint32_t i = 0; i < used; i++) {
        counts->lock[i].address = kept[i].address;
        memcpy(counts->lock[i].name, kept[i].name, HL_COUNT_NAME);
    }
    hl_store_rel(&counts->used, used);
}

static void begin(void) {
    static hl_counts_t last_resort;
    counts = make(NULL);
    if (!counts) counts = &last_resort;
    pthread_atfork(NULL, NULL, in_child);
}

static hl_count_t *find(uint64_t address, const char *name, uint32_t used) {
    for (uint32_t i = 0; i < used; i++)
        if (counts->lock[i].address == address &&
            !strncmp(counts->lock[i].name, name, HL_COUNT_NAME - 1))
            return &counts->lock[i];
    return NULL;
}

hl_count_t *hl_lock_name(const void *lock, const char *name) {
    uint64_t address = (uint64_t)(uintptr_t)lock;
    int saved = errno;
    hl_tas_lock(&naming);
    if (!counts) begin();
    uint32_t used = hl_load(&counts->used);
    hl_count_t *c = find(address, name, used);
    if (!c && used == HL_COUNT_LOCKS) {
        c = &counts->lock[used - 1];
        c->address = 0;
        snprintf(c->name, sizeof c->name, "all beyond %d named locks", HL_COUNT_LOCKS - 1);
    } else if (!c) {
        c = &counts->lock[used];
        c->address = address;
        snprintf(c->name, sizeof c->name, "%s", name);
        hl_store_rel(&counts->used, used + 1);
    }
    hl_tas_unlock(&naming);
    errno = saved;
    return c;
}
