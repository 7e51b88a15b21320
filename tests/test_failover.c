/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_failover.c - a request that one transport fails, with injected faults: the rows of
 * the existing engine's failover, where ours goes on by itself, at submit too, and only
 * for what another path may do better.
 */
#include "tests/common/soak.h"
#include "tests/test_failover_fix.h"

/* ---- it goes on ---------------------------------------------------------- */

static void what_fails_at_submit_is_moved_by_the_next_transport(void **state)
{
	struct rig *r = START(3, { &null_backend, "fail=1" }, { &rig_copy_backend, "" });
	struct tent_completion c;

	(void)state;
	memset(r->clients[0].memory, 0x5a, 4096);
	c = write_one(r);
	expect_over(&c, NULLS, COPY, 2);
	assert_int_equal(c.rule, TENT_RULE_INJECTED);
	assert_memory_equal(r->clients[1].memory, r->clients[0].memory, 4096);
	rig_stop(r);
}

static void what_fails_at_completion_is_moved_by_the_next_transport(void **state)
{
	struct rig *r = START(3, { &null_backend, "lose=1" }, { &rig_copy_backend, "" });
	struct tent_completion c;

	(void)state;
	c = move(r, TENT_OPCODE_READ, TENT_TRANSPORT_UNSPEC);
	expect_over(&c, NULLS, COPY, 2);
	assert_int_equal(r->clients[0].memory[4095], 0x22);
	rig_stop(r);
}

static void there_is_no_completion_between_the_tries(void **state)
{
	struct rig *r = START(3, { &null_backend, "lose=1" }, { &second, "pending=1,hold" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096);
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	rig_settle(r);
	assert_false(rig_reap(ring, &c));
	assert_int_equal(r->poller->stats.failovers, 1);
	assert_int_equal(r->poller->in_flight, 1);
	rig_stop(r);
}

static void a_try_begins_anew(void **state)
{
	struct rig *r = START(3, { scripted(TENT_RULE_SYSTEM), "" }, { &null_backend, "" });
	struct tent_completion c = write_one(r);	/* the first one moved half of it */

	(void)state;
	expect_over(&c, SECOND, NULLS, 2);
	assert_int_equal(c.rule, TENT_RULE_SYSTEM);
	assert_int_equal(r->poller->stats.written_bytes, 4096);
	rig_stop(r);
}

static void every_request_of_a_batch_finds_its_own_way(void **state)
{
	struct rig *r = START(3, { &null_backend, "fail=3" }, { &second, "fail=2" },
			      { &rig_copy_backend, "" });
	uint32_t by[TENT_TRANSPORT_COUNT] = { 0 };
	struct tent_completion c;

	(void)state;
	rig_burst(&r->rings[0], 12, 0, 64);
	for (uint32_t i = 0; i < 12; i++) {
		c = rig_finish(r, &r->rings[0]);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.attempts, c.transport == NULLS ? 1 :
				 c.transport == SECOND ? 2 : 3);
		by[c.transport]++;
	}
	assert_int_equal(by[NULLS], 8);
	assert_int_equal(by[SECOND], 2);
	assert_int_equal(by[COPY], 2);
	rig_stop(r);
}

static void a_batch_of_one_completion_says_that_some_of_it_went_on(void **state)
{
	struct rig *r = START(3, { &null_backend, "fail=2" }, { &second, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);
	rig_publish(ring, 4, TENT_OP_REQUEST, TENT_SLOT_F_ONE_COMPLETION);
	c = rig_finish(r, ring);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_int_equal(c.flags, TENT_CQE_F_BATCH | TENT_CQE_F_FAILED_OVER);
	assert_int_equal(c.credits, 4);
	assert_int_equal(c.bytes, 4 * 64);
	rig_stop(r);
}

/* ---- bounds -------------------------------------------------------------- */

static void there_are_no_more_tries_than_configured(void **state)
{
	(void)state;
	for (uint32_t attempts = 0; attempts <= 3; attempts++) {
		struct rig *r = START(attempts, { &null_backend, "fail=1" },
				      { &second, "fail=1" }, { &third, "lose=1" },
				      { &rig_copy_backend, "" });
		struct tent_completion c = write_one(r);
		static const uint8_t last[] = { NULLS, SECOND, THIRD };

		if (attempts < 3)
			expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_INJECTED,
				   last[attempts], attempts + 1);
		else
			expect_over(&c, NULLS, COPY, 4);
		assert_int_equal(r->poller->stats.failovers, attempts);
		rig_stop(r);
	}
}

