/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_calls.c - calls and numbers, against the cuda.h of a toolkit where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sim/cuda/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define HAS_CUDA_H 1
#else
#define HAS_CUDA_H 0
#endif

#define NR(list) (sizeof(list) / sizeof(list[0]))

#if HAS_CUDA_H
/* Structs are compared by their layout, then taken for the header's. */
_Static_assert(sizeof(struct cu_ipc) == sizeof(CUipcMemHandle), "cu_ipc");
_Static_assert(sizeof(struct cu_prop) == sizeof(CUmemAllocationProp) &&
	       offsetof(struct cu_prop, handle_types) ==
	       offsetof(CUmemAllocationProp, requestedHandleTypes) &&
	       offsetof(struct cu_prop, location) == offsetof(CUmemAllocationProp, location) &&
	       offsetof(struct cu_prop, windows) ==
	       offsetof(CUmemAllocationProp, win32HandleMetaData) &&
	       offsetof(struct cu_prop, rdma_capable) ==
	       offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable) &&
	       offsetof(struct cu_prop, usage) == offsetof(CUmemAllocationProp, allocFlags.usage),
	       "cu_prop");
_Static_assert(sizeof(struct cu_access) == sizeof(CUmemAccessDesc) &&
	       offsetof(struct cu_access, flags) == offsetof(CUmemAccessDesc, flags), "cu_access");

#define cu_ipc CUipcMemHandle_st
#define cu_prop CUmemAllocationProp_st
#define cu_access CUmemAccessDesc_st
#define SAME(name, args)							\
	_Static_assert(__builtin_types_compatible_p(				\
		cu_result (*) args, __typeof__(&name)), #name);
CU_CALLS(SAME)
#undef SAME
#undef cu_ipc
#undef cu_prop
#undef cu_access

#define TEXT_OF(...) #__VA_ARGS__
#define EXPANDED(name) TEXT_OF(name)

static void names_and_numbers_are_those_of_cuda_h(void **state)
{
	static const struct { const char *ours, *theirs; } names[] = {
#define NAME(name, args) { #name, EXPANDED(name) },
		CU_CALLS(NAME)
#undef NAME
	};
	static const struct { const char *name; long long ours, theirs; } numbers[] = {
#define RESULT(theirs, ours, number, text) { #theirs, ours, theirs },
		CU_RESULTS(RESULT)
#undef RESULT
#define NUMBER(theirs, ours, number) { #theirs, ours, theirs },
		CU_NUMBERS(NUMBER)
#undef NUMBER
	};

	(void)state;
	for (size_t i = 0; i < NR(names); i++)
		assert_string_equal(names[i].ours, names[i].theirs);
	for (size_t i = 0; i < NR(numbers); i++)
		if (numbers[i].ours != numbers[i].theirs)
			fail_msg("%s is %lld, and cuda.h's %lld", numbers[i].name,
				 numbers[i].ours, numbers[i].theirs);
}
#else
static void names_and_numbers_are_those_of_cuda_h(void **state)
{
	(void)state;
	skip();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_numbers_are_those_of_cuda_h),
	};

	if (HAS_CUDA_H)
		puts("# calls of the stand-in for libcuda: compared with cuda.h");
	else
		puts("# calls of the stand-in for libcuda: NOT COMPARED, there is no cuda.h here");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
