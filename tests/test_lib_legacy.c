/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_legacy.c - a program of the older C API, and what it may rely on. It is
 * written in that API's own words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <tent/transfer_engine.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE 65536u
#define HALF (SIZE / 2)

static struct lib_fix fix;
static tent_error_info_t refusal;	/* of the last run() whose submit failed */

static int start(void **state)
{
	(void)state;
	lib_fix_start(&fix, LIB_THREAD, SIZE, NULL);
	lib_fix_pattern(fix.memory, HALF, 1);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	lib_fix_stop(&fix);
	return 0;
}

static tent_request_t write_of(size_t length)
{
	tent_request_t r = { 0 };

	r.opcode = OPCODE_WRITE;
	r.source = fix.memory;
	r.target_id = LOCAL_SEGMENT_ID;
	r.target_offset = (uint64_t)(uintptr_t)(fix.memory + HALF);
	r.length = length;
	return r;
}

/* Submits one request and waits. The batch's status, or -1 for a refused submit. */
static int run(tent_request_t r, uint64_t *bytes)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_status_t s;

	memset(fix.memory + HALF, 0xdb, HALF);
	if (tent_submit(fix.engine, batch, &r, 1)) {
		refusal = lib_fix_error();
		assert_int_equal(fix.memory[HALF], 0xdb);
		assert_int_equal(tent_task_status(fix.engine, batch, 0, &s) < 0, 1);
		tent_free_batch(fix.engine, batch);
		return -1;
	}
	do {
		assert_int_equal(tent_overall_status(fix.engine, batch, &s), 0);
	} while (s.status == STATUS_WAITING || s.status == STATUS_PENDING);
	assert_int_equal(tent_free_batch(fix.engine, batch), 0);
	if (bytes)
		*bytes = s.transferred_bytes;
	return s.status;
}

static void a_program_moves_bytes(void **state)
{
	tent_request_t r = write_of(4096);
	uint64_t bytes = 0;

	(void)state;
	assert_int_equal(run(r, &bytes), STATUS_COMPLETED);
	assert_int_equal(bytes, 4096);
	assert_memory_equal(fix.memory, fix.memory + HALF, 4096);
	r.opcode = OPCODE_READ;
	assert_int_equal(run(r, &bytes), STATUS_COMPLETED);
	assert_int_equal(fix.memory[0], 0xdb);
	lib_fix_pattern(fix.memory, HALF, 1);
}

/* How one ended, by either API: where its bytes are, and what is told of it. */
struct outcome {
	tent_status_t batch, task;
	tent_error_info_t error;
	uint8_t memory[SIZE];
};

static void take_outcome(struct outcome *o, tent_batch_id_t batch)
{
	o->batch = lib_fix_wait(fix.engine, batch);
	o->error.size = sizeof(o->error);
	assert_int_equal(tent_task_status(fix.engine, batch, 0, &o->task), 0);
	assert_int_equal(tent_task_error(fix.engine, batch, 0, &o->error), 0);
	memcpy(o->memory, fix.memory, SIZE);
	lib_fix_pattern(fix.memory, SIZE, 1);
	assert_int_equal(tent_free_batch(fix.engine, batch), 0);
}

static void expect_same(const tent_status_t *a, const tent_status_t *b)
{
	assert_int_equal(a->status, STATUS_COMPLETED);
	assert_int_equal(b->status, STATUS_COMPLETED);
	assert_int_equal(a->transferred_bytes, b->transferred_bytes);
}

static void expect_the_same_by_v1(tent_request_t *r)
{
	static struct outcome older, newer;
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_request_v1_t v1 = {
		.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = r->opcode, .source = r->source, .target_id = r->target_id,
		.target_offset = r->target_offset, .length = r->length,
	};

	assert_int_equal(tent_submit(fix.engine, batch, r, 1), 0);
	take_outcome(&older, batch);
	batch = tent_allocate_batch(fix.engine, 1);
	assert_int_equal(tent_submit_v1(fix.engine, batch, &v1, 1), 0);
	take_outcome(&newer, batch);
	expect_same(&older.batch, &newer.batch);
	expect_same(&older.task, &newer.task);
	assert_int_equal(older.error.error, newer.error.error);
	assert_int_equal(older.error.flags, newer.error.flags);
	assert_memory_equal(older.memory, newer.memory, SIZE);
}

