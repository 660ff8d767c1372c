// SPDX-License-Identifier: MIT
// sqlite.c - threads on one SQLite database: sqlite DIRECTORY THREADS ROUNDS.
//
// One connection in serialized mode that all share, as many programs have it, so that SQLite's own
// recursive mutexes are what they wait for; and every eighth call through a connection of its own.
#include <sqlite3.h>
#include <string.h>

#include "load.h"

enum { THREADS_MOST = 64 };
static sqlite3 *shared, *own[THREADS_MOST];

static void check(int result, sqlite3 *db) {
    if (result == SQLITE_OK) return;
    fprintf(stderr, "%s\n", sqlite3_errmsg(db));
    exit(3);
}

static void run(sqlite3 *db, const char *statement) {
    check(sqlite3_exec(db, statement, NULL, NULL, NULL), db);
}

static int keep(void *arg, int columns, char **values, char **names) {
    (void)columns, (void)names;
    strcpy(arg, values[0] ? values[0] : "nothing");
    return 0;
}

static void op(int thread, int round) {
    char text[200], got[64] = "";
    snprintf(text, sizeof text, "insert into t values (%d, %d)", thread, round);
    run(shared, text);
    snprintf(text, sizeof text, "select max(y) from t where x = %d", thread);
    sqlite3 *db = round % 8 ? shared : own[thread];
    check(sqlite3_exec(db, text, keep, got, NULL), db);
    if (atoi(got) != round) exit(4);
}

static sqlite3 *connect_to(const char *path, int flags) {
    sqlite3 *db;
    check(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | flags, NULL), db);
    sqlite3_busy_timeout(db, 60000);
    run(db, "pragma journal_mode=wal; pragma synchronous=off");
    return db;
}

int main(int argc, char **argv) {
    char path[4096], got[64] = "";
    if (argc != 4 || atoi(argv[2]) > THREADS_MOST) return 2;
    snprintf(path, sizeof path, "%s/t.db", argv[1]);
    shared = connect_to(path, SQLITE_OPEN_FULLMUTEX);
    run(shared, "create table t (x integer, y integer); create index i on t (x, y)");
    for (int i = 0; i < atoi(argv[2]); i++) own[i] = connect_to(path, SQLITE_OPEN_NOMUTEX);
    load_run(atoi(argv[2]), atoi(argv[3]), op);
    check(sqlite3_exec(shared, "select count(*) || ' ' || sum(y) from t", keep, got, NULL), shared);
    for (int i = 0; i < atoi(argv[2]); i++) sqlite3_close(own[i]);
    sqlite3_close(shared);
    printf("rows: %s\n", got);
    return 0;
}
