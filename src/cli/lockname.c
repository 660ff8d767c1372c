/* SPDX-License-Identifier: MIT */
/* Lock names as users write them: NAME, or NAME and a wait policy as NAME:POLICY. */
#include "lockname.h"

#include <stdlib.h>
#include <string.h>

#include <hotlock/hotlock.h>

#include "cli.h"
#include "nearest.h"
#include "preload.h"

static const char *const policies[] = {"spin", "yield", "park"};
#define POLICIES (sizeof policies / sizeof *policies)

/* ali gains only when the critical section is a function it can run; pthread has no such call. */
static bool can_preload(hl_kind_t kind)
{
    return kind != HL_ALI;
}

_Noreturn static void bad_name(const char *name)
{
    const char *names[HL_KINDS + 1] = {"libc"};
    for (int k = 0; k < HL_KINDS; k++)
        names[k + 1] = hl_kind_info((hl_kind_t)k)->name;
    cli_bad("unknown lock '%s'; nearest is '%s' (see hotlock locks)", name,
            nearest_name(name, names, HL_KINDS + 1));
}

static const char *parse_policy(const char *text)
{
    for (size_t i = 0; i < POLICIES; i++)
        if (strcmp(text, policies[i]) == 0)
            return policies[i];
    cli_bad("unknown wait policy '%s'; nearest is '%s'", text,
            nearest_name(text, policies, POLICIES));
}

lockname_t lockname_parse(const char *text)
{
    lockname_t lock = {0};
    char *name = cli_printf("%s", text);
    char *policy = strpbrk(name, ":,");
    if (policy)
        *policy++ = '\0';
    int kind = hl_kind_by_name(name);
    lock.libc = strcmp(name, "libc") == 0;
    if (kind < 0 && !lock.libc)
        bad_name(name);
    if (lock.libc && policy)
        cli_bad("libc takes no wait policy; write just 'libc'");
    if (!lock.libc && !can_preload((hl_kind_t)kind))
        cli_bad("'%s' runs critical sections as functions (hl_%s_run) and cannot stand in for a "
                "pthread lock; choose another lock", name, name);
    lock.name = lock.libc ? "libc" : hl_kind_info((hl_kind_t)kind)->name;
    lock.wait = policy ? parse_policy(policy) : NULL;
    free(name);
    return lock;
}

char *lockname_setting(const lockname_t *lock, bool check)
{
    if (lock->libc)
        return NULL;
    return cli_printf("lock=%s%s%s%s", lock->name, lock->wait ? ",wait=" : "",
                      lock->wait ? lock->wait : "", check ? ",check=1" : "");
}

char *lockname_label(const lockname_t *lock)
{
    return cli_printf("%s%s%s", lock->name, lock->wait ? ":" : "", lock->wait ? lock->wait : "");
}

static bool is_offered(const lockname_t *lock, const char *preload)
{
    char *setting = lockname_setting(lock, false);
    bool offered = lock->libc || preload_accepts(preload, setting);
    free(setting);
    return offered;
}

void lockname_require(const lockname_t *lock, const char *preload)
{
    if (!is_offered(lock, preload))
        cli_bad("the preload does not offer the lock '%s'; choose another (see hotlock locks)",
                lock->name);
}

size_t lockname_all(lockname_t *locks, size_t room, const char *preload)
{
    size_t count = 0;
    for (int k = 0; k < HL_KINDS && count < room; k++) {
        locks[count] = (lockname_t){.name = hl_kind_info((hl_kind_t)k)->name};
        count += can_preload((hl_kind_t)k) && is_offered(&locks[count], preload);
    }
    return count;
}
