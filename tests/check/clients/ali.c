// SPDX-License-Identifier: MIT
// ali.c - what the combining lock must do: every request runs exactly once, alone, and its effect is
// seen by whoever waits for it; an asynchronous one is never lost.
//
//   -DWAYS=RLS -DTHREADS=3   what thread i does: R run, L lock, T trylock, U lock_until, S submit and
//                            wait, D submit and poll, A submit and leave (main waits for it), X look
//                            once whether the request of thread 1 is done
//   -DHL_ALI_CAP=1           how many requests an owner runs for others
#include <assert.h>
#include <pthread.h>

#include <hotlock/ali.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#ifndef THREADS
#define THREADS 2
#endif
#ifndef SECTIONS
#define SECTIONS 1
#endif
#ifndef WAYS
#define WAYS R
#endif

static hl_ali_t lock;
static hl_ali_req_t request[THREADS][SECTIONS];
static int inside, times[THREADS][SECTIONS];

static void section(void *arg) {
    assert(inside == 0);
    inside = 1;
    (*(int *)arg)++;
    inside = 0;
}

// One operation; returns whether the section has run by now.
static int act(char way, hl_ali_req_t *r, int *mine) {
    switch (way) {
    case 'R': hl_ali_run(&lock, section, mine); return 1;
    case 'S':
        hl_ali_submit(&lock, r, section, mine);
        hl_ali_wait(&lock, r);
        return 1;
    case 'D':
        hl_ali_submit(&lock, r, section, mine);
        while (!hl_ali_done(&lock, r)) hl_pause();
        return 1;
    case 'X':
        if (!hl_ali_done(&lock, &request[1][0])) return 0;
        assert(times[1][0] == 1);
        return 0;
    case 'A': hl_ali_submit(&lock, r, section, mine); return 0;
    case 'T':
        if (!hl_ali_trylock(&lock)) return 0;
        break;
    case 'U':
        if (!hl_ali_lock_until(&lock, hl_now_ns() + 1000000)) return 0;
        break;
    default: hl_ali_lock(&lock);
    }
    section(mine);
    hl_ali_unlock(&lock);
    return 1;
}

static char way_of(int thread, int section_number) {
    static const char ways[] = STRING(WAYS);
    return ways[(thread * SECTIONS + section_number) % (sizeof ways - 1)];
}

static void *work(void *arg) {
    int me = (int)(long)arg;
    for (int i = 0; i < SECTIONS; i++) {
        int *mine = &times[me][i];
        if (act(way_of(me, i), &request[me][i], mine)) assert(*mine == 1);
    }
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
#ifdef POLICY
    hl_wait_set(POLICY);
#endif
    for (long i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < SECTIONS; j++) {
            char way = way_of(i, j);
            if (way == 'A') hl_ali_wait(&lock, &request[i][j]);
            assert(times[i][j] == 1 || ((way == 'T' || way == 'U' || way == 'X') && times[i][j] == 0));
        }
    assert(!hl_ali_is_locked(&lock));
    return 0;
}
