/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_errors.c - what a caller learns when something fails: the details of the
 * call, of each task, and of the batch as a whole.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lib/lib.h"
#include "tests/common/lib_fix.h"

#define SIZE 65536u
#define HALF (SIZE / 2)

static struct lib_fix fix;

/* Where it listens is no address that this host happens to have. */
static const char *const keys[] = { "rpc_server_hostname=127.0.0.1", NULL };

static int start(void **state)
{
	(void)state;
	lib_fix_start(&fix, LIB_THREAD, SIZE, keys);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	lib_fix_stop(&fix);
	return 0;
}

static int submit(tent_request_v1_t *r, size_t count)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 16);
	int rc = tent_submit_v1(fix.engine, batch, r, count);

	if (!rc)
		lib_fix_wait(fix.engine, batch);
	tent_free_batch(fix.engine, batch);
	return rc;
}

static void a_refusal_names_entry_field_value_and_what_was_allowed(void **state)
{
	tent_request_v1_t r[3];
	tent_error_info_t info;

	(void)state;
	for (int i = 0; i < 3; i++)
		r[i] = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	r[2].intent_type = 9;
	assert_int_equal(submit(r, 3), TENT_ERR_ENUM);
	info = lib_fix_error();
	assert_int_equal(info.error, TENT_ERR_ENUM);
	assert_int_equal(info.index, 2);
	assert_int_equal(info.rule, TENT_RULE_INTENT);
	assert_string_equal(info.field, "intent_type");
	assert_string_equal(info.message, "entry 2: intent_type is 9; allowed: 0..5");
}

static void a_policy_is_quoted_from_the_callers_entry(void **state)
{
	tent_request_v1_t r[2];

	(void)state;
	r[0] = r[1] = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	r[1].policy_name = "latency-critical";
	assert_int_equal(submit(r, 2), TENT_ERR_POLICY_UNKNOWN);
	assert_string_equal(lib_fix_error().message, "entry 1: policy_name is "
			    "\"latency-critical\"; allowed: a configured policy");
	r[1].policy_name = "not good";
	assert_int_equal(submit(r, 2), TENT_ERR_LAYOUT);
	assert_non_null(strstr(lib_fix_error().message, "\"not good\""));
}

static void a_policy_name_is_copied_before_submit_returns(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	char *name = malloc(8); /* exactly as long: asan sees a read beyond it */

	(void)state;
	memcpy(name, "unknown", 8);
	r.policy_name = name;
	assert_int_equal(submit(&r, 1), TENT_ERR_POLICY_UNKNOWN);
	free(name);
	assert_non_null(strstr(lib_fix_error().message, "\"unknown\""));
}

static void an_argument_is_named(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);

	(void)state;
	assert_int_equal(tent_submit_v1(fix.engine, batch, NULL, 1), TENT_ERR_ARGUMENTS);
	assert_string_equal(lib_fix_error().field, "entries");
	assert_string_equal(lib_fix_error().message, "entries is NULL; allowed: not NULL");
	assert_int_equal(tent_overall_status(fix.engine, batch, NULL), TENT_ERR_ARGUMENTS);
	assert_string_equal(lib_fix_error().field, "status");
	assert_int_equal(tent_submit_v1(fix.engine, batch, &r, 9), TENT_ERR_CAPACITY);
	assert_string_equal(lib_fix_error().message,
			    "count is 9; allowed: 1, what is left of the batch");
	tent_free_batch(fix.engine, batch);
}

static void *fail_elsewhere(void *arg)
{
	(void)arg;
	tent_free_batch(fix.engine, 0);
	return NULL;
}

static void the_last_error_is_the_threads_own_and_success_keeps_it(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	pthread_t thread;

	(void)state;
	r.flags = 4;
	assert_int_equal(submit(&r, 1), TENT_ERR_FLAGS);
	assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	r.flags = 0;
	assert_int_equal(submit(&r, 1), 0);
	assert_int_equal(lib_fix_error().error, TENT_ERR_FLAGS);
}

