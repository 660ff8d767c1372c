// SPDX-License-Identifier: MIT
// dlopen_cases.c - a library loaded at run time and the program agree about every lock, however the
// library was bound.
#include <dlfcn.h>
#include <threads.h>

#include "scenario.h"
#include "shared.h"

static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;

static void share_with(const char *file, int mode) {
    void *lib = dlopen(file, mode);
    if (!lib) {
        say("dlopen: %s", dlerror());
        return;
    }
    const char *error = dlerror();
    expect(!error, "dlerror");
    int (*try_there)(void *) = (int (*)(void *))dlsym(lib, "plugin_try");
    int (*mtx_there)(mtx_t *) = (int (*)(mtx_t *))dlsym(lib, "plugin_mtx_lock");
    int (*wait_there)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *) =
        (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))dlsym(lib,
                                                                                 "plugin_wait");
    int (**lock_there)(pthread_mutex_t *) = (int (**)(pthread_mutex_t *))dlsym(lib, "plugin_lock");
    pthread_cond_t c = PTHREAD_COND_INITIALIZER;
    struct timespec past = {1, 0};
    mtx_t mtx;
    pthread_mutex_lock(&the_mutex);
    say_result("try-there", in_thread(try_there, &the_mutex));
    say_result("wait-there", wait_there(&c, &the_mutex, &past));
    pthread_mutex_unlock(&the_mutex);
    say_result("try-there", try_there(&the_mutex));
    say_result("lock-there", (*lock_there)(&the_mutex));
    say_result("try-here", in_thread(try_it, &the_mutex));
    pthread_mutex_unlock(&the_mutex);
    mtx_init(&mtx, mtx_plain);
    say("mtx-there=%d", mtx_there(&mtx));
    say("mtx-here=%d", mtx_trylock(&mtx));
    dlclose(lib);
}
SCENARIO(dlopen_lazy) { share_with(PLUGIN, RTLD_LAZY | RTLD_LOCAL); }
SCENARIO(dlopen_deepbind) { share_with(PLUGIN, RTLD_LAZY | RTLD_DEEPBIND); }
SCENARIO(dlopen_deepbind_read_only) { share_with(PLUGIN_NOW, RTLD_NOW | RTLD_DEEPBIND); }
SCENARIO(dlopen_by_search_path) {  // found only through the search path of the caller, which is us
    share_with("libplugin.so", RTLD_NOW);
}
SCENARIO(dlopen_of_nothing) {
    expect(dlopen("libno-such.so", RTLD_NOW | RTLD_DEEPBIND) == NULL, "no such file");
    const char *error = dlerror();
    say("%s", error ? error : "no error");
    expect(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) != NULL, "the program itself");
}
