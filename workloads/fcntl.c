/* SPDX-License-Identifier: MIT */
/*
 * fcntl: threads or processes take record locks on ranges of one file, over and over.
 *
 * All record locks of a file hang on one list under one spinlock of the kernel (flc_lock), the
 * second real lock Ling Ma converted (linux-kernel, 2016). --kind ofd: threads, each with an open
 * file description of its own (F_OFD_SETLKW). --kind posix: processes (F_SETLKW), for such a
 * lock belongs to a process.
 *
 * The waits reported are those for the record locks. --lock guards a tally all workers add to; with
 * processes it has to be one that works between them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/cli/cli.h"
#include "common/run.h"
#include "common/tally.h"

enum { RANGES_MOST = 1024, RANGE_BYTES = 16 };

/*
 * Sections run under the record lock of one range: read and written apart, so that two at once
 * lose counts; atomic, because a sanitizer does not know record locks.
 */
struct range {
    _Alignas(128) atomic_uint_fast64_t sections;
};

struct records {
    struct tally tally;
    const char *dir;
    char *path; /* of the file, once it is there */
    unsigned ranges;
    struct range *range; /* what the record locks protect */
};

/* ---------------------------------------------------------------- what a worker does */

static void set_record(struct run *run, int fd, unsigned range, short type)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = range * RANGE_BYTES,
                          .l_len = RANGE_BYTES };
    while (fcntl(fd, run->processes ? F_SETLKW : F_OFD_SETLKW, &lock) != 0)
        if (errno != EINTR)
            run_failed(run, "cannot lock a range of the file");
}

static void lock_one(struct run *run, struct worker *me, int fd)
{
    const struct records *r = run->data;
    unsigned range = (unsigned)((uint64_t)run_random(me) * r->ranges >> 31);
    uint64_t asked = wait_asked(&me->waits);
    set_record(run, fd, range, F_WRLCK);
    uint64_t got = wait_got(asked);
    atomic_uint_fast64_t *sections = &r->range[range].sections;
    uint64_t before = atomic_load_explicit(sections, memory_order_relaxed);
    atomic_store_explicit(sections, before + 1, memory_order_relaxed);
    set_record(run, fd, range, F_UNLCK);
    wait_over(&me->waits, asked, got);
    me->sections++;
}

static int open_file(struct run *run)
{
    const struct records *r = run->data;
    int fd = open(r->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        run_failed(run, r->path);
    return fd;
}

#define LOCK_BODY "../fcntl_body.h"
#include "locks/each.h"

#define LOOP fcntl
#define LOCK_BODY "loop_row.h"
static const struct loop loops[] = {
#include "locks/each.h"
};

/* ---------------------------------------------------------------- the file */

static void setup(struct run *run)
{
    struct records *r = run->data;
    if (run->processes && !run->lock->shared)
        cli_bad("lock '%s' does not work between processes; use --kind ofd or --lock park",
                run->lock->name);
    tally_setup(&r->tally, run);
    r->range = lines_new(r->ranges * sizeof(*r->range));
    char *template = cli_printf("%s/hotlock-fcntl-XXXXXX", r->dir);
    int fd = mkstemp(template);
    if (fd < 0)
        cli_bad("cannot make a file in '%s': %s; choose another with --dir", r->dir,
                strerror(errno));
    close(fd);
    r->path = template;
}

static void cleanup(struct run *run)
{
    struct records *r = run->data;
    if (r->path)
        unlink(r->path);
    free(r->path);
    r->path = NULL;
}

static void check(struct run *run)
{
    const struct records *r = run->data;
    uint64_t inside = 0, done = run_total(run);
    tally_check(&r->tally, run);
    for (unsigned i = 0; i < r->ranges; i++)
        inside += atomic_load_explicit(&r->range[i].sections, memory_order_relaxed);
    if (inside != done) {
        fprintf(stderr, "fcntl: the kernel's record locks do not exclude: %llu of %llu counted\n",
                (unsigned long long)inside, (unsigned long long)done);
        cleanup(run);
        exit(WORKLOAD_BROKEN);
    }
}

/* ---------------------------------------------------------------- options */

enum { KEY_RANGES = 0x1000, KEY_DIR, KEY_KIND, KEY_TALLY };

static const struct argp_option options[] = {
    { "ranges", KEY_RANGES, "N", 0, "disjoint ranges; each section takes one at random (default 1)",
      0 },
    { "kind", KEY_KIND, "ofd|posix", 0, "threads with open-file locks, or processes (default ofd)",
      0 },
    { "dir", KEY_DIR, "DIR", 0, "where to make the file (default $TMPDIR or /tmp)", 0 },
    { "tally", KEY_TALLY, "N", 0, "sections between two additions to the tally (default 64)", 0 },
    { 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct run *run = state->input;
    struct records *r = run->data;
    switch (key) {
    case KEY_RANGES:
        r->ranges = (unsigned)cli_long("--ranges", arg, 1, RANGES_MOST);
        return 0;
    case KEY_DIR:
        r->dir = arg;
        return 0;
    case KEY_KIND:
        run->processes = strcmp(arg, "posix") == 0;
        if (!run->processes && strcmp(arg, "ofd") != 0)
            cli_bad("--kind takes ofd or posix, not '%s'", arg);
        return 0;
    case KEY_TALLY:
        r->tally.every = (unsigned)cli_long("--tally", arg, 1, TALLY_MOST);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct workload workload = {
    .name = "fcntl",
    .about = "Threads or processes take record locks on ranges of one file: a load on the kernel.",
    .unit = "record locks",
    .options = options,
    .option = on_option,
    .loops = loops,
    .loop_count = sizeof(loops) / sizeof(loops[0]),
    .setup = setup,
    .check = check,
    .cleanup = cleanup,
    .prints_seconds = true,
};

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    struct records records = { .ranges = 1, .dir = tmp && *tmp ? tmp : "/tmp",
                               .tally.every = 64 };
    return workload_main(&workload, &records, argc, argv);
}