static void only_the_callers_size_is_written(void **state)
{
	uint8_t bytes[sizeof(tent_error_info_t) + 8];
	tent_error_info_t *info = (void *)bytes;

	(void)state;
	tent_free_batch(fix.engine, 0);
	assert_int_equal(tent_last_error(NULL), TENT_ERR_ARGUMENTS);
	for (uint32_t size = 0; size <= sizeof(bytes); size++) {
		uint32_t end = size < sizeof(*info) ? size : sizeof(*info);
		int rc;

		memset(bytes, 0xaa, sizeof(bytes));
		info->size = size;
		rc = tent_last_error(info);
		assert_int_equal(rc, size < 16 ? TENT_ERR_ARGUMENTS : 0);
		assert_int_equal(info->size, size);
		for (uint32_t i = size < 16 ? 4 : end; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], 0xaa);
		if (size > 48 && !rc) /* the text ends inside what is the caller's */
			assert_non_null(memchr(info->message, 0, end - 48));
		else if (size > 16 && !rc)
			assert_non_null(memchr(info->field, 0, end - 16));
	}
}

/* Puts tasks that ended in these ways into a batch, as if the engine had said so. */
static void end_tasks(tent_batch_id_t batch, const int *statuses, uint32_t nr)
{
	struct lib_batch *b = lib_batch_find(lib_engine_find(fix.engine), batch);

	assert_non_null(b);
	lib_lock(&b->ring->lock);
	for (uint32_t i = 0; i < nr; i++)
		b->tasks->task[i].end = lib_task_word(TENT_STATUS_PENDING, 0, 0, 0, 0);
	store_release(&b->pending, nr);
	store_release(&b->nr_tasks, nr);
	for (uint32_t i = 0; i < nr; i++)
		if (statuses[i] != TENT_STATUS_PENDING)
			lib_task_finish(b, i, lib_task_word((uint8_t)statuses[i], 0,
							    TENT_RULE_TARGET_GONE,
							    TENT_ERR_OWNER_GONE,
							    TENT_CQE_F_DEADLINE_MISSED), 10);
	lib_unlock(&b->ring->lock);
}

static void the_worst_end_speaks_for_a_batch(void **state)
{
	enum { C = TENT_STATUS_COMPLETED, I = TENT_STATUS_INVALID, X = TENT_STATUS_CANCELED,
	       T = TENT_STATUS_TIMEOUT, F = TENT_STATUS_FAILED, P = TENT_STATUS_PENDING };
	static const struct {
		int statuses[4], overall;
		uint64_t bytes;
	} rows[] = {
		{ { C, C, C, C }, C, 40 },
		{ { C, I, C, C }, I, 30 },
		{ { I, X, C, C }, X, 20 },
		{ { X, I, X, C }, X, 10 },
		{ { T, X, I, C }, T, 10 },
		{ { I, X, T, F }, F, 0 },
		{ { F, C, T, I }, F, 10 },
		{ { C, C, F, C }, F, 30 },
		{ { P, F, C, C }, P, 20 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		tent_batch_id_t batch = tent_allocate_batch(fix.engine, 4);
		tent_status_t s;

		end_tasks(batch, rows[i].statuses, 4);
		assert_int_equal(tent_overall_status(fix.engine, batch, &s), 0);
		assert_int_equal(s.status, rows[i].overall);
		assert_int_equal(s.transferred_bytes, rows[i].bytes);
		for (size_t k = 0; k < 4; k++) {
			assert_int_equal(tent_task_status(fix.engine, batch, k, &s), 0);
			assert_int_equal(s.status, rows[i].statuses[k]);
		}
		assert_int_equal(tent_free_batch(fix.engine, batch), 0);
	}
}

static void a_task_says_why_it_failed(void **state)
{
	static const int statuses[] = { TENT_STATUS_COMPLETED, TENT_STATUS_FAILED };
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 2);
	tent_error_info_t info = { .size = sizeof(info) };

	(void)state;
	end_tasks(batch, statuses, 2);
	assert_int_equal(tent_task_error(fix.engine, batch, 1, &info), 0);
	assert_int_equal(info.error, TENT_ERR_OWNER_GONE);
	assert_int_equal(info.rule, TENT_RULE_TARGET_GONE);
	assert_int_equal(info.index, 1);
	assert_int_equal(info.flags, TENT_CQE_F_DEADLINE_MISSED);
	assert_string_equal(info.field, "target");
	assert_string_equal(info.message, "task 1 ended as FAILED: target; needed: registered "
			    "until the request ended; its owner unregistered it or died");
	assert_int_equal(tent_task_error(fix.engine, batch, 2, &info), TENT_ERR_ARGUMENTS);
	assert_string_equal(lib_fix_error().field, "task_id");
	info.size = offsetof(tent_error_info_t, flags);	/* of a program from before them */
	info.flags = 77;
	assert_int_equal(tent_task_error(fix.engine, batch, 1, &info), 0);
	assert_int_equal(info.flags, 77);
	info.size = 15;
	assert_int_equal(tent_task_error(fix.engine, batch, 1, &info), TENT_ERR_ARGUMENTS);
	tent_free_batch(fix.engine, batch);
}

