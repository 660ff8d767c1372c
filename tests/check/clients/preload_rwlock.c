// SPDX-License-Identifier: MIT
// preload_rwlock.c - the preload's reader-writer lock: writers alone, readers see what they wrote,
// a read lock may be taken again, all end. The code is src/preload/rwlock.c as it is, with the
// slices in which a writer waits and its way past a gate that another has closed.
//
//   -DWAYS=WR        what each thread does: W write, R read, N read and read again inside, U write
//                    by a deadline, V read by a deadline, T try to write, t try to read
//   -DKIND=2         the lock's kind: 2 does not let a reader in again past a waiting writer
//   -DPOLICY=HL_WAIT_PARK
#include <assert.h>
#include "preload_rw.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#ifndef WAYS
#define WAYS WR
#endif
#ifndef POLICY
#define POLICY HL_WAIT_SPIN
#endif

static const char ways[] = STRING(WAYS);
static pthread_rwlock_t lock;
static int first, second, written;

static bool writes(char way) { return way == 'W' || way == 'U' || way == 'T'; }

static int enter(char way) {
    const struct timespec at = {1001, 0};
    switch (way) {
    case 'W': return pthread_rwlock_wrlock(&lock);
    case 'U': return pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &at);
    case 'V': return pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &at);
    case 'T': return pthread_rwlock_trywrlock(&lock);
    case 't': return pthread_rwlock_tryrdlock(&lock);
    default: return pthread_rwlock_rdlock(&lock);
    }
}

static void *work(void *arg) {
    char way = ways[(long)arg];
    hlp_thread = 1 + (uint32_t)(long)arg;
    int error = enter(way);
    assert(!error || error == EBUSY || error == ETIMEDOUT);
    if (error) return NULL;
    if (writes(way)) {
        first++;
        written++;
        second++;
    } else {
        assert(first == second);
    }
    if (way == 'N') {
        pthread_rwlock_rdlock(&lock);
        assert(first == second);
        pthread_rwlock_unlock(&lock);
    }
    pthread_rwlock_unlock(&lock);
    return NULL;
}

int main(void) {
    enum { THREADS_ = sizeof ways - 1 };
    pthread_t thread[THREADS_];
    hl_wait_set(POLICY);
    (void)hl_ns_to_ticks(1);
    be_of_kind(&lock);
    for (long i = 0; i < THREADS_; i++) pthread_create(&thread[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS_; i++) pthread_join(thread[i], NULL);
    assert(first == written && second == written);
    // Whoever comes later gets in, either way: nothing of the others is left.
    assert(!pthread_rwlock_trywrlock(&lock));
    pthread_rwlock_unlock(&lock);
    assert(!pthread_rwlock_tryrdlock(&lock));
    pthread_rwlock_unlock(&lock);
    return 0;
}