static void no_transport_gets_a_request_twice(void **state)
{
	struct rig *r = START(100, { scripted(TENT_RULE_PEER_LOST), "" },
			      { &null_backend, "fail=1" });
	struct tent_completion c = write_one(r);

	(void)state;
	expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_INJECTED, NULLS, 2);
	assert_true(c.flags & TENT_CQE_F_FAILED_OVER);
	assert_int_equal(script.posts, 1);
	rig_stop(r);
}

/* ---- what does not go on -------------------------------------------------- */

static void only_what_a_path_can_do_to_a_request_goes_on(void **state)
{
	static const uint16_t of_path[] = {
		TENT_RULE_TRANSPORT_REACH, TENT_RULE_INTEGRITY, TENT_RULE_FILE_IO,
		TENT_RULE_PEER_LOST, TENT_RULE_SYSTEM, TENT_RULE_INJECTED,
		TENT_RULE_CARD,
	};
	uint32_t expected, went_on = 0;

	(void)state;
	for (uint16_t rule = 1; rule < TENT_RULE_COUNT; rule++) {
		struct rig *r = START(3, { scripted(rule), "" }, { &null_backend, "" });
		struct tent_completion c = write_one(r);

		expected = 0;
		for (size_t i = 0; i < sizeof(of_path) / sizeof(of_path[0]); i++)
			expected |= of_path[i] == rule;
		assert_int_equal(c.status == TENT_STATUS_COMPLETED, expected);
		assert_int_equal(r->poller->stats.failovers, expected);
		went_on += expected;
		rig_stop(r);
	}
	assert_int_equal(went_on, 7);
}

