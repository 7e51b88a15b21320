/* SPDX-License-Identifier: Apache-2.0 */
/* test_due.c - deadlines: their order in a level, and what they leave to the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "engine/due.h"
#include "engine/sched.h"
#include "ring/clock.h"
#include "tests/common/rig.h"

#define MINUTE_NS 60000000000ull
#define HOUR_NS (60 * MINUTE_NS)

/* Nothing here depends on how long it takes: what is near is minutes ahead. */
static struct rig *start(const char *faults, uint64_t urgent_ns, uint32_t loose_percent)
{
	return rig_new(&(struct rig_options){
		.faults = faults, .slots = 256, .completions = 256,
		.poller = {
			.turn_slots = 64, .turn_bytes = 65536, .core = -1, .answer_fd = -1,
			.event_fd = -1, .urgent_ns = urgent_ns,
			.loose_percent = loose_percent,
		} });
}

/* Request i of the next batch. minutes: until its deadline, 0: none. */
static struct tent_slot *fill(struct rig_ring *ring, uint32_t i, uint64_t minutes,
			      uint64_t length)
{
	struct tent_slot *s = rig_request(ring, i, 0, 0, 0, length);

	s->request.deadline_ns = minutes ? clock_monotonic_ns() + minutes * MINUTE_NS : 0;
	s->user_data = minutes;
	return s;
}

/* A batch of a quantum each, so that a turn moves one. */
static void publish(struct rig_ring *ring, const uint64_t *minutes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		fill(ring, i, minutes[i], SCHED_QUANTUM);
	rig_publish(ring, n, TENT_OP_REQUEST, 0);
}

/* In which order they end: each one's minutes. */
static void expect_order(struct rig *r, const uint64_t *minutes, uint32_t n)
{
	struct tent_completion c;

	for (uint32_t done = 0, turns = 0; done < n; turns++) {
		assert_true(turns < 10000);
		poller_turn(r->poller);
		for (uint32_t k = 0; k < RIG_RINGS; k++)
			while (rig_reap(&r->rings[k], &c))
				assert_int_equal(c.user_data, minutes[done++]);
	}
}

static void an_earlier_deadline_goes_before_what_came_first(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);

	(void)state;
	publish(&r->rings[0], (uint64_t[]){ 9, 3, 5, 2, 7 }, 5);
	expect_order(r, (uint64_t[]){ 2, 3, 5, 7, 9 }, 5);
	rig_stop(r);
}

static void deadlines_are_in_order_over_all_rings_of_a_level(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);

	(void)state;
	publish(&r->rings[0], (uint64_t[]){ 8, 2, 6 }, 3);
	publish(&r->rings[1], (uint64_t[]){ 1, 7, 3 }, 3);
	publish(&r->rings[3], (uint64_t[]){ 4, 5, 9 }, 3);
	expect_order(r, (uint64_t[]){ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 9);
	rig_stop(r);
}

static void who_comes_later_with_an_earlier_deadline_passes(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);

	(void)state;
	publish(&r->rings[0], (uint64_t[]){ 5, 6, 7 }, 3);
	expect_order(r, (uint64_t[]){ 5 }, 1);
	publish(&r->rings[1], (uint64_t[]){ 2 }, 1);
	publish(&r->rings[0], (uint64_t[]){ 3 }, 1);
	expect_order(r, (uint64_t[]){ 2, 3, 6, 7 }, 4);
	rig_stop(r);
}

static void equal_deadlines_go_as_they_came(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);
	struct rig_ring *ring = &r->rings[0];
	const uint64_t early = clock_monotonic_ns() + MINUTE_NS;

	(void)state;
	fill(ring, 0, 30, 64);
	for (uint32_t i = 1; i < 40; i++)	/* all of them after a later one */
		fill(ring, i, 1, 64)->request.deadline_ns = early;
	rig_publish(ring, 40, TENT_OP_REQUEST, 0);
	for (uint32_t i = 1; i < 40; i++)
		assert_int_equal(rig_finish(r, ring).index, i);
	assert_int_equal(rig_finish(r, ring).index, 0);
	rig_stop(r);
}

static void a_deadline_does_not_go_before_a_higher_level(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);

	(void)state;
	fill(&r->rings[0], 0, 1, SCHED_QUANTUM)->request.requested_priority = TENT_PRIORITY_LOW;
	fill(&r->rings[0], 1, 2, SCHED_QUANTUM)->request.requested_priority = TENT_PRIORITY_HIGH;
	fill(&r->rings[0], 2, 0, SCHED_QUANTUM)->request.requested_priority = TENT_PRIORITY_HIGH;
	rig_publish(&r->rings[0], 3, TENT_OP_REQUEST, 0);
	expect_order(r, (uint64_t[]){ 2, 0, 1 }, 3);
	rig_stop(r);
}

static void a_deadline_that_is_far_or_has_passed_changes_no_order(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	fill(ring, 0, 90, SCHED_QUANTUM);
	fill(ring, 1, 70, SCHED_QUANTUM);
	fill(ring, 2, 0, SCHED_QUANTUM);
	fill(ring, 3, 61, SCHED_QUANTUM)->request.deadline_ns = 1;
	rig_publish(ring, 4, TENT_OP_REQUEST, 0);
	expect_order(r, (uint64_t[]){ 90, 70, 0, 61 }, 4);
	rig_stop(r);
}

