// SPDX-License-Identifier: MIT
// shared.c - objects made for sharing between processes, in memory that could be shared: a mutex and a
// condition, a barrier, a read-write lock, a spin lock, a semaphore.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>

enum { THREADS = 8, ROUNDS = 40 };
static struct all {
    pthread_mutex_t mutex;
    pthread_cond_t turn;
    pthread_barrier_t barrier;
    pthread_rwlock_t book;
    pthread_spinlock_t spin;
    sem_t token;
    int next, pages, spins, tokens;
} *all;

static void *work(void *arg) {
    int me = (int)(long)arg;
    pthread_barrier_wait(&all->barrier);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&all->mutex);
        while (all->next % THREADS != me) pthread_cond_wait(&all->turn, &all->mutex);
        all->next++;
        pthread_cond_broadcast(&all->turn);
        pthread_mutex_unlock(&all->mutex);
        pthread_rwlock_wrlock(&all->book);
        all->pages++;
        pthread_rwlock_unlock(&all->book);
        pthread_spin_lock(&all->spin);
        all->spins++;
        pthread_spin_unlock(&all->spin);
        sem_wait(&all->token);
        all->tokens++;
        sem_post(&all->token);
    }
    pthread_barrier_wait(&all->barrier);
    return NULL;
}

static void make(void) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t cond;
    pthread_barrierattr_t barrier;
    pthread_rwlockattr_t book;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_init(&mutex);
    pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&all->mutex, &mutex);
    pthread_condattr_init(&cond);
    pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&all->turn, &cond);
    pthread_barrierattr_init(&barrier);
    pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&all->barrier, &barrier, THREADS);
    pthread_rwlockattr_init(&book);
    pthread_rwlockattr_setpshared(&book, PTHREAD_PROCESS_SHARED);
    pthread_rwlock_init(&all->book, &book);
    pthread_spin_init(&all->spin, PTHREAD_PROCESS_SHARED);
    sem_init(&all->token, 1, 1);
}

int main(void) {
    pthread_t t[THREADS];
    make();
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    int n = THREADS * ROUNDS;
    printf("right %d\n", all->next == n && all->pages == n && all->spins == n && all->tokens == n);
    return 0;
}
