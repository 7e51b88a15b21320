/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_abi.c - the RFC's "C ABI compatibility matrix", row by row, through the C
 * API: what a caller compiled against another size of the request may and may not do.
 * Every refusal is checked to have moved nothing: target memory is poisoned before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE 65536u
#define HALF (SIZE / 2)
#define POISON 0xdb

static struct lib_fix fix;
static tent_error_info_t refusal;	/* of the last submit() that failed */

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

static tent_request_v1_t entry_writing(size_t length)
{
	return lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, length);
}

static void assert_nothing_moved(void)
{
	for (size_t i = HALF; i < SIZE; i++)
		assert_int_equal(fix.memory[i], POISON);
}

/* Submits; on success waits and checks that count x length bytes arrived. */
static int submit(const void *entries, size_t count, size_t stride, size_t length)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 64);
	tent_status_t s;
	int rc;

	memset(fix.memory + HALF, POISON, HALF);
	rc = tent_submit_requests(fix.engine, batch, entries, count, stride,
				  TENT_REQUEST_SCHEMA_V1);
	if (rc) {
		refusal = lib_fix_error();
		assert_nothing_moved();
		assert_int_equal(tent_task_status(fix.engine, batch, 0, &s), TENT_ERR_ARGUMENTS);
		assert_int_equal(tent_overall_status(fix.engine, batch, &s), 0);
		assert_int_equal(s.status, TENT_STATUS_COMPLETED);
		assert_int_equal(s.transferred_bytes, 0);
	} else {
		s = lib_fix_wait(fix.engine, batch);
		assert_int_equal(s.status, TENT_STATUS_COMPLETED);
		assert_int_equal(s.transferred_bytes, count * length);
		assert_memory_equal(fix.memory + HALF, fix.memory, length);
	}
	tent_free_batch(fix.engine, batch);
	return rc;
}

/* Lays count copies of an entry out with a stride, everything between filled. */
static uint8_t *lay_out(const tent_request_v1_t *r, size_t count, size_t stride, int filler)
{
	uint8_t *array = aligned_alloc(8, count * stride);

	memset(array, filler, count * stride);
	for (size_t i = 0; i < count; i++)
		memcpy(array + i * stride, r, stride < sizeof(*r) ? stride : sizeof(*r));
	return array;
}

static void every_stride_from_48_to_4096_is_walked_as_told(void **state)
{
	(void)state;
	for (size_t stride = 48; stride <= 4096; stride += 8) {
		tent_request_v1_t r = entry_writing(100);
		uint8_t *array;

		r.struct_size = stride < 88 ? 48 : 88;
		array = lay_out(&r, 3, stride, 0xff);
		if (submit(array, 3, stride, 100))
			fail_msg("stride %zu: %s", stride, refusal.message);
		free(array);
	}
}

static void a_minimal_entry_takes_defaults_whatever_lies_behind_it(void **state)
{
	tent_request_v1_t r = entry_writing(256);

	(void)state;
	memset((uint8_t *)&r + 48, 0xff, sizeof(r) - 48); /* bad in every field */
	r.struct_size = 48;
	assert_int_equal(submit(&r, 1, sizeof(r), 256), 0);
}

static void each_field_boundary_is_a_size_and_nothing_between_is(void **state)
{
	static const uint32_t good[] = { 48, 52, 56, 64, 72, 76, 80, 88 };
	tent_request_v1_t r = entry_writing(16);

	(void)state;
	for (uint32_t size = 0; size <= 88; size++) {
		bool is_good = false;

		for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
			is_good |= good[i] == size;
		r.struct_size = size;
		assert_int_equal(submit(&r, 1, sizeof(r), 16), is_good ? 0 : TENT_ERR_LAYOUT);
		if (!is_good)
			assert_string_equal(refusal.field, "struct_size");
	}
}

static void a_larger_entry_may_only_carry_zeros_behind_what_we_know(void **state)
{
	tent_request_v1_t r = entry_writing(16);
	uint8_t *array;

	(void)state;
	r.struct_size = 128;
	array = lay_out(&r, 2, 128, 0);
	assert_int_equal(submit(array, 2, 128, 16), 0);
	array[128 + 127] = 1;
	assert_int_equal(submit(array, 2, 128, 16), TENT_ERR_LAYOUT);
	assert_int_equal(refusal.index, 1);
	assert_int_equal(refusal.rule, TENT_RULE_TAIL);
	r.struct_size = 88; /* now the byte lies outside the struct */
	memcpy(array + 128, &r, sizeof(r));
	assert_int_equal(submit(array, 2, 128, 16), 0);
	free(array);
}

