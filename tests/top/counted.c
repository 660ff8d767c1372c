// SPDX-License-Identifier: MIT
// counted.c - a program that counts its named locks: takes one a thousand times, once waiting, says
// so, and ends with its input.
#include <hotlock/count.h>
#include <hotlock/hotlock.h>

#include <pthread.h>
#include <stdio.h>

static hl_park_t db;
static hl_lock_t logs;
static hl_count_t *db_count, *log_count;
static HL_ATOMIC(bool) waiting;

static void *waiter(void *arg) {
    hl_store_rel(&waiting, true);
    hl_counted_lock(hl_park, &db, db_count);
    hl_park_unlock(&db);
    return arg;
}

int main(void) {
    pthread_t id;
    db_count = hl_lock_name(&db, "db mutex");
    log_count = hl_lock_name(&logs, "log");
    if (hl_lock_name(&db, "db mutex") != db_count) return 1;
    for (int i = 0; i < 997; i++) {
        hl_counted_lock(hl_park, &db, db_count);
        hl_park_unlock(&db);
    }
    if (!hl_counted_trylock(hl_park, &db, db_count)) return 1;
    hl_park_unlock(&db);
    hl_counted_lock(hl, &logs, log_count);
    hl_unlock(&logs);

    hl_counted_lock(hl_park, &db, db_count);
    pthread_create(&id, NULL, waiter, NULL);
    while (!hl_load_acq(&waiting)) sched_yield();
    while (!hl_load(&db.byte.asleep)) sched_yield();  // it sleeps for the lock
    hl_park_unlock(&db);
    pthread_join(id, NULL);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) continue;
    return db_count->acquisitions != 1000;
}
