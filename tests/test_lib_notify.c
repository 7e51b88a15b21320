/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_notify.c - notifications within one engine, in each kind of engine that a
 * program may use: sent alone and behind data, bounded, refused, never sent after a failure.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/ctl.h>
#include <tent/tentring.h>

#include "tests/common/lib_fix.h"

#define SIZE 65536
#define KEPT 1024

static struct lib_fix fix;

/* What came, in order. */
struct post {
	int nr;
	struct tent_notifi_record records[KEPT];
};
static struct post post;

static void receive(tent_engine_t engine, struct post *p)
{
	tent_notifi_info info;

	assert_int_equal(tent_recv_notifs(engine, &info), 0);
	for (int i = 0; i < info.num_records; i++) {
		assert_true(p->nr < KEPT);
		p->records[p->nr++] = info.records[i];
	}
	tent_free_notifs(&info);
}

static void receive_until(tent_engine_t engine, struct post *p, int nr)
{
	while (p->nr < nr)
		receive(engine, p);
	assert_int_equal(p->nr, nr);
}

/* What one sets in this program stays set. */
static const char *const plain[] = {
	"transports/null/enable=false", "transports/shm/enable=true", NULL
};

static void open_fix(enum lib_mode mode, const char *const *options)
{
	memset(&post, 0, sizeof(post));
	lib_fix_start(&fix, mode, SIZE, options ? options : plain);
}

static void assert_record(int i, const char *name, const char *message)
{
	assert_string_equal(post.records[i].name, name);
	assert_string_equal(post.records[i].msg, message);
	assert_int_equal(post.records[i].handle, TENT_LOCAL_SEGMENT);
}

/* One that is sent after everything before: what has not come by then will not. */
static void nothing_more_comes(void)
{
	int nr = post.nr;

	assert_int_equal(tent_send_notifs(fix.engine, TENT_LOCAL_SEGMENT, "last", ""), 0);
	receive_until(fix.engine, &post, nr + 1);
	assert_record(nr, "last", "");
	post.nr = nr;
}

static tent_batch_id_t submit(const tent_request_v1_t *r, size_t nr, const char *name,
			      const char *message)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, nr);

	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, r, nr, name, message), 0);
	return batch;
}

static void it_comes_as_it_was_sent(enum lib_mode mode)
{
	open_fix(mode, NULL);
	assert_int_equal(tent_send_notifs(fix.engine, TENT_LOCAL_SEGMENT, "name", "message"), 0);
	assert_int_equal(tent_send_notifs(fix.engine, TENT_LOCAL_SEGMENT, "", ""), 0);
	assert_int_equal(tent_send_notifs(fix.engine, TENT_LOCAL_SEGMENT, "\x80\xff", "\x01"), 0);
	receive_until(fix.engine, &post, 3);
	assert_record(0, "name", "message");
	assert_record(1, "", "");
	assert_record(2, "\x80\xff", "\x01");
	lib_fix_stop(&fix);
}

/* 0 records and a struct that may be freed, whatever it held before. */
static void none_is_no_error(enum lib_mode mode)
{
	tent_notifi_info info;

	open_fix(mode, NULL);
	memset(&info, 0xff, sizeof(info));
	assert_int_equal(tent_recv_notifs(fix.engine, &info), 0);
	assert_int_equal(info.num_records, 0);
	tent_free_notifs(&info);
	tent_free_notifs(&info);
	assert_int_equal(tent_recv_notifs(fix.engine, NULL), -1);
	lib_fix_stop(&fix);
}

static void it_comes_behind_all_data_of_its_batch(enum lib_mode mode)
{
	tent_request_v1_t r[3];

	open_fix(mode, NULL);
	lib_fix_pattern(fix.memory, SIZE / 2, 1);
	for (int i = 0; i < 3; i++)
		r[i] = lib_fix_request(&fix, TENT_OPCODE_WRITE, (size_t)i * 1000,
				       SIZE / 2 + (size_t)i * 1000, 1000);
	tent_free_batch(fix.engine, submit(r, 3, "landed", "kv"));
	receive_until(fix.engine, &post, 1);
	assert_record(0, "landed", "kv");
	assert_memory_equal(fix.memory + SIZE / 2, fix.memory, 3000);
	nothing_more_comes();
	lib_fix_stop(&fix);
}

