// SPDX-License-Identifier: MIT
// wait.c - sleeping and being woken: mutex and condition variable, futex, and their classic
// mistakes.
// check: -D CONDITION => verified
// check: -D CONDITION -D IF => assert
// check: -D CONDITION -D IF --spurious 0 => verified
// check: -D CONDITION -D SIGNAL_FIRST => deadlock
// check: -D CONDITION -D NO_MUTEX => race
// check: -D FUTEX => verified
// check: -D FUTEX -D WRONG_EXPECTED => deadlock
// check: -D FUTEX -D WAKE_FIRST => deadlock
// check: -D TIMED => verified
// check: -D TIMED --expiries 0 => verified
// check: -D BROADCAST => verified
// check: -D BROADCAST -D SIGNAL => deadlock
// check: -D TWO_LOCKS => deadlock
// check: -D UNLOCK_FOREIGN => misuse
// check: -D RWLOCK => verified
// check: -D BARRIER => verified
// check: -D ONCE => verified
// check: -D SEMAPHORE => verified
// check: -D RECURSIVE => verified
// check: -D NO_TIMER => deadlock
// check: -D NO_TIMER -D TIMER => verified
// check: -D NO_TIMER -D TIMER --no-timers => deadlock
#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ready, data;
static atomic_int word;

#if defined(CONDITION)
static void *first(void *unused) {
    pthread_mutex_lock(&mutex);
#ifdef IF
    if (!ready) pthread_cond_wait(&cond, &mutex);
#else
    while (!ready) pthread_cond_wait(&cond, &mutex);
#endif
    assert(ready && data == 7);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *second(void *unused) {
#ifdef SIGNAL_FIRST
    pthread_cond_signal(&cond);
#endif
#ifndef NO_MUTEX
    pthread_mutex_lock(&mutex);
#endif
    data = 7;
    ready = 1;
#ifndef NO_MUTEX
    pthread_mutex_unlock(&mutex);
#endif
#ifndef SIGNAL_FIRST
    pthread_cond_signal(&cond);
#endif
    return unused;
}
#elif defined(BROADCAST)
static void *first(void *unused) {
    pthread_mutex_lock(&mutex);
    while (!ready) pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *second(void *unused) {
    pthread_t extra;
    pthread_create(&extra, NULL, first, NULL);
    pthread_mutex_lock(&mutex);
    ready = 1;
    pthread_mutex_unlock(&mutex);
#ifdef SIGNAL
    pthread_cond_signal(&cond);
#else
    pthread_cond_broadcast(&cond);
#endif
    pthread_join(extra, NULL);
    return unused;
}
#elif defined(FUTEX)
static void *first(void *unused) {
    while (!atomic_load_explicit(&word, memory_order_acquire))
#ifdef WRONG_EXPECTED
        syscall(SYS_futex, &word, FUTEX_WAIT, word, NULL, NULL, 0);
#else
        syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
#endif
    assert(data == 7);
    return unused;
}
static void *second(void *unused) {
    data = 7;
#ifdef WAKE_FIRST
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
#endif
    atomic_store_explicit(&word, 1, memory_order_release);
#ifndef WAKE_FIRST
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, NULL, NULL, 0);
#endif
    return unused;
}
#elif defined(TIMED)
static void *first(void *unused) {
    struct timespec deadline;
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += 1;
    if (pthread_mutex_timedlock(&mutex, &deadline) == 0) {
        data++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}
#define second first
#elif defined(TWO_LOCKS)
static void *first(void *unused) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&other);
    pthread_mutex_unlock(&other);
    pthread_mutex_unlock(&mutex);
    return unused;
}
static void *second(void *unused) {
    pthread_mutex_lock(&other);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&other);
    return unused;
}
#elif defined(UNLOCK_FOREIGN)
static void *first(void *unused) {
    pthread_mutex_lock(&mutex);
    return unused;
}
static void *second(void *unused) {
    pthread_mutex_unlock(&mutex);
    return unused;
}
#elif defined(RWLOCK)
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static void *first(void *unused) {
    pthread_rwlock_rdlock(&rwlock);
    assert(data == ready);
    pthread_rwlock_unlock(&rwlock);
    return unused;
}
static void *second(void *unused) {
    pthread_rwlock_wrlock(&rwlock);
    data = 1;
    ready = 1;
    pthread_rwlock_unlock(&rwlock);
    return unused;
}
#elif defined(BARRIER)
static pthread_barrier_t barrier;
__attribute__((constructor)) static void begin(void) { pthread_barrier_init(&barrier, NULL, 2); }
static void *first(void *unused) {
    data = 7;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    data++;
    return unused;
}
static void *second(void *unused) {
    pthread_barrier_wait(&barrier);
    assert(data == 7);
    pthread_barrier_wait(&barrier);
    return unused;
}
#elif defined(ONCE)
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void begin(void) { data++; }
static void *first(void *unused) {
    pthread_once(&once, begin);
    assert(data == 1);
    return unused;
}
#define second first
#elif defined(SEMAPHORE)
static sem_t semaphore;
__attribute__((constructor)) static void begin(void) { sem_init(&semaphore, 0, 0); }
static void *first(void *unused) {
    sem_wait(&semaphore);
    assert(data == 7);
    return unused;
}
static void *second(void *unused) {
    data = 7;
    sem_post(&semaphore);
    return unused;
}
#elif defined(RECURSIVE)
static pthread_mutex_t deep = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void *first(void *unused) {
    pthread_mutex_lock(&deep);
    pthread_mutex_lock(&deep);
    data++;
    pthread_mutex_unlock(&deep);
    data++;
    pthread_mutex_unlock(&deep);
    return unused;
}
#define second first
#elif defined(NO_TIMER)  // the waker does not wake: only a timer can end the sleep
static void *first(void *unused) {
    struct timespec *t = NULL;
#ifdef TIMER
    struct timespec soon = {0, 1000};
    t = &soon;
#endif
    while (!atomic_load(&word)) syscall(SYS_futex, &word, FUTEX_WAIT, 0, t, NULL, 0);
    return unused;
}
static void *second(void *unused) {
    atomic_store(&word, 1);
    return unused;
}
#endif

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, first, NULL);
    pthread_create(&b, NULL, second, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    (void)ready, (void)data, (void)word, (void)cond, (void)other, (void)mutex;
    return 0;
}
