// SPDX-License-Identifier: MIT
// chosen.c - a program with locks to choose among: a variable, a field of one, places in the code,
// a lock set up by a call, every kind of mutex, a spinlock, a plug-in's. Prints what it counted.
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 6, ROUNDS = 20000 };

typedef struct {
    long rows;
    pthread_mutex_t mutex;
} table_t;
typedef struct {
    long spare;
    table_t table[2];
} base_t;

pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
base_t base = {.table = {{0, PTHREAD_MUTEX_INITIALIZER}, {0, PTHREAD_MUTEX_INITIALIZER}}};
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_spinlock_t spin;
static long (*use_plugin)(void);
static table_t *made[3];
static long alone_count, recursive_count, here_count, checked_count, spin_count;

static __attribute__((noinline)) void use_elsewhere(table_t *t) {
    pthread_mutex_lock(&t->mutex);
    t->rows++;
    pthread_mutex_unlock(&t->mutex);
}

static __attribute__((noinline)) void use_here(table_t *t) {
    pthread_mutex_lock(&t->mutex);  // HERE
    t->rows++;
    here_count++;
    pthread_mutex_unlock(&t->mutex);
}

static inline void lock_inline(pthread_mutex_t *m) { pthread_mutex_lock(m); }

static __attribute__((noinline)) void use_alone(void) {
    lock_inline(&alone);  // INLINED
    alone_count++;
    pthread_mutex_unlock(&alone);
}

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        use_alone();
        use_elsewhere(&base.table[i % 2]);
        use_elsewhere(made[0]);
        use_elsewhere(made[1]);
        if (i > ROUNDS / 2) use_here(made[1]);  // in use for long when it is chosen
        pthread_mutex_lock(&recursive);
        pthread_mutex_lock(&recursive);
        recursive_count++;
        pthread_mutex_unlock(&recursive);
        pthread_mutex_unlock(&recursive);
        pthread_mutex_lock(&checked);
        checked_count += pthread_mutex_lock(&checked) == EDEADLK;
        pthread_mutex_unlock(&checked);
        pthread_spin_lock(&spin);  // SPIN
        spin_count++;
        pthread_spin_unlock(&spin);
        if (use_plugin) use_plugin();
    }
    return unused;
}

// A plug-in is named by argv[1], to be found by the loader's own search.
int main(int argc, char **argv) {
    pthread_t t[THREADS];
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (argc > 1 && !plugin) puts(dlerror());
    if (plugin) use_plugin = (long (*)(void))dlsym(plugin, "plugin_count");
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < 3; i++) made[i] = calloc(1, sizeof *made[i]);
    pthread_mutex_init(&made[0]->mutex, NULL);  // INIT
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, work, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    use_here(made[2]);
    printf("%ld %ld %ld %ld %ld %ld %ld %ld\n", alone_count,
           base.table[0].rows + base.table[1].rows, made[0]->rows, made[1]->rows, made[2]->rows,
           recursive_count, checked_count, spin_count);
    if (use_plugin) printf("%ld\n", use_plugin());
    return 0;
}
