// SPDX-License-Identifier: MIT
// cmocka.h - as much of cmocka's interface as unit.c uses, for machines that Debian has no cmocka
// cross package for. A failed assertion ends its case, as there. TAP on stdout.
#ifndef HOTLOCK_TESTS_ARCH_CMOCKA_H
#define HOTLOCK_TESTS_ARCH_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state);
    int (*teardown_func)(void **state);
    void *initial_state;
};
#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}

static jmp_buf case_end;

__attribute__((noreturn, unused)) static void case_failed(const char *what, int line) {
    printf("# line %d: %s\n", line, what);
    longjmp(case_end, 1);
}

#define case_holds(condition, what) ((condition) ? (void)0 : case_failed(what, __LINE__))
#define assert_true(x)              case_holds(x, #x)
#define assert_false(x)             case_holds(!(x), "not " #x)
#define assert_non_null(x)          case_holds((x) != NULL, #x)
#define assert_int_equal(a, b)      case_holds((intmax_t)(a) == (intmax_t)(b), #a " == " #b)
#define assert_memory_equal(a, b, n) case_holds(memcmp(a, b, n) == 0, #a " is " #b)

static int _cmocka_run_group_tests(const char *group, const struct CMUnitTest *tests, size_t count,
                                   void *setup, void *teardown) {
    volatile int failed = 0;
    (void)group, (void)setup, (void)teardown;
    printf("1..%zu\n", count);
    for (volatile size_t i = 0; i < count; i++) {
        void *state = tests[i].initial_state;
        if (!setjmp(case_end)) {
            tests[i].test_func(&state);
            printf("ok %zu - %s\n", i + 1, tests[i].name);
        } else {
            printf("not ok %zu - %s\n", i + 1, tests[i].name);
            failed++;
        }
        fflush(stdout);
    }
    return failed;
}

#endif
