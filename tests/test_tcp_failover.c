/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_failover.c - requests whose data connection is cut, and that may go another way:
 * by the null transport, which reaches everything. The peer is played by hand.
 */
#define _GNU_SOURCE
#include "tests/test_tcp_stage.h"

static void went_on(struct tent_completion done)
{
	assert_int_equal(done.status, TENT_STATUS_COMPLETED);
	assert_int_equal(done.transport, TENT_TRANSPORT_MPCOMM);
	assert_int_equal(done.attempts, 2);
	assert_int_equal(done.rule, TENT_RULE_PEER_LOST);
	assert_int_equal(done.flags, TENT_CQE_F_FAILED_OVER |
			 TENT_TRANSPORT_TCP << TENT_CQE_FIRST_SHIFT);
}

static void a_read_whose_connection_is_cut_goes_on(void **state)
{
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_READ);
	stage_reset(&s);
	went_on(engine_fix_wait(s.ring));
	stage_close(&s);
}

/* Bytes of its first try could land on those of the second. */
static void a_write_goes_on_when_it_is_fenced_and_not_before(void **state)
{
	struct tent_completion done;
	uint64_t connection;
	struct stage s;
	int fence;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_WRITE);
	stage_reset(&s);
	fence = stage_take_fence(&s, &connection);
	assert_int_equal(tent_ring_poll(s.ring, &done, 1), 0);
	welcome(fence, connection, 0);
	went_on(engine_fix_wait(s.ring));
	close(fence);
	stage_close(&s);
}

static void a_write_that_nobody_fences_does_not_go_on(void **state)
{
	struct tent_completion done;
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_WRITE);
	close(s.data_listener);
	stage_reset(&s);
	done = engine_fix_wait(s.ring);
	expect(done, TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
	assert_int_equal(done.flags, TENT_CQE_F_TARGET_UNFENCED);
	assert_int_equal(done.transport, TENT_TRANSPORT_TCP);
	s.data_listener = dup(s.listener);
	stage_close(&s);
}

/* The first two go there, and then on; then nobody is sent there. */
static void a_port_that_does_not_answer_is_passed_by(void **state)
{
	struct tent_completion done;
	struct stage s;

	(void)state;
	stage_open(&s);
	close(s.data_listener);
	for (int i = 0; i < 2; i++) {
		submit(&s, TENT_OPCODE_WRITE, 0, 64);
		went_on(engine_fix_wait(s.ring));
	}
	for (int i = 0; i < 5; i++) {
		submit(&s, TENT_OPCODE_WRITE, 0, 64);
		done = engine_fix_wait(s.ring);
		assert_int_equal(done.transport, TENT_TRANSPORT_MPCOMM);
		assert_int_equal(done.attempts, 1);
		assert_int_equal(done.flags, 0);
	}
	s.data_listener = dup(s.listener);
	stage_close(&s);
}

/* Another way needs to know the memory there, and only a link tells of it: with the link all
 * ways are lost, though the null transport would have none of that. */
static void expect_nowhere(struct stage *s, struct tent_completion done, uint16_t flags)
{
	expect(done, TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
	assert_int_equal(done.transport, TENT_TRANSPORT_TCP);
	assert_int_equal(done.attempts, 1);
	assert_int_equal(done.flags, flags);
	submit(s, TENT_OPCODE_READ, 0, 64);
	done = engine_fix_wait(s->ring);
	assert_int_equal(done.flags, TENT_CQE_F_REJECTED);
	expect(done, TENT_ERR_PEER_UNREACHABLE, TENT_RULE_TARGET_PEER);
}

static void a_read_whose_link_is_lost_goes_nowhere(void **state)
{
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_READ);
	wire_close(&s.link);
	expect_nowhere(&s, engine_fix_wait(s.ring), 0);
	stage_close(&s);
}

static void a_write_whose_link_is_lost_is_fenced_and_goes_nowhere(void **state)
{
	struct tent_completion done;
	uint64_t connection;
	struct stage s;
	int fence;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_WRITE);
	wire_close(&s.link);
	far_expect_buffers(s.user, s.id, -TENT_RULE_TARGET_PEER);
	stage_reset(&s);
	fence = stage_take_fence(&s, &connection);
	assert_int_equal(tent_ring_poll(s.ring, &done, 1), 0);
	welcome(fence, connection, 0);
	expect_nowhere(&s, engine_fix_wait(s.ring), 0);
	close(fence);
	stage_close(&s);
}

/* Back, and of the same life: the same handle goes on, by tcp. */
static void a_link_that_is_back_is_used_again(void **state)
{
	static uint8_t bytes[64];
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_READ);
	wire_close(&s.link);
	expect_nowhere(&s, engine_fix_wait(s.ring), 0);
	close(s.fd);
	stage_join(&s);
	far_expect_buffers(s.user, s.id, 1);
	h = stage_ask(&s, TENT_OPCODE_READ);
	answer(&s, &h, bytes);
	completed(engine_fix_wait(s.ring), 64);
	stage_close(&s);
}

#define BASE(fence_ms)								\
	"transports/null/enable", "true", "engine/request_timeout_ms", "60000",	\
	"failover/error_threshold", "2", "failover/error_window_ms", "3600000",	\
	"failover/cooldown_ms", "3600000", "transports/tcp/fence_ms", fence_ms

STAGE_SETUP(patient, BASE("60000"))
STAGE_SETUP(unconfirmed, BASE("200"))

/* Each with an engine of its own: what failed is remembered. */
#define WITH(start, test) cmocka_unit_test_setup_teardown(test, start, stage_stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(patient, a_read_whose_connection_is_cut_goes_on),
		WITH(patient, a_write_goes_on_when_it_is_fenced_and_not_before),
		WITH(unconfirmed, a_write_that_nobody_fences_does_not_go_on),
		WITH(patient, a_port_that_does_not_answer_is_passed_by),
		WITH(patient, a_read_whose_link_is_lost_goes_nowhere),
		WITH(patient, a_write_whose_link_is_lost_is_fenced_and_goes_nowhere),
		WITH(patient, a_link_that_is_back_is_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
