/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_ends.c - how accepted tasks end when they do not complete: canceled, timed
 * out, failed by the transport, or their memory taken away. The null transport holds
 * requests back as long as a test wants.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <tent/ring.h>

#include "tests/common/lib_fix.h"

#define SIZE (1u << 20)
#define HALF (SIZE / 2)
#define NULL_TRANSPORT "transports/null/enable=true", "transports/shm/enable=false"

static const char *const holding[] = {
	NULL_TRANSPORT, "transports/null/faults=pending=1,hold",
	"engine/request_timeout_ms=86400000", NULL
};
static const char *const timing_out[] = {
	NULL_TRANSPORT, "transports/null/faults=pending=1,hold",
	"engine/request_timeout_ms=50", NULL
};
static const char *const failing[] = {
	NULL_TRANSPORT, "transports/null/faults=fail=3", NULL
};

static void start(struct lib_fix *f, enum lib_mode mode, const char *const *options)
{
	lib_fix_start(f, mode, SIZE, options);
}

/* tent_set_config() keeps its keys: the next engine of this thread starts over. */
static void stop(struct lib_fix *f)
{
	lib_fix_stop(f);
	tent_set_config("transports/null/enable", "false");
	tent_set_config("transports/shm/enable", "true");
	tent_set_config("transports/null/faults", "");
}

static tent_batch_id_t submit(struct lib_fix *f, size_t count)
{
	tent_request_v1_t *r = calloc(count, sizeof(*r));
	tent_batch_id_t batch = tent_allocate_batch(f->engine, count);

	for (size_t i = 0; i < count; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i, HALF + i, 64);
	if (tent_submit_v1(f->engine, batch, r, count))
		fail_msg("%s", lib_fix_error().message);
	free(r);
	return batch;
}

static int status_of(struct lib_fix *f, tent_batch_id_t batch, size_t task)
{
	tent_status_t s;

	assert_int_equal(tent_task_status(f->engine, batch, task, &s), 0);
	return s.status;
}

static void assert_ended(struct lib_fix *f, tent_batch_id_t batch, size_t task, int status,
			 int error)
{
	tent_error_info_t info = { .size = sizeof(info) };

	while (status_of(f, batch, task) < TENT_STATUS_INVALID)
		;
	assert_int_equal(status_of(f, batch, task), status);
	assert_int_equal(tent_task_error(f->engine, batch, task, &info), 0);
	assert_int_equal(info.error, error);
	assert_true((error != 0) == (info.message[0] != 0));
}

static void cancel_in(enum lib_mode mode)
{
	static const size_t tasks[] = { 0, 57, 99 };
	struct lib_fix f;
	tent_batch_id_t batch;

	start(&f, mode, holding);
	batch = submit(&f, 100);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(tent_cancel_task(f.engine, batch, tasks[i]), 0);
		assert_ended(&f, batch, tasks[i], TENT_STATUS_CANCELED, TENT_ERR_CANCELED);
		assert_int_equal(tent_cancel_task(f.engine, batch, tasks[i]), 0);
	}
	assert_int_equal(status_of(&f, batch, 1), TENT_STATUS_PENDING);
	assert_int_equal(status_of(&f, batch, 58), TENT_STATUS_PENDING);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(tent_cancel_task(f.engine, batch, i), 0);
	assert_int_equal(lib_fix_wait(f.engine, batch).status, TENT_STATUS_CANCELED);
	tent_free_batch(f.engine, batch);
	stop(&f);
}

static void a_canceled_task_ends_and_its_neighbours_go_on(void **state)
{
	(void)state;
	cancel_in(LIB_THREAD);
	cancel_in(LIB_CALLER);
	cancel_in(LIB_DAEMON);
}

