/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_gpu.c - memory of GPUs through the C API, on the stand-in for the CUDA driver: which
 * memory it is, and how it moves. A touch by the CPU would end the program.
 */
#include "tests/test_gpu_fix.h"

/* ---- without a driver ------------------------------------------------------- */

static void without_a_driver_gpu_memory_is_not_on_this_machine(void **state)
{
	struct lib_fix *f = *state;
	struct cuda_api cuda;
	char missing[192];
	void *p;

	if (cuda_api_load(&cuda, CUDA_LIBRARY, missing, sizeof(missing)))
		skip();		/* this machine has one */
	assert_int_not_equal(tent_allocate_memory(f->engine, &p, 4096, "cuda:0"), 0);
	refused(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT, "libcuda.so.1");
	refused(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT,
		"not in this build or on this machine");
	assert_int_not_equal(enlist(f, (uintptr_t)f->memory, 64, "cuda:0"), 0);
	refused(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT,
		"not in this build or on this machine");
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, (uintptr_t)f->memory + 4096, 100);
}

/* ---- a program that has no GPU memory --------------------------------------- */

static void the_driver_is_not_begun_for_those_who_have_no_gpu_memory(void **state)
{
	struct lib_fix *f = *state;
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, (uintptr_t)f->memory,
				      (uintptr_t)f->memory + 4096, 100);

	r.transport_hint = TENT_TRANSPORT_NVLINK;
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, (uintptr_t)f->memory + 4096, 100);
	assert_int_not_equal(tent_submit_v1(f->engine, tent_allocate_batch(f->engine, 1), &r, 1), 0);
	refused(TENT_ERR_UNSUPPORTED, TENT_RULE_TRANSPORT_BUILD, "that this machine has");
	assert_int_equal(gpu_calls(gpu_fix_control, CALL_cuInit), 0);
	assert_int_equal(gpu_calls(gpu_fix_control, CALL_cuDevicePrimaryCtxRetain), 0);
	assert_int_equal(gpu_calls(gpu_fix_control, CALL_cuMemHostRegister_v2), 0);
}

/* ---- which memory ----------------------------------------------------------- */

static void memory_is_of_the_gpu_that_was_asked_for_and_touches_no_other(void **state)
{
	struct lib_fix *f = *state;
	tent_segment_info_t info;
	uint64_t p = allocate(f, "cuda:1", 10000), type = 0, device = 0;
	cuda_enum attributes[] = { CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_DEVICE };
	void *values[] = { &type, &device };
	bool found = false;

	assert_int_equal(gpu_fix_cuda.cuPointerGetAttributes(2, attributes, values, p + 5000), 0);
	assert_int_equal(type, CUDA_MEMORY_DEVICE);
	assert_int_equal(device, 1);
	assert_false(gpu_fix_is_active(0));
	assert_int_equal(tent_get_segment_info(f->engine, TENT_LOCAL_SEGMENT, &info), 0);
	for (int i = 0; i < info.num_buffers; i++)
		found |= info.buffers[i].base == p && !strcmp(info.buffers[i].location, "cuda:1");
	assert_true(found);
	tent_free_segment_info(&info);
	release(f, p);
	assert_int_not_equal(tent_free_memory(f->engine, (void *)(uintptr_t)p), 0);
}

static void a_gpu_that_is_not_there_is_refused(void **state)
{
	struct lib_fix *f = *state;
	void *p;

	assert_int_not_equal(tent_allocate_memory(f->engine, &p, 4096, "cuda:7"), 0);
	refused(TENT_ERR_ENUM, TENT_RULE_LOCATION, "GPU 7 is not there; allowed: 0..1");
	assert_int_not_equal(tent_allocate_memory(f->engine, &p, 1ull << 50, "cuda:0"), 0);
	refused(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "CUDA_ERROR_OUT_OF_MEMORY");
}

