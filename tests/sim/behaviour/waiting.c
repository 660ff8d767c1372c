// SPDX-License-Identifier: MIT
// waiting.c - a condition variable, a barrier, a read-write lock, a semaphore, once and a spin lock.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

enum { THREADS = 16, ROUNDS = 50 };
static pthread_rwlock_t book = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begin = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t tokens;
static int go, pages, inits, spins, most, inside;

static void init(void) { inits++; }

static void write_or_read(long me) {
    if (me & 1) pthread_rwlock_wrlock(&book);
    else pthread_rwlock_rdlock(&book);
    pages += (int)(me & 1);
    pthread_rwlock_unlock(&book);
}

static void take_token(void) {
    sem_wait(&tokens);
    int n = __atomic_add_fetch(&inside, 1, __ATOMIC_RELAXED);
    pthread_spin_lock(&spin);
    if (n > most) most = n;
    spins++;
    pthread_spin_unlock(&spin);
    __atomic_sub_fetch(&inside, 1, __ATOMIC_RELAXED);
    sem_post(&tokens);
}

static void *work(void *arg) {
    pthread_mutex_lock(&mutex);
    while (!go) pthread_cond_wait(&begin, &mutex);
    pthread_mutex_unlock(&mutex);
    pthread_once(&once, init);
    for (int i = 0; i < ROUNDS; i++) {
        write_or_read((long)arg);
        take_token();
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

int main(void) {
    pthread_t t[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    sem_init(&tokens, 0, 3);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, (void *)i);
    pthread_mutex_lock(&mutex);
    go = 1;
    pthread_cond_broadcast(&begin);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    int right = pages == THREADS / 2 * ROUNDS && spins == THREADS * ROUNDS && inits == 1 && most <= 3;
    printf("right %d\n", right);
    return !right;
}
