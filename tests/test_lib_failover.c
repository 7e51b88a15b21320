/* SPDX-License-Identifier: Apache-2.0 */
/* test_lib_failover.c - what a program learns of requests that one transport failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE (4u << 20)
#define HALF (SIZE / 2)
#define MANY 5000u	/* more than a ring has */

static struct lib_fix fix;

static void start(const char *faults, const char *attempts)
{
	const char *const options[] = { "transports/null/enable=true", faults, attempts, NULL };

	lib_fix_start(&fix, LIB_THREAD, SIZE, options);
}

/* By the null transport first, then by whom there is. */
static tent_request_v1_t request(size_t at, size_t length)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, at, HALF + at, length);

	r.transport_hint = TENT_TRANSPORT_MPCOMM;
	return r;
}

static tent_batch_id_t run(tent_request_v1_t *r, size_t count, int expected)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, count);

	assert_int_equal(tent_submit_v1(fix.engine, batch, r, count), 0);
	assert_int_equal(lib_fix_wait(fix.engine, batch).status, expected);
	return batch;
}

static void a_task_that_went_on_says_why_and_from_where(void **state)
{
	tent_error_info_t info = { .size = sizeof(info) };
	tent_request_v1_t r;
	tent_batch_id_t batch;

	(void)state;
	start("transports/null/faults=fail=1", "max_failover_attempts=3");
	lib_fix_pattern(fix.memory, HALF, 7);
	r = request(0, 4096);
	batch = run(&r, 1, TENT_STATUS_COMPLETED);
	assert_memory_equal(fix.memory, fix.memory + HALF, 4096);
	assert_int_equal(tent_task_error(fix.engine, batch, 0, &info), 0);
	assert_int_equal(info.error, 0);
	assert_int_equal(info.rule, TENT_RULE_INJECTED);
	assert_true(info.flags & TENT_CQE_F_FAILED_OVER);
	assert_int_equal(TENT_CQE_FIRST_TRANSPORT(info.flags), TENT_TRANSPORT_MPCOMM);
	assert_string_equal(info.message, "task 0 ended as COMPLETED by shm; mpcomm had failed: "
			    "request; needed: no injected fault");
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

static void without_further_attempts_it_fails_as_before(void **state)
{
	tent_error_info_t info = { .size = sizeof(info) };
	tent_request_v1_t r;
	tent_batch_id_t batch;

	(void)state;
	start("transports/null/faults=fail=1", "max_failover_attempts=0");
	r = request(0, 4096);
	batch = run(&r, 1, TENT_STATUS_FAILED);
	assert_int_equal(tent_task_error(fix.engine, batch, 0, &info), 0);
	assert_int_equal(info.error, TENT_ERR_RUNTIME);
	assert_int_equal(info.flags, 0);
	assert_string_equal(info.message, "task 0 ended as FAILED: request; needed: "
			    "no injected fault");
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

static void more_tasks_than_a_ring_has_go_on_too(void **state)
{
	tent_request_v1_t *r = calloc(MANY, sizeof(*r));
	tent_error_info_t info = { .size = sizeof(info) };
	tent_batch_id_t batch;

	(void)state;
	assert_non_null(r);
	start("transports/null/faults=fail=2,lose=2", "max_failover_attempts=3");
	for (uint32_t i = 0; i < MANY; i++)
		r[i] = request(64 * i, 64);
	batch = run(r, MANY, TENT_STATUS_COMPLETED);
	assert_int_equal(tent_task_error(fix.engine, batch, 1, &info), 0);
	assert_true(info.flags & TENT_CQE_F_FAILED_OVER);
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_task_that_went_on_says_why_and_from_where),
		cmocka_unit_test(without_further_attempts_it_fails_as_before),
		cmocka_unit_test(more_tasks_than_a_ring_has_go_on_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