static void each_task_ends_as_without_one(enum lib_mode mode)
{
	tent_status_t status[2];
	tent_batch_id_t batch;
	tent_request_v1_t r[2];
	size_t nr = 2;

	open_fix(mode, NULL);
	r[0] = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 100);
	r[1] = lib_fix_request(&fix, TENT_OPCODE_READ, 0, SIZE / 2, 50);
	batch = submit(r, 2, "n", "m");
	assert_int_equal(lib_fix_wait(fix.engine, batch).transferred_bytes, 150);
	assert_int_equal(tent_task_status_list(fix.engine, batch, status, &nr), 0);
	assert_int_equal(status[0].transferred_bytes, 100);
	assert_int_equal(status[1].transferred_bytes, 50);
	receive_until(fix.engine, &post, 1);
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

/* Several requests, and a zero-length one; legacy, too. */
static void a_target_is_told_once(enum lib_mode mode)
{
	tent_request_t legacy[2] = { { .opcode = TENT_OPCODE_WRITE }, { .opcode = 1 } };
	tent_request_v1_t r[200];
	tent_batch_id_t batch;

	open_fix(mode, NULL);
	for (int i = 0; i < 200; i++)
		r[i] = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, (size_t)i);
	tent_free_batch(fix.engine, submit(r, 200, "v1", ""));
	receive_until(fix.engine, &post, 1);
	for (int i = 0; i < 2; i++) {
		legacy[i].source = r[i].source;
		legacy[i].target_offset = r[i].target_offset;
		legacy[i].length = 8;
	}
	batch = tent_allocate_batch(fix.engine, 2);
	assert_int_equal(tent_submit_notif(fix.engine, batch, legacy, 2, "legacy", ""), 0);
	tent_free_batch(fix.engine, batch);
	receive_until(fix.engine, &post, 2);
	assert_record(0, "v1", "");
	assert_record(1, "legacy", "");
	nothing_more_comes();
	lib_fix_stop(&fix);
}

/* One that is larger than a ring. */
static void a_large_batch_has_one_too(enum lib_mode mode)
{
	size_t nr = 2 * TENT_SLOTS_DEFAULT;
	tent_request_v1_t *r = calloc(nr, sizeof(*r));
	tent_batch_id_t batch;

	open_fix(mode, NULL);
	lib_fix_pattern(fix.memory, 8, 3);
	for (size_t i = 0; i < nr; i++)
		r[i] = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, 8 + i * 4, 4);
	batch = submit(r, nr, "large", "");
	receive_until(fix.engine, &post, 1);
	for (size_t i = 0; i < nr; i++)
		assert_memory_equal(fix.memory + 8 + i * 4, fix.memory, 4);
	assert_int_equal(lib_fix_wait(fix.engine, batch).status, TENT_STATUS_COMPLETED);
	nothing_more_comes();
	tent_free_batch(fix.engine, batch);
	free(r);
	lib_fix_stop(&fix);
}

