/* SPDX-License-Identifier: MIT */
/*
 * Random reads of a LevelDB database: a driver whose locks are the library's own.
 *
 * Every DB::Get() takes the database's one mutex twice for a short section (leveldb 1.23,
 * db/db_impl.cc), the case that papers on locks call readrandom. hotlock try runs it under other
 * locks; it knows nothing of ours. The database is made afresh and removed at the end.
 */
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <leveldb/c.h>

enum { MOST_THREADS = 1024, MOST_KEYS = 10 * 1000 * 1000, VALUE_BYTES = 100 };

static leveldb_t *db;
static leveldb_readoptions_t *reading;
static unsigned keys = 100000;
static atomic_bool stopping;

struct reader {
    pthread_t thread;
    uint64_t random, reads;
};

static size_t key_of(char key[17], uint64_t n)
{
    return (size_t)snprintf(key, 17, "%016llu", (unsigned long long)n);
}

static void *read_random(void *arg)
{
    struct reader *me = arg;
    while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
        me->random = me->random * 6364136223846793005u + 1442695040888963407u;
        char key[17], *error = NULL;
        size_t bytes, n = key_of(key, (me->random >> 33) % keys);
        char *value = leveldb_get(db, reading, key, n, &bytes, &error);
        if (error || !value || bytes != VALUE_BYTES)
            errx(1, "key %s: %s", key, error ? error : "not what was written");
        leveldb_free(value);
        me->reads++;
    }
    return NULL;
}

static void fill(void)
{
    leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
    char value[VALUE_BYTES], key[17], *error = NULL;
    memset(value, 'v', sizeof value);
    for (unsigned n = 0; n < keys && !error; n++)
        leveldb_put(db, writing, key, key_of(key, n), value, sizeof value, &error);
    if (error)
        errx(1, "cannot fill the database: %s", error);
    leveldb_writeoptions_destroy(writing);
    leveldb_compact_range(db, NULL, 0, NULL, 0);  /* else it would go on beside the readers */
}

static double number(const char *what, const char *text, double least, double most)
{
    char *end;
    errno = 0;
    double n = strtod(text, &end);
    if (errno || end == text || *end || !(n >= least && n <= most))
        errx(2, "--%s %s: give a number from %g to %g", what, text, least, most);
    return n;
}

static double run(unsigned threads, double seconds)
{
    struct reader *readers = calloc(threads, sizeof *readers);
    if (!readers)
        err(1, "%u readers", threads);
    struct timespec begin, end, wait = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (unsigned i = 0; i < threads; i++) {
        readers[i].random = i + 1;
        if ((errno = pthread_create(&readers[i].thread, NULL, read_random, &readers[i])))
            err(1, "reader %u", i);
    }
    nanosleep(&wait, NULL);
    atomic_store(&stopping, true);
    uint64_t reads = 0;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(readers[i].thread, NULL);
        reads += readers[i].reads;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    free(readers);
    return (double)reads / ((double)(end.tv_sec - begin.tv_sec) +
                            (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
}

int main(int argc, char **argv)
{
    unsigned threads = 4;
    double seconds = 1;
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (!strcmp(name, "--help")) {
            puts("Usage: leveldb [--threads N] [--seconds S] [--keys N]\n"
                 "Random reads of a LevelDB database in memory's cache; prints ops/s.");
            return 0;
        }
        if (++i == argc)
            errx(2, "%s: unknown option, or a value is missing; see --help", name);
        if (!strcmp(name, "--threads"))
            threads = (unsigned)number("threads", argv[i], 1, MOST_THREADS);
        else if (!strcmp(name, "--seconds"))
            seconds = number("seconds", argv[i], 0.01, 86400);
        else if (!strcmp(name, "--keys"))
            keys = (unsigned)number("keys", argv[i], 1, MOST_KEYS);
        else
            errx(2, "%s: unknown option; see --help", name);
    }

    const char *tmp = getenv("TMPDIR");
    char dir[4096], *error = NULL;
    if (snprintf(dir, sizeof dir, "%s/hotlock-leveldb-XXXXXX", tmp ? tmp : "/tmp") >=
        (int)sizeof dir)
        errx(2, "TMPDIR: too long");
    if (!mkdtemp(dir))
        err(1, "%s", dir);
    leveldb_options_t *options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    reading = leveldb_readoptions_create();
    db = leveldb_open(options, dir, &error);
    if (error)
        errx(1, "cannot open the database: %s", error);
    fill();
    double rate = run(threads, seconds);
    leveldb_close(db);
    leveldb_destroy_db(options, dir, &error);
    rmdir(dir);
    leveldb_readoptions_destroy(reading);
    leveldb_options_destroy(options);
    printf("ops/s: %.0f\n", rate);
    return 0;
}