static void a_completed_task_has_no_error(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_error_info_t info = { .size = sizeof(info), .error = -99 };

	(void)state;
	assert_int_equal(tent_submit_v1(fix.engine, batch, &r, 1), 0);
	lib_fix_wait(fix.engine, batch);
	assert_int_equal(tent_task_error(fix.engine, batch, 0, &info), 0);
	assert_int_equal(info.error, 0);
	assert_string_equal(info.message, "");
	tent_free_batch(fix.engine, batch);
}

static void texts_are_terminated_or_refused(void **state)
{
	char name[128], cut[4] = "abc";
	uint16_t port = 0;

	(void)state;
	assert_int_equal(tent_segment_name(fix.engine, name, sizeof(name)), 0);
	assert_true(strlen(name) > 3);
	assert_int_equal(tent_segment_name(fix.engine, cut, sizeof(cut)), TENT_ERR_CAPACITY);
	assert_string_equal(cut, "abc");
	assert_int_equal(tent_segment_name(fix.engine, name, strlen(name)), TENT_ERR_CAPACITY);
	assert_int_equal(tent_segment_name(fix.engine, name, strlen(name) + 1), 0);
	assert_int_equal(tent_segment_name(fix.engine, NULL, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_rpc_server_addr_port(fix.engine, cut, sizeof(cut), &port),
			 TENT_ERR_CAPACITY);
	assert_int_equal(port, 0);
	assert_int_equal(tent_rpc_server_addr_port(fix.engine, name, sizeof(name), &port), 0);
	assert_string_equal(name, "127.0.0.1");
	assert_int_equal(port, 15000);
}

static void options_outside_their_range_are_refused(void **state)
{
	tent_memory_options_t good = { .permission = TENT_PERM_GLOBAL_READ_WRITE }, o;
	void *p = NULL;

	(void)state;
	o = good;
	memset(o.location, 'x', sizeof(o.location));
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o), TENT_ERR_ENUM);
	o = good;
	strcpy(o.location, "moon:1");
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o), TENT_ERR_ENUM);
	o = good;
	o.permission = 3;
	assert_int_equal(tent_register_memory_ex(fix.engine, fix.memory, 16, &o), TENT_ERR_ENUM);
	o = good;
	o.transport_type = 13;
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o), TENT_ERR_ENUM);
	o.transport_type = TENT_TRANSPORT_GDS;
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o),
			 TENT_ERR_UNSUPPORTED);
	o.transport_type = TENT_TRANSPORT_NVLINK;
	assert_int_equal(tent_register_memory_ex(fix.engine, fix.memory, 16, &o),
			 TENT_ERR_UNSUPPORTED);
	o = good;
	strcpy(o.shm_path, "/dev/shm/x");
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o), TENT_ERR_ARGUMENTS);
	assert_string_equal(lib_fix_error().field, "shm_path");
	o = good;
	o.shm_offset = 1;
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_allocate_memory(fix.engine, NULL, 4096, "*"), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_allocate_memory(fix.engine, &p, 4096, NULL), TENT_ERR_ARGUMENTS);
	assert_null(p);
	assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &good), 0);
	assert_int_equal(tent_free_memory(fix.engine, p), 0);
	assert_int_not_equal(tent_free_memory(fix.engine, p), 0);
}

static void memory_may_be_meant_for_any_transport_that_moves_it(void **state)
{
	static const int transports[] = { TENT_TRANSPORT_RDMA, TENT_TRANSPORT_SHM,
					  TENT_TRANSPORT_IOURING, TENT_TRANSPORT_TCP };
	tent_memory_options_t o = { .permission = TENT_PERM_GLOBAL_READ_WRITE };
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 4096);

	(void)state;
	for (size_t i = 0; i < sizeof(transports) / sizeof(transports[0]); i++) {
		void *p = NULL;

		o.transport_type = transports[i];
		assert_int_equal(tent_allocate_memory_ex(fix.engine, &p, 4096, &o), 0);
		assert_int_equal(tent_register_memory_ex(fix.engine, p, 4096, &o), 0);
		r.source = p;
		assert_int_equal(submit(&r, 1), 0);
		assert_int_equal(tent_free_memory(fix.engine, p), 0);
	}
}

