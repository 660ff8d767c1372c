// SPDX-License-Identifier: MIT
// config.c - which lock: reads HOTLOCK at the first call to any wrapper, before main included.
//
//   HOTLOCK=[lock=NAME][,rwlock=rw|libc][,wait=spin|yield|park][,check=1][,report=1][,for=...]
//
// Nothing here needs the heap, stdio or a constructor, so the first call may come from an allocator
// starting up. Two threads that choose at the same time choose the same.
#include <string.h>
#include <sys/auxv.h>

#include "hotlock/park.h"
#include "hotlock/queue.h"
#include "hotlock/rw.h"
#include "preload.h"
#include "select.h"

extern char **environ;
// The initial stack: argc, argv, 0, environment, 0. For calls that come before libc has set
// environ.
extern void *__libc_stack_end __attribute__((weak));

bool hlp_libc_locks, hlp_libc_rwlocks, hlp_selecting;
static hl_park_t refreshing;

typedef struct {
    const hlp_ops_t *ops;  // NULL: libc's locks
    hl_wait_policy_t wait;
    bool check, report, libc_rwlocks, selects;
    const char *problem;   // what is wrong with `word`, or NULL
    const char *word, *end;
} choice_t;

// ------------------------------------------------------------------------- words
static bool is_word(const char *word, const char *end, const char *want) {
    size_t length = strlen(want);
    return (size_t)(end - word) == length && memcmp(word, want, length) == 0;
}

// ------------------------------------------------------------------------- HOTLOCK
static const char *environment(void) {
    char **env = environ;
    if (!env && &__libc_stack_end && __libc_stack_end) {
        long *stack = __libc_stack_end;
        env = (char **)(stack + 1 + stack[0] + 1);
    }
    for (; env && *env; env++)
        if (strncmp(*env, "HOTLOCK=", 8) == 0) return *env + 8;
    return "";
}

static void choose_lock(choice_t *c, const char *value, const char *end) {
    for (const hlp_ops_t *const *k = hlp_kinds; *k; k++) {
        if (!is_word(value, end, (*k)->name)) continue;
        c->ops = *k;
        return;
    }
    if (is_word(value, end, "libc")) {
        c->ops = NULL;
        return;
    }
    c->problem = is_word(value, end, "ali") ? "runs closures and cannot stand behind pthread calls"
                                            : "is no lock of the preload";
}

static void choose_wait(choice_t *c, const char *value, const char *end) {
    if (is_word(value, end, "spin")) c->wait = HL_WAIT_SPIN;
    else if (is_word(value, end, "yield")) c->wait = HL_WAIT_YIELD;
    else if (is_word(value, end, "park")) c->wait = HL_WAIT_PARK;
    else c->problem = "is no way to wait (spin, yield, park)";
}

static void choose_check(choice_t *c, const char *value, const char *end) {
    if (is_word(value, end, "1")) c->check = true;
    else if (!is_word(value, end, "0")) c->problem = "is neither 0 nor 1";
}

static void choose_rwlock(choice_t *c, const char *value, const char *end) {
    if (is_word(value, end, "libc")) c->libc_rwlocks = true;
    else if (!is_word(value, end, "rw")) c->problem = "is no reader-writer lock (rw, libc)";
}

static void choose_report(choice_t *c, const char *value, const char *end) {
    if (is_word(value, end, "1")) c->report = true;
    else if (!is_word(value, end, "0")) c->problem = "is neither 0 nor 1";
}

static void choose_site(choice_t *c, const char *value, const char *end) {
    c->selects = true;
    if (!hlp_site_is_valid(value, end)) c->problem = "is no place in a program (see hotlock run)";
}

// One setting, `key=value`, from word to end.
static void choose_one(choice_t *c) {
    static const struct {
        const char *key;
        void (*choose)(choice_t *, const char *value, const char *end);
    } keys[] = {{"lock=", choose_lock},
                {"rwlock=", choose_rwlock},
                {"wait=", choose_wait},
                {"check=", choose_check},
                {"report=", choose_report},
                {"for=", choose_site}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        size_t length = strlen(keys[i].key);
        if ((size_t)(c->end - c->word) < length) continue;
        if (memcmp(c->word, keys[i].key, length) != 0) continue;
        keys[i].choose(c, c->word + length, c->end);
        return;
    }
    c->problem = "is no setting (lock=NAME, rwlock=rw, wait=POLICY, check=1)";
}

static choice_t read_choice(void) {
    choice_t c = {.ops = hlp_kinds[0]};
    if (getauxval(AT_SECURE)) return c;
    for (c.word = environment(); *c.word && !c.problem;) {
        for (c.end = c.word; *c.end && *c.end != ',';) c.end++;
        choose_one(&c);
        if (!c.problem) c.word = *c.end ? c.end + 1 : c.end;
    }
    if (!c.problem && c.selects && c.ops != hlp_kinds[0])
        c.problem = "cannot stand beside lock=: the default must be park", c.word = "for=",
        c.end = c.word + 4;
    if (c.problem) c.ops = NULL;
    return c;
}

