/* SPDX-License-Identifier: Apache-2.0 */
/* test_cuda_stream.c - work that is done later, and what ends with it. */
#include <pthread.h>

#include "sim/cuda/tests/cuda_fix.h"

#define BYTES 100000u

struct stage {
	cu_context context;
	cu_stream stream;
	cu_event event;
	cu_ptr memory;
	uint8_t *pinned;
	struct gpu_control *control;
};

static int setup(void **state)
{
	struct stage *s = calloc(1, sizeof(*s));

	*state = s;
	s->control = sim_gpu_control();
	s->context = enter(0);
	assert_cuda(cuStreamCreate(&s->stream, STREAM_NON_BLOCKING));
	assert_cuda(cuEventCreate(&s->event, 2));
	s->memory = allocate(BYTES);
	assert_cuda(cuMemHostAlloc((void **)&s->pinned, BYTES, 0));
	memset(s->pinned, 0, BYTES);
	return 0;
}

static int teardown(void **state)
{
	leave(0);
	free(*state);
	return 0;
}

static void nothing_happens_while_the_device_is_held(void **state)
{
	struct stage *s = *state;
	uint8_t in[100], *out = s->pinned;

	fill(in, sizeof(in), 3);
	assert_cuda(cuMemcpyHtoD_v2(s->memory, in, sizeof(in)));
	gpu_hold(s->control, 0);
	assert_cuda(cuMemcpyDtoHAsync_v2(out, s->memory, sizeof(in), s->stream));
	assert_cuda(cuEventRecord(s->event, s->stream));
	assert_int_equal(cuEventQuery(s->event), CU_NOT_READY);
	assert_int_equal(cuStreamQuery(s->stream), CU_NOT_READY);
	assert_int_equal(out[0] | out[50] | out[99], 0);
	gpu_release(s->control, 0);
	assert_cuda(cuEventSynchronize(s->event));
	assert_memory_equal(in, out, sizeof(in));
	assert_cuda(cuStreamSynchronize(s->stream));
	assert_cuda(cuStreamQuery(s->stream));
}

/* Pinned memory is read when the copy runs, other memory when it is asked for. */
static void only_pinned_memory_is_read_later(void **state)
{
	struct stage *s = *state;
	uint8_t pageable = 1, out[2];

	s->pinned[0] = 1;
	gpu_hold(s->control, 0);
	assert_cuda(cuMemcpyHtoDAsync_v2(s->memory, s->pinned, 1, s->stream));
	assert_cuda(cuMemcpyHtoDAsync_v2(s->memory + 1, &pageable, 1, s->stream));
	s->pinned[0] = pageable = 2;
	gpu_release(s->control, 0);
	assert_cuda(cuStreamSynchronize(s->stream));
	assert_cuda(cuMemcpyDtoH_v2(out, s->memory, 2));
	assert_int_equal(out[0], 2);
	assert_int_equal(out[1], 1);
}

static void a_stream_waits_for_another_ones_event(void **state)
{
	struct stage *s = *state;
	cu_stream other;

	assert_cuda(cuStreamCreate(&other, STREAM_NON_BLOCKING));
	gpu_hold(s->control, 0);
	s->pinned[0] = 5;
	assert_cuda(cuMemcpyHtoDAsync_v2(s->memory, s->pinned, 1, s->stream));
	assert_cuda(cuEventRecord(s->event, s->stream));
	assert_cuda(cuStreamWaitEvent(other, s->event, 0));
	assert_cuda(cuMemcpyDtoHAsync_v2(s->pinned + 1, s->memory, 1, other));
	assert_cuda(cuStreamDestroy_v2(other));
	assert_int_equal(cuStreamQuery(other), CU_INVALID_HANDLE);
	gpu_release(s->control, 0);
	assert_cuda(cuCtxSynchronize());
	assert_int_equal(s->pinned[1], 5);
}