static void what_names_no_intent_ends_by_v1_as_it_always_did(void **state)
{
	static const size_t lengths[] = { 0, 1, 64, 4096, HALF };

	(void)state;
	lib_fix_pattern(fix.memory, SIZE, 1);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		tent_request_t r = write_of(lengths[i]);

		for (r.opcode = OPCODE_READ; r.opcode <= OPCODE_WRITE; r.opcode++)
			expect_the_same_by_v1(&r);
	}
}

/* No key is set: what the first program says of itself, the second finds. */
static void a_program_moves_bytes_to_another_that_was_told_nothing_either(void **state)
{
	static uint8_t wanted[4096];
	tent_request_t r = write_of(sizeof(wanted));
	struct lib_fix other;
	char name[256];

	(void)state;
	lib_fix_start(&other, LIB_THREAD, SIZE, NULL);
	memcpy(wanted, fix.memory, sizeof(wanted));
	assert_int_equal(tent_segment_name(other.engine, name, sizeof(name)), 0);
	assert_int_equal(tent_open_segment(fix.engine, &r.target_id, name), 0);
	r.target_offset = (uint64_t)(uintptr_t)other.memory;
	assert_int_equal(run(r, NULL), STATUS_COMPLETED);
	assert_memory_equal(other.memory, wanted, sizeof(wanted));
	assert_int_equal(tent_close_segment(fix.engine, r.target_id), 0);
	lib_fix_stop(&other);
}

static void values_outside_their_enumeration_refuse_the_submit(void **state)
{
	static const int opcodes[] = { 2, -1, 77 }, priorities[] = { 3, -1, 1000 };
	tent_request_t r;

	(void)state;
	for (int i = 0; i < 3; i++) {
		r = write_of(64);
		r.opcode = opcodes[i];
		assert_int_equal(run(r, NULL), -1);
		assert_string_equal(refusal.field, "opcode");
		r = write_of(64);
		r.priority = priorities[i];
		assert_int_equal(run(r, NULL), -1);
		assert_string_equal(refusal.field, "priority");
	}
}

static void each_legacy_priority_is_taken(void **state)
{
	(void)state;
	for (int priority = 0; priority <= 2; priority++) {
		tent_request_t r = write_of(64);

		r.priority = priority;
		assert_int_equal(run(r, NULL), STATUS_COMPLETED);
	}
}

static void a_hint_decides_or_refuses_and_garbage_counts_as_none(void **state)
{
	static const int garbage[] = { 13, -1, 123, 1 << 30 };
	tent_request_t r = write_of(64);

	(void)state;
	r.transport_hint = TRANSPORT_SHM;
	assert_int_equal(run(r, NULL), STATUS_COMPLETED);
	r.transport_hint = TRANSPORT_RDMA; /* not in this build: the whole submit */
	assert_int_equal(run(r, NULL), -1);
	r.transport_hint = TRANSPORT_GDS;
	assert_int_equal(run(r, NULL), -1);
	for (int i = 0; i < 4; i++) {
		r.transport_hint = garbage[i];
		assert_int_equal(run(r, NULL), STATUS_COMPLETED);
	}
}

