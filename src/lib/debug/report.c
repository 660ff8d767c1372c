// SPDX-License-Identifier: MIT
// report.c - one line for each place that breaks a rule, the count at exit, and the settings.
#include "debug.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <hotlock/ali_debug.h>

enum { LINE = 1024, DROPS = 8 };

dbg_mode_t dbg_mode = DBG_OFF;  // until the settings are read
uint64_t dbg_long_us = 10000;

static dbg_entry_t sites[DBG_SITES];
static HL_ATOMIC(uint32_t) violations;
static struct { HL_ATOMIC(const char *) what; HL_ATOMIC(uint32_t) many; } drops[DROPS];

// Not write(), which calls.c watches.
static void put(const char *line, size_t bytes) {
    while (bytes) {
        long n = syscall(SYS_write, STDERR_FILENO, line, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        line += n;
        bytes -= (size_t)n;
    }
}

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); never 0.
uint64_t dbg_mix(uint64_t a, uint64_t b) {
    uint64_t z = a * UINT64_C(0x9e3779b97f4a7c15) + b;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z ? z : 1;
}

uint32_t dbg_mark(dbg_entry_t *table, unsigned entries, uint64_t key, uint32_t bits) {
    for (unsigned tries = 0; tries < entries; tries++) {
        dbg_entry_t *e = &table[(key + tries) % entries];
        uint64_t at = hl_load(&e->key);
        if (!at && hl_cas(&e->key, 0, key)) at = key;
        if (!at) at = hl_load(&e->key);  // somebody else took it just now
        if (at == key) return __atomic_fetch_or(&e->bits.v, bits, __ATOMIC_RELAXED);
    }
    return DBG_FULL;
}

void dbg_dropped(const char *what, unsigned many) {
    for (int i = 0; i < DROPS; i++) {
        const char *at = hl_load(&drops[i].what);
        if (!at && hl_cas(&drops[i].what, NULL, what)) at = what;
        if (!at) at = hl_load(&drops[i].what);
        if (at != what) continue;
        (void)hl_fetch_add(&drops[i].many, many);
        return;
    }
}

void dbg_report(const char *rule, const dbg_section_t *s, uintptr_t detail, const char *format,
                ...) {
    int saved = errno;
    uint64_t key = dbg_mix((uintptr_t)rule, detail);
    if (s) key = dbg_mix(key, (uintptr_t)s->fn);
    uint32_t before = dbg_mark(sites, DBG_SITES, key, 1);
    if (before == DBG_FULL) dbg_dropped("reports", 1);
    if (!before) {
        char line[LINE], name[DBG_NAME];
        va_list args;
        int n = snprintf(line, LINE, "hotlock: %s: ", rule);
        if (s) n += snprintf(line + n, (size_t)(LINE - n), "section %s ",
                             dbg_name(name, (void *)(uintptr_t)s->fn, false));
        va_start(args, format);
        n += vsnprintf(line + n, (size_t)(LINE - n), format, args);
        va_end(args);
        if (n > LINE - 32) n = LINE - 32;
        n += snprintf(line + n, (size_t)(LINE - n), "%s\n",
                      s && s->foreign ? " [for another thread]" : "");
        (void)hl_fetch_add(&violations, 1);
        put(line, (size_t)n);
        if (dbg_mode == DBG_ABORT) abort();
    }
    errno = saved;
}

HL_EXPORT unsigned hl_debug_violations(void) { return hl_load(&violations); }

// ------------------------------------------------------------------------- settings
// The mend of a setting that is none: one line, and no run whose checks are not those asked for.
static void bad(const char *name, const char *value, const char *mend) {
    char line[LINE];
    int n = snprintf(line, LINE, "hotlock: %s=%.200s: %s\n", name, value, mend);
    put(line, (size_t)n);
    _exit(2);
}

static dbg_mode_t read_mode(const char *value) {
    if (!value || !strcmp(value, "report")) return DBG_REPORT;
    if (!strcmp(value, "abort")) return DBG_ABORT;
    if (strcmp(value, "off")) bad("HOTLOCK_DEBUG", value, "say report, abort or off");
    return DBG_OFF;
}

static uint64_t read_limit(const char *value) {
    char *end;
    if (!value) return dbg_long_us;
    errno = 0;
    unsigned long long us = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno)
        bad("HOTLOCK_DEBUG_LONG_US", value, "say microseconds, 0 for no limit");
    return us;
}

__attribute__((constructor)) static void start(void) {
    int saved = errno;
    dbg_long_us = read_limit(getenv("HOTLOCK_DEBUG_LONG_US"));
    dbg_mode_t mode = read_mode(getenv("HOTLOCK_DEBUG"));
    if (mode != DBG_OFF) dbg_modules_start();
    dbg_mode = mode;
    errno = saved;
}

__attribute__((destructor)) static void finish(void) {
    char line[LINE];
    unsigned many = hl_load(&violations);
    if (many) {
        int n = snprintf(line, LINE, "hotlock: %u %s reported\n", many,
                         many == 1 ? "violation" : "violations");
        put(line, (size_t)n);
    }
    for (int i = 0; i < DROPS && hl_load(&drops[i].what); i++) {
        int n = snprintf(line, LINE, "hotlock: not checked, for want of room: %u %s\n",
                         hl_load(&drops[i].many), hl_load(&drops[i].what));
        put(line, (size_t)n);
    }
}
