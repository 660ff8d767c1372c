// SPDX-License-Identifier: MIT
// select.c - another lock for some mutexes: those that a chosen place in the program locks, or that
// lie in a chosen variable; and for the spinlocks in such a variable.
//
//   HOTLOCK=lock=park,for=LOCK:N:KIND:BEGIN+SIZE@FILE...   KIND c: code, d: data; numbers in hex
//
// `hotlock run` translates what a person writes (file and line, function, variable) to addresses in
// files; here they become addresses in this process. N is the number of the choice, for reports.
//
// A mutex begins with the lock `front`, a park lock of its own beside the bytes of the chosen one,
// and moves once, for good, at the first lock() that a choice matches. The mover holds `front`
// already; it takes the new lock, which is all zeros and known to nobody, says so in `moved`, and
// leaves `front`. Whoever gets `front` looks at `moved` once more, finds that it is at the wrong
// door, and goes to the other. So a mutex may be in use, with waiters, when it moves.
//
//   Invariant: the holder is who holds the lock that `moved` names, and only the holder changes it.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "hotlock/park.h"
#include "preload.h"
#include "select.h"

enum { SITES_MOST = 512 };

typedef struct {
    uintptr_t begin, end;  // 0, 0: its file is not loaded yet
    uint64_t offset, size;
    dev_t device;
    ino_t file;
    uint8_t kind;          // index of hlp_kinds, plus one
    uint8_t choice;
    bool data;
} site_t;

static site_t sites[SITES_MOST];
static HL_ATOMIC(unsigned) site_count;
static HL_ATOMIC(unsigned) unresolved;
static HL_ATOMIC(unsigned) moved_by[HLP_CHOICES_MOST], spins_by[HLP_CHOICES_MOST];
static HL_ATOMIC(bool) spins_at[HLP_CHOICES_MOST];  // a spinlock was initialised or locked there
static uint8_t kind_of[HLP_CHOICES_MOST];
#ifdef DLFO_STRUCT_HAS_EH_DBASE  // glibc 2.35 has it
typedef int object_of_t(void *, struct dl_find_object *);
static object_of_t *object_of;
#endif

// ------------------------------------------------------------------------- reading the setting
static bool number(const char **at, const char *end, uint64_t *n, unsigned base) {
    const char *from = *at;
    for (*n = 0; *at < end; ++*at) {
        unsigned digit = (unsigned)(**at >= 'a' ? **at - 'a' + 10 : **at - '0');
        if (digit >= base) break;
        *n = *n * base + digit;
    }
    return *at > from;
}

static bool skip(const char **at, const char *end, char c) {
    return *at < end && *(*at)++ == c;
}

// Reads LOCK:N:KIND:BEGIN+SIZE@; what follows is the file.
static bool read_site(const char **at, const char *end, site_t *s) {
    const char *colon = memchr(*at, ':', (size_t)(end - *at));
    uint64_t choice;
    memset(s, 0, sizeof *s);
    for (int k = 0; colon && hlp_kinds[k]; k++) {
        size_t length = strlen(hlp_kinds[k]->name);
        if (length == (size_t)(colon - *at) && !memcmp(*at, hlp_kinds[k]->name, length))
            s->kind = (uint8_t)(k + 1);
    }
    if (!s->kind) return false;
    *at = colon + 1;
    if (!number(at, end, &choice, 10) || choice >= HLP_CHOICES_MOST || !skip(at, end, ':'))
        return false;
    s->choice = (uint8_t)choice;
    if (*at >= end || (**at != 'c' && **at != 'd')) return false;
    s->data = *(*at)++ == 'd';
    return skip(at, end, ':') && number(at, end, &s->offset, 16) && skip(at, end, '+') &&
           number(at, end, &s->size, 16) && skip(at, end, '@') && *at < end && **at == '/';
}

bool hlp_site_is_valid(const char *value, const char *end) {
    site_t s;
    return read_site(&value, end, &s);
}

void hlp_site_add(const char *value, const char *end) {
    unsigned n = hl_load(&site_count);
    char path[4096];
    struct stat st;
    if (n == SITES_MOST || !read_site(&value, end, &sites[n])) return;
    size_t length = (size_t)(end - value);
    if (length >= sizeof path) return;
    memcpy(path, value, length);
    path[length] = 0;
    if (stat(path, &st) != 0) return;
    sites[n].device = st.st_dev;
    sites[n].file = st.st_ino;
    kind_of[sites[n].choice] = sites[n].kind;
    hl_fetch_add(&unresolved, 1u);
    hl_store_rel(&site_count, n + 1);
}

