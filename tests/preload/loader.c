// SPDX-License-Identifier: MIT
// loader.c - loads the preload at run time, not before main; possibly as a set-user-ID program.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/auxv.h>

int main(int argc, char **argv) {
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    void *lib = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!lib) {
        fprintf(stderr, "loader: %s\n", argc == 2 ? dlerror() : "usage: loader LIBRARY");
        return 2;
    }
    int (*lock)(pthread_mutex_t *) = (int (*)(pthread_mutex_t *))dlsym(lib, "pthread_mutex_lock");
    int (*unlock)(pthread_mutex_t *) =
        (int (*)(pthread_mutex_t *))dlsym(lib, "pthread_mutex_unlock");
    printf("secure=%lu lock=%d unlock=%d\n", getauxval(AT_SECURE), lock(&m), unlock(&m));
    return 0;
}