static void a_size_beyond_the_stride_is_refused(void **state)
{
	tent_request_v1_t r[2] = { entry_writing(16), entry_writing(16) };

	(void)state;
	r[0].struct_size = r[1].struct_size = 96;
	assert_int_equal(submit(r, 2, sizeof(r[0]), 16), TENT_ERR_LAYOUT);
	r[0].struct_size = 88;
	assert_int_equal(submit(r, 1, 80, 16), TENT_ERR_LAYOUT);
	r[0].struct_size = UINT32_MAX;
	assert_int_equal(submit(r, 1, sizeof(r[0]), 16), TENT_ERR_LAYOUT);
}

static void bad_strides_are_refused_before_any_entry_is_read(void **state)
{
	static const size_t bad[] = { 0, 8, 40, 47, 49, 84, 4097, 4104, SIZE_MAX, SIZE_MAX - 7 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		/* An address that cannot be read: the check must come first. */
		assert_int_equal(submit((void *)8, 1, bad[i], 0), TENT_ERR_LAYOUT);
		assert_int_equal(refusal.rule, TENT_RULE_ARG_STRIDE);
	}
}

static void a_misaligned_array_is_refused(void **state)
{
	tent_request_v1_t r[2] = { entry_writing(16), entry_writing(16) };

	(void)state;
	for (int shift = 1; shift < 8; shift++) {
		assert_int_equal(submit((uint8_t *)r + shift, 1, sizeof(r[0]), 16),
				 TENT_ERR_LAYOUT);
		assert_int_equal(refusal.rule, TENT_RULE_ARG_ALIGN);
	}
}

