/* SPDX-License-Identifier: MIT */
/* Tests of the command's modules: names, statistics, tables, foreign CPU use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "foreign.h"
#include "nearest.h"
#include "stats.h"
#include "table.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void assert_near(double got, double want)
{
    if (!(fabs(got - want) < 1e-9))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* ---- names ---- */

static void distance_counts_edits(void **state)
{
    (void)state;
    assert_int_equal(nearest_distance("ticket", "ticket"), 0);
    assert_int_equal(nearest_distance("tikcet", "ticket"), 1);
    assert_int_equal(nearest_distance("TAS", "tas"), 0);
    assert_int_equal(nearest_distance("", "mcs"), 3);
    assert_int_equal(nearest_distance("kitten", "sitting"), 3);
}

static void nearest_takes_the_first_of_equals(void **state)
{
    static const char *const names[] = {"mcs", "nmcs", "nmcs4"};
    (void)state;
    assert_string_equal(nearest_name("nmc54", names, 3), "nmcs4");
    assert_string_equal(nearest_name("xmcs", names, 3), "mcs");
    assert_null(nearest_name("x", names, 0));
}

/* ---- statistics ---- */

static void order_statistics(void **state)
{
    const double x[] = {5, 1, 4, 2};
    (void)state;
    assert_near(stats_median(x, 4), 3);
    assert_near(stats_median(x, 3), 4);
    assert_near(stats_percentile(x, 4, 0), 1);
    assert_near(stats_percentile(x, 4, 100), 5);
    assert_near(stats_percentile(x, 4, 25), 1.75);
    assert_true(isnan(stats_median(x, 0)));
}

static void fairness_of_jain(void **state)
{
    const double even[] = {3, 3, 3, 3}, one[] = {8, 0, 0, 0}, none[] = {0, 0};
    (void)state;
    assert_near(stats_jain(even, 4), 1);
    assert_near(stats_jain(one, 4), 0.25);
    assert_near(stats_jain(none, 2), 1);
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* Of many samples with a known median, about 95 in 100 intervals must hold it. */
static void intervals_cover_the_median(void **state)
{
    double x[15];
    uint64_t random = 1;
    int held = 0, trials = 300;
    (void)state;
    for (int trial = 0; trial < trials; trial++) {
        for (size_t i = 0; i < COUNT(x); i++)
            x[i] = uniform(&random);
        stats_estimate_t e = stats_median_interval(x, COUNT(x), 0.95);
        assert_true(e.lo <= e.mid && e.mid <= e.hi);
        held += e.lo <= 0.5 && 0.5 <= e.hi;
    }
    assert_in_range(held, trials * 90 / 100, trials * 99 / 100);
}

static void intervals_repeat_and_widen(void **state)
{
    const double x[] = {9, 1, 7, 3, 5, 8, 2};
    (void)state;
    stats_estimate_t a = stats_median_interval(x, 7, 0.95), b = stats_median_interval(x, 7, 0.95);
    stats_estimate_t wide = stats_median_interval(x, 7, 0.999);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(wide.lo < a.lo && wide.hi > a.hi);
    assert_true(isnan(stats_median_interval(x, 1, 0.95).lo));
}

/* Rounds that slow both sides alike say nothing about their ratio; pairing takes that out. */
static void pairing_cancels_slow_rounds(void **state)
{
    double x[10], base[10];
    (void)state;
    for (size_t i = 0; i < 10; i++) {
        base[i] = 1 + (double)(i * 7 % 10);
        x[i] = base[i] / 2;
    }
    stats_estimate_t paired = stats_ratio_interval(x, 10, base, 10, true, 0.95);
    stats_estimate_t apart = stats_ratio_interval(x, 10, base, 10, false, 0.95);
    assert_near(paired.mid, 0.5);
    assert_near(paired.lo, 0.5);
    assert_near(paired.hi, 0.5);
    assert_true(apart.lo < 0.5 && apart.hi > 0.5);
}

/* ---- tables ---- */

static char *printed(const table_t *t, table_format_t format)
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    table_print(t, format, f);
    fclose(f);
    return text;
}

static void expect(const table_t *t, table_format_t format, const char *want)
{
    char *text = printed(t, format);
    assert_string_equal(text, want);
    free(text);
}

static const table_column_t small[] = {
    {"name", "name", TABLE_LEFT, TABLE_BOTH},
    {"size", "size", TABLE_RIGHT, TABLE_BOTH},
    {"", "shown", TABLE_LEFT, TABLE_PEOPLE},
    {"raw", "raw", TABLE_RIGHT, TABLE_PROGRAMS},
    {"note", "note", TABLE_LEFT, TABLE_BOTH},
};

static table_t *small_table(const char *note)
{
    table_t *t = table_new(small, COUNT(small));
    table_text(t, "zwölf");
    table_int(t, 12);
    table_text(t, "a|b");
    table_real(t, 0.25, 1);
    table_text(t, "%s", note);
    table_text(t, "x");
    table_none(t);
    table_text(t, "-");
    table_real(t, NAN, 1);
    table_text(t, "%s", "");
    return t;
}