static void what_is_out_of_time_does_not_go_on(void **state)
{
	struct rig *r = START(3, { &null_backend, "pending=1,hold" }, { &second, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096);
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	rig_settle(r);
	r->poller->timeout_ticks = 0;
	c = rig_finish(r, ring);
	expect_end(&c, TENT_STATUS_TIMEOUT, TENT_RULE_TIMEOUT, NULLS, 1);
	assert_int_equal(c.flags, 0);
	rig_stop(r);
}

static void cancel(struct rig_ring *ring, uint64_t user_data)
{
	struct tent_slot *s = rig_slot(ring, 0);

	s->user_data = 999;
	memcpy(&s->request.source, &user_data, sizeof(user_data));
	rig_publish(ring, 1, TENT_OP_CANCEL, 0);
}

static void what_is_canceled_does_not_go_on(void **state)
{
	struct rig *r = START(3, { &null_backend, "pending=1,hold" }, { &second, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096)->user_data = 7;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	rig_settle(r);
	cancel(ring, 7);
	c = rig_finish(r, ring);
	expect_end(&c, TENT_STATUS_CANCELED, TENT_RULE_CANCELED, NULLS, 1);
	rig_stop(r);
}

static void a_failure_that_meets_a_cancel_is_the_end(void **state)
{
	struct rig *r = START(3, { scripted(TENT_RULE_PEER_LOST), "" }, { &null_backend, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	script.pends = true;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096)->user_data = 7;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	rig_settle(r);
	cancel(ring, 7);
	c = rig_finish(r, ring);
	expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_PEER_LOST, SECOND, 1);
	rig_stop(r);
}

static void what_is_refused_does_not_go_on(void **state)
{
	struct rig *r = START(3, { &null_backend, "" }, { &second, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096)->request.reserved0 = 1;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	rig_expect_refused(&c, TENT_RULE_RESERVED0, 0, 1);
	assert_int_equal(r->poller->stats.failovers, 0);
	rig_stop(r);
}

static void what_may_still_land_is_not_tried_again(void **state)
{
	struct rig *r = START(3, { scripted(TENT_RULE_PEER_LOST), "" }, { &null_backend, "" });
	struct tent_completion c;

	(void)state;
	script.flags = TENT_CQE_F_TARGET_UNFENCED;
	c = write_one(r);
	expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_PEER_LOST, SECOND, 1);
	assert_int_equal(c.flags, TENT_CQE_F_TARGET_UNFENCED);
	rig_stop(r);
}

static void a_move_onto_itself_is_not_tried_again(void **state)
{
	struct rig *r = START(3, { scripted(TENT_RULE_SYSTEM), "" }, { &null_backend, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_slot *s = rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096);
	struct tent_completion c;

	(void)state;
	s->request.target_id = 0;
	s->request.target_offset = rig_address(&r->clients[0], 4095);
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	expect_end(&c, TENT_STATUS_FAILED, TENT_RULE_SYSTEM, SECOND, 1);
	rig_stop(r);
}

static void a_ring_that_ends_gets_nothing_tried_again(void **state)
{
	struct rig *r = START(3, { scripted(TENT_RULE_PEER_LOST), "" }, { &null_backend, "" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	script.pends = true;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 4096);
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	rig_settle(r);
	rig_order(r, POLLER_CLOSE_RING, ring->state, NULL, TENT_RULE_RING_CLOSED);
	assert_true(rig_reap(ring, &c));
	assert_int_equal(c.status, TENT_STATUS_FAILED);
	assert_int_equal(c.attempts, 1);
	rig_stop(r);
}

/* ---- all of it ------------------------------------------------------------ */

static void with_faults_everywhere_every_request_ends_once_and_is_moved_or_not(void **state)
{
	uint64_t random = 0xfa11;

	(void)state;
	for (uint32_t round = 0; round < soak_rounds(40); round++) {
		char faults[3][64];
		struct rig *r;

		for (int i = 0; i < 3; i++)
			snprintf(faults[i], sizeof(faults[i]),
				 "fail=%u,lose=%u,busy=%u,more=%u,pending=%u",
				 1 + random_next(&random) % 6, 1 + random_next(&random) % 6,
				 2 + random_next(&random) % 6, 1 + random_next(&random) % 6,
				 1 + random_next(&random) % 6);
		r = START(random_next(&random) % 5, { &null_backend, faults[0] },
			  { &second, faults[1] }, { &third, faults[2] });
		for (int i = 0; i < 50; i++) {
			for (int k = 0; k < RIG_RINGS; k++) {
				rig_burst(&r->rings[k], 1 + random_next(&random) % 16, 0, 4096);
				rig_settle(r);
				rig_reap_all(&r->rings[k]);
			}
		}
		rig_stop(r);	/* which looks whether each ended once */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fails_at_submit_is_moved_by_the_next_transport),
		cmocka_unit_test(what_fails_at_completion_is_moved_by_the_next_transport),
		cmocka_unit_test(there_is_no_completion_between_the_tries),
		cmocka_unit_test(a_try_begins_anew),
		cmocka_unit_test(every_request_of_a_batch_finds_its_own_way),
		cmocka_unit_test(a_batch_of_one_completion_says_that_some_of_it_went_on),
		cmocka_unit_test(there_are_no_more_tries_than_configured),
		cmocka_unit_test(no_transport_gets_a_request_twice),
		cmocka_unit_test(only_what_a_path_can_do_to_a_request_goes_on),
		cmocka_unit_test(what_is_out_of_time_does_not_go_on),
		cmocka_unit_test(what_is_canceled_does_not_go_on),
		cmocka_unit_test(a_failure_that_meets_a_cancel_is_the_end),
		cmocka_unit_test(what_is_refused_does_not_go_on),
		cmocka_unit_test(what_may_still_land_is_not_tried_again),
		cmocka_unit_test(a_move_onto_itself_is_not_tried_again),
		cmocka_unit_test(a_ring_that_ends_gets_nothing_tried_again),
		cmocka_unit_test(with_faults_everywhere_every_request_ends_once_and_is_moved_or_not),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
