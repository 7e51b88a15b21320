/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_ask.c - an engine that uses a segment of a peer played by hand, who answers
 * wrongly, or not at all, or leaves: how its requests end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>

#include "engine/control.h"
#include "engine/poller_state.h"
#include "ring/clock.h"
#include "tests/test_tcp_stage.h"

#define FENCE_MS 2000	/* half of it for an answer, half for a fence */

/* ---- what it says ------------------------------------------------------ */

static void a_request_travels_in_pieces_that_cover_it_once(void **state)
{
	enum { BYTES = 1000000 };
	static uint8_t theirs[SIZE];
	struct stage s;
	uint64_t got = 0;

	(void)state;
	stage_open(&s);
	for (int opcode = TENT_OPCODE_READ; opcode <= TENT_OPCODE_WRITE; opcode++) {
		pattern_fill(s.mine, SIZE, 1);
		pattern_fill(theirs, SIZE, 2);
		submit(&s, opcode, 77, BYTES);
		if (s.fd < 0)
			stage_accept(&s);
		for (got = 0; got < BYTES; ) {
			static uint8_t bytes[CHUNK];
			struct tcp_head h = next_whole(&s, bytes);
			uint64_t at = h.address - THEIRS;

			assert_true(at == 77 + got && h.length <= CHUNK);
			if (h.type == TCP_WRITE)
				memcpy(theirs + at, bytes, h.length);
			answer(&s, &h, theirs + at);
			got += h.length;
		}
		completed(engine_fix_wait(s.ring), BYTES);
		assert_memory_equal(s.mine + 77, theirs + 77, BYTES);
	}
	assert_true(s.hello.token[0] == 0x0123456789abcdef && s.hello.token[1] == 0xff);
	assert_true(s.hello.called_epoch == 5 && s.hello.caller_epoch && s.hello.connection);
	stage_close(&s);
}

/* ---- what it is told --------------------------------------------------- */

static void what_the_owner_refuses_ends_with_its_rule(void **state)
{
	static const struct {
		uint16_t status, rule;
	} rows[] = {
		{ TENT_RULE_TARGET_UNREGISTERED, TENT_RULE_TARGET_UNREGISTERED },
		{ TENT_RULE_TARGET_PERMISSION, TENT_RULE_TARGET_PERMISSION },
		{ TENT_RULE_TARGET_GONE, TENT_RULE_TARGET_GONE },
		{ TENT_RULE_INTEGRITY, TENT_RULE_INTEGRITY },
		{ TENT_RULE_CANCELED, TENT_RULE_SYSTEM }, { 9999, TENT_RULE_SYSTEM },
	};
	static uint8_t bytes[64];
	struct tcp_head h, a;
	struct stage s;

	(void)state;
	stage_open(&s);
	for (size_t i = 0; i < NR(rows); i++) {
		submit(&s, i & 1 ? TENT_OPCODE_READ : TENT_OPCODE_WRITE, 0, 64);
		if (s.fd < 0)
			stage_accept(&s);
		h = next_whole(&s, bytes);
		a = answer_to(&h);
		a.status = rows[i].status;
		a.length = a.flags = 0;
		data_send(s.fd, &a, sizeof(a));
		expect(engine_fix_wait(s.ring), tent_rule_error(rows[i].rule), rows[i].rule);
	}
	stage_close(&s);
}

static void an_answer_whose_sum_is_wrong_is_no_success(void **state)
{
	static uint8_t bytes[64];
	struct tcp_head h, a;
	struct tcp_tail tail;
	struct stage s;

	(void)state;
	stage_open(&s);
	h = stage_ask(&s, TENT_OPCODE_READ);
	a = answer_to(&h);
	tail = (struct tcp_tail){ .crc32c = crc32c(0, bytes, 64) ^ 1 };
	data_send(s.fd, &a, sizeof(a));
	data_send(s.fd, bytes, 64);
	data_send(s.fd, &tail, sizeof(tail));
	expect(engine_fix_wait(s.ring), TENT_ERR_RUNTIME, TENT_RULE_INTEGRITY);
	stage_close(&s);
}

