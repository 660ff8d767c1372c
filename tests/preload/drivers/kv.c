// SPDX-License-Identifier: MIT
// kv.c - threads on one LevelDB or RocksDB: kv DIRECTORY THREADS ROUNDS. Which one: -DDB=leveldb.
//
// Each thread owns keys that it writes, reads back and deletes, and reads its neighbour's; the sum
// at the end is always the same.
#include <string.h>

#define HEADER_(db) <db/c.h>
#define HEADER(db) HEADER_(db)
#include HEADER(DB)

#include "load.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OF(name) JOIN(DB, name)

static OF(_t) *db;
static OF(_readoptions_t) *reading;
static OF(_writeoptions_t) *writing;
static int threads;

static void check(char *error) {
    if (!error) return;
    fprintf(stderr, "%s\n", error);
    exit(3);
}

static size_t name(char *key, int thread, int round) {
    return (size_t)sprintf(key, "%02d-%06d", thread, round);
}

static void op(int thread, int round) {
    char key[32], *error = NULL, *got;
    size_t length = name(key, thread, round), got_length;
    OF(_put)(db, writing, key, length, key, length, &error);
    check(error);
    got = OF(_get)(db, reading, key, length, &got_length, &error);
    check(error);
    if (!got || got_length != length || memcmp(got, key, length) != 0) exit(4);
    OF(_free)(got);
    length = name(key, (thread + 1) % threads, round / 2);
    got = OF(_get)(db, reading, key, length, &got_length, &error);
    check(error);
    if (got) OF(_free)(got);
    if (round % 4) return;
    length = name(key, thread, round);
    OF(_delete)(db, writing, key, length, &error);
    check(error);
}

int main(int argc, char **argv) {
    char *error = NULL;
    if (argc != 4) return 2;
    threads = atoi(argv[2]);
    OF(_options_t) *o = OF(_options_create)();
    OF(_options_set_create_if_missing)(o, 1);
    OF(_options_set_write_buffer_size)(o, 256 << 10);  // so that it compacts meanwhile
    reading = OF(_readoptions_create)();
    writing = OF(_writeoptions_create)();
    db = OF(_open)(o, argv[1], &error);
    check(error);
    load_run(threads, atoi(argv[3]), op);
    long left = 0;
    OF(_iterator_t) *i = OF(_create_iterator)(db, reading);
    for (OF(_iter_seek_to_first)(i); OF(_iter_valid)(i); OF(_iter_next)(i)) left++;
    OF(_iter_destroy)(i);
    OF(_close)(db);
    printf("left: %ld\n", left);
    return 0;
}
