/* SPDX-License-Identifier: MIT */
/*
 * Runs a command once and says what it did: time, CPU, output, how it ended.
 *
 * A keeper process stands between the caller and the command. It is a subreaper, so every
 * process the command leaves behind comes to it and is ended; it is told by the kernel when the
 * caller dies, even by SIGKILL, and then ends everything too. The caller's own children, if it
 * has any, are never touched. Output goes to memory files, not pipes: nobody wakes up to read
 * while the command is being measured.
 *
 * One run at a time, from the main thread.
 */
#ifndef HOTLOCK_CHILD_H
#define HOTLOCK_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#define CHILD_OUTPUT_MOST ((size_t)256 << 20) /* bytes of output; above it the run is ended */

typedef struct {
    const char *path;    /* the file to execute */
    char *const *argv;
    char *const *env;    /* NULL: this process's environment */
    double limit;        /* seconds until it is ended; 0: none */
    bool capture;        /* else stdout and stderr are the caller's */
} child_spec_t;

typedef enum {
    CHILD_EXITED,      /* code: exit status */
    CHILD_SIGNALLED,   /* code: signal number */
    CHILD_LIMIT,       /* ended by us: over the limit */
    CHILD_OUTPUT,      /* ended by us: over CHILD_OUTPUT_MOST */
    CHILD_INTERRUPTED, /* ended by us: Ctrl-C, SIGTERM or SIGHUP came to the caller */
    CHILD_NOT_STARTED  /* code: errno */
} child_end_t;

typedef struct {
    child_end_t end;
    int code;
    double wall;          /* seconds, from start to the end of the command itself */
    double user, system;  /* CPU seconds, all its processes */
    long peak_kib;        /* largest resident set of one process */
    char *out, *err;      /* captured; a NUL follows the last byte */
    size_t out_len, err_len;
} child_result_t;

/*
 * The standard input of each run is the caller's if that is a regular file (rewound to where it
 * stood), else empty. An interrupt that came earlier (child_interrupted()) starts nothing.
 */
void child_run(const child_spec_t *spec, child_result_t *result);
void child_free(child_result_t *result);

/* "exit 3", "killed by SIGSEGV", "over the limit"...; text lives in BUFFER. */
const char *child_end_text(const child_result_t *result, char *buffer, size_t size);

/* From now on SIGINT, SIGTERM and SIGHUP do not end this process but set child_interrupted(). */
void child_watch_interrupts(void);
bool child_interrupted(void);

/* A copy of the environment with NAME set to VALUE (NULL: removed); free with child_free_env(). */
char **child_env(char *const *base, const char *name, const char *value);
void child_free_env(char **env);

#endif
