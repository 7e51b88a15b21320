/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_lib_notify_far.c - notifications to the owner of a segment of another engine: behind
 * their data, answered when alone, and never to whoever comes after him.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/ctl.h>
#include <tent/tentring.h>

#include "tests/common/lib_far.h"
#include "tests/common/tentd.h"

struct heard {
	int nr;
	char name[256], message[4096];	/* the last one's */
};

static int hear(void *context, const char *name, uint32_t name_length, const char *message,
		uint32_t message_length)
{
	struct heard *h = context;

	h->nr++;
	memcpy(h->name, name, name_length + 1);
	memcpy(h->message, message, message_length + 1);
	return 0;
}

static void listen_to(struct lib_far *f, struct heard *h)
{
	assert_true(tent_client_take_notifs(f->owner, hear, h) >= 0);
}

static tent_batch_id_t write_far(struct lib_far *f, size_t nr, const char *name,
				 const char *message)
{
	tent_batch_id_t batch = tent_allocate_batch(f->here.engine, nr);
	tent_request_v1_t r[16];

	for (size_t i = 0; i < nr; i++) {
		r[i] = lib_fix_request(&f->here, TENT_OPCODE_WRITE, i * 4096, 0, 4096);
		r[i].target_id = f->id;
		r[i].target_offset = (uintptr_t)f->memory + i * 4096;
	}
	assert_int_equal(tent_submit_v1_notif(f->here.engine, batch, r, nr, name, message), 0);
	return batch;
}

static void it_comes_behind_its_data(enum lib_mode mode)
{
	struct heard h = { 0 };
	tent_batch_id_t batch;
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	for (uint32_t round = 1; round <= 20; round++) {
		lib_fix_pattern(f.here.memory, LIB_FAR_SIZE, round);
		batch = write_far(&f, 16, "landed", "kv");
		while (h.nr < (int)round) {
			tent_status_t s;

			assert_int_equal(tent_overall_status(f.here.engine, batch, &s), 0);
			listen_to(&f, &h);
		}
		assert_memory_equal(f.memory, f.here.memory, LIB_FAR_SIZE);
		assert_string_equal(h.message, "kv");
		assert_int_equal(lib_fix_wait(f.here.engine, batch).status,
				 TENT_STATUS_COMPLETED);
		tent_free_batch(f.here.engine, batch);
	}
	assert_int_equal(h.nr, 20);
	lib_far_close(&f);
}

static void alone_it_is_there_when_the_call_returns(enum lib_mode mode)
{
	struct heard h = { 0 };
	char message[4096];
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	memset(message, 0xe4, sizeof(message));
	message[4095] = '\0';
	assert_int_equal(tent_send_notifs(f.here.engine, f.id, "n", message), 0);
	listen_to(&f, &h);
	assert_int_equal(h.nr, 1);
	assert_string_equal(h.name, "n");
	assert_string_equal(h.message, message);
	lib_far_close(&f);
}

/* One that takes none: its sender is told, and goes on with others. */
static void a_receiver_without_room_is_the_senders_to_know(enum lib_mode mode)
{
	struct heard h = { 0 };
	char message[4096];
	struct lib_far f;
	int nr = 0;

	lib_far_open(&f, mode, NULL);
	memset(message, 'm', sizeof(message));
	message[4095] = '\0';
	while (tent_send_notifs(f.here.engine, f.id, "n", message) == 0)
		nr++;
	assert_int_equal(lib_fix_error().error, TENT_ERR_CAPACITY);
	assert_int_equal(tent_send_notifs(f.here.engine, TENT_LOCAL_SEGMENT, "n", "m"), 0);
	listen_to(&f, &h);
	assert_int_equal(h.nr, nr);
	assert_int_equal(tent_send_notifs(f.here.engine, f.id, "n", message), 0);
	lib_far_close(&f);
}

/* The next owner of the name is somebody else. */
static void whoever_comes_after_the_owner_hears_nothing(enum lib_mode mode)
{
	struct heard h = { 0 };
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	tent_client_detach(f.owner);
	lib_far_own(&f);
	assert_int_equal(tent_send_notifs(f.here.engine, f.id, "n", "m"), -1);
	assert_int_equal(lib_fix_error().error, TENT_ERR_OWNER_GONE);
	listen_to(&f, &h);
	assert_int_equal(h.nr, 0);
	lib_far_close(&f);
}

/* Killed, while batches with notifications are on their way to it: each call ends. */
static void an_engine_that_is_killed_hears_nothing_and_nobody_hangs(enum lib_mode mode)
{
	tent_batch_id_t batch[8];
	struct lib_far f;

	lib_far_open(&f, mode, NULL);
	for (int i = 0; i < 8; i++)
		batch[i] = write_far(&f, 4, "n", "m");
	lib_fix_kill(&f.there, SIGKILL);
	for (int i = 0; i < 8; i++) {
		lib_fix_wait(f.here.engine, batch[i]);
		tent_free_batch(f.here.engine, batch[i]);
	}
	assert_int_equal(tent_send_notifs(f.here.engine, f.id, "n", "m"), -1);
	tent_client_detach(f.owner);
	lib_fix_stop(&f.here);
}

#define TESTS(X)								\
	X(it_comes_behind_its_data)						\
	X(alone_it_is_there_when_the_call_returns)				\
	X(a_receiver_without_room_is_the_senders_to_know)			\
	X(whoever_comes_after_the_owner_hears_nothing)				\
	X(an_engine_that_is_killed_hears_nothing_and_nobody_hangs)

TESTS(LIB_TESTS)

int main(void)
{
	const struct CMUnitTest tests[] = { TESTS(LIB_ROWS) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
