// SPDX-License-Identifier: MIT
// back.c - what a program keeps where, before it comes to a choice and after: a run that begins at
// a choice of an earlier one must find all of it as it was.
// check: --model c11 => verified 8
// check: --model tso => verified 8
// check: --outcomes => 1 x  21 6$
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int turn[3];
static int steps = 1;
static _Thread_local int mine;
static _Thread_local char mark = 'm';

typedef struct { char *heap, *stack; int who, seen; } part_t;

// All that is changed between two accesses to atomics, where another run may begin.
static void change(part_t *p, int step)
{
    assert(mine == step && mark == 'm' + step && errno == step);
    assert(p->heap[0] == step && strlen(p->stack) == (size_t)step);
    mine++;
    mark++;
    errno = step + 1;
    p->heap[0]++;
    strcat(p->stack, "x"); // the other thread's stack, and nobody sees the call write there
}

static void *work(void *arg)
{
    part_t *p = arg;
    p->heap = calloc(1, 1);
    errno = 0;
    for (int i = 0; i < 3; i++) {
        change(p, i);
        if (i == 1) printf("%d", p->who);
        p->seen = p->seen * 2 + atomic_exchange(&turn[i], 1);
    }
    assert(mine == 3 && errno == 3);
    free(p->heap);
    return NULL;
}

int main(void)
{
    pthread_t thread[2];
    char text[2][8] = {"", ""};
    part_t part[2] = {{.who = 1, .stack = text[0]}, {.who = 2, .stack = text[1]}};
    assert(steps++ == 1);
    for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, work, &part[i]);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    assert(steps == 2);
    for (int i = 0; i < 2; i++) assert(strcmp(text[i], "xxx") == 0);
    assert(part[0].seen + part[1].seen == 7);
    printf(" %d", part[0].seen);
    return 0;
}
