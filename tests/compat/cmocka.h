/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka.h - stands in for cmocka where there is none for the target: the ring
 * tests built for another CPU or word size. The subset they use, same output lines.
 */
#ifndef TENT_TESTS_COMPAT_CMOCKA_H
#define TENT_TESTS_COMPAT_CMOCKA_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
	const char *name;
	void (*test)(void **state);
	int (*setup)(void **state);
	int (*teardown)(void **state);
	void *initial_state;
};

#define cmocka_unit_test(f) { #f, f, NULL, NULL, NULL }
#define cmocka_unit_test_setup(f, s) { #f, f, s, NULL, NULL }
#define cmocka_unit_test_teardown(f, t) { #f, f, NULL, t, NULL }
#define cmocka_unit_test_setup_teardown(f, s, t) { #f, f, s, t, NULL }
#define cmocka_unit_test_prestate(f, p) { #f, f, NULL, NULL, p }
#define cmocka_unit_test_prestate_setup_teardown(f, s, t, p) { #f, f, s, t, p }

static jmp_buf compat_out;
enum { COMPAT_FAILED = 1, COMPAT_SKIPPED = 2 };

#define compat_check(ok, text)							\
	do {									\
		if (!(ok)) {							\
			printf("%s:%d: error: %s\n", __FILE__, __LINE__, text);	\
			longjmp(compat_out, COMPAT_FAILED);			\
		}								\
	} while (0)
#define compat_compare(a, op, b)						\
	do {									\
		uintmax_t compat_a = (uintmax_t)(a), compat_b = (uintmax_t)(b);	\
										\
		if (!(compat_a op compat_b)) {					\
			printf("%s:%d: error: %s (%#jx) " #op " %s (%#jx)\n", __FILE__, \
			       __LINE__, #a, compat_a, #b, compat_b);		\
			longjmp(compat_out, COMPAT_FAILED);			\
		}								\
	} while (0)

#define assert_true(c) compat_check((c), #c)
#define assert_false(c) compat_check(!(c), "not " #c)
#define assert_null(p) compat_check((p) == NULL, #p " is NULL")
#define assert_non_null(p) compat_check((p) != NULL, #p " is not NULL")
#define assert_int_equal(a, b) compat_compare((intmax_t)(a), ==, (intmax_t)(b))
#define assert_int_not_equal(a, b) compat_compare((intmax_t)(a), !=, (intmax_t)(b))
#define assert_ptr_equal(a, b) compat_compare((uintptr_t)(a), ==, (uintptr_t)(b))
#define assert_ptr_not_equal(a, b) compat_compare((uintptr_t)(a), !=, (uintptr_t)(b))
#define assert_in_range(v, low, high)						\
	do {									\
		compat_compare(v, >=, low);					\
		compat_compare(v, <=, high);					\
	} while (0)
#define assert_return_code(rc, error) compat_check((rc) >= 0, #rc " is no error")
#define assert_string_equal(a, b) compat_check(!strcmp(a, b), #a " equals " #b)
#define assert_string_not_equal(a, b) compat_check(strcmp(a, b), #a " differs from " #b)
#define assert_memory_equal(a, b, n) compat_check(!memcmp(a, b, n), #a " equals " #b)
#define assert_memory_not_equal(a, b, n) compat_check(memcmp(a, b, n), #a " differs from " #b)
#define fail() compat_check(0, "fail()")
#define fail_msg(...)								\
	do {									\
		printf(__VA_ARGS__);						\
		compat_check(0, "");						\
	} while (0)
#define skip() longjmp(compat_out, COMPAT_SKIPPED)
#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) printf(__VA_ARGS__)

/* Is the test in the environment's list of those the emulator cannot run? */
static inline int compat_is_listed(const char *name)
{
	const char *list = getenv("TENT_COMPAT_SKIP"), *at = list;
	size_t length = strlen(name);

	while (at && (at = strstr(at, name))) {
		if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return 1;
		at += length;
	}
	return 0;
}

/* 0, or how its test ended. */
static inline int compat_run_one(const struct CMUnitTest *t, void *group_state)
{
	void *state = t->initial_state ? t->initial_state : group_state;
	volatile int rc = 0;

	if (compat_is_listed(t->name)) {
		printf("[  SKIPPED ] %s\n", t->name);
		return COMPAT_SKIPPED;
	}
	printf("[ RUN      ] %s\n", t->name);
	fflush(stdout);
	if (t->setup && t->setup(&state))
		return COMPAT_FAILED;
	rc = setjmp(compat_out);
	if (!rc)
		t->test(&state);
	if (t->teardown && t->teardown(&state))
		rc = COMPAT_FAILED;
	printf("[ %s ] %s\n", rc == 0 ? "      OK" : rc == COMPAT_SKIPPED ? " SKIPPED" :
	       " FAILED ", t->name);
	fflush(stdout);
	return rc;
}

static inline int compat_run_group(const struct CMUnitTest *tests, size_t nr,
				   int (*setup)(void **), int (*teardown)(void **))
{
	int failed = 0, skipped = 0;
	void *state = NULL;

	printf("[==========] Running %zu test(s).\n", nr);
	if (setup && setup(&state))
		return 1;
	for (size_t i = 0; i < nr; i++) {
		int rc = compat_run_one(&tests[i], state);

		failed += rc == COMPAT_FAILED;
		skipped += rc == COMPAT_SKIPPED;
	}
	if (teardown && teardown(&state))
		failed++;
	printf("[==========] %zu test(s) run.\n[  PASSED  ] %zu test(s).\n", nr,
	       nr - (size_t)failed - (size_t)skipped);
	return failed;
}

#define cmocka_run_group_tests(tests, setup, teardown)				\
	compat_run_group(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)		\
	cmocka_run_group_tests(tests, setup, teardown)

#endif /* TENT_TESTS_COMPAT_CMOCKA_H */
