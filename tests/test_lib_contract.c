/* SPDX-License-Identifier: Apache-2.0 */
/* test_lib_contract.c - contracts of a program's own engine, through the C API: v1 and the
 * older one, with a thread and on the caller's core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/common/lib_fix.h"

#define SIZE 8192u
#define HALF (SIZE / 2)

static const char contract[] =
	"{\"policy\":[{\"name\":\"plain\"},{\"name\":\"gold\"}],"
	"\"authorization\":{\"in_process\":\"guest\",\"tenants\":[{\"name\":\"guest\","
	"\"policies\":[\"plain\"],\"transports\":[\"shm\"],\"priority_cap\":\"medium\","
	"\"on_denied\":\"reject\",\"on_expired\":\"refuse\"}]}}";

static struct lib_fix fix;

static int start(enum lib_mode mode)
{
	setenv("MC_TENT_CONF", contract, 1);
	lib_fix_start(&fix, mode, SIZE, NULL);
	unsetenv("MC_TENT_CONF");
	return 0;
}

static int start_thread(void **state)
{
	(void)state;
	return start(LIB_THREAD);
}

static int start_caller(void **state)
{
	(void)state;
	return start(LIB_CALLER);
}

static int stop(void **state)
{
	(void)state;
	lib_fix_stop(&fix);
	return 0;
}

static int submit(const tent_request_v1_t *r)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	int rc = tent_submit_v1(fix.engine, batch, r, 1);

	if (!rc)
		assert_int_equal(lib_fix_wait(fix.engine, batch).status, TENT_STATUS_COMPLETED);
	tent_free_batch(fix.engine, batch);
	return rc;
}

static void each_field_gets_what_the_contract_gives_and_no_more(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);

	(void)state;
	assert_int_equal(submit(&r), 0);
	r.policy_name = "plain";
	assert_int_equal(submit(&r), 0);
	r.policy_name = "gold";
	assert_int_equal(submit(&r), TENT_ERR_POLICY_DENIED);
	assert_string_equal(lib_fix_error().message, "entry 0: policy_name is \"gold\"; allowed: "
			    "a policy this tenant may use");
	r.policy_name = NULL;
	r.requested_priority = TENT_PRIORITY_HIGH;
	assert_int_equal(submit(&r), TENT_ERR_POLICY_DENIED);
	assert_string_equal(lib_fix_error().field, "requested_priority");
	r.requested_priority = TENT_PRIORITY_MEDIUM;
	assert_int_equal(submit(&r), 0);
	r.deadline_ns = 1;
	assert_int_equal(submit(&r), TENT_ERR_DEADLINE);
	r.deadline_ns = 0;
	r.transport_hint = TENT_TRANSPORT_IOURING;
	assert_int_equal(submit(&r), TENT_ERR_TRANSPORT);
	r.transport_hint = TENT_TRANSPORT_SHM;
	assert_int_equal(submit(&r), 0);
}

/* Its priority 0 is HIGH, and there is no other way to say nothing. */
static void the_older_api_fails_the_one_request_that_asks_for_too_much(void **state)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 2);
	tent_request_t r[2];
	tent_status_t s;

	(void)state;
	for (int i = 0; i < 2; i++)
		r[i] = (tent_request_t){
			.opcode = OPCODE_WRITE, .source = fix.memory,
			.target_id = LOCAL_SEGMENT_ID, .length = 16, .priority = i,
			.target_offset = (uintptr_t)fix.memory + HALF,
		};
	assert_int_equal(tent_submit(fix.engine, batch, r, 2), 0);
	lib_fix_wait(fix.engine, batch);
	assert_int_equal(tent_task_status(fix.engine, batch, 0, &s), 0);
	assert_int_equal(s.status, STATUS_FAILED);
	assert_int_equal(tent_task_status(fix.engine, batch, 1, &s), 0);
	assert_int_equal(s.status, STATUS_COMPLETED);
	tent_free_batch(fix.engine, batch);
}

#define BOTH(name)								\
	cmocka_unit_test_setup_teardown(name, start_thread, stop),		\
	cmocka_unit_test_setup_teardown(name, start_caller, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(each_field_gets_what_the_contract_gives_and_no_more),
		BOTH(the_older_api_fails_the_one_request_that_asks_for_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