static void registration_of_many_is_all_or_none(void **state)
{
	uint8_t *heap = malloc(3 * 4096);
	void *addrs[3] = { heap, heap + 4096, heap + 8192 };
	size_t sizes[3] = { 4096, 4096, 0 };
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);

	(void)state;
	assert_int_not_equal(tent_register_memory_batch(fix.engine, addrs, sizes, 3, 2), 0);
	r.source = heap;
	assert_int_equal(submit(&r, 1), TENT_ERR_ADDRESS);
	sizes[2] = 4096;
	assert_int_equal(tent_register_memory_batch(fix.engine, addrs, sizes, 3, 2), 0);
	assert_int_equal(submit(&r, 1), 0);
	assert_int_equal(tent_register_memory_batch(fix.engine, NULL, NULL, 0, 2), 0);
	assert_int_equal(tent_register_memory_batch(fix.engine, NULL, sizes, 1, 2),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_unregister_memory_batch(fix.engine, addrs, NULL, 3), 0);
	assert_int_equal(submit(&r, 1), TENT_ERR_ADDRESS);
	assert_int_equal(tent_unregister_memory_batch(fix.engine, addrs, sizes, 3), 0);
	assert_int_equal(tent_unregister_memory(fix.engine, &r, 16), 0);
	free(heap);
}

static void registration_of_many_takes_options_for_all_or_none(void **state)
{
	uint8_t *heap = malloc(2 * 4096);
	void *addrs[2] = { heap, heap + 4096 };
	size_t sizes[2] = { 4096, 4096 };
	tent_memory_options_t o = { .permission = TENT_PERM_LOCAL_READ_WRITE };
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);

	(void)state;
	r.source = heap + 4096;
	assert_int_equal(tent_register_memory_batch_ex(fix.engine, addrs, sizes, 2, NULL),
			 TENT_ERR_ARGUMENTS);
	o.permission = 3;
	assert_int_equal(tent_register_memory_batch_ex(fix.engine, addrs, sizes, 2, &o),
			 TENT_ERR_ENUM);
	o.permission = TENT_PERM_LOCAL_READ_WRITE;
	sizes[1] = 0;
	assert_int_equal(tent_register_memory_batch_ex(fix.engine, addrs, sizes, 2, &o),
			 TENT_ERR_ADDRESS);
	r.source = heap;
	assert_int_equal(submit(&r, 1), TENT_ERR_ADDRESS);
	sizes[1] = 4096;
	assert_int_equal(tent_register_memory_batch_ex(fix.engine, addrs, sizes, 2, &o), 0);
	assert_int_equal(submit(&r, 1), 0);
	assert_int_equal(tent_unregister_memory_batch(fix.engine, addrs, sizes, 2), 0);
	free(heap);
}

static void registrations_of_one_range_are_counted(void **state)
{
	uint8_t *heap = malloc(4096);
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);

	(void)state;
	r.source = heap;
	assert_int_equal(tent_register_memory(fix.engine, heap, 4096), 0);
	assert_int_equal(tent_register_memory(fix.engine, heap, 4096), 0);
	assert_int_equal(tent_unregister_memory(fix.engine, heap, 4096), 0);
	assert_int_equal(submit(&r, 1), 0);
	assert_int_equal(tent_unregister_memory(fix.engine, heap, 0), 0);
	assert_int_equal(submit(&r, 1), TENT_ERR_ADDRESS);
	free(heap);
}

