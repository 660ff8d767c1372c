/* SPDX-License-Identifier: MIT */
/*
 * runqueue: hackbench on a model of the Linux 2.4 scheduler, with its one run-queue lock.
 *
 * John Stultz measured the K42 lock (linux-ia64, February 2002) with hackbench, which hammers
 * that lock: groups of 20 senders and 20 receivers, every sender writing messages
 * of 100 bytes to every receiver of its group, so that tasks block and wake each other all the
 * time. Here each thread is a processor; tasks are small records it runs until they block.
 * As in 2.4 there is one list of runnable tasks, schedule() walks all of it under the lock to
 * find the best one, and waking a task takes the lock too: the more groups, the longer the
 * sections and the hotter the lock. Threads contend, not tasks, so --threads means what it means
 * in the other workloads. Pipes have a lock of the same kind each, as when a kernel changes all
 * its spinlocks; only the run-queue lock is timed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/cli/cli.h"
#include "common/run.h"

enum {
    GROUP = 20, /* senders in a group, and receivers */
    MESSAGE_BYTES = 100,
    PIPE_MESSAGES = 32,
    SLICE = 20, /* messages until another task gets the processor */
    GROUPS_MOST = 1000,
    LOOPS_MOST = 1000000000,
    IDLE_SPINS = 64
};

struct message {
    uint32_t sender, number;
    unsigned char fill[MESSAGE_BYTES - 8];
};

struct task {
    struct task *next, *previous;    /* on the run queue */
    struct task *next_writer;        /* in a pipe's queue of blocked senders */
    bool queued, running, blocked;   /* on the run queue; on a processor; not to be queued again */
    int processor;                   /* where it ran last: it is preferred there */
    unsigned number;
    struct pipe *pipe;               /* of a receiver; of a sender, the first of its group */
    uint64_t left;                   /* messages to send or to receive */
    uint32_t sent;
    uint32_t seen[GROUP];            /* a receiver's: next message number of each sender */
};

/* What senders write to one receiver. Under its lock. */
struct pipe {
    void *lock;
    unsigned first, count;
    struct task *reader;                       /* blocked on it, or NULL */
    struct task *writers, **writers_end;       /* blocked on it, in order */
    struct message message[PIPE_MESSAGES];
};

struct queue {
    void *lock;
    _Alignas(128) struct task head;            /* runnable tasks, also those running; under lock */
    volatile uint64_t sections;
    volatile bool busy;                        /* somebody is inside: nobody may find it set */
    unsigned alive;                            /* tasks with work left */
    _Alignas(128) atomic_int waiting;          /* queued and not running: what idle threads watch */
};

struct machine {
    struct queue *queue;
    struct pipe **pipes;
    struct task *tasks;
    unsigned groups;
    uint64_t loops;
};

/* ---------------------------------------------------------------- under the run-queue lock */

static void queue_enter(struct run *run, struct queue *q)
{
    if (q->busy)
        run_broken(run, "two threads are inside the run queue");
    q->busy = true;
    q->sections++;
}

static void queue_leave(struct run *run, struct queue *q)
{
    if (!q->busy)
        run_broken(run, "another thread was inside the run queue and left");
    q->busy = false;
}

static void enqueue(struct queue *q, struct task *t)
{
    t->queued = true;
    t->next = &q->head;
    t->previous = q->head.previous;
    t->previous->next = t;
    q->head.previous = t;
}

static void dequeue(struct task *t)
{
    t->queued = false;
    t->previous->next = t->next;
    t->next->previous = t->previous;
}

static void waiting_add(struct queue *q, int change)
{
    int now = atomic_load_explicit(&q->waiting, memory_order_relaxed) + change;
    atomic_store_explicit(&q->waiting, now, memory_order_relaxed);
}

/* schedule(): the task that ran leaves or goes to the end, and the best of the others is next. */
static struct task *switch_task(struct run *run, struct queue *q, struct task *old, int processor)
{
    struct task *best = NULL;
    queue_enter(run, q);
    if (old) {
        old->running = false;
        dequeue(old);
        if (!old->blocked) {
            enqueue(q, old);
            waiting_add(q, 1);
        } else if (old->left == 0 && --q->alive == 0) {
            atomic_store_explicit(&run->stop, true, memory_order_relaxed);
        }
    }
    for (struct task *t = q->head.next; t != &q->head; t = t->next)
        if (!t->running && (!best || (t->processor == processor && best->processor != processor)))
            best = t;
    if (best) {
        best->running = true;
        best->processor = processor;
        waiting_add(q, -1);
    }
    queue_leave(run, q);
    return best;
}

static void make_runnable(struct run *run, struct queue *q, struct task *t)
{
    queue_enter(run, q);
    t->blocked = false;
    if (!t->queued) {
        enqueue(q, t);
        waiting_add(q, 1);
    }
    queue_leave(run, q);
}

/* ---------------------------------------------------------------- under a pipe's lock */

/* One message from sender to pipe; false: it is full, and the sender blocks on it. */
static bool pipe_put(struct pipe *p, struct task *sender, uint32_t number, struct task **wake)
{
    if (p->count == PIPE_MESSAGES) {
        sender->blocked = true;
        sender->next_writer = NULL;
        *p->writers_end = sender;
        p->writers_end = &sender->next_writer;
        return false;
    }
    struct message *m = &p->message[(p->first + p->count++) % PIPE_MESSAGES];
    m->sender = sender->number;
    m->number = number;
    memset(m->fill, (int)(number & 0xff), sizeof(m->fill));
    *wake = p->reader;
    p->reader = NULL;
    return true;
}

