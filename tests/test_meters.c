/* SPDX-License-Identifier: Apache-2.0 */
/* test_meters.c - what is counted of requests that ended, to the edge of every bucket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/meters.h"

#define SEEN 1000000ull		/* ticks, which are nanoseconds here */

static const struct tick_clock clock_ns = { .tick_mult = 1ull << 32 };
static struct meters m;

static struct transfer transfer(int opcode, int status, uint64_t length)
{
	return (struct transfer){
		.opcode = (uint8_t)opcode, .status = (uint8_t)status, .transport = 3,
		.length = length, .done = length, .seen_ticks = SEEN, .attempts = 1,
	};
}

static void count(const struct transfer *t, uint64_t device_ns, uint64_t published_ns)
{
	struct transfer copy = *t, *one = &copy;

	meters_count(&m, &clock_ns, &one, 1, SEEN + device_ns, SEEN + published_ns);
}

static int reset(void **state)
{
	(void)state;
	memset(&m, 0, sizeof(m));
	return 0;
}

static void a_bound_belongs_to_the_bucket_below_it(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_READ, TENT_STATUS_COMPLETED, 0);
	const struct transport_meter *x = &m.transports[3][TENT_OPCODE_READ];

	(void)state;
	for (uint32_t i = 0; i < meter_latency.nr; i++) {
		count(&t, 0, meter_latency.bounds[i] * 1000ull);
		count(&t, 0, meter_latency.bounds[i] * 1000ull + 1);
	}
	assert_int_equal(x->latency.buckets[0], 1);
	for (uint32_t i = 1; i < meter_latency.nr; i++)
		assert_int_equal(x->latency.buckets[i], 2);
	assert_int_equal(x->latency.buckets[meter_latency.nr], 1);
	for (uint32_t i = 0; i < meter_size.nr; i++) {
		t.length = meter_size.bounds[i];
		count(&t, 0, 0);
	}
	for (uint32_t i = 1; i < meter_size.nr; i++)
		assert_int_equal(x->size.buckets[i], 1);
	t.length = meter_size.bounds[meter_size.nr - 1] + 1ull;
	count(&t, 0, 0);
	assert_int_equal(x->size.buckets[meter_size.nr], 1);
}

static void each_transport_and_opcode_has_its_own(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_WRITE, TENT_STATUS_COMPLETED, 100);

	(void)state;
	t.transport = TENT_TRANSPORT_COUNT - 1;
	count(&t, 0, 0);
	assert_int_equal(m.transports[TENT_TRANSPORT_COUNT - 1][TENT_OPCODE_WRITE].requests, 1);
	assert_int_equal(m.transports[TENT_TRANSPORT_COUNT - 1][TENT_OPCODE_WRITE].bytes, 100);
	assert_int_equal(m.transports[TENT_TRANSPORT_COUNT - 1][TENT_OPCODE_READ].requests, 0);
	assert_int_equal(m.transports[3][TENT_OPCODE_WRITE].requests, 0);
}

static void failures_have_no_latency_but_bytes_and_attempts(void **state)
{
	static const int ends[] = { TENT_STATUS_FAILED, TENT_STATUS_CANCELED, TENT_STATUS_TIMEOUT };
	const struct transport_meter *x = &m.transports[3][TENT_OPCODE_READ];

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct transfer t = transfer(TENT_OPCODE_READ, ends[i], 100);

		t.done = 10;
		t.attempts = (uint8_t)(i + 1);
		count(&t, 5, 10);
	}
	assert_int_equal(x->requests, 3);
	assert_int_equal(x->failures, 3);
	assert_int_equal(x->bytes, 30);
	assert_int_equal(x->attempts, 6);
	assert_int_equal(x->attempt_failures, 6);
	assert_int_equal(x->latency.sum, 0);
	for (uint32_t i = 0; i <= meter_latency.nr; i++)
		assert_int_equal(x->latency.buckets[i], 0);
}

