/* SPDX-License-Identifier: Apache-2.0 */
/* test_null.c - the backend that moves nothing, and the faults it injects. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/backend.h"

struct fix {
	struct backend_instance *inst;
	struct backend_queue *queue;
	struct transfer transfers[64];
};

static int try_open(const char *faults)
{
	struct backend_options o = { .faults = faults };
	struct backend_instance *inst = NULL;
	int rc = null_backend.open(&inst, &o);

	if (rc == 0)
		null_backend.close(inst);
	else
		assert_null(inst);
	return rc;
}

static struct fix *start(const char *faults)
{
	static struct fix f;
	struct backend_options o = { .faults = faults };

	memset(&f, 0, sizeof(f));
	assert_int_equal(null_backend.open(&f.inst, &o), 0);
	assert_int_equal(null_backend.queue_open(f.inst, -1, &f.queue), 0);
	for (int i = 0; i < 64; i++)
		f.transfers[i].length = 1000;
	return &f;
}

static void stop(struct fix *f)
{
	null_backend.queue_close(f->queue);
	null_backend.close(f->inst);
}

static enum post_result post(struct fix *f, int i, uint64_t budget)
{
	return null_backend.post(f->queue, &f->transfers[i], budget);
}

static uint32_t poll(struct fix *f)
{
	uint32_t n = 0;

	for (struct transfer *t = null_backend.poll(f->queue); t; t = t->next)
		n++;
	return n;
}

static void it_completes_in_post_whatever_the_budget(void **state)
{
	struct fix *f = start("");

	(void)state;
	assert_int_equal(post(f, 0, 1), POST_DONE);
	assert_int_equal(f->transfers[0].done, 1000);
	assert_int_equal(f->transfers[0].status, TENT_STATUS_COMPLETED);
	assert_int_equal(f->transfers[0].error, 0);
	assert_int_equal(poll(f), 0);
	stop(f);
}

static void hostile_fault_texts_are_refused(void **state)
{
	static const char *const bad[] = {
		"fail", "fail=", "fail=0", "fail=-1", "fail=1x", "fail=1000000001", "fail= 1",
		"fail=99999999999999999999", "=1", ",", "fail=1,", ",fail=1", "fail=1,,busy=2",
		"FAIL=1", "holdx", "hol", "late=1", "pending", "more=1 ", "drop-cancel", "%n",
	};
	static const char *const good[] = {
		"", "fail=1", "fail=1000000000", "busy=2,more=3", "pending=1,hold", "late",
		"fail=1,fail=2",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(try_open(bad[i]), -EINVAL);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(try_open(good[i]), 0);
	assert_int_equal(try_open(NULL), 0);
}

static void every_nth_post_fails(void **state)
{
	struct fix *f = start("fail=3");

	(void)state;
	for (int i = 0; i < 12; i++) {
		assert_int_equal(post(f, i, 1), i % 3 == 2 ? POST_FAILED : POST_DONE);
		assert_int_equal(f->transfers[i].rule, i % 3 == 2 ? TENT_RULE_INJECTED : 0);
		assert_int_equal(f->transfers[i].status, i % 3 == 2 ? TENT_STATUS_FAILED :
								      TENT_STATUS_COMPLETED);
		assert_int_equal(f->transfers[i].done, i % 3 == 2 ? 0 : 1000);
	}
	stop(f);
}

static void every_nth_post_is_busy_and_untouched(void **state)
{
	struct fix *f = start("busy=2");
	struct transfer before = f->transfers[1];

	(void)state;
	assert_int_equal(post(f, 0, 1), POST_DONE);
	assert_int_equal(post(f, 1, 1), POST_BUSY);
	assert_memory_equal(&before, &f->transfers[1], sizeof(before));
	assert_int_equal(post(f, 1, 1), POST_DONE);
	stop(f);
}

static void every_nth_transfer_counts_its_budget(void **state)
{
	struct fix *f = start("more=1");

	(void)state;
	for (uint64_t done = 300; done < 1000; done += 300) {
		assert_int_equal(post(f, 0, 300), POST_MORE);
		assert_int_equal(f->transfers[0].done, done);
	}
	assert_int_equal(post(f, 0, 300), POST_DONE);
	assert_int_equal(f->transfers[0].done, 1000);
	stop(f);
}

static void pending_ones_come_back_from_the_next_poll(void **state)
{
	struct fix *f = start("pending=2");

	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(post(f, i, 1), i % 2 ? POST_PENDING : POST_DONE);
	assert_int_equal(poll(f), 5);
	assert_int_equal(poll(f), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(f->transfers[i].status, TENT_STATUS_COMPLETED);
	stop(f);
}

/* In any order, from the middle and the ends. */
static void cancel_gives_back_at_once_or_late(void **state)
{
	static const int order[] = { 3, 0, 5, 1, 4, 2 };

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct fix *f = start(late ? "pending=1,hold,late" : "pending=1,hold");

		for (int i = 0; i < 6; i++)
			assert_int_equal(post(f, i, 1), POST_PENDING);
		assert_int_equal(poll(f), 0);
		for (int i = 0; i < 6; i++) {
			struct transfer *t = &f->transfers[order[i]];
			uint16_t rule = i % 2 ? TENT_RULE_TIMEOUT : TENT_RULE_CANCELED;

			assert_int_equal(null_backend.cancel(f->queue, t, rule), !late);
			assert_int_equal(poll(f), late);
			assert_int_equal(t->rule, rule);
			assert_int_equal(t->status, i % 2 ? TENT_STATUS_TIMEOUT :
							    TENT_STATUS_CANCELED);
		}
		assert_int_equal(poll(f), 0);
		stop(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_completes_in_post_whatever_the_budget),
		cmocka_unit_test(hostile_fault_texts_are_refused),
		cmocka_unit_test(every_nth_post_fails),
		cmocka_unit_test(every_nth_post_is_busy_and_untouched),
		cmocka_unit_test(every_nth_transfer_counts_its_budget),
		cmocka_unit_test(pending_ones_come_back_from_the_next_poll),
		cmocka_unit_test(cancel_gives_back_at_once_or_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