/* One message from a receiver's pipe; false: it is empty, and the receiver blocks on it. */
static bool pipe_get(struct pipe *p, struct task *receiver, struct message *m, struct task **wake)
{
    if (p->count == 0) {
        receiver->blocked = true;
        p->reader = receiver;
        return false;
    }
    memcpy(m, &p->message[p->first], sizeof(*m));
    p->first = (p->first + 1) % PIPE_MESSAGES;
    p->count--;
    if ((*wake = p->writers) && !(p->writers = p->writers->next_writer))
        p->writers_end = &p->writers;
    return true;
}

/* ---------------------------------------------------------------- tasks */

static bool is_sender(const struct task *t)
{
    return t->number % (2 * GROUP) < GROUP;
}

/* Messages of one sender arrive whole and in order. */
static void check_message(struct run *run, struct task *t, const struct message *m)
{
    uint32_t *seen = &t->seen[m->sender % GROUP];
    unsigned char wanted = (unsigned char)m->number;
    bool whole = m->fill[0] == wanted && m->fill[sizeof(m->fill) - 1] == wanted;
    if (!whole || m->number != *seen)
        run_broken(run, "message %u of task %u came when %u was due", m->number, m->sender, *seen);
    (*seen)++;
}

#define LOCK_BODY "../runqueue_body.h"
#include "locks/each.h"

#define LOOP runqueue
#define LOCK_BODY "loop_row.h"
static const struct loop loops[] = {
#include "locks/each.h"
};

static void setup_group(struct run *run, struct machine *m, unsigned group)
{
    struct task *tasks = &m->tasks[group * 2 * GROUP];
    struct pipe **pipes = &m->pipes[group * GROUP];
    for (unsigned i = 0; i < GROUP; i++) {
        pipes[i] = lines_new(sizeof(struct pipe));
        pipes[i]->lock = lock_new(run->lock, run->threads, false);
        pipes[i]->writers_end = &pipes[i]->writers;
    }
    for (unsigned i = 0; i < 2 * GROUP; i++) {
        tasks[i].number = group * 2 * GROUP + i;
        tasks[i].pipe = pipes[i < GROUP ? 0 : i - GROUP];
        tasks[i].left = m->loops ? m->loops * GROUP : UINT64_MAX;
        tasks[i].processor = -1;
        enqueue(m->queue, &tasks[i]);
    }
}

static void setup(struct run *run)
{
    struct machine *m = run->data;
    m->queue = lines_new(sizeof(*m->queue));
    m->queue->lock = lock_new(run->lock, run->threads, false);
    m->queue->head.next = m->queue->head.previous = &m->queue->head;
    m->queue->alive = m->groups * 2 * GROUP;
    atomic_init(&m->queue->waiting, (int)m->queue->alive);
    m->tasks = cli_alloc(m->queue->alive * sizeof(*m->tasks));
    m->pipes = cli_alloc(m->groups * GROUP * sizeof(*m->pipes));
    for (unsigned g = 0; g < m->groups; g++)
        setup_group(run, m, g);
    if (m->loops && run->seconds == 0)
        run->seconds = 86400; /* it ends when the messages are through */
}

static void check(struct run *run)
{
    struct machine *m = run->data;
    uint64_t sections = run_sections(run), received = 0, sent = 0, waiting = 0;
    if (m->queue->sections != sections)
        run_broken(run, "the run queue counted %llu sections of %llu",
                   (unsigned long long)m->queue->sections, (unsigned long long)sections);
    for (unsigned i = 0; i < m->groups * 2 * GROUP; i++) {
        if (is_sender(&m->tasks[i]))
            sent += m->tasks[i].sent;
        else
            for (unsigned s = 0; s < GROUP; s++)
                received += m->tasks[i].seen[s];
    }
    for (unsigned i = 0; i < m->groups * GROUP; i++)
        waiting += m->pipes[i]->count;
    if (sent != received + waiting || received != run_total(run))
        run_broken(run, "%llu messages sent, %llu received, %llu on their way",
                   (unsigned long long)sent, (unsigned long long)received,
                   (unsigned long long)waiting);
}

static void cleanup(struct run *run)
{
    struct machine *m = run->data;
    free(m->tasks);
    free(m->pipes);
    m->tasks = NULL;
    m->pipes = NULL;
}

static void report(const struct run *run)
{
    const struct machine *m = run->data;
    if (run->finished)
        printf("Time: %.3f\n", 1e-9 * (double)(run->end_ns - run->begin_ns));
    else if (m->loops)
        printf("Time: not finished\n");
}

enum { KEY_GROUPS = 'g', KEY_LOOPS = 0x1000 };

static const struct argp_option options[] = {
    { "groups", KEY_GROUPS, "N", 0, "groups of 20 senders and 20 receivers (default 10)", 0 },
    { "loops", KEY_LOOPS, "N", 0,
      "messages from each sender to each receiver, then end and print the time, as hackbench "
      "(default: go on for --seconds)", 0 },
    { 0 }
};

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct run *run = state->input;
    struct machine *m = run->data;
    switch (key) {
    case KEY_GROUPS:
        m->groups = (unsigned)cli_long("--groups", arg, 1, GROUPS_MOST);
        return 0;
    case KEY_LOOPS:
        m->loops = (uint64_t)cli_long("--loops", arg, 1, LOOPS_MOST);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct workload workload = {
    .name = "runqueue",
    .about = "Hackbench on a model of the Linux 2.4 scheduler with its one run-queue lock; each "
             "thread is a processor.",
    .unit = "messages",
    .options = options,
    .option = on_option,
    .loops = loops,
    .loop_count = sizeof(loops) / sizeof(loops[0]),
    .setup = setup,
    .check = check,
    .cleanup = cleanup,
    .report = report,
};

int main(int argc, char **argv)
{
    struct machine machine = { .groups = 10 };
    return workload_main(&workload, &machine, argc, argv);
}
