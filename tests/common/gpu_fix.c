/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_fix.c - see gpu_fix.h. Whatever goes wrong here is the test's own fault. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/common/gpu_fix.h"

#define MARK "TENT_TEST_GPU"
#define CHUNK (2ull << 20)

struct cuda_api gpu_fix_cuda;
struct gpu_control *gpu_fix_control;
static void *library;

static void need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s does not work here\n", what);
	abort();
}

/* $build/sim/cuda, where $build/tests/ holds the running test. */
static void run(char **argv)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);

	need(length > 0, "readlink");
	path[length] = '\0';
	for (int up = 0; up < 2; up++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/sim/cuda");
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv(MARK, "yes", 1);
	execv("/proc/self/exe", argv);
	_exit(127);
}

bool gpu_fix_main(char **argv, int *rc)
{
	int status;
	pid_t pid;

	if (getenv(MARK))
		return true;
	pid = fork();
	need(pid >= 0, "fork");
	if (pid == 0)
		run(argv);
	need(waitpid(pid, &status, 0) == pid, "waitpid");
	*rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return false;
}

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	need(found, name);
	return found;
}

void gpu_fix_load(void)
{
	struct gpu_control *(*control)(void);
	char missing[192];

	need(cuda_api_load(&gpu_fix_cuda, CUDA_LIBRARY, missing, sizeof(missing)), CUDA_LIBRARY);
	library = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	control = (struct gpu_control *(*)(void))symbol("sim_gpu_control");
	gpu_fix_control = control();
}

#define NEED(call) need(gpu_fix_cuda.call == CUDA_OK, #call)
/* A call that the product has no use for. */
#define CALL(name, type, ...) need(((cu_result (*)type)symbol(#name))(__VA_ARGS__) == CU_OK, #name)

bool gpu_fix_is_active(int device)
{
	unsigned int flags;
	int active;

	CALL(cuDevicePrimaryCtxGetState, (cu_device, unsigned int *, int *), device, &flags, &active);
	return active;
}

void gpu_fix_enter(int device)
{
	cuda_context context;

	NEED(cuInit(0));
	NEED(cuDevicePrimaryCtxRetain(&context, device));
	NEED(cuCtxPushCurrent_v2(context));
}

void gpu_fix_leave(int device)
{
	cuda_context context;

	NEED(cuCtxPopCurrent_v2(&context));
	NEED(cuDevicePrimaryCtxRelease_v2(device));
}

uint64_t gpu_fix_allocate(int device, size_t size)
{
	cuda_context context;
	cuda_address at;

	gpu_fix_enter(device);
	NEED(cuMemAlloc_v2(&at, size));
	NEED(cuCtxPopCurrent_v2(&context));
	return at;
}

void gpu_fix_put(int device, uint64_t to, const void *from, size_t size)
{
	gpu_fix_enter(device);
	CALL(cuMemcpyHtoD_v2, (cu_ptr, const void *, size_t), to, from, size);
	gpu_fix_leave(device);
}

void gpu_fix_get(int device, void *to, uint64_t from, size_t size)
{
	gpu_fix_enter(device);
	CALL(cuMemcpyDtoH_v2, (void *, cu_ptr, size_t), to, from, size);
	gpu_fix_leave(device);
}

static void map_chunk(cu_ptr at)
{
	const struct cu_prop prop = { .type = ALLOCATION_PINNED, .rdma_capable = 1,
				      .location = { LOCATION_DEVICE, 0 } };
	const struct cu_access access = { { LOCATION_DEVICE, 0 }, ACCESS_READ_WRITE };
	cu_handle handle;

	CALL(cuMemCreate, (cu_handle *, size_t, const struct cu_prop *, unsigned long long), &handle,
	     CHUNK, &prop, 0);
	CALL(cuMemMap, (cu_ptr, size_t, size_t, cu_handle, unsigned long long), at, CHUNK, 0, handle, 0);
	CALL(cuMemRelease, (cu_handle), handle);
	CALL(cuMemSetAccess, (cu_ptr, size_t, const struct cu_access *, size_t), at, CHUNK, &access, 1);
}

uint64_t gpu_fix_chunks(int nr, int hole)
{
	cu_ptr base;

	NEED(cuInit(0));
	CALL(cuMemAddressReserve, (cu_ptr *, size_t, size_t, cu_ptr, unsigned long long), &base,
	     (size_t)nr * CHUNK, 0, 0, 0);
	for (int i = 0; i < nr; i++)
		if (i != hole)
			map_chunk(base + (uint64_t)i * CHUNK);
	return base;
}

void gpu_fix_let_turn(uint32_t turns)
{
	uint64_t queries = gpu_calls(gpu_fix_control, CALL_cuEventQuery);

	while (gpu_calls(gpu_fix_control, CALL_cuEventQuery) < queries + turns)
		sched_yield();
}