static void devices_copy_between_each_other(void **state)
{
	struct stage *s = *state;
	cu_context second = enter(1);
	cu_ptr there = allocate(BYTES);
	uint8_t *out = malloc(BYTES);
	cu_stream stream;

	fill(s->pinned, BYTES, 4);
	assert_cuda(cuStreamCreate(&stream, 0));
	assert_cuda(cuMemcpyHtoDAsync_v2(there, s->pinned, BYTES, stream));
	assert_int_equal(cuMemcpyPeerAsync(s->memory, second, there, second, BYTES, stream),
			 CU_INVALID_VALUE);
	assert_cuda(cuMemcpyPeerAsync(s->memory, s->context, there, second, BYTES, stream));
	assert_int_equal(cuMemcpyHtoDAsync_v2(there, s->pinned, 1, s->stream), CU_INVALID_HANDLE);
	assert_cuda(cuStreamSynchronize(stream));
	leave(1);
	assert_cuda(cuMemcpyDtoH_v2(out, s->memory, BYTES));
	assert_memory_equal(out, s->pinned, BYTES);
	free(out);
}

/* What the copy in front of it found stays the context's answer; another device's is well. */
static void a_copy_that_fails_is_all_that_a_context_says_from_then(void **state)
{
	struct stage *s = *state;
	cu_ptr p;

	gpu_set(&s->control->gpus[0].copy_fails, CU_ECC_UNCORRECTABLE);
	assert_cuda(cuMemcpyHtoDAsync_v2(s->memory, s->pinned, 1, s->stream));
	assert_int_equal(cuStreamSynchronize(s->stream), CU_ECC_UNCORRECTABLE);
	assert_int_equal(cuMemAlloc_v2(&p, 1), CU_ECC_UNCORRECTABLE);
	assert_int_equal(cuEventQuery(s->event), CU_ECC_UNCORRECTABLE);
	enter(1);
	allocate(1);
	leave(1);
	assert_cuda(cuDevicePrimaryCtxReset_v2(0));
	assert_cuda(cuDevicePrimaryCtxRetain(&s->context, 0));
	allocate(1);
}

static void work_of_a_lost_device_ends_without_being_done(void **state)
{
	struct stage *s = *state;

	gpu_hold(s->control, 0);
	s->pinned[0] = 9;
	assert_cuda(cuMemcpyDtoHAsync_v2(s->pinned, s->memory, 1, s->stream));
	gpu_set(&s->control->gpus[0].lost, CU_DEVICE_UNAVAILABLE);
	assert_int_equal(cuStreamSynchronize(s->stream), CU_DEVICE_UNAVAILABLE);
	assert_int_equal(s->pinned[0], 9);
	gpu_set(&s->control->gpus[0].lost, 0);
	gpu_release(s->control, 0);
}

struct freeing {
	struct stage *stage;
	uint32_t is_over;
};

static void *free_memory(void *context)
{
	struct freeing *f = context;
	cu_context popped;

	assert_cuda(cuCtxPushCurrent_v2(f->stage->context));
	assert_cuda(cuMemFree_v2(f->stage->memory));
	__atomic_store_n(&f->is_over, 1, __ATOMIC_SEQ_CST);
	assert_cuda(cuCtxPopCurrent_v2(&popped));
	return NULL;
}

static void memory_outlives_the_work_that_names_it(void **state)
{
	struct stage *s = *state;
	struct freeing f = { .stage = s };
	uint8_t in[64];
	pthread_t thread;

	fill(in, sizeof(in), 5);
	assert_cuda(cuMemcpyHtoD_v2(s->memory, in, sizeof(in)));
	gpu_hold(s->control, 0);
	assert_cuda(cuMemcpyDtoHAsync_v2(s->pinned, s->memory, sizeof(in), s->stream));
	assert_int_equal(pthread_create(&thread, NULL, free_memory, &f), 0);
	while (!gpu_calls(s->control, CALL_cuMemFree_v2))
		;
	assert_int_equal(cuStreamQuery(s->stream), CU_NOT_READY);
	assert_int_equal(__atomic_load_n(&f.is_over, __ATOMIC_SEQ_CST), 0);
	gpu_release(s->control, 0);
	pthread_join(thread, NULL);
	assert_memory_equal(s->pinned, in, sizeof(in));
	assert_int_equal(cuMemcpyDtoHAsync_v2(s->pinned, s->memory, 1, s->stream),
			 CU_INVALID_VALUE);
}

#define STAGED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGED(nothing_happens_while_the_device_is_held),
		STAGED(only_pinned_memory_is_read_later),
		STAGED(a_stream_waits_for_another_ones_event),
		STAGED(devices_copy_between_each_other),
		STAGED(memory_outlives_the_work_that_names_it),
		STAGED(work_of_a_lost_device_ends_without_being_done),
		STAGED(a_copy_that_fails_is_all_that_a_context_says_from_then),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
