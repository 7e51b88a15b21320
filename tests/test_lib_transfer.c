/* SPDX-License-Identifier: Apache-2.0 */
/* test_lib_transfer.c - bytes move through the C API, in each kind of engine. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE (8u << 20)
#define HALF (SIZE / 2)

static int start(void **state, enum lib_mode mode)
{
	struct lib_fix *f = calloc(1, sizeof(*f));

	*state = f;
	lib_fix_start(f, mode, SIZE, NULL);
	return 0;
}

static int start_thread(void **state) { return start(state, LIB_THREAD); }
static int start_caller(void **state) { return start(state, LIB_CALLER); }
static int start_daemon(void **state) { return start(state, LIB_DAEMON); }

static int stop(void **state)
{
	lib_fix_stop(*state);
	free(*state);
	return 0;
}

static void submit_and_wait(struct lib_fix *f, const tent_request_v1_t *r, size_t count,
			    uint64_t bytes)
{
	tent_batch_id_t batch = tent_allocate_batch(f->engine, count);
	tent_status_t s;

	assert_int_not_equal(batch, TENT_INVALID_BATCH);
	if (tent_submit_v1(f->engine, batch, r, count))
		fail_msg("%s", lib_fix_error().message);
	s = lib_fix_wait(f->engine, batch);
	assert_int_equal(s.status, TENT_STATUS_COMPLETED);
	assert_int_equal(s.transferred_bytes, bytes);
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

static void write_and_read_move_exactly_their_bytes(void **state)
{
	struct lib_fix *f = *state;
	uint8_t *source = f->memory, *target = f->memory + HALF;
	const size_t sizes[] = { 1, 64, 4095, 65536, 3 << 20 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i];
		tent_request_v1_t w = lib_fix_request(f, TENT_OPCODE_WRITE, 3, HALF + 5, n);
		tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_READ, 3, HALF + 5, n);

		lib_fix_pattern(source, n + 8, (uint32_t)i);
		memset(target, 0xa5, n + 16);
		submit_and_wait(f, &w, 1, n);
		assert_memory_equal(target + 5, source + 3, n);
		assert_int_equal(target[4], 0xa5);
		assert_int_equal(target[5 + n], 0xa5);

		memset(source, 0x5a, n + 8);
		submit_and_wait(f, &r, 1, n);
		assert_memory_equal(source + 3, target + 5, n);
		assert_int_equal(source[2], 0x5a);
		assert_int_equal(source[3 + n], 0x5a);
	}
}

static void private_memory_is_a_source_and_a_target(void **state)
{
	struct lib_fix *f = *state;
	uint8_t *heap = malloc(1 << 20);
	tent_request_v1_t w = lib_fix_request(f, TENT_OPCODE_WRITE, 0, 0, 1 << 19);

	lib_fix_pattern(heap, 1 << 20, 7);
	assert_int_equal(tent_register_memory(f->engine, heap, 1 << 20), 0);
	w.source = heap;
	submit_and_wait(f, &w, 1, 1 << 19);
	assert_memory_equal(f->memory, heap, 1 << 19);
	w = lib_fix_request(f, TENT_OPCODE_WRITE, 0, 0, 1 << 19);
	w.target_offset = (uintptr_t)heap + (1 << 19);
	submit_and_wait(f, &w, 1, 1 << 19);
	assert_memory_equal(heap + (1 << 19), f->memory, 1 << 19);
	assert_int_equal(tent_unregister_memory(f->engine, heap, 1 << 20), 0);
	free(heap);
}

static void every_task_of_a_batch_tells_its_own_end(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 300);
	tent_request_v1_t r[100];
	tent_status_t statuses[300];
	size_t count = 300;

	for (int round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 100; i++)
			r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i * 64, HALF + i * 64,
					       (size_t)round * 100 + i);
		assert_int_equal(tent_submit_v1(f->engine, batch, r, 100), 0);
	}
	lib_fix_wait(f->engine, batch);
	assert_int_equal(tent_task_status_list(f->engine, batch, statuses, &count), 0);
	assert_int_equal(count, 300);
	for (uint32_t i = 0; i < 300; i++) {
		tent_status_t s;

		assert_int_equal(tent_task_status(f->engine, batch, i, &s), 0);
		assert_int_equal(s.status, TENT_STATUS_COMPLETED);
		assert_int_equal(s.transferred_bytes, i);
		assert_int_equal(statuses[i].status, TENT_STATUS_COMPLETED);
		assert_int_equal(statuses[i].transferred_bytes, i);
	}
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

static void a_list_that_is_too_short_says_how_long_it_must_be(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 4);
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 8);
	tent_status_t statuses[4] = { { -1, 9 } };
	size_t count = 1;

	for (int i = 0; i < 3; i++)
		assert_int_equal(tent_submit_v1(f->engine, batch, &r, 1), 0);
	assert_int_equal(tent_task_status_list(f->engine, batch, statuses, &count),
			 TENT_ERR_CAPACITY);
	assert_int_equal(count, 3);
	assert_int_equal(statuses[0].status, -1);
	assert_int_equal(tent_task_status_list(f->engine, batch, statuses, &count), 0);
	tent_free_batch(f->engine, batch);
}

static void capacity_counts_over_the_life_of_a_batch(void **state)
{
	struct lib_fix *f = *state;
	tent_batch_id_t batch = tent_allocate_batch(f->engine, 5);
	tent_request_v1_t r[3];
	tent_status_t s;

	for (int i = 0; i < 3; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 8);
	assert_int_equal(tent_overall_status(f->engine, batch, &s), 0);
	assert_int_equal(s.status, TENT_STATUS_COMPLETED);
	assert_int_equal(tent_submit_v1(f->engine, batch, r, 3), 0);
	lib_fix_wait(f->engine, batch);
	assert_int_equal(tent_submit_v1(f->engine, batch, r, 3), TENT_ERR_CAPACITY);
	assert_int_equal(tent_task_status(f->engine, batch, 3, &s), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1(f->engine, batch, r, 0), 0);
	assert_int_equal(tent_submit_v1(f->engine, batch, r, 2), 0);
	assert_int_equal(lib_fix_wait(f->engine, batch).transferred_bytes, 40);
	assert_int_equal(tent_submit_v1(f->engine, batch, r, 1), TENT_ERR_CAPACITY);
	tent_free_batch(f->engine, batch);
}

static void zero_length_completes_with_zero_bytes(void **state)
{
	struct lib_fix *f = *state;
	tent_request_v1_t r = lib_fix_request(f, TENT_OPCODE_READ, 0, HALF, 0);

	submit_and_wait(f, &r, 1, 0);
}

/* 100,000 requests of 40 bytes: more than any ring has slots. */
static void a_batch_of_100000_arrives_whole(void **state)
{
	enum { NR = 100000, BYTES = 40 };
	struct lib_fix *f = *state;
	tent_request_v1_t *r = calloc(NR, sizeof(*r));
	tent_batch_id_t batch = tent_allocate_batch(f->engine, NR);
	tent_status_t s;

	lib_fix_pattern(f->memory, NR * BYTES, 11);
	memset(f->memory + HALF, 0, HALF);
	for (uint32_t i = 0; i < NR; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i * BYTES,
				       HALF + (NR - 1 - i) * BYTES, BYTES);
	r[77].length = 0;
	if (tent_submit_v1(f->engine, batch, r, NR))
		fail_msg("%s", lib_fix_error().message);
	s = lib_fix_wait(f->engine, batch);
	assert_int_equal(s.status, TENT_STATUS_COMPLETED);
	assert_int_equal(s.transferred_bytes, (NR - 1) * BYTES);
	for (uint32_t i = 0; i < NR; i++) {
		if (i == 77)
			continue;
		assert_int_equal(tent_task_status(f->engine, batch, i, &s), 0);
		assert_int_equal(s.transferred_bytes, BYTES);
		assert_memory_equal(f->memory + HALF + (NR - 1 - i) * BYTES,
				    f->memory + i * BYTES, BYTES);
	}
	tent_free_batch(f->engine, batch);
	free(r);
}