static void a_segment_can_be_looked_at(void **state)
{
	tent_segment_info_t info;
	tent_segment_id_t id = 7;
	char name[128];
	bool found = false;

	(void)state;
	assert_int_equal(tent_open_segment(fix.engine, &id, ""), 0);
	assert_int_equal(id, TENT_LOCAL_SEGMENT);
	id = 7;
	assert_int_equal(tent_segment_name(fix.engine, name, sizeof(name)), 0);
	assert_int_equal(tent_open_segment(fix.engine, &id, name), 0);
	assert_int_equal(id, TENT_LOCAL_SEGMENT);
	assert_int_equal(tent_connect_segment(fix.engine, id, 0), 0);
	assert_int_equal(tent_get_segment_info(fix.engine, id, &info), 0);
	assert_int_equal(info.type, TENT_SEGMENT_MEMORY);
	for (int i = 0; i < info.num_buffers; i++)
		found |= info.buffers[i].base == (uintptr_t)fix.memory &&
			 info.buffers[i].length == SIZE;
	assert_true(found);
	tent_free_segment_info(&info);
	assert_null(info.buffers);
	tent_free_segment_info(&info);
	tent_free_segment_info(NULL);
	assert_int_equal(tent_close_segment(fix.engine, TENT_LOCAL_SEGMENT), 0);
	assert_int_not_equal(tent_close_segment(fix.engine, 99), 0);
	assert_int_not_equal(tent_connect_segment(fix.engine, 99, 0), 0);
	assert_int_equal(tent_open_segment(fix.engine, &id, "10.0.0.1:1/nobody"),
			 TENT_ERR_PEER_UNREACHABLE);
}

static void a_notification_is_judged_with_the_arguments(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_status_t s;

	(void)state;
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, NULL, 1, "n", "m"),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, NULL, "m"),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", NULL),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_task_status(fix.engine, batch, 0, &s), TENT_ERR_ARGUMENTS);
	r.opcode = 7;
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", NULL),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", "m"), TENT_ERR_ENUM);
	tent_free_batch(fix.engine, batch);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, NULL, "m"),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", "m"),
			 TENT_ERR_STALE_HANDLE);
}

static void explain_says_what_a_submit_would_do_and_submits_nothing(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	char *json = NULL;

	(void)state;
	memset(fix.memory, 1, HALF);
	memset(fix.memory + HALF, 2, HALF);
	assert_int_equal(tent_explain_requests(fix.engine, &r, 1, 88, 1, NULL),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_explain_requests(fix.engine, &r, 1, 44, 1, &json),
			 TENT_ERR_LAYOUT);
	assert_null(json);
	assert_int_equal(tent_explain_requests(fix.engine, &r, 1, 88, 1, &json), 0);
	assert_non_null(strstr(json, "shm"));
	free(json);
	r.intent_type = 9;
	assert_int_equal(tent_explain_requests(fix.engine, &r, 1, 88, 1, &json), 0);
	assert_non_null(strstr(json, "intent_type"));
	free(json);
	assert_int_equal(fix.memory[HALF], 2);
}

static void a_task_that_ended_can_be_canceled_again(void **state)
{
	tent_request_v1_t r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, HALF, 16);
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_status_t s;

	(void)state;
	assert_int_equal(tent_cancel_task(fix.engine, batch, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1(fix.engine, batch, &r, 1), 0);
	lib_fix_wait(fix.engine, batch);
	assert_int_equal(tent_cancel_task(fix.engine, batch, 0), 0);
	assert_int_equal(tent_cancel_task(fix.engine, batch, 1), TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_overall_status(fix.engine, batch, &s), 0);
	assert_int_equal(s.status, TENT_STATUS_COMPLETED);
	tent_free_batch(fix.engine, batch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_refusal_names_entry_field_value_and_what_was_allowed),
		cmocka_unit_test(a_policy_is_quoted_from_the_callers_entry),
		cmocka_unit_test(a_policy_name_is_copied_before_submit_returns),
		cmocka_unit_test(an_argument_is_named),
		cmocka_unit_test(the_last_error_is_the_threads_own_and_success_keeps_it),
		cmocka_unit_test(only_the_callers_size_is_written),
		cmocka_unit_test(the_worst_end_speaks_for_a_batch),
		cmocka_unit_test(a_task_says_why_it_failed),
		cmocka_unit_test(a_completed_task_has_no_error),
		cmocka_unit_test(texts_are_terminated_or_refused),
		cmocka_unit_test(options_outside_their_range_are_refused),
		cmocka_unit_test(memory_may_be_meant_for_any_transport_that_moves_it),
		cmocka_unit_test(registration_of_many_is_all_or_none),
		cmocka_unit_test(registration_of_many_takes_options_for_all_or_none),
		cmocka_unit_test(registrations_of_one_range_are_counted),
		cmocka_unit_test(a_segment_can_be_looked_at),
		cmocka_unit_test(a_notification_is_judged_with_the_arguments),
		cmocka_unit_test(explain_says_what_a_submit_would_do_and_submits_nothing),
		cmocka_unit_test(a_task_that_ended_can_be_canceled_again),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