static void a_bad_address_fails_its_task_only(void **state)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 5);
	tent_error_info_t info = { .size = sizeof(info) };
	tent_request_t r[5];
	tent_status_t s;
	size_t i;

	(void)state;
	memset(fix.memory + HALF, 0xdb, HALF);
	for (i = 0; i < 5; i++)
		r[i] = write_of(64);
	r[0].source = NULL;
	r[1].target_offset = 8;
	r[2].target_id = 999;
	r[3].source = (void *)(UINTPTR_MAX - 7);
	assert_int_equal(tent_submit(fix.engine, batch, r, 5), 0);
	assert_int_equal(lib_fix_wait(fix.engine, batch).status, STATUS_FAILED);
	for (i = 0; i < 5; i++) {
		assert_int_equal(tent_task_status(fix.engine, batch, i, &s), 0);
		assert_int_equal(s.status, i < 4 ? STATUS_FAILED : STATUS_COMPLETED);
		assert_int_equal(s.transferred_bytes, i < 4 ? 0 : 64);
		assert_int_equal(tent_task_error(fix.engine, batch, i, &info), 0);
		assert_int_equal(info.error != 0, i < 4);
	}
	assert_memory_equal(fix.memory, fix.memory + HALF, 64);
	assert_int_equal(tent_free_batch(fix.engine, batch), 0);
}

static void a_bad_opcode_refuses_the_good_ones_beside_it(void **state)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 3);
	tent_request_t r[3] = { write_of(64), write_of(64), write_of(64) };
	tent_status_t s;

	(void)state;
	memset(fix.memory + HALF, 0xdb, HALF);
	r[0].source = NULL;
	r[2].opcode = 5;
	assert_int_equal(tent_submit(fix.engine, batch, r, 3), -1);
	assert_int_equal(lib_fix_error().index, 2);
	assert_int_equal(fix.memory[HALF], 0xdb);
	assert_int_equal(tent_overall_status(fix.engine, batch, &s), 0);
	assert_int_equal(s.status, STATUS_COMPLETED); /* still empty */
	r[2].opcode = OPCODE_WRITE;
	assert_int_equal(tent_submit(fix.engine, batch, r, 3), 0);
	assert_int_equal(tent_submit(fix.engine, batch, r, 1), -1);
	lib_fix_wait(fix.engine, batch);
	tent_free_batch(fix.engine, batch);
}

static void null_is_refused_and_empty_is_fine(void **state)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_request_t r = write_of(64);
	tent_status_t s;

	(void)state;
	assert_int_equal(tent_submit(fix.engine, batch, NULL, 1), -1);
	assert_int_equal(tent_submit(fix.engine, batch, NULL, 0), -1);
	assert_int_equal(tent_submit(NULL, batch, &r, 1), -1);
	assert_int_equal(tent_submit(fix.engine, 0, &r, 1), -1);
	assert_int_equal(tent_submit(fix.engine, batch, &r, SIZE_MAX / 2), -1);
	assert_int_equal(tent_submit(fix.engine, batch, &r, SIZE_MAX), -1);
	assert_int_equal(tent_submit(fix.engine, batch, &r, 0), 0);
	assert_int_equal(tent_overall_status(fix.engine, batch, &s), 0);
	assert_int_equal(s.status, STATUS_COMPLETED);
	assert_int_equal(s.transferred_bytes, 0);
	assert_int_equal(run(write_of(0), NULL), STATUS_COMPLETED);
	tent_free_batch(fix.engine, batch);
}

/* More than a ring has slots: INDIRECT carries the older request too. */
static void a_large_legacy_batch_keeps_its_rules(void **state)
{
	enum { NR = 6000 };
	tent_request_t *r = calloc(NR, sizeof(*r));
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, NR);
	tent_status_t s;

	(void)state;
	for (int i = 0; i < NR; i++)
		r[i] = write_of(4);
	r[10].source = NULL;
	r[11].priority = 2;
	assert_int_equal(tent_submit(fix.engine, batch, r, NR), 0);
	s = lib_fix_wait(fix.engine, batch);
	assert_int_equal(s.status, STATUS_FAILED);
	assert_int_equal(s.transferred_bytes, (NR - 1) * 4);
	assert_int_equal(tent_task_status(fix.engine, batch, 10, &s), 0);
	assert_int_equal(s.status, STATUS_FAILED);
	tent_free_batch(fix.engine, batch);
	batch = tent_allocate_batch(fix.engine, NR);
	r[5999].priority = 3;
	assert_int_equal(tent_submit(fix.engine, batch, r, NR), -1);
	assert_int_equal(lib_fix_error().index, 5999);
	tent_free_batch(fix.engine, batch);
	free(r);
}