static void one_bad_entry_refuses_a_batch_of_100000(void **state)
{
	enum { NR = 100000 };
	struct lib_fix *f = *state;
	tent_request_v1_t *r = calloc(NR, sizeof(*r));
	tent_batch_id_t batch = tent_allocate_batch(f->engine, NR);
	tent_error_info_t info;
	tent_status_t s;

	memset(f->memory, 0x11, HALF);
	memset(f->memory + HALF, 0x22, HALF);
	for (uint32_t i = 0; i < NR; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 64);
	r[99998].intent_type = 9;
	assert_int_equal(tent_submit_v1(f->engine, batch, r, NR), TENT_ERR_ENUM);
	info = lib_fix_error();
	assert_int_equal(info.index, 99998);
	assert_string_equal(info.field, "intent_type");
	assert_int_equal(f->memory[HALF], 0x22);
	assert_int_equal(tent_task_status(f->engine, batch, 0, &s), TENT_ERR_ARGUMENTS);
	r[99998].intent_type = 0;
	r[99998].policy_name = "nobody configured this";
	assert_int_equal(tent_submit_v1(f->engine, batch, r, NR), TENT_ERR_LAYOUT);
	r[99998].policy_name = "nobody-configured-this";
	assert_int_equal(tent_submit_v1(f->engine, batch, r, NR), TENT_ERR_POLICY_UNKNOWN);
	assert_non_null(strstr(lib_fix_error().message, "\"nobody-configured-this\""));
	r[99998].policy_name = NULL;
	assert_int_equal(tent_submit_v1(f->engine, batch, r, NR), 0);
	assert_int_equal(lib_fix_wait(f->engine, batch).transferred_bytes, NR * 64);
	tent_free_batch(f->engine, batch);
	free(r);
}

