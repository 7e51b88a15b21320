/* SPDX-License-Identifier: Apache-2.0 */
/* test_lib_normalize.c - what an entry asks for, with and without an engine: the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE 8192u

static struct lib_fix fix;

static tent_request_v1_t sound(void)
{
	return lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
}

static int normalize(const tent_request_v1_t *r, int mode, tent_normalized_t *n)
{
	*n = (tent_normalized_t){ .size = sizeof(*n), .flags = 0xa5 };
	return tent_normalize_request(r, sizeof(*r), TENT_REQUEST_SCHEMA_V1, mode, n);
}

/* Both judge the entry; both errors, or the flags of the one that was accepted. */
static void assert_same_verdict(const tent_request_v1_t *r, int mode)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_normalized_t n;
	int submitted = tent_submit_v1(fix.engine, batch, r, 1);
	tent_error_info_t engine = lib_fix_error(), alone;

	assert_int_equal(normalize(r, mode, &n), submitted);
	if (submitted) {
		alone = lib_fix_error();
		assert_memory_equal(&alone, &engine, sizeof(alone));
		assert_int_equal(n.flags, 0xa5);
	} else {
		lib_fix_wait(fix.engine, batch);
		assert_int_equal(tent_task_error(fix.engine, batch, 0, &engine), 0);
		assert_int_equal(n.flags, engine.flags & TENT_CQE_F_DOWNGRADES);
	}
	tent_free_batch(fix.engine, batch);
}

/* A value for every field that is judged without an engine. */
struct row {
	size_t offset;
	uint64_t value;
	size_t bytes;
};

static const struct row rows[] = {
	{ 0, 47, 4 }, { 0, 48, 4 }, { 0, 60, 4 }, { 0, 96, 4 }, { 0, UINT32_MAX, 4 },
	{ 4, 0, 4 }, { 4, 2, 4 },
	{ 8, 0, 4 }, { 8, 2, 4 }, { 8, UINT32_MAX, 4 }, { 12, 1, 4 },
	{ 48, 5, 4 }, { 48, 6, 4 }, { 48, 7, 4 }, { 48, UINT32_MAX, 4 },
	{ 52, 3, 4 }, { 52, 4, 4 }, { 52, UINT32_MAX, 4 },
	{ 56, 1, 8 }, { 56, UINT64_MAX, 8 }, { 56, 1700000000ull * 1000000000, 8 },
	{ 64, (uintptr_t)"", 8 }, { 64, (uintptr_t)"with a space", 8 },
	{ 64, (uintptr_t)
	  "0123456789012345678901234567890123456789012345678901234567890123", 8 },
	{ 72, 3, 4 }, { 72, 13, 4 }, { 72, UINT32_MAX, 4 }, { 76, 1, 4 },
	{ 80, 1, 8 }, { 80, 1ull << 63, 8 },
};

static void check_rows(int mode, const char *const *options)
{
	lib_fix_start(&fix, LIB_THREAD, SIZE, options);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		tent_request_v1_t r = sound();

		memcpy((uint8_t *)&r + rows[i].offset, &rows[i].value, rows[i].bytes);
		assert_same_verdict(&r, mode);
	}
	lib_fix_stop(&fix);
}

static void the_verdict_is_that_of_a_strict_engine(void **state)
{
	(void)state;
	check_rows(TENT_VALIDATION_STRICT, NULL);
}

static void the_verdict_is_that_of_a_compat_engine(void **state)
{
	static const char *const options[] = { "engine/validation=compat", NULL };

	(void)state;
	check_rows(TENT_VALIDATION_COMPAT, options);
	tent_set_config("engine/validation", "strict");
}

