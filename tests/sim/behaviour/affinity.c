// SPDX-License-Identifier: MIT
// affinity.c - threads bind themselves, each other, and are born bound; prints "right 1" if each is
// where it was told to be. Needs 16 CPUs.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8 };
static int wrong;
static pthread_barrier_t barrier;
static volatile int stop, where;

#define MUST(x) ((x) ? (void)0 : (void)(wrong++, printf("line %d\n", __LINE__)))

static cpu_set_t only(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

static void *binds_itself(void *arg) {
    int me = (int)(long)arg;
    cpu_set_t set = only(me), seen;
    pthread_barrier_wait(&barrier);
    MUST(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
    unsigned cpu = 99, node = 99;
    MUST(sched_getcpu() == me && getcpu(&cpu, &node) == 0 && cpu == (unsigned)me && node == 0);
    MUST(sched_getaffinity(0, sizeof seen, &seen) == 0 && CPU_EQUAL(&set, &seen));
    usleep(10);   // whatever woke it, and wherever it slept
    sched_yield();
    MUST(sched_getcpu() == me);
    return NULL;
}

static void *runs(void *arg) {
    while (!stop) where = sched_getcpu();
    return arg;
}

static void moved_by_another(void) {
    pthread_t t;
    cpu_set_t set = only(11);
    pthread_create(&t, NULL, runs, NULL);
    usleep(50);
    MUST(where != 11);
    MUST(pthread_setaffinity_np(t, sizeof set, &set) == 0);
    usleep(50);
    MUST(where == 11);
    stop = 1;
    pthread_join(t, NULL);
}

static void *tells(void *arg) {
    *(int *)arg = sched_getcpu();
    return NULL;
}

static void born_bound(void) {
    pthread_t t;
    pthread_attr_t attr;
    cpu_set_t set = only(13);
    int at = -1;
    pthread_attr_init(&attr);
    pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    pthread_create(&t, &attr, tells, &at);
    pthread_join(t, NULL);
    MUST(at == 13);
    set = only(7);   // and what is not said is inherited
    MUST(sched_setaffinity(0, sizeof set, &set) == 0 && sched_getcpu() == 7);
    pthread_create(&t, NULL, tells, &at);
    pthread_join(t, NULL);
    MUST(at == 7);
    MUST(syscall(SYS_gettid) == 1);
}

int main(void) {
    pthread_t t[THREADS];
    cpu_set_t set = only(1000);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, binds_itself, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    moved_by_another();
    born_bound();
    MUST(sched_setaffinity(0, sizeof set, &set) == -1 && errno == EINVAL);
    MUST(pthread_setaffinity_np(t[0], sizeof set, &set) != 0);
    printf("right %d\n", !wrong);
    return 0;
}