static void a_location_is_true_or_refused(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = gpu_fix_allocate(1, 4096);

	assert_int_not_equal(enlist(f, p, 4096, "cuda:0"), 0);
	refused(TENT_ERR_ENUM, TENT_RULE_LOCATION, "that of cuda:1");
	assert_int_not_equal(enlist(f, p, 4096, "cpu:0"), 0);
	refused(TENT_ERR_ENUM, TENT_RULE_LOCATION, "that of cuda:1");
	assert_int_equal(enlist(f, p, 4096, "cuda:1"), 0);
	assert_int_not_equal(enlist(f, (uintptr_t)f->memory + 64, 64, "cuda:1"), 0);
	refused(TENT_ERR_ENUM, TENT_RULE_LOCATION, "is the host's");
	retire(f, p, 4096);
}

static void a_range_is_refused_where_it_leaves_its_allocation(void **state)
{
	struct lib_fix *f = *state;
	uint64_t holed = gpu_fix_chunks(4, 2), small = gpu_fix_allocate(0, 1000);
	char hole[64];

	gpu_fix_allocate(0, 1000);
	snprintf(hole, sizeof(hole), "0x%llx is a hole", (unsigned long long)(holed + 2 * CHUNK));
	assert_int_not_equal(enlist(f, holed + CHUNK - 5, CHUNK + 6, ""), 0);
	refused(TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE, hole);
	assert_int_not_equal(enlist(f, small + 10, 1100, ""), 0);
	refused(TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE, "0x");
	assert_int_not_equal(enlist(f, small - 1, 2, ""), 0);
	assert_int_equal(enlist(f, holed + 3, 2 * CHUNK - 3, ""), 0);
	retire(f, holed + 3, 2 * CHUNK - 3);
}

static void a_range_registered_twice_goes_when_both_have_gone(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = gpu_fix_allocate(0, 4096), host = (uintptr_t)f->memory;
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, host, p, 10);

	assert_int_equal(enlist(f, p, 4096, ""), 0);
	assert_int_equal(enlist(f, p, 4096, ""), 0);
	retire(f, p, 4096);
	move(f, TENT_OPCODE_WRITE, host, p, 10);
	retire(f, p, 4096);
	assert_int_not_equal(tent_submit_v1(f->engine, tent_allocate_batch(f->engine, 1), &r, 1), 0);
	refused(TENT_ERR_ADDRESS, TENT_RULE_TARGET_UNREGISTERED, "target_offset");
}

static void explain_says_which_gpu_and_how(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = allocate(f, "cuda:0", 4096);
	tent_request_v1_t r = request(TENT_OPCODE_WRITE, (uintptr_t)f->memory, p, 10);
	json_t *root, *plan;
	char *text;

	assert_int_equal(tent_explain_requests(f->engine, &r, 1, sizeof(r), 1, &text), 0);
	root = json_loads(text, 0, NULL);
	plan = json_object_get(json_array_get(json_object_get(root, "entries"), 0), "plan");
	assert_string_equal(json_string_value(json_object_get(plan, "transport")), "nvlink");
	assert_string_equal(json_string_value(json_object_get(plan, "local")), "shared");
	assert_string_equal(json_string_value(json_object_get(plan, "remote")), "gpu");
	assert_non_null(strstr(json_string_value(json_object_get(plan, "remote_memory")),
			       "GPU 0 at 0000:17:00.0, 1 chunk"));
	assert_null(json_object_get(plan, "local_memory"));
	json_decref(root);
	free(text);
	release(f, p);
}

/* ---- policies --------------------------------------------------------------- */

static const char by_memory[] =
	"{\"policy\":["
	"{\"name\":\"gpus\",\"local_memory\":\"cuda\",\"remote_memory\":\"cuda\","
	" \"transports\":[\"shm\"]},"
	"{\"name\":\"from\",\"local_memory\":\"cuda\",\"remote_memory\":\"cpu\"},"
	"{\"name\":\"to\",\"local_memory\":\"cpu\",\"remote_memory\":\"cuda\"},"
	"{\"name\":\"host\",\"local_memory\":\"cpu\",\"remote_memory\":\"cpu\"}]}";

static int start_by_memory(void **state)
{
	int rc;

	setenv("MC_TENT_CONF", by_memory, 1);
	rc = start(state, LIB_THREAD);
	unsetenv("MC_TENT_CONF");
	return rc;
}

