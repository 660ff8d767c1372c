/* SPDX-License-Identifier: MIT */
/* A figure a program prints, found by a POSIX extended regular expression with one group. */
#include "metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

void metric_compile(metric_t *metric, const char *text)
{
    char why[200];
    metric->text = text;
    int error = regcomp(&metric->regex, text, REG_EXTENDED | REG_NEWLINE);
    if (error) {
        regerror(error, &metric->regex, why, sizeof why);
        cli_bad("--metric '%s' does not compile: %s", text, why);
    }
    if (metric->regex.re_nsub != 1)
        cli_bad("--metric '%s' has %zu groups; put ( ) around the number and nowhere else", text,
                metric->regex.re_nsub);
}

/* What the group holds in the last match, or NULL; free it. */
static char *last_match(const regex_t *regex, const char *bytes, size_t length)
{
    char *held = NULL;
    regoff_t at = 0;
    while ((size_t)at <= length) {
        regmatch_t m[2] = {{.rm_so = at, .rm_eo = (regoff_t)length}};
        int flags = REG_STARTEND | (at > 0 && bytes[at - 1] != '\n' ? REG_NOTBOL : 0);
        if (regexec(regex, bytes, 2, m, flags) != 0)
            break;
        if (m[1].rm_so >= 0) {
            free(held);
            held = strndup(bytes + m[1].rm_so, (size_t)(m[1].rm_eo - m[1].rm_so));
        }
        at = m[0].rm_eo > at ? m[0].rm_eo : at + 1; /* an empty match must not stop us */
    }
    return held;
}

bool metric_find(const metric_t *metric, const child_result_t *result, double *value, char **seen)
{
    char *end;
    *seen = last_match(&metric->regex, result->out, result->out_len);
    if (!*seen)
        *seen = last_match(&metric->regex, result->err, result->err_len);
    if (!*seen)
        return false;
    *value = strtod(*seen, &end);
    if (end == *seen || *end || !isfinite(*value))
        return false;
    free(*seen);
    *seen = NULL;
    return true;
}