/* The tasks of a batch larger than the ring show their ends when all have ended. */
static void a_large_batch_can_be_canceled_task_by_task(void **state)
{
	enum { NR = 5000 };
	struct lib_fix f;
	tent_batch_id_t batch;

	(void)state;
	start(&f, LIB_THREAD, holding);
	batch = submit(&f, NR);
	for (size_t i = 0; i < NR; i++)
		assert_int_equal(tent_cancel_task(f.engine, batch, NR - 1 - i), 0);
	assert_int_equal(lib_fix_wait(f.engine, batch).status, TENT_STATUS_CANCELED);
	assert_ended(&f, batch, NR - 1, TENT_STATUS_CANCELED, TENT_ERR_CANCELED);
	tent_free_batch(f.engine, batch);
	stop(&f);
}

static void a_request_that_hangs_times_out(void **state)
{
	struct lib_fix f;
	tent_batch_id_t small, large;

	(void)state;
	for (enum lib_mode mode = LIB_THREAD; mode <= LIB_DAEMON; mode++) {
		start(&f, mode, timing_out);
		small = submit(&f, 10);
		large = submit(&f, 5000);
		assert_int_equal(lib_fix_wait(f.engine, small).status, TENT_STATUS_TIMEOUT);
		assert_int_equal(lib_fix_wait(f.engine, large).status, TENT_STATUS_TIMEOUT);
		assert_ended(&f, small, 9, TENT_STATUS_TIMEOUT, TENT_ERR_TIMEOUT);
		assert_ended(&f, large, 4999, TENT_STATUS_TIMEOUT, TENT_ERR_TIMEOUT);
		tent_free_batch(f.engine, small);
		tent_free_batch(f.engine, large);
		stop(&f);
	}
}

static void a_failed_request_fails_its_task_alone(void **state)
{
	struct lib_fix f;
	tent_batch_id_t batch;
	size_t failed = 0;

	(void)state;
	start(&f, LIB_THREAD, failing);
	batch = submit(&f, 99);
	assert_int_equal(lib_fix_wait(f.engine, batch).status, TENT_STATUS_FAILED);
	for (size_t i = 0; i < 99; i++) {
		bool bad = status_of(&f, batch, i) == TENT_STATUS_FAILED;

		failed += bad;
		assert_ended(&f, batch, i, bad ? TENT_STATUS_FAILED : TENT_STATUS_COMPLETED,
			     bad ? TENT_ERR_RUNTIME : 0);
	}
	assert_int_equal(failed, 33);
	tent_free_batch(f.engine, batch);
	stop(&f);
}

static void unregistering_ends_what_names_the_memory(void **state)
{
	struct lib_fix f;
	tent_batch_id_t batch;

	(void)state;
	for (enum lib_mode mode = LIB_THREAD; mode <= LIB_DAEMON; mode++) {
		start(&f, mode, holding);
		batch = submit(&f, 10);
		assert_int_equal(tent_unregister_memory(f.engine, f.memory, SIZE), 0);
		for (size_t i = 0; i < 10; i++)
			assert_ended(&f, batch, i, TENT_STATUS_FAILED, TENT_ERR_OWNER_GONE);
		tent_free_batch(f.engine, batch);
		stop(&f);
	}
}

static void freeing_memory_ends_what_names_it(void **state)
{
	struct lib_fix f;
	tent_batch_id_t batch;

	(void)state;
	start(&f, LIB_DAEMON, holding);
	batch = submit(&f, 10);
	assert_int_equal(tent_free_memory(f.engine, f.memory), 0);
	for (size_t i = 0; i < 10; i++)
		assert_ended(&f, batch, i, TENT_STATUS_FAILED, TENT_ERR_OWNER_GONE);
	tent_free_batch(f.engine, batch);
	stop(&f);
}

/* A ring's worth of held requests leaves no room: the next submit waits, and goes
 * through when the first ones time out. */
