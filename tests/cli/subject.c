/* SPDX-License-Identifier: MIT */
/*
 * A program to run under locks. What it does depends on the lock in the variable HOTLOCK:
 *
 *   subject env                      prints HOTLOCK and LD_PRELOAD
 *   subject value libc=100 tas=150   prints the value of the lock it runs under, else of "libc"
 *   subject wobble FILE A B          prints A, B, A, B... in turn; FILE holds the turn
 *   subject at LOCK WHAT...          does WHAT under LOCK and prints "fine" under any other:
 *       crash | exit CODE | say WORD | flood | hang FIFO | leave FIFO
 *   subject count THREADS            counts under a mutex with that many threads; prints the sum
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTIONS 20000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long sum;

/* The lock's name without settings, "libc" if there is none. */
static const char *lock_name(void)
{
    static char name[32] = "libc";
    const char *setting = getenv("HOTLOCK");
    if (setting)
        sscanf(setting, "lock=%31[^,]", name);
    return name;
}

static int print_environment(void)
{
    const char *setting = getenv("HOTLOCK"), *preload = getenv("LD_PRELOAD");
    printf("%s|%s\n", setting ? setting : "", preload ? preload : "");
    return 0;
}

static const char *value_for(char **values, const char *name)
{
    size_t length = strlen(name);
    for (; *values; values++)
        if (strncmp(*values, name, length) == 0 && (*values)[length] == '=')
            return *values + length + 1;
    return NULL;
}

static int print_value(char **values)
{
    const char *value = value_for(values, lock_name());
    printf("value: 1\nvalue: %s units\n", value ? value : value_for(values, "libc"));
    return 0;
}

static int wobble(const char *file, const char *a, const char *b)
{
    FILE *turns = fopen(file, "a");
    fputc('x', turns);
    printf("value: %s\n", ftell(turns) % 2 ? a : b);
    return fclose(turns);
}

/*
 * Says its pid through FIFO, then a child in the same group, one that left it by setsid() and a
 * grandchild wait for ever with the FIFO open: its reader sees the end when all are gone.
 */
static int leave_children(const char *fifo, int stay)
{
    FILE *f = fopen(fifo, "w");
    signal(SIGTERM, SIG_IGN);
    for (int child = 0; child < 2; child++)
        if (fork() == 0) {
            if (child == 1) {
                setsid();
                fork();
            }
            for (;;)
                pause();
        }
    fprintf(f, "%d\n", (int)getpid());
    fflush(f);
    while (stay)
        pause();
    return 0;
}

_Noreturn static void flood(void)
{
    static char line[1 << 16];
    memset(line, 'x', sizeof line);
    for (;;)
        fwrite(line, sizeof line, 1, stdout);
}

static int act(char **words)
{
    if (strcmp(words[0], "crash") == 0)
        raise(SIGSEGV);
    if (strcmp(words[0], "exit") == 0)
        return atoi(words[1]);
    if (strcmp(words[0], "say") == 0)
        return puts(words[1]) < 0;
    if (strcmp(words[0], "flood") == 0)
        flood();
    return leave_children(words[1], strcmp(words[0], "hang") == 0);
}

static void *count(void *unused)
{
    for (int i = 0; i < SECTIONS; i++) {
        pthread_mutex_lock(&mutex);
        sum++;
        pthread_mutex_unlock(&mutex);
    }
    return unused;
}

static int count_with(int threads)
{
    pthread_t thread[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, count, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("%ld\n", sum);
    return sum != (long)threads * SECTIONS;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "env";
    if (strcmp(mode, "value") == 0)
        return print_value(argv + 2);
    if (strcmp(mode, "wobble") == 0)
        return wobble(argv[2], argv[3], argv[4]);
    if (strcmp(mode, "count") == 0)
        return count_with(atoi(argv[2]));
    if (strcmp(mode, "at") == 0 && strcmp(argv[2], lock_name()) == 0)
        return act(argv + 3);
    if (strcmp(mode, "at") == 0)
        return puts("fine") < 0;
    return print_environment();
}