static void an_answer_to_nothing_ends_the_connection(void **state)
{
	static uint8_t bytes[128];
	struct stage s;

	(void)state;
	stage_open(&s);
	for (int wrong = 0; wrong < 8; wrong++) {
		struct tcp_head h, a;

		submit(&s, TENT_OPCODE_READ, 0, 64);
		stage_accept(&s);
		h = next(&s);
		a = answer_to(&h);
		a.id += wrong == 0;
		a.id += wrong == 1 ? 1ull << 32 : 0;
		a.type = wrong == 2 ? TCP_DONE : wrong == 3 ? TCP_READ : a.type;
		a.length += wrong == 4 ? 1 : 0;
		a.status = wrong == 5 ? TENT_RULE_TARGET_GONE : 0;
		a.flags ^= wrong == 6 ? TCP_F_CRC : 0;
		a.address = wrong == 7;
		data_send(s.fd, &a, sizeof(a));
		send(s.fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		expect(engine_fix_wait(s.ring), TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
		data_expect_end(s.fd);
	}
	s.fd = -1;
	stage_close(&s);
}

static void a_port_that_does_not_answer_ends_what_waits(void **state)
{
	struct stage s;

	(void)state;
	stage_open(&s);
	close(s.data_listener);
	submit(&s, TENT_OPCODE_WRITE, 0, 64);
	expect(engine_fix_wait(s.ring), TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
	s.data_listener = dup(s.listener);
	stage_close(&s);
}

/* ---- ends -------------------------------------------------------------- */

/* Whatever is under way is out of time now; or nothing is, for ever. Where the clock decided, a
 * machine that is slow would be out of time before the peer has said a word. */
static void time_is_over(bool over)
{
	const struct engine *e = one.engine;

	for (uint32_t i = 0; i < e->nr_pollers; i++)	/* no pair */
		store_relaxed(&e->pollers[i].poller->timeout_ticks, over ? 0 : INT64_MAX);
}

static struct tent_completion end_by_timeout(struct stage *s)
{
	struct tent_completion done;

	time_is_over(true);
	done = engine_fix_wait(s->ring);
	time_is_over(false);
	expect(done, TENT_ERR_TIMEOUT, TENT_RULE_TIMEOUT);
	return done;
}

/* A READ that is out of time ends though nobody answers; what comes for it afterwards
 * goes nowhere, and the connection is of use. */
static void a_read_out_of_time_ends_and_its_memory_is_left_alone(void **state)
{
	static uint8_t bytes[CHUNK];
	struct tcp_head h, second;
	struct stage s;

	(void)state;
	stage_open(&s);
	memset(bytes, 0x66, sizeof(bytes));
	submit(&s, TENT_OPCODE_READ, 0, CHUNK);
	stage_accept(&s);
	h = next(&s);
	end_by_timeout(&s);
	answer(&s, &h, bytes);
	submit(&s, TENT_OPCODE_READ, CHUNK, CHUNK);
	second = next(&s);
	answer(&s, &second, bytes);
	completed(engine_fix_wait(s.ring), CHUNK);
	assert_true(is_zero(s.mine, CHUNK));
	assert_int_equal(s.mine[CHUNK], 0x66);
	stage_close(&s);
}

/* Half of its payload is here, the kernel waits for more. */
static void a_read_out_of_time_in_its_middle_is_fenced_too(void **state)
{
	static uint8_t bytes[CHUNK];
	struct tcp_head h, a;
	struct tcp_tail tail = { 0 };
	struct stage s;

	(void)state;
	stage_open(&s);
	memset(bytes, 0x66, sizeof(bytes));
	submit(&s, TENT_OPCODE_READ, 0, CHUNK);
	stage_accept(&s);
	h = next(&s);
	a = answer_to(&h);
	data_send(s.fd, &a, sizeof(a));
	data_send(s.fd, bytes, CHUNK / 2);
	end_by_timeout(&s);
	memset(s.mine, 0, CHUNK);
	data_send(s.fd, bytes, CHUNK / 2);
	data_send(s.fd, &tail, sizeof(tail));
	submit(&s, TENT_OPCODE_WRITE, CHUNK, 64);
	h = next_whole(&s, bytes);
	answer(&s, &h, NULL);
	completed(engine_fix_wait(s.ring), 64);
	assert_true(is_zero(s.mine, CHUNK));
	stage_close(&s);
}

/* The connection is cut; then the other side is asked, and says so. */
static struct tent_completion end_by_fence(struct stage *s)
{
	struct tent_completion done;
	struct tcp_hello h;
	int fence;

	stage_ask(s, TENT_OPCODE_WRITE);
	time_is_over(true);
	fence = stage_take(s, &h);
	time_is_over(false);
	assert_int_equal(h.purpose, TCP_FOR_FENCE);
	assert_true(h.connection == s->hello.connection && h.token[1] == 0xff);
	data_expect_end(s->fd);
	s->fd = -1;
	welcome(fence, h.connection, 0);
	done = engine_fix_wait(s->ring);
	expect(done, TENT_ERR_TIMEOUT, TENT_RULE_TIMEOUT);
	close(fence);
	return done;
}

/* Where the machine had no time for both of them the other side said so too late. */
static void a_write_that_nobody_answers_ends_when_it_is_fenced(void **state)
{
	struct tent_completion done;
	struct stage s;
	uint64_t began;

	(void)state;
	stage_open(&s);
	do {
		began = clock_monotonic_ns();
		done = end_by_fence(&s);
	} while (clock_monotonic_ns() - began >= FENCE_MS * 1000000ull);
	assert_int_equal(done.flags & TENT_CQE_F_TARGET_UNFENCED, 0);
	stage_close(&s);
}

/* The link lives, and says nothing of it. */
static void a_read_that_is_never_answered_costs_its_connection(void **state)
{
	static uint8_t bytes[64];
	struct tcp_head h;
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_READ);
	end_by_timeout(&s);
	data_expect_end(s.fd);
	h = stage_ask(&s, TENT_OPCODE_READ);
	answer(&s, &h, bytes);
	completed(engine_fix_wait(s.ring), 64);
	stage_close(&s);
}

static void a_write_that_nobody_fences_says_so(void **state)
{
	struct tent_completion done;
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_WRITE);
	close(s.data_listener);
	done = end_by_timeout(&s);
	assert_true(done.flags & TENT_CQE_F_TARGET_UNFENCED);
	s.data_listener = dup(s.listener);
	stage_close(&s);
}

static void a_connection_that_is_closed_in_order_is_fenced(void **state)
{
	struct tent_completion done;
	struct stage s;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_WRITE);
	close(s.fd);
	s.fd = -1;
	done = engine_fix_wait(s.ring);
	expect(done, TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
	assert_int_equal(done.flags & TENT_CQE_F_TARGET_UNFENCED, 0);
	stage_close(&s);
}

/* Whoever resets it may not be the owner. */
static void a_connection_that_is_reset_is_not(void **state)
{
	struct tent_completion done;
	uint64_t connection;
	struct stage s;
	int fence;

	(void)state;
	stage_open(&s);
	stage_ask(&s, TENT_OPCODE_WRITE);
	stage_reset(&s);
	close(stage_take_fence(&s, &connection)); /* not now; it is asked again */
	fence = stage_take_fence(&s, &connection);
	welcome(fence, connection, 0);
	done = engine_fix_wait(s.ring);
	expect(done, TENT_ERR_PEER_UNREACHABLE, TENT_RULE_PEER_LOST);
	assert_int_equal(done.flags & TENT_CQE_F_TARGET_UNFENCED, 0);
	close(fence);
	stage_close(&s);
}

/* What was not begun is no part of what broke. */
static void what_had_not_begun_goes_on_over_a_new_connection(void **state)
{
	enum { MANY = 40 };
	static uint8_t bytes[CHUNK];
	struct tcp_hello first;
	struct stage s;
	int lost = 0, done = 0, fd;

	(void)state;
	stage_open(&s);
	for (uint64_t i = 0; i < MANY; i++)	/* more than the 4 frames that it may send */
		submit(&s, TENT_OPCODE_WRITE, i * CHUNK, CHUNK);
	fd = s.fd = stage_take(&s, &first);
	welcome(s.fd, first.connection, 4);
	next_whole(&s, bytes);
	shutdown(fd, SHUT_WR);
	stage_accept(&s);
	close(fd);
	for (int i = 0; i < MANY; i++) {
		struct tent_completion c;

		if (lost == 4) {
			struct tcp_head h = next_whole(&s, bytes);

			answer(&s, &h, NULL);
		}
		c = engine_fix_wait(s.ring);
		lost += c.rule == TENT_RULE_PEER_LOST;
		done += c.status == TENT_STATUS_COMPLETED;
	}
	assert_int_equal(lost, 4);
	assert_int_equal(done, MANY - 4);
	stage_close(&s);
}

#define BASE "transports/tcp/chunk_bytes", "65536", "engine/priorities", "false"
#define TEXT(n) #n
#define FENCE_IN(ms) "transports/tcp/fence_ms", TEXT(ms)
#define BY_EPOLL "transports/tcp/io_uring", "false"

STAGE_SETUP(patient, BASE, FENCE_IN(60000))	/* for answers however late they come */
STAGE_SETUP(by_epoll, BASE, FENCE_IN(60000), BY_EPOLL)
STAGE_SETUP(fenced, BASE, FENCE_IN(FENCE_MS))
STAGE_SETUP(fenced_by_epoll, BASE, FENCE_IN(FENCE_MS), BY_EPOLL)
STAGE_SETUP(unconfirmed, BASE, FENCE_IN(200))

int main(void)
{
	const struct CMUnitTest in_time[] = {
		cmocka_unit_test(a_request_travels_in_pieces_that_cover_it_once),
		cmocka_unit_test(what_the_owner_refuses_ends_with_its_rule),
		cmocka_unit_test(an_answer_whose_sum_is_wrong_is_no_success),
		cmocka_unit_test(an_answer_to_nothing_ends_the_connection),
		cmocka_unit_test(a_port_that_does_not_answer_ends_what_waits),
		cmocka_unit_test(a_connection_that_is_closed_in_order_is_fenced),
		cmocka_unit_test(a_connection_that_is_reset_is_not),
		cmocka_unit_test(what_had_not_begun_goes_on_over_a_new_connection),
	};
	const struct CMUnitTest out_of_time[] = {
		cmocka_unit_test(a_read_out_of_time_ends_and_its_memory_is_left_alone),
		cmocka_unit_test(a_read_out_of_time_in_its_middle_is_fenced_too),
	};
	const struct CMUnitTest asked[] = {
		cmocka_unit_test(a_write_that_nobody_answers_ends_when_it_is_fenced),
	};
	const struct CMUnitTest unfenced[] = {
		cmocka_unit_test(a_write_that_nobody_fences_says_so),
		cmocka_unit_test(a_read_that_is_never_answered_costs_its_connection),
	};
	int failed = 0;

	failed += cmocka_run_group_tests_name("in time", in_time, patient, stage_stop);
	failed += cmocka_run_group_tests_name("out of time", out_of_time, patient, stage_stop);
	failed += cmocka_run_group_tests_name("the same by epoll", out_of_time, by_epoll, stage_stop);
	failed += cmocka_run_group_tests_name("fenced", asked, fenced, stage_stop);
	failed += cmocka_run_group_tests_name("the same by epoll", asked, fenced_by_epoll, stage_stop);
	failed += cmocka_run_group_tests_name("unfenced", unfenced, unconfirmed, stage_stop);
	return failed;
}