static void an_engine_that_drives_no_interface_tells_of_none(void **state)
{
	tent_nic_load_stat_t stats[2];
	size_t count = 2;

	(void)state;
	assert_int_equal(tent_get_nic_load_stats(fix.engine, NULL, &count), -1);
	assert_int_equal(tent_get_nic_load_stats(fix.engine, stats, NULL), -1);
	assert_int_equal(lib_fix_error().error, TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_get_nic_load_stats(fix.engine, stats, &count), 0);
	assert_int_equal(count, 0);
}

static void the_old_names_have_their_old_numbers(void **state)
{
	(void)state;
	assert_int_equal(OPCODE_READ, 0);
	assert_int_equal(OPCODE_WRITE, 1);
	assert_int_equal(STATUS_WAITING, TENT_STATUS_WAITING);
	assert_int_equal(STATUS_PENDING, TENT_STATUS_PENDING);
	assert_int_equal(STATUS_INVALID, TENT_STATUS_INVALID);
	assert_int_equal(STATUS_CANCELED, TENT_STATUS_CANCELED);
	assert_int_equal(STATUS_COMPLETED, TENT_STATUS_COMPLETED);
	assert_int_equal(STATUS_TIMEOUT, TENT_STATUS_TIMEOUT);
	assert_int_equal(STATUS_FAILED, TENT_STATUS_FAILED);
	assert_int_equal(TYPE_FILE, TENT_SEGMENT_FILE);
	assert_int_equal(PERM_GLOBAL_READ_WRITE, TENT_PERM_GLOBAL_READ_WRITE);
	assert_int_equal(TRANSPORT_RDMA, TENT_TRANSPORT_RDMA);
	assert_int_equal(TRANSPORT_MNNVL, TENT_TRANSPORT_MNNVL);
	assert_int_equal(TRANSPORT_SHM, TENT_TRANSPORT_SHM);
	assert_int_equal(TRANSPORT_NVLINK, TENT_TRANSPORT_NVLINK);
	assert_int_equal(TRANSPORT_GDS, TENT_TRANSPORT_GDS);
	assert_int_equal(TRANSPORT_IOURING, TENT_TRANSPORT_IOURING);
	assert_int_equal(TRANSPORT_TCP, TENT_TRANSPORT_TCP);
	assert_int_equal(TRANSPORT_ASCEND_DIRECT, TENT_TRANSPORT_ASCEND_DIRECT);
	assert_int_equal(TRANSPORT_SUNRISE_LINK, TENT_TRANSPORT_SUNRISE_LINK);
	assert_int_equal(TRANSPORT_TPU, TENT_TRANSPORT_TPU);
	assert_int_equal(TRANSPORT_UB, TENT_TRANSPORT_UB);
	assert_int_equal(TRANSPORT_MPCOMM, TENT_TRANSPORT_MPCOMM);
	assert_true(LOCAL_SEGMENT_ID == TENT_LOCAL_SEGMENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_moves_bytes),
		cmocka_unit_test(what_names_no_intent_ends_by_v1_as_it_always_did),
		cmocka_unit_test(a_program_moves_bytes_to_another_that_was_told_nothing_either),
		cmocka_unit_test(values_outside_their_enumeration_refuse_the_submit),
		cmocka_unit_test(each_legacy_priority_is_taken),
		cmocka_unit_test(a_hint_decides_or_refuses_and_garbage_counts_as_none),
		cmocka_unit_test(a_bad_address_fails_its_task_only),
		cmocka_unit_test(a_bad_opcode_refuses_the_good_ones_beside_it),
		cmocka_unit_test(null_is_refused_and_empty_is_fine),
		cmocka_unit_test(a_large_legacy_batch_keeps_its_rules),
		cmocka_unit_test(an_engine_that_drives_no_interface_tells_of_none),
		cmocka_unit_test(the_old_names_have_their_old_numbers),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