static void where_no_deadline_is_near_first_come_is_first_served(void **state)
{
	struct rig *r = start(NULL, 0, 20);

	(void)state;
	publish(&r->rings[0], (uint64_t[]){ 9, 3, 5, 2, 7 }, 5);
	expect_order(r, (uint64_t[]){ 9, 3, 5, 2, 7 }, 5);
	rig_stop(r);
}

/* A large one that has begun keeps its place among its like, and gives way to who has to
 * be there before it. */
static void a_large_request_gives_way_between_its_pieces(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 20);

	(void)state;
	fill(&r->rings[0], 0, 5, 4 * SCHED_QUANTUM);
	rig_publish(&r->rings[0], 1, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	publish(&r->rings[1], (uint64_t[]){ 3, 7 }, 2);
	expect_order(r, (uint64_t[]){ 3, 5, 7 }, 3);
	rig_stop(r);
}

/* ---- the others' share --------------------------------------------------- */

/* A flood of tight deadlines in ring 0 that never ends, and a backlog without any in ring
 * 1: how much of 200 turns the backlog got, in percent. */
static uint64_t share_of_loose(uint32_t loose_percent)
{
	struct rig *r = start(NULL, HOUR_NS, loose_percent);
	struct poller_stats s, loose;
	uint32_t owed = 0;

	for (uint32_t i = 0; i < 60; i++)
		fill(&r->rings[1], i, 0, 65536);
	rig_publish(&r->rings[1], 60, TENT_OP_REQUEST, 0);
	for (int turn = 0; turn < 200; turn++) {
		for (; owed < 40; owed++) {
			fill(&r->rings[0], 0, 1, SCHED_QUANTUM);
			rig_publish(&r->rings[0], 1, TENT_OP_REQUEST, 0);
		}
		poller_turn(r->poller);
		owed -= rig_reap_all(&r->rings[0]);
	}
	poller_stats_read(r->poller, &s);
	ring_stats_read(r->rings[1].state, &loose);
	rig_settle(r);
	rig_stop(r);
	return loose.read_bytes * 100 / s.read_bytes;
}

static void a_flood_of_tight_deadlines_leaves_the_others_their_share(void **state)
{
	(void)state;
	assert_in_range(share_of_loose(20), 18, 22);
	assert_in_range(share_of_loose(50), 46, 54);
}

static void without_a_share_such_a_flood_leaves_them_nothing(void **state)
{
	(void)state;
	assert_int_equal(share_of_loose(0), 0);
}

static void deadlines_have_the_whole_of_it_where_nothing_else_waits(void **state)
{
	struct rig *r = start(NULL, HOUR_NS, 90);
	struct poller_stats s;

	(void)state;
	publish(&r->rings[0], (uint64_t[]){ 1, 2, 3, 4, 5, 6, 7, 8 }, 8);
	for (int turn = 0; turn < 8; turn++)
		poller_turn(r->poller);
	poller_stats_read(r->poller, &s);
	assert_int_equal(s.completed, 8);
	rig_stop(r);
}

/* ---- age and time -------------------------------------------------------- */

/* LOW with a deadline, and HIGH of which there is always more. */
static struct rig *start_below_high(uint64_t minutes)
{
	struct rig *r = start("busy=1", HOUR_NS, 20);

