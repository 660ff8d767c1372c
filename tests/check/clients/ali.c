// SPDX-License-Identifier: MIT
// ali.c - what the combining lock must do: every request runs exactly once, alone, and its effect
// is seen by whoever waits for it; an asynchronous one is never lost.
//
//   -DWAYS=RLS -DTHREADS=3   what thread i does: R run, L lock, T trylock, U lock_until, S submit
//                            and wait, D submit and poll, A submit and leave (main waits for it), X
//                            look once whether the request of thread 1 is done
//   -DCOLD                  nobody has measured the clock's rate before the threads do
//   -DHL_ALI_CAP=1           how many requests an owner runs for others: that it runs no more is
//                            asserted, one owner's turn at a time
//   -DNEXT                   main does not wait for what was submitted and left, but takes and
//                            frees the lock: "run at the latest by the next operation on the lock"
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>

// The places where a kernel puts its clock and the debug build its checks: an owner reads the clock
// first as its turn begins, and calls sections here. `foreign` is the owner's, so that two owners
// at a time would show as a race.
static int foreign;
static void turn(bool begins) {
    if (begins) foreign = 0;
}
static void call(void (*fn)(void *), void *arg, bool others);
#define HL_ALI_CLOCK()              (turn(__COUNTER__ == 0), UINT64_C(0))
#define HL_ALI_MOST                 UINT64_C(0)
#define HL_ALI_CALL(l, fn, arg, of) ((void)(l), call((fn), (arg), (of)))
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

static void call(void (*fn)(void *), void *arg, bool others) {
    if (others) assert(++foreign <= HL_ALI_CAP);
    fn(arg);
}

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
#ifndef COLD
    (void)hl_ns_to_ticks(1);  // here once, not by each thread: a thousandth of the executions
#endif
    for (long i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < SECTIONS; j++) {
            char way = way_of(i, j);
#ifdef NEXT
            if (way == 'A' && !times[i][j]) {
                hl_ali_lock(&lock);
                hl_ali_unlock(&lock);
            }
#else
            if (way == 'A') hl_ali_wait(&lock, &request[i][j]);
#endif
            bool maybe = way == 'T' || way == 'U' || way == 'X';
            assert(times[i][j] == 1 || (maybe && times[i][j] == 0));
        }
    assert(!hl_ali_is_locked(&lock));
    return 0;
}
