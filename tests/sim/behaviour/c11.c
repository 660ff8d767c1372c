// SPDX-License-Identifier: MIT
// c11.c - C11's mutex and condition variable, set up in memory that held something else.
#include <stdlib.h>
#include <string.h>
#include <threads.h>

static struct {
    mtx_t lock, nested;
    cnd_t changed;
    int turn, count;
} *shared;

static int take_turns(void *arg) {
    int me = arg != NULL;
    for (int i = 0; i < 20; i++) {
        mtx_lock(&shared->lock);
        while (shared->turn != me) cnd_wait(&shared->changed, &shared->lock);
        mtx_lock(&shared->nested);
        mtx_lock(&shared->nested);
        shared->count++;
        mtx_unlock(&shared->nested);
        mtx_unlock(&shared->nested);
        shared->turn = !me;
        cnd_broadcast(&shared->changed);
        mtx_unlock(&shared->lock);
    }
    return 0;
}

int main(void) {
    thrd_t other;
    shared = malloc(sizeof *shared);
    memset(shared, 0x2b, sizeof *shared);
    shared->turn = shared->count = 0;
    mtx_init(&shared->lock, mtx_plain);
    mtx_init(&shared->nested, mtx_plain | mtx_recursive);
    cnd_init(&shared->changed);
    thrd_create(&other, take_turns, shared);
    take_turns(NULL);
    thrd_join(other, NULL);
    return shared->count != 40;
}