static void expect_policy(struct lib_fix *f, const tent_request_v1_t *r, const char *name)
{
	json_t *root, *entry;
	const char *policy;
	char *text;

	assert_int_equal(tent_explain_requests(f->engine, r, 1, sizeof(*r), 1, &text), 0);
	root = json_loads(text, 0, NULL);
	entry = json_array_get(json_object_get(root, "entries"), 0);
	policy = json_string_value(json_object_get(json_object_get(entry, "effective"), "policy"));
	assert_non_null(policy);
	assert_string_equal(policy, name);
	json_decref(root);
	free(text);
}

static void policies_know_memory_of_gpus_from_that_of_the_host(void **state)
{
	struct lib_fix *f = *state;
	uint64_t host = (uintptr_t)f->memory, p = allocate(f, "cuda:0", 8192);
	const struct pair {
		uint64_t source, target;
		const char *policy;
	} pairs[] = {
		{ host, host + 4096, "host" }, { host, p, "to" }, { p, host, "from" },
	};
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 1);
	tent_request_v1_t none;

	for (int i = 0; i < 2 * 3; i++) {
		tent_request_v1_t r = request(TENT_OPCODE_WRITE, pairs[i % 3].source,
					      pairs[i % 3].target, 100);

		expect_policy(f, &r, pairs[i % 3].policy);
		finish(f, submit(f, &r), TENT_STATUS_COMPLETED, 0);
	}
	none = request(TENT_OPCODE_WRITE, p, p + 4096, 100);
	assert_int_not_equal(tent_submit_v1(f->engine, batch, &none, 1), 0);
	refused(TENT_ERR_TRANSPORT, TENT_RULE_NO_TRANSPORT, "transport");
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
	release(f, p);
}

static void a_daemon_is_offered_no_memory_of_gpus(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = gpu_fix_allocate(1, 4096);
	void *memory;

	assert_int_not_equal(enlist(f, p + 1, 100, ""), 0);
	refused(TENT_ERR_ADDRESS, TENT_RULE_MEM_NOT_SHAREABLE, "memory of GPU 1");
	assert_int_not_equal(tent_allocate_memory(f->engine, &memory, 4096, "cuda:0"), 0);
	refused(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT, "the engine is another process");
}

/* ---- how it moves ----------------------------------------------------------- */

/* Out of the host, over two GPUs, and back, at odd places; more than one copy takes. */
static void bytes_go_round_by_two_gpus(void **state)
{
	struct lib_fix *f = *state;
	const size_t sizes[] = { 1, 100, 4096, 70001, (8u << 20) + 3 };
	uint64_t a = allocate(f, "cuda:0", 9u << 20), b = allocate(f, "cuda:1", 9u << 20);
	uint8_t *in = f->memory + 1, *out = f->memory + (12u << 20);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];

		lib_fix_pattern(in, n, (uint32_t)i);
		memset(out, 0xa5, n + 16);
		move(f, TENT_OPCODE_WRITE, (uintptr_t)in, a + 7, n);
		move(f, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, i & 1 ? b + 3 : a + 7,
		     i & 1 ? a + 7 : b + 3, n);
		move(f, TENT_OPCODE_READ, (uintptr_t)out + 5, b + 3, n);
		assert_memory_equal(out + 5, in, n);
		assert_int_equal(out[4], 0xa5);
		assert_int_equal(out[5 + n], 0xa5);
	}
	release(f, a);
	release(f, b);
}

static void a_copy_onto_itself_keeps_what_it_has_still_to_read(void **state)
{
	struct lib_fix *f = *state;
	const int steps[] = { 3000, -3000, 1, 60000 };
	uint64_t p = allocate(f, "cuda:0", 140000);
	uint8_t *expected = malloc(140000), *got = malloc(140000);

	for (int i = 0; i < 4; i++) {
		uint64_t from = 20000, to = (uint64_t)((int64_t)from + steps[i]);

		lib_fix_pattern(expected, 140000, (uint32_t)i);
		gpu_fix_put(0, p, expected, 140000);
		move(f, TENT_OPCODE_WRITE, p + from, p + to, 50001);
		memmove(expected + to, expected + from, 50001);
		gpu_fix_get(0, got, p, 140000);
		assert_memory_equal(got, expected, 140000);
	}
	free(expected);
	free(got);
	release(f, p);
}