/* Several INDIRECT batches in flight from one thread: a ring carries one at a time. */
static void large_batches_follow_each_other(void **state)
{
	enum { NR = 10000 };
	struct lib_fix *f = *state;
	tent_request_v1_t *r = calloc(NR, sizeof(*r));
	tent_batch_id_t batches[4];

	for (uint32_t i = 0; i < NR; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, 0, HALF, 32);
	for (int i = 0; i < 4; i++) {
		batches[i] = tent_allocate_batch(f->engine, NR);
		assert_int_equal(tent_submit_v1(f->engine, batches[i], r, NR), 0);
	}
	for (int i = 0; i < 4; i++) {
		assert_int_equal(lib_fix_wait(f->engine, batches[i]).transferred_bytes, NR * 32);
		tent_free_batch(f->engine, batches[i]);
	}
	free(r);
}

/* More in flight than the ring has completions: submit makes room by itself. */
static void more_requests_than_the_ring_holds_can_be_in_flight(void **state)
{
	enum { BATCHES = 40, NR = 500 };
	struct lib_fix *f = *state;
	tent_batch_id_t batches[BATCHES];
	tent_request_v1_t r[NR];

	for (uint32_t i = 0; i < NR; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i, HALF + i, 16);
	for (int i = 0; i < BATCHES; i++) {
		batches[i] = tent_allocate_batch(f->engine, NR);
		assert_int_equal(tent_submit_v1(f->engine, batches[i], r, NR), 0);
	}
	for (int i = BATCHES - 1; i >= 0; i--) {
		assert_int_equal(lib_fix_wait(f->engine, batches[i]).transferred_bytes, NR * 16);
		tent_free_batch(f->engine, batches[i]);
	}
}

struct worker {
	struct lib_fix *f;
	tent_batch_id_t batch;
	pthread_barrier_t *barrier;
	uint32_t number;
	int failures;
};

#define WORKERS 4
#define SUBMITS 200
#define PER_SUBMIT 5