	fill(&r->rings[0], 0, minutes, 64)->request.requested_priority = TENT_PRIORITY_LOW;
	fill(&r->rings[0], 1, 0, 64)->request.requested_priority = TENT_PRIORITY_LOW;
	rig_publish(&r->rings[0], 2, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	r->poller->age_ticks = 1;
	return r;
}

static void a_deadline_ahead_does_not_rise_by_age(void **state)
{
	struct rig *r = start_below_high(30);

	(void)state;
	sched_tick(r->poller, ticks_now());
	assert_int_equal(r->poller->stats.promotions, 1);	/* the other one did */
	assert_non_null(due_first(&r->rings[0].state->due[2]));
	rig_stop(r);
}

static void a_deadline_that_has_passed_rises_by_age(void **state)
{
	struct rig *r = start_below_high(30);

	(void)state;
	sched_tick(r->poller, ticks_now() + poller_ticks(r->poller, HOUR_NS));
	assert_int_equal(r->poller->stats.promotions, 2);
	assert_null(due_first(&r->rings[0].state->due[2]));
	rig_stop(r);
}

static void those_that_wait_for_their_deadline_time_out(void **state)
{
	struct rig *r = start("busy=1", HOUR_NS, 20);
	struct tent_completion c;

	(void)state;
	publish(&r->rings[0], (uint64_t[]){ 9, 3, 5 }, 3);
	poller_turn(r->poller);
	r->poller->timeout_ticks = 0;
	sched_tick(r->poller, ticks_now());
	for (int i = 0; i < 3; i++) {
		assert_true(rig_reap(&r->rings[0], &c));
		assert_int_equal(c.status, TENT_STATUS_TIMEOUT);
	}
	rig_stop(r);
}

/* ---- what else may happen to one ----------------------------------------- */

static void a_full_transport_does_not_hold_other_rings_up(void **state)
{
	struct rig *r = start("busy=2", HOUR_NS, 20);

	(void)state;
	for (uint32_t k = 0; k < 3; k++)
		publish(&r->rings[k], (uint64_t[]){ 2, 3, 4, 5, 6, 7 }, 6);
	for (uint64_t i = 2; i <= 7; i++)
		for (uint32_t k = 0; k < 3; k++)
			assert_int_equal(rig_finish(r, &r->rings[k]).user_data, i);
	rig_stop(r);
}

static void cancel(struct rig_ring *ring, uint64_t user_data)
{
	struct tent_slot *s = rig_slot(ring, 0);

	memcpy(&s->request.source, &user_data, sizeof(user_data));
	s->user_data = 1000;
	rig_publish(ring, 1, TENT_OP_CANCEL, 0);
}

static void a_canceled_first_one_leaves_the_others_in_order(void **state)
{
	struct rig *r = start("busy=1", HOUR_NS, 20);
	struct rig_ring *ring = &r->rings[0];
	static const uint64_t order[] = { 3, 2, 6, 4, 8 };

	(void)state;
	publish(ring, (uint64_t[]){ 6, 2, 8, 3, 4 }, 5);
	poller_turn(r->poller);
	for (uint32_t i = 0; i < 5; i++) {
		const struct ring_due *d = &ring->state->due[1];
		struct tent_completion c;

		cancel(ring, order[i]);
		c = rig_finish(r, ring);
		assert_int_equal(c.user_data, order[i]);
		assert_int_equal(c.status, TENT_STATUS_CANCELED);
		assert_int_equal(rig_finish(r, ring).user_data, 1000);
		if (i < 1)
			assert_int_equal(due_first(d)->user_data, 2);
		else if (i < 2)
			assert_int_equal(due_first(d)->user_data, 4);
	}
	assert_false(sched_waits(r->poller));
	rig_stop(r);
}

static void submit_some(struct rig_ring *ring, uint64_t *seed)
{
	uint32_t n = 1 + random_next(seed) % 12;

	for (uint32_t i = 0; i < n; i++) {
		struct tent_slot *s = fill(ring, i, random_next(seed) % 90,
					   1 + random_next(seed) % 40000);

		s->request.requested_priority = (int)(random_next(seed) % 4);
		s->user_data = random_next(seed) % 8;
	}
	rig_publish(ring, n, TENT_OP_REQUEST,
		    random_next(seed) % 3 ? 0 : TENT_SLOT_F_ONE_COMPLETION);
}

/* rig_stop() checks that each one that was admitted has ended. */
static void every_request_ends_once_whatever_happens_to_it(void **state)
{
	(void)state;
	for (uint64_t seed = 1, from = 1; from <= 20; seed = ++from) {
		struct rig *r = start("busy=3,more=4,pending=5,fail=7", HOUR_NS, 20);

		r->poller->age_ticks = 1;
		for (int i = 0; i < 60; i++) {
			struct rig_ring *ring = &r->rings[random_next(&seed) % RIG_RINGS];

			if (ring->state->in_flight < 200 && random_next(&seed) % 4)
				submit_some(ring, &seed);
			else if (ring->state->in_flight < 200)
				cancel(ring, random_next(&seed) % 8);
			if (random_next(&seed) % 2)
				poller_turn(r->poller);
			for (uint32_t k = 0; k < RIG_RINGS; k++)
				rig_reap_all(&r->rings[k]);
		}
		if (from % 2)
			rig_settle(r);
		rig_stop(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_earlier_deadline_goes_before_what_came_first),
		cmocka_unit_test(deadlines_are_in_order_over_all_rings_of_a_level),
		cmocka_unit_test(who_comes_later_with_an_earlier_deadline_passes),
		cmocka_unit_test(equal_deadlines_go_as_they_came),
		cmocka_unit_test(a_deadline_does_not_go_before_a_higher_level),
		cmocka_unit_test(a_deadline_that_is_far_or_has_passed_changes_no_order),
		cmocka_unit_test(where_no_deadline_is_near_first_come_is_first_served),
		cmocka_unit_test(a_large_request_gives_way_between_its_pieces),
		cmocka_unit_test(a_flood_of_tight_deadlines_leaves_the_others_their_share),
		cmocka_unit_test(without_a_share_such_a_flood_leaves_them_nothing),
		cmocka_unit_test(deadlines_have_the_whole_of_it_where_nothing_else_waits),
		cmocka_unit_test(a_deadline_ahead_does_not_rise_by_age),
		cmocka_unit_test(a_deadline_that_has_passed_rises_by_age),
		cmocka_unit_test(those_that_wait_for_their_deadline_time_out),
		cmocka_unit_test(a_full_transport_does_not_hold_other_rings_up),
		cmocka_unit_test(a_canceled_first_one_leaves_the_others_in_order),
		cmocka_unit_test(every_request_ends_once_whatever_happens_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