static void four_ways_out(void **state)
{
    table_t *t = small_table("say \"hi\", you");
    (void)state;
    expect(t, TABLE_TEXT, "name   size  shown  note\n"
                          "zwölf    12  a|b    say \"hi\", you\n"
                          "x         -  -\n");
    expect(t, TABLE_CSV, "name,size,raw,note\n"
                         "zwölf,12,0.25,\"say \"\"hi\"\", you\"\n"
                         "x,,,\n");
    expect(t, TABLE_MARKDOWN, "| name | size | shown | note |\n"
                              "|---|--:|---|---|\n"
                              "| zwölf | 12 | a\\|b | say \"hi\", you |\n"
                              "| x | - | - |  |\n");
    json_t *rows = table_rows(t), *want = json_pack(
        "[{s:s, s:i, s:f, s:s}, {s:s, s:n, s:n, s:s}]", "name", "zwölf", "size", 12, "raw", 0.25,
        "note", "say \"hi\", you", "name", "x", "size", "raw", "note", "");
    assert_true(json_equal(rows, want));
    json_decref(rows);
    json_decref(want);
    table_free(t);
}

static void empty_words_take_no_column(void **state)
{
    table_t *t = small_table("");
    (void)state;
    expect(t, TABLE_TEXT, "name   size  shown\n"
                          "zwölf    12  a|b\n"
                          "x         -  -\n");
    table_free(t);
}

/* The longest line, in terminal columns. */
static int widest_line(char *text)
{
    int widest = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        int width = table_text_width(line);
        widest = width > widest ? width : widest;
    }
    return widest;
}

static void long_words_wrap(void **state)
{
    char note[400] = "";
    (void)state;
    for (int i = 0; i < 12; i++)
        strcat(note, "größer als 大きい ");
    table_t *t = small_table(note);
    char *text = printed(t, TABLE_TEXT);
    assert_in_range(widest_line(text), 80, TABLE_WIDTH);
    free(text);
    table_free(t);
}

/* More numbers than fit go below, beside the first column again. */
static void many_numbers_split(void **state)
{
    table_column_t columns[30] = {{"name", "name", TABLE_LEFT, TABLE_BOTH}};
    (void)state;
    for (size_t i = 1; i < COUNT(columns); i++)
        columns[i] = (table_column_t){"n", "number", TABLE_RIGHT, TABLE_BOTH};
    table_t *t = table_new(columns, COUNT(columns));
    table_text(t, "row");
    for (size_t i = 1; i < COUNT(columns); i++)
        table_int(t, 100000 + (long long)i);
    char *text = printed(t, TABLE_TEXT);
    for (int i = 1; i < 30; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", 100000 + i);
        assert_non_null(strstr(text, number));
    }
    assert_non_null(strstr(text, "\n\nname  number"));
    assert_in_range(widest_line(text), 60, TABLE_WIDTH);
    free(text);
    table_free(t);
}

static void bad_bytes_become_visible(void **state)
{
    (void)state;
    assert_int_equal(table_text_width("a\xff\xc3"), 3);
    assert_int_equal(table_text_width("\u0301e"), 1);
    assert_int_equal(table_text_width("大"), 2);
    json_t *value = table_json_string("a\xffz");
    assert_string_equal(json_string_value(value), "a\uFFFDz");
    json_decref(value);
}

/* ---- foreign CPU use ---- */

static double cpu_now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* What this process burns is foreign if it is not claimed, and not if it is. */
static void claimed_time_is_not_foreign(void **state)
{
    foreign_t unclaimed = {0}, claimed = {0};
    double begin = cpu_now();
    (void)state;
    assert_true(isnan(foreign_share(&claimed)));
    foreign_begin(&unclaimed);
    foreign_begin(&claimed);
    while (cpu_now() - begin < 0.3)
        ;
    foreign_end(&unclaimed, 0);
    foreign_end(&claimed, cpu_now() - begin);
    assert_true(unclaimed.foreign > 0.2);
    assert_true(claimed.foreign < unclaimed.foreign - 0.2);
    assert_true(foreign_share(&claimed) < foreign_share(&unclaimed));
}

int main(void)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distance_counts_edits),
        cmocka_unit_test(nearest_takes_the_first_of_equals),
        cmocka_unit_test(order_statistics),
        cmocka_unit_test(fairness_of_jain),
        cmocka_unit_test(intervals_cover_the_median),
        cmocka_unit_test(intervals_repeat_and_widen),
        cmocka_unit_test(pairing_cancels_slow_rounds),
        cmocka_unit_test(four_ways_out),
        cmocka_unit_test(empty_words_take_no_column),
        cmocka_unit_test(long_words_wrap),
        cmocka_unit_test(many_numbers_split),
        cmocka_unit_test(bad_bytes_become_visible),
        cmocka_unit_test(claimed_time_is_not_foreign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