/* What one fails by is found after its neighbours have moved: a legacy address. */
static void nobody_is_told_when_a_request_failed(enum lib_mode mode)
{
	tent_request_v1_t good;
	tent_request_t r[3];
	tent_batch_id_t batch;

	open_fix(mode, NULL);
	good = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	batch = tent_allocate_batch(fix.engine, 9);
	for (int bad = 0; bad < 3; bad++) {
		for (int i = 0; i < 3; i++)
			r[i] = (tent_request_t){
				.opcode = TENT_OPCODE_WRITE, .source = good.source,
				.target_offset = i == bad ? 64 : good.target_offset, .length = 64,
			};
		assert_int_equal(tent_submit_notif(fix.engine, batch, r, 3, "n", "m"), 0);
	}
	assert_int_equal(lib_fix_wait(fix.engine, batch).status, TENT_STATUS_FAILED);
	nothing_more_comes();
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

static const char *const failing[] = {
	"transports/null/enable=true", "transports/shm/enable=false",
	"transports/null/faults=fail=2", NULL
};

/* The transport fails every second one. */
static void nobody_is_told_when_the_transport_failed(enum lib_mode mode)
{
	tent_request_v1_t r[2];
	tent_batch_id_t batch;

	open_fix(mode, failing);
	for (int i = 0; i < 2; i++)
		r[i] = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	batch = submit(r, 2, "n", "m");
	assert_int_equal(lib_fix_wait(fix.engine, batch).status, TENT_STATUS_FAILED);
	nothing_more_comes();
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

static const char *const hanging[] = {
	"transports/null/enable=true", "transports/shm/enable=false",
	"transports/null/faults=pending=1,hold", NULL
};

static void nobody_is_told_when_a_task_was_canceled(enum lib_mode mode)
{
	tent_request_v1_t r;
	tent_batch_id_t batch;

	open_fix(mode, hanging);
	r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	batch = submit(&r, 1, "n", "m");
	assert_int_equal(tent_cancel_task(fix.engine, batch, 0), 0);
	assert_int_equal(lib_fix_wait(fix.engine, batch).status, TENT_STATUS_CANCELED);
	nothing_more_comes();
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

/* Nothing of it is submitted either. */
static void a_refused_submit_tells_nobody(enum lib_mode mode)
{
	tent_request_v1_t r;
	tent_batch_id_t batch;
	size_t nr = 0;

	open_fix(mode, NULL);
	r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	r.opcode = 2;
	batch = tent_allocate_batch(fix.engine, 1);
	for (int i = 0; i < 200; i++)	/* more than a ring has room for */
		assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", "m"),
				 TENT_ERR_ENUM);
	assert_int_equal(tent_task_status_list(fix.engine, batch, &(tent_status_t){ 0 }, &nr), 0);
	assert_int_equal(nr, 0);
	nothing_more_comes();
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

static void assert_too_long(const char *field, size_t length, size_t limit)
{
	char expected[96];

	snprintf(expected, sizeof(expected), "%s has %zu bytes; allowed: up to %zu", field, length,
		 limit);
	assert_string_equal(lib_fix_error().field, field);
	assert_string_equal(lib_fix_error().message, expected);
	assert_int_equal(lib_fix_error().error, TENT_ERR_ARGUMENTS);
}

/* Whole up to the limit, and refused beyond it. */
static void texts_are_whole_or_refused(enum lib_mode mode)
{
	char name[257], message[4097];
	tent_request_v1_t r;
	tent_batch_id_t batch;

	open_fix(mode, NULL);
	memset(name, 'n', sizeof(name));
	memset(message, 'm', sizeof(message));
	name[255] = message[4095] = '\0';
	assert_int_equal(tent_send_notifs(fix.engine, 0, name, message), 0);
	receive_until(fix.engine, &post, 1);
	assert_record(0, name, message);

	name[255] = 'n';
	name[256] = '\0';
	assert_int_equal(tent_send_notifs(fix.engine, 0, name, "m"), -1);
	assert_too_long("name", 256, 255);
	r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	batch = tent_allocate_batch(fix.engine, 1);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, name, "m"),
			 TENT_ERR_ARGUMENTS);
	assert_too_long("name", 256, 255);
	message[4095] = 'm';
	message[4096] = '\0';
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", message),
			 TENT_ERR_ARGUMENTS);
	assert_too_long("message", 4096, 4095);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, "n", NULL),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(tent_submit_v1_notif(fix.engine, batch, &r, 1, NULL, "m"),
			 TENT_ERR_ARGUMENTS);
	nothing_more_comes();
	tent_free_batch(fix.engine, batch);
	lib_fix_stop(&fix);
}

