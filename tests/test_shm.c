/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shm.c - the shm backend between two mapped ends: direction, addresses,
 * budgets, overlap, and that nothing outside a range is touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/backends.h"

#define SIZE	40000u
#define STREAM	16384u

struct fix {
	struct backend_instance *inst;
	struct backend_queue *queue;
	uint8_t *local_bytes, *remote_bytes; /* SIZE each */
	struct region local, remote;
};

static void fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (uint8_t)(seed >> 24);
	}
}

static int setup(void **state)
{
	struct backend_options o = { .faults = "", .stream_bytes = STREAM };
	struct fix *f = calloc(1, sizeof(*f));

	assert_int_equal(shm_backend.open(&f->inst, &o), 0);
	assert_int_equal(shm_backend.queue_open(f->inst, -1, &f->queue), 0);
	f->local_bytes = malloc(SIZE);
	f->remote_bytes = malloc(SIZE);
	/* Owners see their memory elsewhere than we do. */
	f->local = (struct region){ .base = 0x100000, .end = 0x100000 + SIZE,
				    .addr = f->local_bytes };
	f->remote = (struct region){ .base = 0x7000000123, .end = 0x7000000123 + SIZE,
				     .addr = f->remote_bytes };
	fill(f->local_bytes, SIZE, 1);
	fill(f->remote_bytes, SIZE, 2);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	shm_backend.queue_close(f->queue);
	shm_backend.close(f->inst);
	free(f->local_bytes);
	free(f->remote_bytes);
	free(f);
	return 0;
}

static struct transfer make(struct fix *f, enum tent_opcode op, uint64_t local_offset,
			    uint64_t remote_offset, uint64_t length)
{
	return (struct transfer){
		.local = &f->local, .remote = &f->remote, .queue = f->queue,
		.local_addr = f->local.base + local_offset,
		.remote_addr = f->remote.base + remote_offset,
		.length = length, .opcode = (uint8_t)op,
	};
}

/* Posts until it ends; checks that no call moves more than the budget. */
static uint32_t post_all(struct transfer *t, uint64_t budget)
{
	uint32_t calls = 0;
	enum post_result r;

	do {
		uint64_t before = t->done;

		r = t->queue->ops->post(t->queue, t, budget);
		calls++;
		assert_true(t->done - before <= budget);
	} while (r == POST_MORE);
	assert_int_equal(r, t->status == TENT_STATUS_COMPLETED ? POST_DONE : POST_FAILED);
	return calls;
}

static void check_ended(const struct transfer *t)
{
	assert_int_equal(t->status, TENT_STATUS_COMPLETED);
	assert_int_equal(t->error, 0);
	assert_int_equal(t->rule, 0);
	assert_int_equal(t->done, t->length);
}

static void read_fills_local_and_leaves_the_rest(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 101, 7, 5000);
	uint8_t *local = malloc(SIZE), *remote = malloc(SIZE);

	memcpy(local, f->local_bytes, SIZE);
	memcpy(remote, f->remote_bytes, SIZE);
	memcpy(local + 101, remote + 7, 5000);
	post_all(&t, UINT64_MAX);
	check_ended(&t);
	assert_memory_equal(f->local_bytes, local, SIZE);
	assert_memory_equal(f->remote_bytes, remote, SIZE);
	free(local);
	free(remote);
}

static void write_fills_remote_and_leaves_the_rest(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_WRITE, 3, 999, 20000);
	uint8_t *local = malloc(SIZE), *remote = malloc(SIZE);

	memcpy(local, f->local_bytes, SIZE);
	memcpy(remote, f->remote_bytes, SIZE);
	memcpy(remote + 999, local + 3, 20000);
	post_all(&t, UINT64_MAX);
	check_ended(&t);
	assert_memory_equal(f->local_bytes, local, SIZE);
	assert_memory_equal(f->remote_bytes, remote, SIZE);
	free(local);
	free(remote);
}

static void a_budget_cuts_a_copy_into_that_many_calls(void **state)
{
	static const uint64_t budgets[] = { 1000, 4096, 9999, 29999, 30000, 30001 };
	struct fix *f = *state;

	for (size_t i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
		struct transfer t = make(f, TENT_OPCODE_READ, 11, 13, 30000);
		uint32_t calls;

		fill(f->local_bytes, SIZE, 77);
		calls = post_all(&t, budgets[i]);
		check_ended(&t);
		assert_int_equal(calls, (30000 + budgets[i] - 1) / budgets[i]);
		assert_memory_equal(f->local_bytes + 11, f->remote_bytes + 13, 30000);
	}
}

static void a_budget_of_nothing_moves_nothing_and_asks_again(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_READ, 0, 0, 100);

	assert_int_equal(f->queue->ops->post(f->queue, &t, 0), POST_MORE);
	assert_int_equal(t.done, 0);
	post_all(&t, 100);
	check_ended(&t);
}

