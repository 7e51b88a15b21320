/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_driver.c - devices, contexts, and faults. */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "sim/cuda/tests/cuda_fix.h"

#define NR(list) (sizeof(list) / sizeof(list[0]))

/* As whoever loads it by name finds it: $build/sim/cuda, where this is in its tests/. */
static void the_library_has_every_call(void **state)
{
	static const char *const names[] = {
#define NAME(name, args) #name,
		CU_CALLS(NAME)
#undef NAME
		"sim_gpu_control",
	};
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);
	void *library;

	(void)state;
	assert_true(n > 0);
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	strcpy(strrchr(path, '/'), "/libcuda.so.1");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	for (size_t i = 0; i < NR(names); i++)
		if (!dlsym(library, names[i]))
			fail_msg("%s", dlerror());
	assert_null(dlsym(library, "memory_create"));
	dlclose(library);
}

static void nothing_works_before_it_begins(void **state)
{
	int nr;

	(void)state;
	assert_int_equal(cuDeviceGetCount(&nr), CU_NOT_INITIALIZED);
	assert_cuda(cuInit(0));
	assert_cuda(cuDeviceGetCount(&nr));
	assert_int_equal(nr, 2);
}

static void ask_how_many(void *context)
{
	int nr;

	(void)context;
	_exit(cuDeviceGetCount(&nr) == CU_NOT_INITIALIZED && cuInit(0) == CU_NOT_INITIALIZED ?
	      0 : 1);
}

static void a_forked_child_has_no_driver(void **state)
{
	(void)state;
	assert_cuda(cuInit(0));
	assert_int_equal(in_child(ask_how_many, NULL), 0);
}

static void devices_differ_by_pci_address(void **state)
{
	char first[16], second[16];
	int bus;

	(void)state;
	assert_cuda(cuDeviceGetPCIBusId(first, sizeof(first), 0));
	assert_cuda(cuDeviceGetPCIBusId(second, sizeof(second), 1));
	assert_string_equal(first, "0000:17:00.0");
	assert_string_not_equal(first, second);
	assert_cuda(cuDeviceGetAttribute(&bus, DEVICE_PCI_BUS, 0));
	assert_int_equal(bus, 0x17);
	assert_int_equal(cuDeviceGetPCIBusId(first, 12, 0), CU_INVALID_VALUE);
	assert_int_equal(cuDeviceGetAttribute(&bus, DEVICE_PCI_BUS, 2), CU_INVALID_DEVICE);
	assert_int_equal(cuDeviceGetAttribute(&bus, 1000, 0), CU_INVALID_VALUE);
}

static void errors_have_names(void **state)
{
	const char *name;

	(void)state;
	assert_cuda(cuGetErrorName(CU_ILLEGAL_ADDRESS, &name));
	assert_string_equal(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_cuda(cuGetErrorString(CU_OK, &name));
	assert_int_equal(cuGetErrorName(12345, &name), CU_INVALID_VALUE);
	assert_null(name);
}

static int is_active(int device)
{
	unsigned int flags;
	int active;

	assert_cuda(cuDevicePrimaryCtxGetState(device, &flags, &active));
	return active;
}

static void a_context_lives_while_it_is_retained(void **state)
{
	cu_context context, again;
	cu_device device;
	cu_ptr p;

	(void)state;
	assert_int_equal(cuMemAlloc_v2(&p, 1), CU_INVALID_CONTEXT);
	context = enter(1);
	assert_false(is_active(0));
	assert_true(is_active(1));
	assert_cuda(cuDevicePrimaryCtxRetain(&again, 1));
	assert_ptr_equal(again, context);
	assert_cuda(cuDevicePrimaryCtxRelease_v2(1));
	assert_cuda(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	allocate(1);
	assert_cuda(cuDevicePrimaryCtxRelease_v2(1));
	assert_int_equal(cuMemAlloc_v2(&p, 1), CU_CONTEXT_IS_DESTROYED);
	assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), CU_INVALID_CONTEXT);
	assert_cuda(cuCtxPopCurrent_v2(&again));
	assert_int_equal(cuCtxPopCurrent_v2(&again), CU_INVALID_CONTEXT);
}

static void calls_fail_when_they_are_told_to(void **state)
{
	struct gpu_control *c = sim_gpu_control();
	uint64_t before = gpu_calls(c, CALL_cuDeviceGetCount);
	int nr;

	(void)state;
	gpu_fail(c, CALL_cuDeviceGetCount, 1, 2, CU_UNKNOWN);
	assert_cuda(cuDeviceGetCount(&nr));
	assert_int_equal(cuDeviceGetCount(&nr), CU_UNKNOWN);
	assert_int_equal(cuDeviceGetCount(&nr), CU_UNKNOWN);
	assert_cuda(cuDeviceGetCount(&nr));
	assert_int_equal(gpu_calls(c, CALL_cuDeviceGetCount), before + 4);
}

static void a_lost_device_answers_nothing_else(void **state)
{
	struct gpu_control *c = sim_gpu_control();
	cu_context context;
	size_t left, total;

	(void)state;
	enter(1);
	gpu_set(&c->gpus[1].lost, CU_DEVICE_UNAVAILABLE);
	assert_int_equal(cuMemGetInfo_v2(&left, &total), CU_DEVICE_UNAVAILABLE);
	assert_int_equal(cuDevicePrimaryCtxRetain(&context, 1), CU_DEVICE_UNAVAILABLE);
	enter(0);
	assert_cuda(cuMemGetInfo_v2(&left, &total));
	leave(0);
	gpu_set(&c->gpus[1].lost, 0);
	leave(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_has_every_call),
		cmocka_unit_test(nothing_works_before_it_begins),
		cmocka_unit_test(a_forked_child_has_no_driver),
		cmocka_unit_test(devices_differ_by_pci_address),
		cmocka_unit_test(errors_have_names),
		cmocka_unit_test(a_context_lives_while_it_is_retained),
		cmocka_unit_test(calls_fail_when_they_are_told_to),
		cmocka_unit_test(a_lost_device_answers_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