static void a_submit_waits_for_room_and_gets_it(void **state)
{
	struct lib_fix f;
	tent_batch_id_t first, second;

	(void)state;
	start(&f, LIB_THREAD, timing_out);
	first = submit(&f, 4096);
	second = submit(&f, 1000);
	assert_int_equal(lib_fix_wait(f.engine, first).status, TENT_STATUS_TIMEOUT);
	assert_int_equal(lib_fix_wait(f.engine, second).status, TENT_STATUS_TIMEOUT);
	tent_free_batch(f.engine, first);
	tent_free_batch(f.engine, second);
	stop(&f);
}

/* In compat mode: one request of them asks for an intent nobody knows. */
static void submit_with_unknown_intent(struct lib_fix *f, size_t count, tent_batch_id_t *batch)
{
	tent_request_v1_t *r = calloc(count, sizeof(*r));

	for (size_t i = 0; i < count; i++)
		r[i] = lib_fix_request(f, TENT_OPCODE_WRITE, i, HALF + i, 8);
	r[1].intent_type = 99;
	*batch = tent_allocate_batch(f->engine, count);
	assert_int_equal(tent_submit_v1(f->engine, *batch, r, count), 0);
	assert_int_equal(lib_fix_wait(f->engine, *batch).status, TENT_STATUS_COMPLETED);
	free(r);
}

static uint32_t flags_of(struct lib_fix *f, tent_batch_id_t batch, size_t task)
{
	tent_error_info_t info = { .size = sizeof(info) };

	assert_int_equal(tent_task_error(f->engine, batch, task, &info), 0);
	return info.flags;
}

/* Of each task; of a submit larger than a ring those of all its requests together. */
static void tasks_tell_how_they_were_downgraded(void **state)
{
	static const char *const compat[] = { "engine/validation=compat", NULL };
	struct lib_fix f;
	tent_batch_id_t batch;

	(void)state;
	start(&f, LIB_THREAD, compat);
	submit_with_unknown_intent(&f, 3, &batch);
	assert_int_equal(flags_of(&f, batch, 0), 0);
	assert_int_equal(flags_of(&f, batch, 1), TENT_CQE_F_INTENT_DOWNGRADED);
	submit_with_unknown_intent(&f, TENT_SLOTS_MAX + 1, &batch);
	assert_int_equal(flags_of(&f, batch, 0), TENT_CQE_F_INTENT_DOWNGRADED);
	assert_int_equal(flags_of(&f, batch, TENT_SLOTS_MAX), TENT_CQE_F_INTENT_DOWNGRADED);
	tent_set_config("engine/validation", "strict");
	stop(&f);
}

/* The pools give the second engine the ring and the tasks that the first one had. */
static void a_destroyed_engines_batch_ends_no_tasks_of_the_next(void **state)
{
	struct lib_fix first, second;
	tent_batch_id_t batch;
	tent_status_t overall;

	(void)state;
	start(&first, LIB_DAEMON, holding);
	submit(&first, 64);
	stop(&first);
	start(&second, LIB_DAEMON, holding);
	batch = submit(&second, 64);
	lib_fix_kill(&second, SIGKILL);
	for (size_t i = 0; i < 64; i++)
		assert_ended(&second, batch, i, TENT_STATUS_FAILED, TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_overall_status(second.engine, batch, &overall), 0);
	assert_int_equal(overall.status, TENT_STATUS_FAILED);
	stop(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_canceled_task_ends_and_its_neighbours_go_on),
		cmocka_unit_test(a_large_batch_can_be_canceled_task_by_task),
		cmocka_unit_test(a_request_that_hangs_times_out),
		cmocka_unit_test(a_failed_request_fails_its_task_alone),
		cmocka_unit_test(unregistering_ends_what_names_the_memory),
		cmocka_unit_test(freeing_memory_ends_what_names_it),
		cmocka_unit_test(a_submit_waits_for_room_and_gets_it),
		cmocka_unit_test(tasks_tell_how_they_were_downgraded),
		cmocka_unit_test(a_destroyed_engines_batch_ends_no_tasks_of_the_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
