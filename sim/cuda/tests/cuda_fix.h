/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_fix.h - what tests of the stand-in begin with. */
#ifndef TENT_SIM_CUDA_TESTS_CUDA_FIX_H
#define TENT_SIM_CUDA_TESTS_CUDA_FIX_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/cuda/calls.h"
#include "sim/cuda/control.h"

#define BLOCK (2ul << 20)
#define assert_cuda(call) assert_int_equal(call, CU_OK)

/* The calling thread is in the primary context of a device. */
static inline cu_context enter(int device)
{
	cu_context context;

	assert_cuda(cuInit(0));
	assert_cuda(cuDevicePrimaryCtxRetain(&context, device));
	assert_cuda(cuCtxPushCurrent_v2(context));
	return context;
}

static inline void leave(int device)
{
	cu_context context;

	assert_cuda(cuCtxPopCurrent_v2(&context));
	assert_cuda(cuDevicePrimaryCtxRelease_v2(device));
}

static inline cu_ptr allocate(size_t size)
{
	cu_ptr p;

	assert_cuda(cuMemAlloc_v2(&p, size));
	return p;
}

static inline void fill(uint8_t *bytes, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((i * 131 + seed) ^ i >> 8);
}

/* How a child ends that does this: 0, its exit status, or 128 and the signal. Before there
 * are threads here: a child of many cannot make any under tsan. */
static inline int in_child(void (*body)(void *), void *context)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		body(context);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#endif /* TENT_SIM_CUDA_TESTS_CUDA_FIX_H */