/* A program that takes none: the newest is refused, what it has stays whole. */
static void what_finds_no_room_is_refused(enum lib_mode mode)
{
	char message[4096];
	int nr = 0;

	open_fix(mode, NULL);
	memset(message, 'm', sizeof(message));
	message[4095] = '\0';
	for (; tent_send_notifs(fix.engine, 0, "full", message) == 0; nr++)
		assert_true(nr < KEPT);
	assert_int_equal(lib_fix_error().error, TENT_ERR_CAPACITY);
	assert_int_equal(lib_fix_error().rule, TENT_RULE_NOTIFY_ROOM);
	assert_int_equal(nr, TENT_INBOX_DATA_SIZE / ((8 + 5 + 4096 + 7) & ~7));
	receive_until(fix.engine, &post, nr);
	for (int i = 0; i < nr; i++)
		assert_record(i, "full", message);
	assert_int_equal(tent_send_notifs(fix.engine, 0, "again", ""), 0);
	receive_until(fix.engine, &post, nr + 1);
	lib_fix_stop(&fix);
}

/* Around the end of the memory that they lie in, with every remainder. */
static void texts_of_every_length_come_whole(enum lib_mode mode)
{
	char message[4096], name[256];

	open_fix(mode, NULL);
	for (size_t length = 0; length < 4096; length += 7) {
		memset(message, 'a' + (int)(length % 26), length);
		message[length] = '\0';
		memset(name, 'A' + (int)(length % 26), length % 256);
		name[length % 256] = '\0';
		post.nr = 0;
		assert_int_equal(tent_send_notifs(fix.engine, 0, name, message), 0);
		receive_until(fix.engine, &post, 1);
		assert_record(0, name, message);
	}
	lib_fix_stop(&fix);
}

static void a_segment_that_is_not_open_is_refused(enum lib_mode mode)
{
	open_fix(mode, NULL);
	assert_int_equal(tent_send_notifs(fix.engine, 1, "n", "m"), -1);
	assert_int_equal(lib_fix_error().error, TENT_ERR_STALE_HANDLE);
	assert_int_equal(tent_send_notifs(fix.engine, UINT64_MAX, "n", "m"), -1);
	assert_int_equal(lib_fix_error().error, TENT_ERR_STALE_HANDLE);
	nothing_more_comes();
	lib_fix_stop(&fix);
}

/* More than the engine keeps at a time, all in flight at once. */
static void many_batches_have_one_each(enum lib_mode mode)
{
	tent_request_v1_t r;
	char message[16];

	open_fix(mode, NULL);
	r = lib_fix_request(&fix, TENT_OPCODE_WRITE, 0, SIZE / 2, 64);
	for (int i = 0; i < 500; i++) {
		snprintf(message, sizeof(message), "%d", i);
		tent_free_batch(fix.engine, submit(&r, 1, "many", message));
	}
	receive_until(fix.engine, &post, 500);
	for (int i = 0; i < 500; i++) {
		snprintf(message, sizeof(message), "%d", i);
		assert_record(i, "many", message);
	}
	lib_fix_stop(&fix);
}

#define TESTS(X)								\
	X(it_comes_as_it_was_sent)						\
	X(none_is_no_error)							\
	X(it_comes_behind_all_data_of_its_batch)				\
	X(each_task_ends_as_without_one)					\
	X(a_target_is_told_once)						\
	X(a_large_batch_has_one_too)						\
	X(nobody_is_told_when_a_request_failed)					\
	X(nobody_is_told_when_the_transport_failed)				\
	X(nobody_is_told_when_a_task_was_canceled)				\
	X(a_refused_submit_tells_nobody)					\
	X(texts_are_whole_or_refused)						\
	X(what_finds_no_room_is_refused)					\
	X(texts_of_every_length_come_whole)					\
	X(a_segment_that_is_not_open_is_refused)				\
	X(many_batches_have_one_each)

TESTS(LIB_TESTS)

int main(void)
{
	const struct CMUnitTest tests[] = { TESTS(LIB_ROWS) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