static void what_was_asked_is_copied_out(void **state)
{
	tent_request_v1_t r = sound();
	tent_normalized_t n;

	(void)state;
	r.intent_type = TENT_INTENT_MIGRATION;
	r.requested_priority = TENT_PRIORITY_LOW;
	r.deadline_ns = 1;
	r.policy_name = "a.policy:of/63_characters-0123456789012345678901234567890123456";
	r.transport_hint = TENT_TRANSPORT_RDMA;
	assert_int_equal(strlen(r.policy_name), 63);
	assert_int_equal(normalize(&r, TENT_VALIDATION_STRICT, &n), 0);
	assert_int_equal(n.opcode, TENT_OPCODE_WRITE);
	assert_int_equal(n.intent_type, TENT_INTENT_MIGRATION);
	assert_int_equal(n.requested_priority, TENT_PRIORITY_LOW);
	assert_int_equal(n.deadline_ns, 1);
	assert_string_equal(n.policy_name, r.policy_name);
	assert_int_equal(n.transport_hint, TENT_TRANSPORT_RDMA);
	assert_int_equal(n.flags, 0);
}

static void fields_beyond_struct_size_have_their_defaults(void **state)
{
	tent_request_v1_t r = sound();
	tent_normalized_t n;

	(void)state;
	memset((uint8_t *)&r + 48, 0xff, sizeof(r) - 48);
	r.struct_size = 48;
	assert_int_equal(normalize(&r, TENT_VALIDATION_STRICT, &n), 0);
	assert_int_equal(n.intent_type, TENT_INTENT_UNSPEC);
	assert_int_equal(n.requested_priority, TENT_PRIORITY_UNSPEC);
	assert_int_equal(n.deadline_ns, 0);
	assert_string_equal(n.policy_name, "");
	assert_int_equal(n.transport_hint, TENT_TRANSPORT_UNSPEC);
}

static void compat_says_what_it_changed(void **state)
{
	tent_request_v1_t r = sound();
	tent_normalized_t n;

	(void)state;
	r.intent_type = 99;
	r.requested_priority = -1;
	assert_int_equal(normalize(&r, TENT_VALIDATION_COMPAT, &n), 0);
	assert_int_equal(n.intent_type, TENT_INTENT_UNSPEC);
	assert_int_equal(n.requested_priority, TENT_PRIORITY_UNSPEC);
	assert_int_equal(n.flags,
			 TENT_CQE_F_INTENT_DOWNGRADED | TENT_CQE_F_PRIORITY_DOWNGRADED);
}

static void bad_arguments_of_the_call_are_named(void **state)
{
	tent_request_v1_t r = sound();
	tent_normalized_t n = { .size = sizeof(n) };

	(void)state;
	assert_int_equal(tent_normalize_request(NULL, 88, 1, 0, &n), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_normalize_request(&r, 44, 1, 0, &n), TENT_ERR_LAYOUT);
	assert_int_equal(tent_normalize_request((uint8_t *)&r + 4, 48, 1, 0, &n),
			 TENT_ERR_LAYOUT);
	assert_int_equal(tent_normalize_request(&r, 88, 2, 0, &n), TENT_ERR_SCHEMA);
	assert_int_equal(tent_normalize_request(&r, 88, 1, 2, &n), TENT_ERR_ARGUMENTS);
	assert_string_equal(lib_fix_error().field, "mode");
	assert_int_equal(tent_normalize_request(&r, 88, 1, 0, NULL), TENT_ERR_ARGUMENTS);
	n.size--;
	assert_int_equal(tent_normalize_request(&r, 88, 1, 0, &n), TENT_ERR_ARGUMENTS);
	assert_string_equal(lib_fix_error().field, "out.size");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_verdict_is_that_of_a_strict_engine),
		cmocka_unit_test(the_verdict_is_that_of_a_compat_engine),
		cmocka_unit_test(what_was_asked_is_copied_out),
		cmocka_unit_test(fields_beyond_struct_size_have_their_defaults),
		cmocka_unit_test(compat_says_what_it_changed),
		cmocka_unit_test(bad_arguments_of_the_call_are_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
