/* SPDX-License-Identifier: MIT */
/* The histogram of waits and the longest gap: exact where they can be, within a step elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../workloads/common/waits.h"

static void buckets_hold_what_falls_into_them(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 63; shift++) {
        for (int off = -1; off <= 1; off++) {
            uint64_t wait = ((uint64_t)1 << shift) + (uint64_t)off;
            unsigned bucket = wait_bucket(wait);
            assert_true(bucket < WAIT_BUCKETS);
            assert_true(wait <= wait_bucket_top(bucket));
            if (bucket > 0)
                assert_true(wait > wait_bucket_top(bucket - 1));
            assert_true(wait_bucket_top(bucket) - wait <= wait / WAIT_STEPS);
        }
    }
}

/* 1 to 1000 once each: every quantile is at most a step above the true one. */
static void quantiles_are_within_a_step(void **state)
{
    struct waits w;
    (void)state;
    waits_start(&w, 1);
    for (uint64_t wait = 1; wait <= 1000; wait++)
        waits_record(&w, 1000, 1000 + wait);
    assert_int_equal(w.samples, 1000);
    assert_int_equal(w.max, 1000);
    for (unsigned percent = 1; percent < 100; percent++) {
        uint64_t is = percent * 10 + 1, said = waits_quantile(&w, percent / 100.0);
        assert_true(said >= is && said <= is + is / WAIT_STEPS + 1);
    }
    assert_int_equal(waits_quantile(&w, 1), 1000);
}

static void gap_is_the_longest_stretch(void **state)
{
    struct waits w;
    (void)state;
    waits_start(&w, 1);
    w.last = 100;
    waits_record(&w, 90, 150);
    waits_record(&w, 1000, 1150);
    waits_record(&w, 1200, 1300);
    assert_int_equal(w.gap, 1000);
    assert_int_equal(w.max, 150);
}

/* After a long stretch every section is timed, else one in 32 at least. */
static void sampling_is_dense_after_a_gap(void **state)
{
    struct waits w;
    (void)state;
    waits_start(&w, 7);
    w.last = 0;
    waits_record(&w, 0, WAIT_DENSE_TICKS + 1);
    assert_int_equal(w.left, 1);
    for (int i = 0; i < 1000; i++) {
        waits_record(&w, w.last, w.last + 10);
        assert_in_range(w.left, 1, 32);
    }
}

static void sums_add_up(void **state)
{
    struct waits a, b;
    (void)state;
    waits_start(&a, 1);
    waits_start(&b, 2);
    a.last = b.last = 0;
    waits_record(&a, 10, 15);
    waits_record(&b, 10, 4000);
    waits_add(&a, &b);
    assert_int_equal(a.samples, 2);
    assert_int_equal(a.max, 3990);
    assert_int_equal(a.gap, 4000);
    assert_int_equal(waits_quantile(&a, 0.9), 3990);
    assert_int_equal(waits_quantile(&a, 0.1), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_hold_what_falls_into_them),
        cmocka_unit_test(quantiles_are_within_a_step),
        cmocka_unit_test(gap_is_the_longest_stretch),
        cmocka_unit_test(sampling_is_dense_after_a_gap),
        cmocka_unit_test(sums_add_up),
    };
    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