static void bytes_cross_the_chunks_of_one_allocation(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = gpu_fix_chunks(4, -1);
	uint8_t *got = malloc(3 * CHUNK);

	assert_int_equal(enlist(f, p, 4 * CHUNK, "cuda:0"), 0);
	lib_fix_pattern(f->memory, 3 * CHUNK, 9);
	move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, p + CHUNK / 2 + 1, 3 * CHUNK);
	gpu_fix_get(0, got, p + CHUNK / 2 + 1, 3 * CHUNK);
	assert_memory_equal(got, f->memory, 3 * CHUNK);
	retire(f, p, 4 * CHUNK);
	free(got);
}

static void bytes_lie_beyond_4_gib_of_one_registration(void **state)
{
	struct lib_fix *f = *state;
	const uint64_t edge = 1ull << 32, size = edge + (1 << 20);
	uint64_t p = allocate(f, "cuda:0", size);
	const uint64_t places[] = { edge - 3000, edge + 1, size - 8192 };
	uint8_t got[8192];

	for (int i = 0; i < 3; i++) {
		lib_fix_pattern(f->memory, sizeof(got), (uint32_t)i);
		move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, p + places[i], sizeof(got));
		gpu_fix_get(0, got, p + places[i], sizeof(got));
		assert_memory_equal(got, f->memory, sizeof(got));
		memset(f->memory, 0, sizeof(got));
		move(f, TENT_OPCODE_READ, (uintptr_t)f->memory, p + places[i], sizeof(got));
		assert_memory_equal(got, f->memory, sizeof(got));
	}
	release(f, p);
}

/* What a transfer asks of the driver beside looking whether it is over. */
static uint64_t work_calls(void)
{
	return gpu_calls_of_all(gpu_fix_control) - gpu_calls(gpu_fix_control, CALL_cuEventQuery) -
	       gpu_calls(gpu_fix_control, CALL_cuCtxPushCurrent_v2) -
	       gpu_calls(gpu_fix_control, CALL_cuCtxPopCurrent_v2);
}

static void the_first_transfer_asks_of_the_driver_what_the_hundredth_does(void **state)
{
	struct lib_fix *f = *state;
	uint64_t p = allocate(f, "cuda:0", 4096), before;

	for (int i = 0; i < 100; i++) {
		before = work_calls();
		move(f, TENT_OPCODE_WRITE, (uintptr_t)f->memory, p, 4096);
		assert_int_equal(work_calls() - before, 2);	/* a copy and an event */
	}
	release(f, p);
}

static int without_driver(void)
{
	const struct CMUnitTest tests[] = {
		WITH(without_a_driver_gpu_memory_is_not_on_this_machine, thread),
	};

	return cmocka_run_group_tests_name("no driver", tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		WITH(the_driver_is_not_begun_for_those_who_have_no_gpu_memory, thread),
		WITH(memory_is_of_the_gpu_that_was_asked_for_and_touches_no_other, thread),
		WITH(a_gpu_that_is_not_there_is_refused, thread),
		WITH(a_location_is_true_or_refused, thread),
		WITH(a_range_is_refused_where_it_leaves_its_allocation, thread),
		WITH(a_range_registered_twice_goes_when_both_have_gone, thread),
		WITH(explain_says_which_gpu_and_how, thread),
		WITH(policies_know_memory_of_gpus_from_that_of_the_host, by_memory),
		WITH(bytes_go_round_by_two_gpus, thread),
		WITH(bytes_go_round_by_two_gpus, caller),
		WITH(a_copy_onto_itself_keeps_what_it_has_still_to_read, thread),
		WITH(bytes_cross_the_chunks_of_one_allocation, thread),
		WITH(bytes_lie_beyond_4_gib_of_one_registration, thread),
		WITH(the_first_transfer_asks_of_the_driver_what_the_hundredth_does, thread),
		WITH(a_daemon_is_offered_no_memory_of_gpus, daemon),
	};
	int rc;

	(void)argc;
	if (!gpu_fix_main(argv, &rc))
		return rc + without_driver();
	gpu_fix_load();
	return cmocka_run_group_tests_name("sim/cuda", tests, NULL, NULL);
}