static void only_the_last_attempt_of_a_success_succeeded(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_READ, TENT_STATUS_COMPLETED, 1);
	const struct transport_meter *x = &m.transports[3][TENT_OPCODE_READ];

	(void)state;
	t.attempts = 3;
	count(&t, 0, 0);
	t.attempts = 0;		/* nothing had to be moved */
	count(&t, 0, 0);
	assert_int_equal(x->attempts, 3);
	assert_int_equal(x->attempt_failures, 2);
	assert_int_equal(x->failures, 0);
}

static void stages_add_up_to_the_time_at_the_transport(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_READ, TENT_STATUS_COMPLETED, 1);

	(void)state;
	t.posted_ticks = 30000;
	count(&t, 130000, 150000);
	assert_int_equal(m.queue_wait.sum, 30);
	assert_int_equal(m.transport.sum, 100);
	t.attempts = 0;
	count(&t, 130000, 150000);
	assert_int_equal(m.queue_wait.sum, 30);
}

static void load_is_the_share_of_the_time_to_the_deadline(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_READ, TENT_STATUS_COMPLETED, 1);

	(void)state;
	t.deadline_ns = SEEN + 1000;
	count(&t, 0, 100);	/* 100 permille */
	count(&t, 0, 1000);	/* all of it */
	count(&t, 0, 1001);
	count(&t, 0, 6000);	/* missed by far */
	assert_int_equal(m.load.buckets[0], 1);
	assert_int_equal(m.load.buckets[5], 1);
	assert_int_equal(m.load.buckets[6], 1);
	assert_int_equal(m.load.buckets[meter_load.nr], 1);
	assert_int_equal(m.load.sum, 100 + 1000 + 1001 + 6000);
	t.deadline_ns = SEEN;	/* it had no time at all */
	count(&t, 0, 1);
	t.deadline_ns = 0;
	count(&t, 0, 1);
	assert_int_equal(m.load.sum, 100 + 1000 + 1001 + 6000);
}

static void sums_of_two_pollers_are_the_sum(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_WRITE, TENT_STATUS_COMPLETED, 7);
	struct meters sum = { .load = { .sum = 5 } };

	(void)state;
	count(&t, 0, 2000);
	meters_add(&sum, &m);
	meters_add(&sum, &m);
	assert_int_equal(sum.transports[3][TENT_OPCODE_WRITE].bytes, 14);
	assert_int_equal(sum.transports[3][TENT_OPCODE_WRITE].latency.sum, 4);
	assert_int_equal(sum.load.sum, 5);
}

static void a_hop_is_an_attempt_of_whom_it_left_and_no_request(void **state)
{
	struct transfer t = transfer(TENT_OPCODE_READ, TENT_STATUS_WAITING, 100);
	const struct transport_meter *left = &m.transports[7][TENT_OPCODE_READ];
	const struct transport_meter *last = &m.transports[3][TENT_OPCODE_READ];

	(void)state;
	meters_count_hop(&m, &t, 7);
	t.status = TENT_STATUS_COMPLETED;
	count(&t, 0, 0);
	assert_int_equal(left->attempts, 1);
	assert_int_equal(left->attempt_failures, 1);
	assert_int_equal(left->requests, 0);
	assert_int_equal(last->attempts, 1);
	assert_int_equal(last->attempt_failures, 0);
	assert_int_equal(last->requests, 1);
	assert_int_equal(m.failovers[7][3], 1);
	assert_int_equal(m.failovers[3][7], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_hop_is_an_attempt_of_whom_it_left_and_no_request, reset),
		cmocka_unit_test_setup(a_bound_belongs_to_the_bucket_below_it, reset),
		cmocka_unit_test_setup(each_transport_and_opcode_has_its_own, reset),
		cmocka_unit_test_setup(failures_have_no_latency_but_bytes_and_attempts, reset),
		cmocka_unit_test_setup(only_the_last_attempt_of_a_success_succeeded, reset),
		cmocka_unit_test_setup(stages_add_up_to_the_time_at_the_transport, reset),
		cmocka_unit_test_setup(load_is_the_share_of_the_time_to_the_deadline, reset),
		cmocka_unit_test_setup(sums_of_two_pollers_are_the_sum, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
