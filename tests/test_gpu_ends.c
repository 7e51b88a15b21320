/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gpu_ends.c - how requests to memory of GPUs end when the memory, its context or its
 * GPU goes, on the stand-in for the CUDA driver.
 */
#include <dlfcn.h>

#include "tests/test_gpu_fix.h"

struct leaving {
	struct lib_fix *fix;
	uint64_t address;
	uint32_t is_over;
};

static void *leave(void *context)
{
	struct leaving *l = context;

	retire(l->fix, l->address, 4096);
	store_release(&l->is_over, 1u); /* no pair: the test's own */
	return NULL;
}

static void nothing_ends_while_its_copy_is_on_its_way(void **state)
{
	struct lib_fix *f = *state;
	struct leaving l = { .fix = f, .address = gpu_fix_allocate(0, 4096) };
	uint64_t before = gpu_calls(gpu_fix_control, CALL_cuMemcpyHtoDAsync_v2);
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, (uintptr_t)f->memory, l.address, 4096);
	tent_batch_id_t batch;
	pthread_t thread;
	uint8_t got[4096];

	assert_int_equal(enlist(f, l.address, 4096, ""), 0);
	lib_fix_pattern(f->memory, 4096, 11);
	gpu_hold(gpu_fix_control, 0);
	batch = submit(f, &r);
	while (gpu_calls(gpu_fix_control, CALL_cuMemcpyHtoDAsync_v2) == before)
		sched_yield();
	assert_int_equal(pthread_create(&thread, NULL, leave, &l), 0);
	gpu_fix_let_turn(1000);
	assert_int_equal(load_acquire(&l.is_over), 0); /* no pair */
	gpu_release(gpu_fix_control, 0);
	pthread_join(thread, NULL);
	finish(f, batch, TENT_STATUS_COMPLETED, 0);
	gpu_fix_get(0, got, l.address, 4096);
	assert_memory_equal(got, f->memory, 4096);
}

static void memory_that_is_freed_takes_its_registrations_along(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = allocate(f, "cuda:0", 8192);
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, p + 4096, (uintptr_t)f->memory, 10);

	assert_int_equal(enlist(f, p + 4096, 4096, ""), 0);
	release(f, p);
	assert_int_not_equal(tent_submit_v1(f->engine, tent_allocate_batch(f->engine, 1), &r, 1), 0);
	refused(TENT_ERR_ADDRESS, TENT_RULE_SOURCE_UNREGISTERED, "source");
}

/* The program frees what it has registered: its requests fail, others do not. */
static void memory_freed_behind_our_back_fails_its_requests_alone(void **state)
{
	struct lib_fix *f = *state;
	uint64_t gone = gpu_fix_allocate(0, 4 << 20), p = allocate(f, "cuda:0", 4096);
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, (uintptr_t)f->memory, gone, 10);

	assert_int_equal(enlist(f, gone, 4 << 20, ""), 0);
	gpu_fix_enter(0);
	assert_int_equal(gpu_fix_cuda.cuMemFree_v2(gone), CUDA_OK);
	gpu_fix_leave(0);
	finish(f, submit(f, &r), TENT_STATUS_FAILED, TENT_RULE_GPU);
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, p, 10);
	retire(f, gone, 4 << 20);
	release(f, p);
}

static void reset_context(int device)
{
	void *library = dlopen(CUDA_LIBRARY, RTLD_NOW);
	cuda_result (*reset)(cuda_device) =
		(cuda_result (*)(cuda_device))dlsym(library, "cuDevicePrimaryCtxReset_v2");

	assert_non_null(reset);
	assert_int_equal(reset(device), CUDA_OK);
	dlclose(library);
}

/* What is on its way ends, too; who begins anew has the GPU again. */
static void a_context_that_the_program_resets_fails_its_requests_and_no_others(void **state)
{
	struct lib_fix *f = *state;
	uint64_t a = allocate(f, "cuda:0", 4096), b = allocate(f, "cuda:1", 4096);
	uint64_t before = gpu_calls(gpu_fix_control, CALL_cuMemcpyHtoDAsync_v2);
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, (uintptr_t)f->memory, a, 4096);
	tent_batch_id_t batch;

	gpu_hold(gpu_fix_control, 0);
	batch = submit(f, &r);
	while (gpu_calls(gpu_fix_control, CALL_cuMemcpyHtoDAsync_v2) == before)
		sched_yield();
	reset_context(0);
	gpu_release(gpu_fix_control, 0);
	finish(f, batch, TENT_STATUS_FAILED, TENT_RULE_GPU);
	finish(f, submit(f, &r), TENT_STATUS_FAILED, TENT_RULE_GPU);
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, b, 4096);
	release(f, a);
	release(f, b);
	stop(state);
	start_thread(state);
	f = *state;
	a = allocate(f, "cuda:0", 4096);
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, a, 4096);
	release(f, a);
}

/* Last: GPU 0 stays lost. */
static void a_lost_gpu_fails_its_requests_and_no_others(void **state)
{
	struct lib_fix *f = *state;
	uint64_t a = allocate(f, "cuda:0", 4096), b = allocate(f, "cuda:1", 4096);
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, (uintptr_t)f->memory, a, 4096);

	gpu_set(&gpu_fix_control->gpus[0].copy_fails, CU_ECC_UNCORRECTABLE);
	finish(f, submit(f, &r), TENT_STATUS_FAILED, TENT_RULE_GPU);
	finish(f, submit(f, &r), TENT_STATUS_FAILED, TENT_RULE_GPU);
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, b, 4096);
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, (uintptr_t)f->memory + 8192, 4096);
	release(f, a);
	release(f, b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(nothing_ends_while_its_copy_is_on_its_way, thread),
		WITH(memory_that_is_freed_takes_its_registrations_along, thread),
		WITH(memory_freed_behind_our_back_fails_its_requests_alone, thread),
		WITH(a_context_that_the_program_resets_fails_its_requests_and_no_others, thread),
		WITH(a_lost_gpu_fails_its_requests_and_no_others, thread),
	};
	int rc;

	(void)argc;
	if (!gpu_fix_main(argv, &rc))
		return rc;
	gpu_fix_load();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