static void zero_length_ends_at_once(void **state)
{
	struct fix *f = *state;
	struct transfer t = make(f, TENT_OPCODE_WRITE, SIZE, 0, 0);

	assert_int_equal(post_all(&t, 0), 1);
	check_ended(&t);
}

/* Both ends in one region: every distance and budget, against memmove(). */
static void overlapping_chunks_move_as_by_memmove(void **state)
{
	static const uint64_t lengths[] = { 1, 64, 1000, 20000 };
	static const uint64_t budgets[] = { 1, 63, 500, 4096, 100000 };
	struct fix *f = *state;
	uint8_t *model = malloc(SIZE);

	for (size_t l = 0; l < 4; l++)
		for (size_t b = 0; b < 5; b++)
			for (int64_t d = -1500; d <= 1500; d += 250) {
				uint64_t n = lengths[l];
				struct transfer t = make(f, TENT_OPCODE_WRITE, 5000,
							 5000 + (uint64_t)d, n);

				if (n / budgets[b] > 1000)
					continue;
				t.remote = &f->local;
				t.remote_addr = f->local.base + 5000 + (uint64_t)d;
				fill(f->local_bytes, SIZE, (uint32_t)(d + 2000));
				memcpy(model, f->local_bytes, SIZE);
				memmove(model + 5000 + d, model + 5000, n);
				post_all(&t, budgets[b]);
				check_ended(&t);
				assert_memory_equal(f->local_bytes, model, SIZE);
			}
	free(model);
}

static void a_range_outside_its_region_moves_nothing(void **state)
{
	struct fix *f = *state;
	static const struct {
		uint64_t local, remote, length;
		uint16_t rule;
	} bad[] = {
		{ 1, 0, SIZE, TENT_RULE_SOURCE_UNREGISTERED },
		{ 0, 1, SIZE, TENT_RULE_TARGET_UNREGISTERED },
		{ (uint64_t)-1, 0, 1, TENT_RULE_SOURCE_UNREGISTERED },
		{ 0, (uint64_t)-1, 1, TENT_RULE_TARGET_UNREGISTERED },
		{ 0, 100, UINT64_MAX - 50, TENT_RULE_SOURCE_UNREGISTERED },
		{ 0, SIZE + 1, 0, TENT_RULE_TARGET_UNREGISTERED },
	};
	uint8_t *local = malloc(SIZE), *remote = malloc(SIZE);

	memcpy(local, f->local_bytes, SIZE);
	memcpy(remote, f->remote_bytes, SIZE);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (int op = 0; op < 2; op++) {
			struct transfer t = make(f, op, bad[i].local, bad[i].remote,
						 bad[i].length);

			assert_int_equal(post_all(&t, UINT64_MAX), 1);
			assert_int_equal(t.status, TENT_STATUS_FAILED);
			assert_int_equal(t.error, TENT_ERR_ADDRESS);
			assert_int_equal(t.rule, bad[i].rule);
			assert_int_equal(t.done, 0);
		}
	assert_memory_equal(f->local_bytes, local, SIZE);
	assert_memory_equal(f->remote_bytes, remote, SIZE);
	free(local);
	free(remote);
}

static void it_reaches_mapped_and_private_memory_only(void **state)
{
	struct fix *f = *state;
	struct region private = { .owner = (struct private_owner *)f };
	struct region neither = { .base = 1, .end = 2 };

	assert_true(shm_backend.reaches(f->inst, &f->local, &f->remote));
	assert_true(shm_backend.reaches(f->inst, &f->local, &private));
	assert_true(shm_backend.reaches(f->inst, &private, &private));
	assert_false(shm_backend.reaches(f->inst, &f->local, &neither));
	assert_false(shm_backend.reaches(f->inst, &neither, &private));
}

static void shm_comes_first_among_the_backends(void **state)
{
	(void)state;
	assert_ptr_equal(all_backends[0], &shm_backend);
	assert_ptr_equal(all_backends[1], &file_backend);
	assert_ptr_equal(all_backends[2], &rdma_backend);
	assert_ptr_equal(all_backends[3], &tcp_backend);
	assert_ptr_equal(all_backends[4], &nvlink_backend);
	assert_ptr_equal(all_backends[5], &null_backend);
	assert_null(all_backends[6]);
	assert_string_equal(shm_backend.name, "shm");
	assert_int_equal(shm_backend.transport, TENT_TRANSPORT_SHM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(read_fills_local_and_leaves_the_rest,
						setup, teardown),
		cmocka_unit_test_setup_teardown(write_fills_remote_and_leaves_the_rest,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_budget_cuts_a_copy_into_that_many_calls,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_budget_of_nothing_moves_nothing_and_asks_again,
						setup, teardown),
		cmocka_unit_test_setup_teardown(zero_length_ends_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(overlapping_chunks_move_as_by_memmove,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_range_outside_its_region_moves_nothing,
						setup, teardown),
		cmocka_unit_test_setup_teardown(it_reaches_mapped_and_private_memory_only,
						setup, teardown),
		cmocka_unit_test(shm_comes_first_among_the_backends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
