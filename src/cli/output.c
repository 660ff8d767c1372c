/* SPDX-License-Identifier: MIT */
/* Where a result goes: --json, --csv, --markdown and -o FILE, the same for every command. */
#include "output.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

enum { KEY_JSON = 0x4a00, KEY_CSV, KEY_MARKDOWN };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Write the result to FILE, replaced as a whole", 8},
    {"json", KEY_JSON, NULL, 0, "Result as JSON", 8},
    {"csv", KEY_CSV, NULL, 0, "Result as comma-separated values", 8},
    {"markdown", KEY_MARKDOWN, NULL, 0, "Result as Markdown tables", 8},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    output_t *output = state->input;
    switch (key) {
    case 'o':
        output->file = arg;
        return 0;
    case KEY_JSON:
        output->format = TABLE_JSON;
        return 0;
    case KEY_CSV:
        output->format = TABLE_CSV;
        return 0;
    case KEY_MARKDOWN:
        output->format = TABLE_MARKDOWN;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp output_argp = {.options = options, .parser = parse};
const struct argp output_format_argp = {.options = options + 1, .parser = parse};

/* The file a write really reaches (links followed), or NULL with errno; free it. */
static char *real_place(const char *file)
{
    char *place = realpath(file, NULL);
    return place || errno != ENOENT ? place : strdup(file);
}

static char *directory_of(const char *place)
{
    char *copy = cli_printf("%s", place);
    char *directory = cli_printf("%s", dirname(copy));
    free(copy);
    return directory;
}

/* Devices and pipes are written in place; what is renamed into must be a plain file or nothing. */
static bool is_special(const char *place)
{
    struct stat st;
    return stat(place, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

void output_check(const output_t *output)
{
    if (!output->file)
        return;
    struct stat st;
    char *place = real_place(output->file);
    if (!place)
        cli_bad("cannot write '%s': %s", output->file, strerror(errno));
    if (stat(place, &st) == 0 && S_ISDIR(st.st_mode))
        cli_bad("cannot write '%s': it is a directory; name a file", output->file);
    char *directory = directory_of(place);
    if (access(is_special(place) ? place : directory, W_OK) != 0)
        cli_bad("cannot write '%s': %s", output->file, strerror(errno));
    free(directory);
    free(place);
}

static bool put(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t done = write(fd, bytes, count);
        if (done < 0 && errno != EINTR)
            return false;
        if (done > 0) {
            bytes += done;
            count -= (size_t)done;
        }
    }
    return true;
}

/* mkstemp() makes files only the owner can read; give the mode a plain creation would. */
static bool set_usual_mode(int fd, const char *place)
{
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(fd, stat(place, &st) == 0 ? st.st_mode & 07777 : 0666 & ~mask) == 0;
}

static bool replace(const char *place, const char *bytes, size_t count)
{
    char *directory = directory_of(place);
    char *temporary = cli_printf("%s/.hotlock-XXXXXX", directory);
    int fd = mkstemp(temporary);
    bool good = fd >= 0 && put(fd, bytes, count) && set_usual_mode(fd, place) && fsync(fd) == 0;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    good = good && rename(temporary, place) == 0;
    int error = errno;
    if (fd >= 0 && !good)
        unlink(temporary);
    free(temporary);
    free(directory);
    errno = error;
    return good;
}

static bool write_special(const char *place, const char *bytes, size_t count)
{
    FILE *f = fopen(place, "we");
    if (!f)
        return false;
    bool good = put(fileno(f), bytes, count);
    return fclose(f) == 0 && good;
}

bool output_write(const char *file, const char *bytes, size_t count)
{
    bool good;
    if (!file) {
        good = fflush(stdout) == 0 && put(STDOUT_FILENO, bytes, count);
    } else {
        char *place = real_place(file);
        good = place && (is_special(place) ? write_special : replace)(place, bytes, count);
        free(place);
    }
    if (!good)
        cli_note("cannot write '%s': %s", file ? file : "stdout", strerror(errno));
    return good;
}

void output_json(json_t *value, FILE *out)
{
    json_dumpf(value, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(value);
}