static void complain(const choice_t *c) {
    hlp_line_t l = {.used = 0};
    hlp_say(&l, "hotlock: HOTLOCK: '");
    hlp_add(&l, c->word, c->end - c->word < 60 ? (size_t)(c->end - c->word) : 60);
    hlp_say(&l, "' ");
    hlp_say(&l, c->problem);
    hlp_say(&l, "; using libc's locks (known:");
    for (const hlp_ops_t *const *k = hlp_kinds; *k; k++) {
        hlp_say(&l, " ");
        hlp_say(&l, (*k)->name);
    }
    hlp_say(&l, " libc)\n");
    hlp_print(&l);
}

// ------------------------------------------------------------------------- the choice
// libc's own functions, for a process whose plain objects are libc's too.
static hlp_ops_t libc_ops(void) {
    const hlp_libc_t *libc = hlp_libc();
    return (hlp_ops_t){
        .name = "libc",
        .lock = libc->pthread_mutex_lock,
        .trylock = libc->pthread_mutex_trylock,
        .unlock = libc->pthread_mutex_unlock,
        .spin_init = libc->pthread_spin_init,
        .spin_destroy = libc->pthread_spin_destroy,
        .spin_lock = libc->pthread_spin_lock,
        .spin_trylock = libc->pthread_spin_trylock,
        .spin_unlock = libc->pthread_spin_unlock,
    };
}

// Other threads may be reading: each pointer changes from a stub to the operation in one store.
static void publish(const hlp_ops_t *ops) {
#define SET(field) __atomic_store_n(&hlp_ops.field, ops->field, __ATOMIC_RELAXED)
    SET(name);
    SET(lock_until);
    SET(is_locked);
    SET(spin_init);
    SET(spin_destroy);
    SET(spin_lock);
    SET(spin_trylock);
    SET(spin_unlock);
    SET(lock);
    SET(trylock);
    SET(unlock);
#undef SET
}

static void in_child(void) {
    hl_pool_after_fork();
    hl_rw_rows_after_fork();
    refreshing = (hl_park_t)HL_PARK_INIT;
    hlp_fast.generation++;
    hlp_rw_fast.generation++;
}

static const hlp_ops_t nothing_of_ours;  // stands for libc's locks in `decided`
static HL_ATOMIC(const hlp_ops_t *) decided;
static HL_ATOMIC(bool) chosen;

// Without a lock: a signal handler or the allocator may come here in the middle of it. Everyone
// who does finds the same words in the environment; the first decides all the same.
__attribute__((noinline, cold)) static void choose_now(void) {
    choice_t c = read_choice();
    bool first = hl_cas(&decided, NULL, c.ops ? c.ops : &nothing_of_ours);
    const hlp_ops_t *ops = hl_load(&decided);
    hlp_ops_t libc, two;
    if (c.selects && ops != &nothing_of_ours) {
        hlp_fast.kind = HLP_KIND_NONE;
        hlp_selecting = true;
        two = hlp_two_ops();
        ops = &two;
    } else if (ops == &nothing_of_ours) {
        hlp_libc_locks = true;
        libc = libc_ops();
        ops = &libc;
    }
    hlp_libc_rwlocks = hlp_libc_locks || c.libc_rwlocks;
    if (!hlp_libc_rwlocks) hlp_rw_fast.kind = 0;
    if (first) hl_wait_set(c.wait);
    publish(ops);
    hl_store_rel(&chosen, true);
    if (!first) return;
    pthread_atfork(NULL, NULL, in_child);
    if (c.problem) complain(&c);
}

void hlp_choose(void) {
    if (hl_unlikely(!hl_load_acq(&chosen))) choose_now();
}

void hlp_refresh_begin(void) { hl_park_lock(&refreshing); }
void hlp_refresh_end(void) { hl_park_unlock(&refreshing); }

// ------------------------------------------------------------------------- start
static void find_sites(void) {
    for (const char *at = environment(), *end; *at; at = *end ? end + 1 : end) {
        for (end = at; *end && *end != ',';) end++;
        if (end - at > 4 && memcmp(at, "for=", 4) == 0) hlp_site_add(at + 4, end);
    }
    hlp_sites_find();
}

// Not needed for anything: a first call that came earlier has done the same. It only makes sure
// that neither the choice nor dlsym() happens later in a signal handler or a forked child.
__attribute__((constructor)) static void start(void) {
    hlp_choose();
    (void)hlp_libc();
    choice_t c = read_choice();
    if (c.selects && !c.problem) find_sites();
    if (c.check) hlp_check();
}

__attribute__((destructor)) static void end(void) {
    if (hlp_selecting && read_choice().report) hlp_sites_report();
}
