// SPDX-License-Identifier: MIT
// record_file.c - the recorder's file: made at the first lock call, in each process anew; slots
// found, taken and given back.
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "record_hold.h"

extern char **environ;
extern void *__libc_stack_end __attribute__((weak));

record_head_t *rec_head;
rec_flag_t rec_started;
__thread rec_thread_t rec_me __attribute__((tls_model("initial-exec")));

static char directory[256];
static size_t mapped;

// ------------------------------------------------------------------------- start
static const char *environment(void) {
    char **env = environ;
    if (!env && &__libc_stack_end && __libc_stack_end) {  // before libc has set it
        long *stack = __libc_stack_end;
        env = (char **)(stack + 1 + stack[0] + 1);
    }
    for (; env && *env; env++)
        if (strncmp(*env, RECORD_ENV "=", sizeof RECORD_ENV) == 0) return *env + sizeof RECORD_ENV;
    return NULL;
}

static char *put_number(char *to, uint64_t n) {
    char digits[24];
    size_t count = 0;
    do digits[count++] = (char)('0' + n % 10);
    while (n /= 10);
    while (count) *to++ = digits[--count];
    *to = '\0';
    return to;
}

// DIRECTORY/PID.N: the first N that is free, because a process that executes another program
// keeps its number. Never through a link, never over what is there.
static int make_file(void) {
    char path[sizeof directory + 64];
    for (unsigned n = 0; n < 1000; n++) {
        char *to = stpcpy(path, directory);
        *to++ = '/';
        to = put_number(to, (uint64_t)getpid());
        *to++ = '.';
        put_number(to, n);
        int fd = rec_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

// As many slots as the file system surely holds: a full one would kill the program at a touch.
static uint32_t room_for(int fd) {
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return 0;
    uint64_t space = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    uint32_t slots = RECORD_SLOTS;
    while (slots >= 64 && 2 * record_size(slots) > space) slots /= 2;
    return slots >= 64 ? slots : 0;
}

static uint64_t clock_ticks(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 100; i++) {
        uint64_t begin = hl_ticks(), ticks = hl_ticks() - begin;
        if (ticks < least) least = ticks;
    }
    return least;
}

static record_head_t *map_file(void) {
    int fd = make_file();
    if (fd < 0) return NULL;
    uint32_t slots = room_for(fd);
    void *at = MAP_FAILED;
    size_t size = record_size(slots);
    if (slots && ftruncate(fd, (off_t)size) == 0)
        at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (at == MAP_FAILED) return NULL;
    mapped = size;
    record_head_t *h = at;
    uint64_t rate = hl_ns_to_ticks(1u << 20);
    h->slots = slots;
    h->mult = ((uint64_t)1 << 52) / rate;
    h->clock = clock_ticks();
    h->pid = (uint32_t)getpid();
    h->ns0 = hl_clock_pair(&h->ticks0);
    hl_store(&h->used, 1);  // slot 0 stands for "none"
    __atomic_store_n(&h->magic, RECORD_MAGIC, __ATOMIC_RELEASE);
    return h;
}

// A forked child has the parent's file mapped; what it does is to be told apart.
static void in_child(void) {
    if (!rec_head) return;
    munmap(rec_head, mapped);
    memset(&rec_me, 0, sizeof rec_me);
    rec_head = map_file();
    if (rec_head) rec_note_maps();
}

static void at_end(void) {
    record_head_t *h = rec_head;
    if (!h) return;
    rec_note_maps();
    h->ns1 = hl_clock_pair(&h->ticks1);
}

// Two threads may come here at once: the program's first thread made its first lock call long
// before a second could, so the second only ever finds the work done or under way.
void rec_start(void) {
    static HL_ATOMIC(bool) begun;
    if (hl_xchg_acqrel(&begun, true)) return;
    int saved = errno;
    const char *name = getauxval(AT_SECURE) ? NULL : environment();
    if (name && *name && strlen(name) < sizeof directory) {
        strcpy(directory, name);
        (void)rec_next();
        record_head_t *h = map_file();
        if (h) {
            rec_head = h;
            rec_note_maps();
            pthread_atfork(NULL, NULL, in_child);
        }
    }
    errno = saved;
    hl_store_rel(&rec_started, true);
}

__attribute__((constructor)) static void start(void) { rec_start(); }
__attribute__((destructor)) static void stop(void) { at_end(); }

// ------------------------------------------------------------------------- rare changes
void rec_insert_begin(void) {
    rec_me.busy = true;
    while (hl_xchg_acq(&rec_head->inserting, 1)) hl_yield();
}

void rec_insert_end(void) {
    hl_store_rel(&rec_head->inserting, 0);
    rec_me.busy = false;
}

void rec_take_number(void) {
    rec_me.number = hl_fetch_add(&rec_head->threads, 1) + 1;
    rec_me.random = rec_me.number * 2654435761u | 1;
    // As if the thread had been drawing for long: its first calls are then as likely as others.
    uint32_t one = rec_draw_call(), other = rec_draw_call();
    rec_me.calls_left = one < other ? one : other;
}

static record_slot_t *take_slot(uint32_t *number) {
    uint32_t n = hl_load(&rec_head->free_slot);
    if (n) {
        record_slot_t *s = &rec_slots()[n];
        hl_store(&rec_head->free_slot, (uint32_t)s->next_free);
        memset(s, 0, sizeof *s);
        *number = n;
        return s;
    }
    n = hl_load(&rec_head->used);
    if (n >= rec_head->slots) return NULL;
    hl_store(&rec_head->used, n + 1);
    *number = n;
    return &rec_slots()[n];
}

// A hint, so that a program with more locks than are kept does not queue up to hear it each time.
static bool room(void) {
    return hl_load(&rec_head->free_slot) || hl_load(&rec_head->used) < rec_head->slots;
}

record_slot_t *rec_insert(void *lock, record_kind_t kind) {
    uint64_t address = (uint64_t)(uintptr_t)lock;
    uint32_t number;
    rec_insert_begin();
    record_slot_t *s = rec_lookup(address);
    if (!s && (s = take_slot(&number))) {
        s->kind = (uint16_t)kind;
        s->countdown = 1;
        hl_store(&s->address, address);
        record_entry_t *index = rec_index();
        size_t at = rec_hash(address);
        while (hl_load(&index[at].address) > 1) at = (at + 1) & (RECORD_INDEX - 1);
        index[at].slot = number;
        hl_store_rel(&index[at].address, address);  // pairs with rec_lookup()
    }
    rec_insert_end();
    return s;
}

record_slot_t *rec_find_or_insert(void *lock, record_kind_t kind) {
    if (hl_unlikely(!hl_load_acq(&rec_started))) rec_start();
    if (!rec_head || rec_me.busy) return NULL;
    record_slot_t *s = rec_lookup((uint64_t)(uintptr_t)lock);
    if (!s && room()) s = rec_insert(lock, kind);
    if (!s) return NULL;
    record_slot_t **recent = rec_recent((uint64_t)(uintptr_t)lock);
    *recent = s;
    rec_me.spent[recent - rec_me.recent] = 0;
    return s;
}

// The lock is destroyed. One that nobody waited for leaves its slot to others; the others may live
// on under the same address, and count on.
void rec_forget(void *lock) {
    uint64_t address = (uint64_t)(uintptr_t)lock;
    if (!rec_head || rec_me.busy) return;
    record_slot_t *s = rec_lookup(address);
    if (!s || s->contended || hl_load(&s->gave_up)) return;
    rec_insert_begin();
    record_entry_t *index = rec_index();
    size_t at = rec_hash(address);
    while (hl_load(&index[at].address) != address) {
        if (!hl_load(&index[at].address)) break;
        at = (at + 1) & (RECORD_INDEX - 1);
    }
    if (hl_load(&index[at].address) == address && !hl_load(&s->crowd)) {
        hl_store(&index[at].address, 1);
        (void)hl_fetch_add(&rec_head->gone_locks, 1);
        (void)hl_fetch_add(&rec_head->gone_acquisitions, record_acquisitions(s));
        hl_store(&s->address, 0);
        s->next_free = hl_load(&rec_head->free_slot);
        hl_store(&rec_head->free_slot, (uint32_t)(s - rec_slots()));
    }
    rec_insert_end();
}