// ------------------------------------------------------------------------- where files lie
static void resolve(const char *file, uintptr_t base) {
    struct stat st;
    if (file[0] != '/' || stat(file, &st) != 0) return;
    for (unsigned i = 0; i < hl_load(&site_count); i++) {
        site_t *s = &sites[i];
        if (__atomic_load_n(&s->end, __ATOMIC_RELAXED) || s->device != st.st_dev ||
            s->file != st.st_ino)
            continue;
        s->begin = base + s->offset;
        __atomic_store_n(&s->end, s->begin + s->size, __ATOMIC_RELEASE);
        hl_fetch_add(&unresolved, -1u);
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    resolve(*info->dlpi_name ? info->dlpi_name : "/proc/self/exe", info->dlpi_addr);
    return 0;
}

void hlp_sites_find(void) {
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    if (!object_of) object_of = (object_of_t *)dlsym(RTLD_DEFAULT, "_dl_find_object");
#endif
    if (hl_load(&unresolved)) dl_iterate_phdr(visit, NULL);
}

// Looks whether a file that was loaded since holds the address: one that was found by its bare name
// came in by a jump to libc's dlopen(). Takes no lock of the loader's, which some other thread may
// hold while it waits for the mutex in question. `looked_at`: the last few that were no such file.
static void look_at(uintptr_t address) {
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    static HL_ATOMIC(uintptr_t) looked_at[16];
    struct dl_find_object found;
    if (!object_of || object_of((void *)address, &found) != 0) return;
    uintptr_t begin = (uintptr_t)found.dlfo_map_start;
    unsigned at = (unsigned)(begin >> 12) % 16;
    if (hl_load(&looked_at[at]) == begin) return;
    hl_store(&looked_at[at], begin);
    int saved = errno;
    resolve(found.dlfo_link_map->l_name, found.dlfo_link_map->l_addr);
    errno = saved;
#else
    (void)address;
#endif
}

bool hlp_sites_wait_for_a_file(void) { return hl_load(&unresolved); }

// The lock a mutex at M, about to be locked from CALLER, should have; NULL: no choice matches.
static const site_t *chosen(const void *m, const void *caller) {
    uintptr_t data = (uintptr_t)m, code = (uintptr_t)caller - 1;  // inside the call instruction
    if (hl_unlikely(hl_load(&unresolved))) {
        look_at(data);
        if (caller) look_at(code);
    }
    unsigned n = hl_load_acq(&site_count);
    for (unsigned i = 0; i < n; i++) {
        const site_t *s = &sites[i];
        uintptr_t at = s->data ? data : code;
        if (at < __atomic_load_n(&s->end, __ATOMIC_ACQUIRE) && at >= s->begin) return s;
    }
    return NULL;
}

// ------------------------------------------------------------------------- the lock with two doors
// `moved` of a mutex: 0, it has its front door; else index of hlp_kinds, plus one.
static const hlp_ops_t *moved_to(uint32_t moved) { return hlp_kinds[moved - 1]; }
static hl_park_t *front(const hlp_mutex_t *m) { return (hl_park_t *)(uintptr_t)&m->front; }
_Static_assert(sizeof(hl_park_t) == sizeof(uint32_t), "the front does not fit");

static void move(hlp_mutex_t *m, const site_t *s) {
    if (moved_to(s->kind)->trylock((pthread_mutex_t *)(void *)m)) return;  // it was not all zeros
    hl_fetch_add(&moved_by[s->choice], 1u);
    hl_store_rel(&m->moved, s->kind);  // pairs with the loads of `moved`
    hl_park_unlock(front(m));
}

int hlp_two_lock_from(pthread_mutex_t *mutex, const void *caller) {
    hlp_mutex_t *m = hlp_mutex(mutex);
    uint32_t moved = hl_load_acq(&m->moved);
    if (hl_unlikely(!moved)) {
        hl_park_lock(front(m));
        moved = hl_load_acq(&m->moved);
        if (!moved) {
            const site_t *s = chosen(m, caller);
            if (s) move(m, s);
            return 0;
        }
        hl_park_unlock(front(m));
    }
    return moved_to(moved)->lock(mutex);
}

static int two_lock(pthread_mutex_t *m) { return hlp_two_lock_from(m, NULL); }

static int two_trylock(pthread_mutex_t *mutex) {
    hlp_mutex_t *m = hlp_mutex(mutex);
    uint32_t moved = hl_load_acq(&m->moved);
    if (!moved) {
        if (!hl_park_trylock(front(m))) return EBUSY;
        moved = hl_load_acq(&m->moved);
        if (!moved) return 0;
        hl_park_unlock(front(m));
    }
    return moved_to(moved)->trylock(mutex);
}

static bool two_lock_until(hlp_mutex_t *m, uint64_t deadline_ns) {
    uint32_t moved = hl_load_acq(&m->moved);
    if (!moved) {
        if (!hl_park_lock_until(front(m), deadline_ns)) return false;
        moved = hl_load_acq(&m->moved);
        if (!moved) return true;
        hl_park_unlock(front(m));
    }
    return moved_to(moved)->lock_until(m, deadline_ns);
}

static int two_unlock(pthread_mutex_t *mutex) {
    hlp_mutex_t *m = hlp_mutex(mutex);
    uint32_t moved = hl_load_acq(&m->moved);  // the holder's, or another thread's for it
    if (moved) return moved_to(moved)->unlock(mutex);
    if (hl_park_is_locked(front(m))) hl_park_unlock(front(m));
    return 0;
}

static bool two_is_locked(const hlp_mutex_t *m) {
    uint32_t moved = hl_load_acq(&m->moved);
    return moved ? moved_to(moved)->is_locked(m) : hl_park_is_locked(front(m));
}

// A mutex that is being initialised has no users: nothing to hand over.
void hlp_two_init(pthread_mutex_t *m, const void *caller) {
    const site_t *s = chosen(m, caller);
    if (!s) return;
    hl_fetch_add(&moved_by[s->choice], 1u);
    hl_store_rel(&hlp_mutex(m)->moved, s->kind);
}

// After a fork, of a mutex that has not moved: its waiters are gone, its holder is not.
void hlp_two_refresh(hlp_mutex_t *m) { hl_store(&front(m)->byte.asleep, (uint8_t)0); }

// ------------------------------------------------------------------------- spinlocks
// They have no byte to note a move in. Where one lies says which lock it is, at every call: so one
// is chosen by its variable alone, and all zeros is unlocked in every kind. A choice of code that
// only spinlocks meet is told of: spin.c comes here by a jump, so the return address is its
// caller's.
static const hlp_ops_t *spin_ops(pthread_spinlock_t *s) {
    const site_t *c = chosen((const void *)(uintptr_t)s, NULL);
    return c ? moved_to(c->kind) : hlp_kinds[0];
}

static void note_caller(const void *caller) {
    const site_t *c = chosen(NULL, caller);
    if (c && !hl_load(&spins_at[c->choice])) hl_store(&spins_at[c->choice], true);
}

static int two_spin_init(pthread_spinlock_t *s, int shared) {
    const site_t *c = chosen((const void *)(uintptr_t)s, NULL);
    if (c) hl_fetch_add(&spins_by[c->choice], 1u);
    note_caller(__builtin_return_address(0));
    return spin_ops(s)->spin_init(s, shared);
}
static int two_spin_destroy(pthread_spinlock_t *s) { return spin_ops(s)->spin_destroy(s); }
static int two_spin_lock(pthread_spinlock_t *s) {
    note_caller(__builtin_return_address(0));
    return spin_ops(s)->spin_lock(s);
}
static int two_spin_trylock(pthread_spinlock_t *s) {
    note_caller(__builtin_return_address(0));
    return spin_ops(s)->spin_trylock(s);
}
static int two_spin_unlock(pthread_spinlock_t *s) { return spin_ops(s)->spin_unlock(s); }

hlp_ops_t hlp_two_ops(void) {
    return (hlp_ops_t){
        .name = hlp_kinds[0]->name,
        .lock = two_lock,
        .trylock = two_trylock,
        .unlock = two_unlock,
        .lock_until = two_lock_until,
        .is_locked = two_is_locked,
        .spin_init = two_spin_init,
        .spin_destroy = two_spin_destroy,
        .spin_lock = two_spin_lock,
        .spin_trylock = two_spin_trylock,
        .spin_unlock = two_spin_unlock,
    };
}

// ------------------------------------------------------------------------- the report
void hlp_sites_report(void) {
    for (int i = 0; i < HLP_CHOICES_MOST; i++) {
        if (!kind_of[i]) continue;
        hlp_line_t l = {.used = 0};
        unsigned moved = hl_load(&moved_by[i]), spins = hl_load(&spins_by[i]);
        hlp_say(&l, "hotlock: choice ");
        hlp_say_number(&l, (unsigned)i);
        hlp_say(&l, ": ");
        hlp_say_number(&l, moved);
        hlp_say(&l, moved == 1 ? " mutex" : " mutexes");
        if (spins) {
            hlp_say(&l, " and ");
            hlp_say_number(&l, spins);
            hlp_say(&l, spins == 1 ? " spinlock" : " spinlocks");
        }
        hlp_say(&l, " moved to ");
        hlp_say(&l, moved_to(kind_of[i])->name);
        if (!moved && !spins && hl_load(&spins_at[i]))
            hlp_say(&l, ": only spinlocks are locked there, and "
                        "those are chosen by their variable");
        hlp_say(&l, "\n");
        hlp_print(&l);
    }
}
