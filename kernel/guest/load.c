// SPDX-License-Identifier: MIT
// load WORKLOAD A B [C]: what runs in the guest to load the kernel's locks, with fixed amounts of
// work and counts that must come out right.
//
//   stat THREADS FILES ROUNDS   opendir(), readdir() and stat() of each file, as in Ma Ling's
//                               thread.c (linux-kernel, February 2016)
//   fcntl PROCESSES TIMES       a counter in shared memory under a record lock
//   ranges PROCESSES TIMES      record locks on disjoint bytes of one file: contention in the kernel only
//   bpf THREADS TIMES           map elements under a bpf_spin_lock: no torn value is seen
//   count COMMAND...            the instructions a command takes, where QEMU counts them
//   tsc MILLISECONDS            kHz of the time-stamp counter; run on the host, for the guest's clock
#include "load.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void load_fail_if(int bad, const char *what) {
    if (!bad) return;
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double begin;

int load_verdict(unsigned long counted, unsigned long due) {
    printf("counted %lu, due %lu\nseconds %.6f\n", counted, due, now() - begin);
    return counted != due;
}

// ------------------------------------------------------------------------- stat
typedef struct { int number, files, rounds; unsigned long counted; pthread_t thread; } walker_t;

static unsigned long walk(const char *path) {
    unsigned long n = 0;
    DIR *dir = opendir(path);
    load_fail_if(!dir, path);
    for (struct dirent *e; (e = readdir(dir));) {
        char name[400];
        struct stat st;
        if (e->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (stat(name, &st) == 0) n++;
    }
    closedir(dir);
    return n;
}

static void *walker(void *arg) {
    walker_t *w = arg;
    char path[64], name[96];
    snprintf(path, sizeof path, "/tmp/stat-%d", w->number);
    load_fail_if(mkdir(path, 0700), path);
    for (int i = 0; i < w->files; i++) {
        snprintf(name, sizeof name, "%s/%d", path, i);
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        load_fail_if(fd < 0, name);
        close(fd);
    }
    for (int i = 0; i < w->rounds; i++) w->counted += walk(path);
    for (int i = 0; i < w->files; i++) {
        snprintf(name, sizeof name, "%s/%d", path, i);
        unlink(name);
    }
    rmdir(path);
    return NULL;
}

int load_stat(int threads, int files, int rounds) {
    unsigned long counted = 0;
    walker_t *w = calloc((size_t)threads, sizeof *w);
    for (int i = 0; i < threads; i++) {
        w[i] = (walker_t){i, files, rounds, 0, 0};
        load_fail_if(pthread_create(&w[i].thread, NULL, walker, &w[i]), "pthread_create");
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(w[i].thread, NULL);
        counted += w[i].counted;
    }
    free(w);
    return load_verdict(counted, (unsigned long)threads * (unsigned long)files * (unsigned long)rounds);
}

// ------------------------------------------------------------------------- fcntl and ranges
static int record(int fd, short type, off_t start) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 1};
    return fcntl(fd, F_SETLKW, &lock);
}

// Each process locks byte `own * number`: byte 0 for all, or its own.
static int records(int processes, int times, int own) {
    volatile unsigned long *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    load_fail_if(counter == MAP_FAILED, "mmap");
    int fd = open("/tmp/records", O_RDWR | O_CREAT, 0600);
    load_fail_if(fd < 0, "/tmp/records");
    for (int p = 0; p < processes; p++) {
        pid_t pid = fork();
        load_fail_if(pid < 0, "fork");
        if (pid) continue;
        volatile unsigned long *mine = counter + (own ? p : 0);
        for (int i = 0; i < times; i++) {
            load_fail_if(record(fd, F_WRLCK, own * p), "fcntl: lock");
            (*mine)++;
            load_fail_if(record(fd, F_UNLCK, own * p), "fcntl: unlock");
        }
        _exit(0);
    }
    unsigned long counted = 0;
    int bad = 0, status;
    while (wait(&status) > 0) bad |= status;
    load_fail_if(bad, "a process");
    for (int p = 0; p < (own ? processes : 1); p++) counted += counter[p];
    return load_verdict(counted, (unsigned long)processes * (unsigned long)times);
}

int load_fcntl(int processes, int times) { return records(processes, times, 0); }
int load_ranges(int processes, int times) { return records(processes, times, 1); }

// ------------------------------------------------------------------------- count
// QEMU's -icount makes the time stamp counter a count of instructions, shifted left by its shift.
#define ICOUNT_SHIFT 3

static int count(char **command) {
    unsigned long long begin = __builtin_ia32_rdtsc();
    pid_t pid = fork();
    int status;
    load_fail_if(pid < 0, "fork");
    if (!pid) {
        execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    printf("instructions %llu\n", (__builtin_ia32_rdtsc() - begin) >> ICOUNT_SHIFT);
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

// ------------------------------------------------------------------------- tsc
// The two clocks at one moment: of many readings the one in which nothing came between.
static unsigned long long pair(double *at) {
    unsigned long long before, after, best = ~0ULL, tsc = 0;
    for (int i = 0; i < 100; i++) {
        before = __builtin_ia32_rdtsc();
        double t = now();
        after = __builtin_ia32_rdtsc();
        if (after - before >= best) continue;
        best = after - before;
        tsc = before + best / 2;
        *at = t;
    }
    return tsc;
}

static int tsc(int milliseconds) {
    double first, last;
    unsigned long long from = pair(&first);
    usleep((useconds_t)milliseconds * 1000);
    unsigned long long to = pair(&last);
    printf("%.0f\n", (double)(to - from) / (last - first) / 1e3);
    return 0;
}

int main(int argc, char **argv) {
    begin = now();
    const char *what = argc > 2 ? argv[1] : "";
    int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
    int c = argc > 4 ? atoi(argv[4]) : 1;
    if (!strcmp(what, "count")) return count(argv + 2);
    if (!strcmp(what, "tsc") && a > 0) return tsc(a);
    if (a < 1 || b < 1 || c < 1 || a > 512) what = "";
    if (!strcmp(what, "stat")) return load_stat(a, b, c);
    if (!strcmp(what, "fcntl")) return load_fcntl(a, b);
    if (!strcmp(what, "ranges")) return load_ranges(a, b);
    if (!strcmp(what, "bpf")) return load_bpf(a, b);
    fprintf(stderr, "usage: load stat|fcntl|ranges|bpf|count|tsc A B [C]\n");
    return 2;
}