/* Submits to the shared batch and polls it meanwhile. */
static void *work_on_shared_batch(void *arg)
{
	struct worker *w = arg;
	tent_request_v1_t r[PER_SUBMIT];
	tent_status_t s;

	pthread_barrier_wait(w->barrier);
	for (uint32_t i = 0; i < SUBMITS; i++) {
		for (uint32_t k = 0; k < PER_SUBMIT; k++) {
			size_t at = ((w->number * SUBMITS + i) * PER_SUBMIT + k) * 64;

			r[k] = lib_fix_request(w->f, TENT_OPCODE_WRITE, at, HALF + at, 64);
		}
		w->failures += tent_submit_v1(w->f->engine, w->batch, r, PER_SUBMIT) != 0;
		w->failures += tent_overall_status(w->f->engine, w->batch, &s) != 0;
	}
	do {
		w->failures += tent_overall_status(w->f->engine, w->batch, &s) != 0;
		sched_yield();
	} while (s.status < TENT_STATUS_INVALID && !w->failures);
	w->failures += s.status != TENT_STATUS_COMPLETED;
	return NULL;
}

static void four_threads_share_one_batch(void **state)
{
	struct lib_fix *f = *state;
	enum { TOTAL = WORKERS * SUBMITS * PER_SUBMIT };
	tent_batch_id_t batch = tent_allocate_batch(f->engine, TOTAL);
	struct worker w[WORKERS];
	pthread_t threads[WORKERS];
	pthread_barrier_t barrier;
	tent_status_t s;

	lib_fix_pattern(f->memory, TOTAL * 64, 3);
	memset(f->memory + HALF, 0, HALF);
	pthread_barrier_init(&barrier, NULL, WORKERS);
	for (uint32_t i = 0; i < WORKERS; i++) {
		w[i] = (struct worker){ f, batch, &barrier, i, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, work_on_shared_batch, &w[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(w[i].failures, 0);
	}
	pthread_barrier_destroy(&barrier);
	s = lib_fix_wait(f->engine, batch);
	assert_int_equal(s.transferred_bytes, TOTAL * 64);
	assert_int_equal(tent_task_status(f->engine, batch, TOTAL - 1, &s), 0);
	assert_int_equal(tent_task_status(f->engine, batch, TOTAL, &s), TENT_ERR_ARGUMENTS);
	assert_memory_equal(f->memory + HALF, f->memory, TOTAL * 64);
	assert_int_equal(tent_free_batch(f->engine, batch), 0);
}

#define TESTS(start)							\
	cmocka_unit_test_setup_teardown(write_and_read_move_exactly_their_bytes, start, stop), \
	cmocka_unit_test_setup_teardown(private_memory_is_a_source_and_a_target, start, stop), \
	cmocka_unit_test_setup_teardown(every_task_of_a_batch_tells_its_own_end, start, stop), \
	cmocka_unit_test_setup_teardown(a_list_that_is_too_short_says_how_long_it_must_be, \
					start, stop),			\
	cmocka_unit_test_setup_teardown(capacity_counts_over_the_life_of_a_batch, start, stop), \
	cmocka_unit_test_setup_teardown(zero_length_completes_with_zero_bytes, start, stop), \
	cmocka_unit_test_setup_teardown(a_batch_of_100000_arrives_whole, start, stop), \
	cmocka_unit_test_setup_teardown(one_bad_entry_refuses_a_batch_of_100000, start, stop), \
	cmocka_unit_test_setup_teardown(large_batches_follow_each_other, start, stop), \
	cmocka_unit_test_setup_teardown(more_requests_than_the_ring_holds_can_be_in_flight, \
					start, stop),			\
	cmocka_unit_test_setup_teardown(four_threads_share_one_batch, start, stop)

int main(void)
{
	const struct CMUnitTest in_thread[] = { TESTS(start_thread) };
	const struct CMUnitTest in_caller[] = { TESTS(start_caller) };
	const struct CMUnitTest in_daemon[] = { TESTS(start_daemon) };

	return cmocka_run_group_tests_name("thread mode", in_thread, NULL, NULL) |
	       cmocka_run_group_tests_name("caller mode", in_caller, NULL, NULL) |
	       cmocka_run_group_tests_name("daemon mode", in_daemon, NULL, NULL);
}
