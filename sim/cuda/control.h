/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - what tests turn and read. It is memory: of the process, or of all that
 * TENT_SIM_GPU_CONTROL names one file for. Any thread, by the functions below alone.
 */
#ifndef TENT_SIM_CUDA_CONTROL_H
#define TENT_SIM_CUDA_CONTROL_H

#include <linux/futex.h>
#include <limits.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/cuda/driver.h"

#define GPUS_MAX 8

struct gpu_fault {
	uint32_t after;		/* so many calls pass first */
	uint32_t times;		/* then so many fail; UINT32_MAX: all */
	uint32_t result;
};

struct gpu_control {
	uint64_t calls[CALL_COUNT];	/* how often each was called */
	struct gpu_fault faults[CALL_COUNT];
	struct {
		uint32_t is_held;	/* a futex: nothing of its streams begins */
		uint32_t lost;		/* what everything answers from now; 0: nothing is wrong */
		uint32_t copy_fails;	/* what the next copy ends with: sticky; 0: it works */
		uint32_t no_dma_buf;	/* it exports none, and says so */
		uint32_t no_ordering;	/* writes of others are to be flushed */
	} gpus[GPUS_MAX];
};

/* What libcuda.so.1 has beside the driver's calls; by dlsym(). */
__attribute__((visibility("default"))) struct gpu_control *sim_gpu_control(void);

static inline uint64_t gpu_calls(const struct gpu_control *c, enum cu_call call)
{
	return __atomic_load_n(&c->calls[call], __ATOMIC_SEQ_CST);
}

/* Of all calls, but for those that ask what an error is called. */
static inline uint64_t gpu_calls_of_all(const struct gpu_control *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < CALL_COUNT; i++)
		if (i != CALL_cuGetErrorName && i != CALL_cuGetErrorString)
			sum += gpu_calls(c, (enum cu_call)i);
	return sum;
}

static inline void gpu_fail(struct gpu_control *c, enum cu_call call, uint32_t after,
			    uint32_t times, uint32_t result)
{
	struct gpu_fault *f = &c->faults[call];

	__atomic_store_n(&f->times, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&f->after, after, __ATOMIC_SEQ_CST);
	__atomic_store_n(&f->result, result, __ATOMIC_SEQ_CST);
	__atomic_store_n(&f->times, times, __ATOMIC_SEQ_CST);
}

static inline void gpu_set(uint32_t *what, uint32_t value)
{
	__atomic_store_n(what, value, __ATOMIC_SEQ_CST);
}

static inline void gpu_hold(struct gpu_control *c, int gpu)
{
	gpu_set(&c->gpus[gpu].is_held, 1);
}

static inline void gpu_release(struct gpu_control *c, int gpu)
{
	gpu_set(&c->gpus[gpu].is_held, 0);
	syscall(SYS_futex, &c->gpus[gpu].is_held, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#endif /* TENT_SIM_CUDA_CONTROL_H */