static void count_times_stride_may_not_overflow(void **state)
{
	tent_request_v1_t r = entry_writing(16);

	(void)state;
	assert_int_equal(submit(&r, SIZE_MAX / 88 + 1, 88, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(refusal.rule, TENT_RULE_ARG_OVERFLOW);
	assert_int_equal(submit(&r, SIZE_MAX / 4096, 4096, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(submit(&r, SIZE_MAX / 88, 88, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(submit(&r, (size_t)1 << 40, 48, 0), TENT_ERR_CAPACITY);
}

static void address_plus_length_may_not_wrap(void **state)
{
	tent_request_v1_t r = entry_writing(16);

	(void)state;
	r.source = (void *)(uintptr_t)(UINT64_MAX - 7);
	assert_int_equal(submit(&r, 1, sizeof(r), 0), TENT_ERR_ADDRESS);
	assert_string_equal(refusal.field, "source");
	r = entry_writing(16);
	r.target_offset = UINT64_MAX - 7;
	assert_int_equal(submit(&r, 1, sizeof(r), 0), TENT_ERR_ADDRESS);
	assert_string_equal(refusal.field, "target_offset");
	r = entry_writing(UINT64_MAX);
	assert_int_equal(submit(&r, 1, sizeof(r), 0), TENT_ERR_ADDRESS);
}

static void an_unknown_schema_is_refused_at_both_places(void **state)
{
	tent_request_v1_t r = entry_writing(16);
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	size_t minimum = 7, known = 7;

	(void)state;
	for (uint32_t schema = 0; schema < 4; schema++) {
		if (schema == 1)
			continue;
		assert_int_equal(tent_submit_requests(fix.engine, batch, &r, 1, sizeof(r), schema),
				 TENT_ERR_SCHEMA);
		r.schema_version = schema;
		assert_int_equal(submit(&r, 1, sizeof(r), 0), TENT_ERR_SCHEMA);
		assert_int_equal(tent_get_request_schema_info(schema, &minimum, &known),
				 TENT_ERR_SCHEMA);
		assert_int_equal(minimum + known, 14);
	}
	assert_int_equal(tent_get_request_schema_info(1, &minimum, &known), 0);
	assert_int_equal(minimum, 48);
	assert_int_equal(known, sizeof(r));
	assert_int_equal(tent_get_request_schema_info(1, NULL, NULL), 0);
	assert_int_equal(tent_get_api_version() >> 16, 1);
	tent_free_batch(fix.engine, batch);
}

/* One bad value for every field, and the category it must be refused with. */
struct bad_field {
	const char *field;
	size_t offset;
	uint64_t value;
	size_t bytes;
	int category;
};

static const struct bad_field bad_fields[] = {
	{ "struct_size", 0, 47, 4, TENT_ERR_LAYOUT },
	{ "schema_version", 4, 2, 4, TENT_ERR_SCHEMA },
	{ "opcode", 8, 2, 4, TENT_ERR_ENUM },
	{ "opcode", 8, UINT32_MAX, 4, TENT_ERR_ENUM },
	{ "resv0", 12, 1, 4, TENT_ERR_FLAGS },
	{ "source", 16, 8, 8, TENT_ERR_ADDRESS },
	{ "source", 16, 0, 8, TENT_ERR_ADDRESS },
	{ "target_id", 24, 77, 8, TENT_ERR_STALE_HANDLE },
	{ "target_id", 24, UINT64_MAX, 8, TENT_ERR_STALE_HANDLE },
	{ "target_offset", 32, 8, 8, TENT_ERR_ADDRESS },
	{ "intent_type", 48, 6, 4, TENT_ERR_ENUM },
	{ "intent_type", 48, 7, 4, TENT_ERR_ENUM },
	{ "intent_type", 48, UINT32_MAX, 4, TENT_ERR_ENUM },
	{ "requested_priority", 52, 4, 4, TENT_ERR_ENUM },
	{ "requested_priority", 52, UINT32_MAX, 4, TENT_ERR_ENUM },
	{ "deadline_ns", 56, UINT64_MAX, 8, TENT_ERR_DEADLINE },
	{ "policy_name", 64, (uintptr_t)"", 8, TENT_ERR_LAYOUT },
	{ "policy_name", 64, (uintptr_t)"with a space", 8, TENT_ERR_LAYOUT },
	{ "policy_name", 64, (uintptr_t)"unknown", 8, TENT_ERR_POLICY_UNKNOWN },
	{ "policy_name", 64, (uintptr_t)
	  "0123456789012345678901234567890123456789012345678901234567890123", 8,
	  TENT_ERR_LAYOUT },
	{ "transport_hint", 72, 13, 4, TENT_ERR_ENUM },
	{ "transport_hint", 72, UINT32_MAX, 4, TENT_ERR_ENUM },
	{ "transport_hint", 72, TENT_TRANSPORT_RDMA, 4, TENT_ERR_UNSUPPORTED },
	{ "reserved0", 76, 1, 4, TENT_ERR_FLAGS },
	{ "flags", 80, 1, 8, TENT_ERR_FLAGS },
	{ "flags", 80, 1ull << 63, 8, TENT_ERR_FLAGS },
};

static void any_bad_entry_refuses_the_batch_and_moves_nothing(void **state)
{
	static const size_t places[] = { 0, 1, 31, 63 };
	tent_request_v1_t r[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad_fields) / sizeof(*bad_fields); i++) {
		const struct bad_field *bad = &bad_fields[i];

		for (size_t k = 0; k < sizeof(places) / sizeof(*places); k++) {
			tent_error_info_t info;

			for (int n = 0; n < 64; n++)
				r[n] = entry_writing(64);
			memcpy((uint8_t *)&r[places[k]] + bad->offset, &bad->value, bad->bytes);
			if (submit(r, 64, sizeof(r[0]), 64) != bad->category)
				fail_msg("%s = %#llx: %d", bad->field,
					 (unsigned long long)bad->value, refusal.error);
			info = refusal;
			assert_int_equal(info.error, bad->category);
			assert_int_equal(info.index, places[k]);
			assert_string_equal(info.field, bad->field);
		}
	}
}

static void the_first_failure_in_order_is_the_answer(void **state)
{
	tent_request_v1_t r[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		r[i] = entry_writing(64);
	r[0].source = NULL;		/* an address: judged after all fields */
	r[1].flags = 1;
	r[2].opcode = 9;		/* a lower offset, but a later entry */
	assert_int_equal(submit(r, 4, sizeof(r[0]), 64), TENT_ERR_FLAGS);
	assert_int_equal(refusal.index, 1);
	r[3].struct_size = 1;		/* layout: judged before any field */
	assert_int_equal(submit(r, 4, sizeof(r[0]), 64), TENT_ERR_LAYOUT);
	assert_int_equal(refusal.index, 3);
	r[3].struct_size = 88;
	r[1].flags = r[2].opcode = 0;
	assert_int_equal(submit(r, 4, sizeof(r[0]), 64), TENT_ERR_ADDRESS);
	assert_int_equal(refusal.index, 0);
}

static void fill(tent_request_v1_t *r, const tent_request_v1_t *with)
{
	for (int i = 0; i < 64; i++)
		r[i] = *with;
}

/* A lap is 4096 slots: 64 batches of 64. */
static void a_short_entry_after_a_long_one_is_not_judged_by_its_tail(void **state)
{
	tent_request_v1_t one = entry_writing(64), r[64];

	(void)state;
	one.intent_type = TENT_INTENT_MIGRATION;
	one.requested_priority = TENT_PRIORITY_HIGH;
	one.flags = 1; /* refused, but it was in the slot */
	fill(r, &one);
	for (int i = 0; i < 64; i++)
		assert_int_equal(submit(r, 64, sizeof(one), 64), TENT_ERR_FLAGS);
	one = entry_writing(64);
	one.struct_size = 48;
	fill(r, &one);
	for (int i = 0; i < 64; i++)
		assert_int_equal(submit(r, 64, sizeof(one), 64), 0);
}

static void arguments_are_checked_before_entries(void **state)
{
	tent_request_v1_t r = entry_writing(16);
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);

	(void)state;
	r.opcode = 9;
	assert_int_equal(tent_submit_v1(fix.engine, batch, NULL, 1), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1(fix.engine, batch, NULL, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1(NULL, batch, &r, 1), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_submit_v1(fix.engine, 0, &r, 1), TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_submit_v1(fix.engine, batch, &r, 2), TENT_ERR_CAPACITY);
	assert_int_equal(tent_submit_v1(fix.engine, batch, &r, 0), 0);
	assert_int_equal(tent_submit_v1(fix.engine, batch, &r, 1), TENT_ERR_ENUM);
	tent_free_batch(fix.engine, batch);
}

static void deadlines_are_monotonic_and_expired_ones_are_served(void **state)
{
	tent_request_v1_t r = entry_writing(64);
	uint64_t deadline = 5, wall_clock = 1700000000ull * 1000000000, before;

	(void)state;
	r.deadline_ns = wall_clock;
	assert_int_equal(submit(&r, 1, sizeof(r), 64), TENT_ERR_DEADLINE);
	assert_string_equal(refusal.field, "deadline_ns");
	r.deadline_ns = 1;
	assert_int_equal(submit(&r, 1, sizeof(r), 64), 0);
	assert_int_equal(tent_deadline_after_ns(UINT64_MAX, &deadline), TENT_ERR_DEADLINE);
	assert_int_equal(tent_deadline_after_ns(366ull * 86400 * 1000000000, &deadline),
			 TENT_ERR_DEADLINE);
	assert_int_equal(deadline, 5);
	assert_int_equal(tent_deadline_after_ns(1, NULL), TENT_ERR_ARGUMENTS);
	before = tent_monotonic_now_ns();
	assert_int_equal(tent_deadline_after_ns(200000000, &r.deadline_ns), 0);
	assert_in_range(r.deadline_ns - 200000000, before, tent_monotonic_now_ns());
	assert_int_equal(submit(&r, 1, sizeof(r), 64), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stride_from_48_to_4096_is_walked_as_told),
		cmocka_unit_test(a_minimal_entry_takes_defaults_whatever_lies_behind_it),
		cmocka_unit_test(each_field_boundary_is_a_size_and_nothing_between_is),
		cmocka_unit_test(a_larger_entry_may_only_carry_zeros_behind_what_we_know),
		cmocka_unit_test(a_size_beyond_the_stride_is_refused),
		cmocka_unit_test(bad_strides_are_refused_before_any_entry_is_read),
		cmocka_unit_test(a_misaligned_array_is_refused),
		cmocka_unit_test(count_times_stride_may_not_overflow),
		cmocka_unit_test(address_plus_length_may_not_wrap),
		cmocka_unit_test(an_unknown_schema_is_refused_at_both_places),
		cmocka_unit_test(any_bad_entry_refuses_the_batch_and_moves_nothing),
		cmocka_unit_test(the_first_failure_in_order_is_the_answer),
		cmocka_unit_test(a_short_entry_after_a_long_one_is_not_judged_by_its_tail),
		cmocka_unit_test(arguments_are_checked_before_entries),
		cmocka_unit_test(deadlines_are_monotonic_and_expired_ones_are_served),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
