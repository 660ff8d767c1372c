/* SPDX-License-Identifier: MIT */
/*
 * stat: threads read directories and ask for the status of every file in them.
 *
 * The benchmark Ling Ma posted with the combining spinlock (thread.c, linux-kernel, February 2016),
 * done right. It heats locks inside the kernel: directory entries and path names are
 * allocated and freed by the thousand. Here each thread stays in its own directory (the original
 * called chdir(), which moves the whole process, so all threads asked for the files of whichever
 * directory was entered last: --as-published does that), counts are read without a race, and
 * the files are removed at the end, also after an interrupt.
 *
 * The kernel's locks are the subject; --lock guards a tally all threads add to, so that the
 * workload takes the same options as the others and its count is checked the same way.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../src/cli/cli.h"
#include "common/run.h"
#include "common/tally.h"

enum { FILES_MOST = 1000000 };

struct stats {
    struct tally tally;
    const char *dir; /* where the directory of this run is made */
    char *base;      /* that directory, once it is there */
    unsigned files;
    bool as_published;
};

static char *thread_dir(const struct stats *s, unsigned thread)
{
    return cli_printf("%s/%u", s->base, thread);
}

/* ---------------------------------------------------------------- what a thread does */

struct reader {
    struct run *run;
    char *path;
    bool as_published;
    DIR *dir; /* open between two calls of read_some() */
};

static void reader_begin(struct reader *r, struct run *run, unsigned thread)
{
    const struct stats *s = run->data;
    *r = (struct reader){ .run = run, .path = thread_dir(s, thread),
                          .as_published = s->as_published };
    if (r->as_published && chdir(r->path) != 0)
        run_failed(run, r->path);
}

static void reader_end(struct reader *r)
{
    if (r->dir)
        closedir(r->dir);
    free(r->path);
}

/* Asks for the status of the next file, beginning again after the last. */
static void read_one(struct reader *r)
{
    struct dirent *entry;
    struct stat status;
    do {
        if (!r->dir && !(r->dir = opendir(r->path)))
            run_failed(r->run, r->path);
        entry = readdir(r->dir);
        if (!entry) {
            closedir(r->dir);
            r->dir = NULL;
        }
    } while (!entry || entry->d_name[0] == '.');
    int from = r->as_published ? AT_FDCWD : dirfd(r->dir);
    if (fstatat(from, entry->d_name, &status, 0) != 0)
        run_failed(r->run, entry->d_name);
}

#define LOCK_BODY "../stat_body.h"
#include "locks/each.h"

#define LOOP stat
#define LOCK_BODY "loop_row.h"
static const struct loop loops[] = {
#include "locks/each.h"
};

/* ---------------------------------------------------------------- files */

static void make_file(struct run *run, const char *dir, unsigned number)
{
    char *path = cli_printf("%s/%u", dir, number);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        run_failed(run, path);
    close(fd);
    free(path);
}

static void setup(struct run *run)
{
    struct stats *s = run->data;
    tally_setup(&s->tally, run);
    char *template = cli_printf("%s/hotlock-stat-XXXXXX", s->dir);
    if (!mkdtemp(template)) {
        fprintf(stderr, "stat: cannot make a directory in '%s': %s; choose another with --dir\n",
                s->dir, strerror(errno));
        exit(2);
    }
    s->base = template;
    for (unsigned t = 0; t < run->threads; t++) {
        char *dir = thread_dir(s, t);
        if (mkdir(dir, 0700) != 0)
            run_failed(run, dir);
        for (unsigned i = 0; i < s->files && !run_stopping(run); i++)
            make_file(run, dir, i);
        free(dir);
    }
}

static void remove_dir(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

static void cleanup(struct run *run)
{
    struct stats *s = run->data;
    if (!s->base)
        return;
    for (unsigned t = 0; t < run->threads; t++) {
        char *dir = thread_dir(s, t);
        remove_dir(dir);
        free(dir);
    }
    if (rmdir(s->base) != 0)
        fprintf(stderr, "stat: left '%s' behind: %s\n", s->base, strerror(errno));
    free(s->base);
    s->base = NULL;
}

static void check(struct run *run)
{
    tally_check(&((struct stats *)run->data)->tally, run);
}

/* ---------------------------------------------------------------- options */

enum { KEY_FILES = 0x1000, KEY_DIR, KEY_AS_PUBLISHED, KEY_TALLY };

static const struct argp_option options[] = {
    { "files", KEY_FILES, "N", 0, "files per thread (default 5000)", 0 },
    { "dir", KEY_DIR, "DIR", 0, "where to make them (default $TMPDIR or /tmp)", 0 },
    { "as-published", KEY_AS_PUBLISHED, NULL, 0,
      "as in 2016: every thread changes the directory of the whole process", 0 },
    { "tally", KEY_TALLY, "N", 0, "files between two additions to the tally (default 64)", 0 },
    { 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct run *run = state->input;
    struct stats *s = run->data;
    switch (key) {
    case KEY_FILES:
        s->files = (unsigned)cli_long("--files", arg, 1, FILES_MOST);
        return 0;
    case KEY_DIR:
        s->dir = arg;
        return 0;
    case KEY_AS_PUBLISHED:
        s->as_published = true;
        return 0;
    case KEY_TALLY:
        s->tally.every = (unsigned)cli_long("--tally", arg, 1, TALLY_MOST);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct workload workload = {
    .name = "stat",
    .about = "Threads read directories and stat every file: a load on the kernel's locks.",
    .unit = "files",
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
    struct stats stats = { .files = 5000, .dir = tmp && *tmp ? tmp : "/tmp", .tally.every = 64 };
    return workload_main(&workload, &stats, argc, argv);
}
