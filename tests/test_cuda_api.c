/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_api.c - the table of the CUDA driver, and what we declare of it against the
 * cuda.h of a toolkit, where the Makefile found one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/cuda_api.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAS_CUDA_H 1
#else
#define HAS_CUDA_H 0
#endif

#define NR(list) (sizeof(list) / sizeof(list[0]))

#if HAS_CUDA_H
/*
 * Each of the table has the type that the header gives it. Enums are integers in both, and
 * structs behind pointers have one tag; the one that goes by value is compared by its
 * layout and taken for the header's here.
 */
_Static_assert(sizeof(struct cuda_ipc_memory) == sizeof(CUipcMemHandle) &&
	       _Alignof(struct cuda_ipc_memory) == _Alignof(CUipcMemHandle),
	       "struct cuda_ipc_memory");
#define cuda_ipc_memory CUipcMemHandle_st
#define SAME(name, args)							\
	_Static_assert(__builtin_types_compatible_p(				\
		cuda_result (*) args, __typeof__(&name)), #name);
CUDA_FUNCTIONS(SAME)
#undef SAME
#undef cuda_ipc_memory

#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED(name) TEXT_OF(name)

/* "cuMemAlloc" is another function than the header's cuMemAlloc, which means cuMemAlloc_v2. */
static void names_are_those_that_cuda_h_calls(void **state)
{
	static const struct { const char *ours, *theirs; } names[] = {
#define NAME(name, args) { #name, EXPANDED(name) },
		CUDA_FUNCTIONS(NAME)
#undef NAME
	};

	(void)state;
	for (size_t i = 0; i < NR(names); i++)
		assert_string_equal(names[i].ours, names[i].theirs);
}

static void numbers_are_those_of_cuda_h(void **state)
{
	static const struct { const char *name; long long ours, theirs; } numbers[] = {
#define NUMBER(ours, theirs, number) { #theirs, ours, theirs },
		CUDA_NUMBERS(NUMBER)
#undef NUMBER
	};

	(void)state;
	for (size_t i = 0; i < NR(numbers); i++)
		if (numbers[i].ours != numbers[i].theirs)
			fail_msg("%s is %lld, and cuda.h's %lld", numbers[i].name,
				 numbers[i].ours, numbers[i].theirs);
}
#else
static void names_are_those_that_cuda_h_calls(void **state)
{
	(void)state;
	skip();
}

static void numbers_are_those_of_cuda_h(void **state)
{
	(void)state;
	skip();
}
#endif

static void what_is_missing_of_the_driver_is_named(void **state)
{
	struct cuda_api api;
	char missing[192];

	(void)state;
	assert_false(cuda_api_load(&api, "libnot-there.so.9", missing, sizeof(missing)));
	assert_non_null(strstr(missing, "libnot-there.so.9"));
	assert_false(cuda_api_load(&api, "libjansson.so.4", missing, sizeof(missing)));
	assert_non_null(strstr(missing, "cuInit"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_that_cuda_h_calls),
		cmocka_unit_test(numbers_are_those_of_cuda_h),
		cmocka_unit_test(what_is_missing_of_the_driver_is_named),
	};

	if (HAS_CUDA_H)
		puts("# declarations of the CUDA driver: compared with cuda.h");
	else
		puts("# declarations of the CUDA driver: NOT COMPARED, there is no cuda.h here");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
