/* SPDX-License-Identifier: Apache-2.0 */
/* test_sched.c - who is served next: levels, ageing, turns, timeouts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "engine/complete.h"
#include "engine/sched.h"
#include "tests/common/rig.h"

static struct poller_options options(uint64_t age_ns, uint64_t timeout_ns)
{
	return (struct poller_options){
		.turn_slots = 64, .turn_bytes = 65536, .core = -1, .answer_fd = -1,
		.event_fd = -1, .age_ns = age_ns, .request_timeout_ns = timeout_ns,
	};
}

/* ---- ageing: semantics of the existing engine, per entry ---------------- */

#define AGE 10000u
#define NOW 1000000u

/* Puts entries of these queueing times into level 1 of ring 0, ages, and returns the
 * set that rose. */
static uint32_t aged(const uint64_t *queued, uint32_t n)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = "busy=1", .poller = options(0, 0) });
	struct ring_state *ring = r->rings[0].state;
	struct transfer *list[8];
	uint32_t budget = 256, risen = 0;

	r->poller->age_ticks = AGE;
	for (uint32_t i = 0; i < n; i++) {
		list[i] = &ring->records[i];
		list[i]->level = 1;
	}
	if (n)
		sched_push(r->poller, ring, list, n, 1);
	for (uint32_t i = 0; i < n; i++)
		list[i]->queued_ticks = queued[i];
	sched_age(r->poller, ring, 1, NOW, &budget);
	assert_int_equal(budget, 256 - n);
	for (uint32_t i = 0; i < n; i++) {
		risen |= (list[i]->level == 0) << i;
		if (list[i]->level == 0)
			assert_int_equal(list[i]->queued_ticks, NOW);
		sched_remove(ring, list[i]);
		list[i]->state = TRANSFER_FREE;
	}
	rig_stop(r);
	return risen;
}

#define OLD (NOW - AGE)
#define FRESH (NOW - AGE + 1)

static void an_old_entry_rises_alone(void **state)
{
	(void)state;
	assert_int_equal(aged((uint64_t[]){ OLD, FRESH, FRESH }, 3), 1);
}

static void old_entries_rise_from_behind_a_fresh_one(void **state)
{
	(void)state;
	assert_int_equal(aged((uint64_t[]){ FRESH, OLD, OLD }, 3), 6);
}

static void an_empty_level_ages_nothing(void **state)
{
	(void)state;
	assert_int_equal(aged(NULL, 0), 0);
}

static void entries_without_a_time_do_not_rise(void **state)
{
	(void)state;
	assert_int_equal(aged((uint64_t[]){ 0, 0, 0 }, 3), 0);
}

static void all_old_entries_rise(void **state)
{
	(void)state;
	assert_int_equal(aged((uint64_t[]){ 1, 1, OLD }, 3), 7);
}

static void ageing_looks_at_a_bounded_number_of_entries(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = "busy=1", .slots = 1024, .completions = 1024,
		.poller = options(0, 0) });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	r->options.turn_slots = 64;
	for (uint32_t i = 0; i < 1024; i++) {
		rig_request(ring, 0, 0, 0, 0, 8)->request.requested_priority =
			TENT_PRIORITY_LOW;
		rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	}
	while (ring->state->in_flight < 1024)	/* a backlog is taken slowly */
		poller_turn(r->poller);
	r->poller->age_ticks = 0;
	sched_tick(r->poller, ticks_now());
	assert_int_equal(r->poller->stats.promotions, 256);
	rig_stop(r);
}

/* ---- priorities --------------------------------------------------------- */

/* One batch, one entry per priority in the order given; the order they end in. */
static void ending_order(bool no_priorities, const int *asked, int *ended, uint32_t n)
{
	struct poller_options o = options(0, 0);
	struct rig *r;
	struct rig_ring *ring;

	o.no_priorities = no_priorities;
	r = rig_new(&(struct rig_options){ .poller = o });
	ring = &r->rings[0];
	for (uint32_t i = 0; i < n; i++) {
		struct tent_slot *s = rig_request(ring, i, 0, 0, 0, 8);

		s->request.requested_priority = asked[i];
		s->user_data = (uint64_t)asked[i];
	}
	rig_publish(ring, n, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < n; i++)
		ended[i] = (int)rig_finish(r, ring).user_data;
	rig_stop(r);
}

static void high_goes_before_medium_before_low(void **state)
{
	static const int asked[] = { 3, 2, 1, 3, 2, 1 }, wanted[] = { 1, 1, 2, 2, 3, 3 };
	int ended[6];

	(void)state;
	ending_order(false, asked, ended, 6);
	assert_memory_equal(ended, wanted, sizeof(wanted));
}

static void without_priorities_first_come_is_first_served(void **state)
{
	static const int asked[] = { 3, 2, 1, 3, 2, 1 };
	int ended[6];

	(void)state;
	ending_order(true, asked, ended, 6);
	assert_memory_equal(ended, asked, sizeof(asked));
}

/* Keeps HIGH work queued for ever and waits for one LOW request. How many HIGH
 * requests ended meanwhile; 0: the LOW one did not end in limit rounds. */
static uint32_t starve(uint64_t age_ns, uint32_t limit)
{
	struct poller_options o = options(age_ns, 0);
	struct rig *r;
	struct rig_ring *low, *high;
	struct tent_completion c;
	uint32_t owed = 0, ended = 0;

	o.turn_bytes = 4096;	/* less than what is queued */
	r = rig_new(&(struct rig_options){ .poller = o });
	low = &r->rings[0];
	high = &r->rings[1];
	while (owed < 64) {
		rig_request(high, 0, 0, 0, 0, 4096)->request.requested_priority = 1;
		rig_publish(high, 1, TENT_OP_REQUEST, 0);
		owed++;
	}
	poller_turn(r->poller);
	rig_request(low, 0, 0, 0, 0, 8)->request.requested_priority = TENT_PRIORITY_LOW;
	rig_publish(low, 1, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < limit && !rig_reap(low, &c); i++) {
		poller_turn(r->poller);
		while (rig_reap(high, &c)) {
			ended++;
			rig_request(high, 0, 0, 0, 0, 4096)->request.requested_priority = 1;
			rig_publish(high, 1, TENT_OP_REQUEST, 0);
		}
	}
	ended = low->cq_head ? ended : 0;
	rig_stop(r);
	return ended;
}

static void low_work_is_not_starved_by_a_flood_of_high(void **state)
{
	(void)state;
	assert_true(starve(1000000, 2000000) > 0);
}

static void without_ageing_a_flood_of_high_does_starve_it(void **state)
{
	(void)state;
	assert_int_equal(starve(0, 20000), 0);
}

/* ---- fairness ----------------------------------------------------------- */

/* Ring 0 has 64 transfers of 64 KiB queued when ring 1 asks for 64 bytes in the same
 * level: it must not wait for more than one quantum of ring 0 per round. */
static void a_small_request_passes_a_neighbours_large_ones(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = options(0, 0) });
	struct tent_completion c;
	uint64_t moved;

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		rig_request(&r->rings[0], i, 0, 0, 0, 65536);
	rig_publish(&r->rings[0], 64, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	moved = rig_reap_all(&r->rings[0]);
	rig_request(&r->rings[1], 0, 0, 0, 0, 64);
	rig_publish(&r->rings[1], 1, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	poller_turn(r->poller);
	assert_true(rig_reap(&r->rings[1], &c));
	moved += rig_reap_all(&r->rings[0]);
	assert_int_equal(moved, 0);	/* two quanta are half of the first */
	rig_stop(r);
}

/* Gives a ring a backlog, all of it risen to HIGH. */
static void let_rise(struct rig *r, struct rig_ring *old)
{
	for (uint32_t i = 0; i < 60; i++) {	/* a turn takes them all */
		rig_request(old, 0, 0, 0, 0, 16384);
		rig_publish(old, 1, TENT_OP_REQUEST, 0);
	}
	poller_turn(r->poller);
	r->poller->age_ticks = 0;
	sched_tick(r->poller, ticks_now());
	r->poller->age_ticks = INT64_MAX;
}

/* A neighbour's backlog in ring 0, all of it risen to HIGH, and a batch of 16 x 64 KiB of
 * ring 1; the bytes that ring 0 moves while that batch is served. */
static uint64_t moved_beside_risen(struct rig *r, int priority)
{
	struct rig_ring *old = &r->rings[0], *own = &r->rings[1];
	struct poller_stats before, after;
	uint32_t ended = 0;

	let_rise(r, old);
	for (uint32_t i = 0; i < 16; i++)
		rig_request(own, i, 0, 0, 0, 65536)->request.requested_priority = priority;
	rig_publish(own, 16, TENT_OP_REQUEST, 0);
	ring_stats_read(old->state, &before);
	while (ended < 16) {
		poller_turn(r->poller);
		ended += rig_reap_all(own);
	}
	ring_stats_read(old->state, &after);
	return after.read_bytes - before.read_bytes;
}

static void rises_beside(int priority)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 256, .completions = 256,
						       .poller = options(0, 0) });

	assert_in_range(moved_beside_risen(r, priority), 16 * 65536 / 16, 16 * 65536 / 6);
	rig_settle(r);
	rig_stop(r);
}

static void what_rose_gets_a_small_share_beside_what_belongs_there(void **state)
{
	(void)state;
	rises_beside(TENT_PRIORITY_HIGH);
}

static void what_rose_gets_a_small_share_beside_what_is_below(void **state)
{
	(void)state;
	rises_beside(TENT_PRIORITY_MEDIUM);
}

static void what_rose_does_not_stand_before_what_belongs_there_in_its_own_ring(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 256, .completions = 256,
						       .poller = options(0, 0) });
	struct rig_ring *ring = &r->rings[0];
	struct tent_slot *urgent;
	struct tent_completion c;

	(void)state;
	let_rise(r, ring);
	urgent = rig_request(ring, 0, 0, 0, 0, 4096);
	urgent->user_data = 77;
	urgent->request.requested_priority = TENT_PRIORITY_HIGH;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	do
		assert_true(rig_reap(ring, &c));
	while (c.user_data != 77);
	rig_settle(r);
	rig_stop(r);
}

static void a_batch_as_large_as_a_turn_takes_the_shares_of_later_turns(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 256, .completions = 256,
						       .poller = options(0, 0) });
	struct rig_ring *ring = &r->rings[0];
	struct poller_stats s;
	int turns = 0;

	(void)state;
	for (uint32_t k = 0; k < 3; k++) {
		for (uint32_t i = 0; i < 64; i++)
			rig_request(ring, i, 0, 0, 0, 16384);
		rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	}
	poller_turn(r->poller);		/* there is no backlog yet */
	poller_turn(r->poller);
	do {
		poller_turn(r->poller);
		ring_stats_read(ring->state, &s);
		turns++;
	} while (s.requests == 128);
	assert_int_equal(turns, 16);	/* 64 slots, 4 a turn */
	rig_settle(r);
	rig_stop(r);
}

static void a_neighbours_backlog_is_taken_a_few_slots_per_turn(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 512, .completions = 512,
						       .poller = options(0, 0) });
	struct rig_ring *ring = &r->rings[0];
	struct poller_stats s;

	(void)state;
	for (uint32_t i = 0; i < 512; i++) {
		rig_request(ring, 0, 0, 0, 0, 16384);
		rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	}
	for (uint64_t turn = 1; turn < 50; turn++) {
		poller_turn(r->poller);
		ring_stats_read(ring->state, &s);
		assert_in_range(s.requests, 64, 64 + turn * 4);
	}
	rig_settle(r);
	rig_stop(r);
}

static uint32_t nr_parked(const struct ring_state *r)
{
	uint32_t n = 0;

	for (const struct transfer *t = r->intake.parked.head; t; t = t->next)
		n++;
	return n;
}

static void a_batch_longer_than_a_turn_is_judged_and_admitted_a_few_slots_per_turn(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 512, .completions = 512,
			.faults = "busy=1", .poller = options(0, 0) });
	const struct ring_state *ring = r->rings[0].state;
	uint32_t judged = 0, admitted = 0;

	(void)state;
	for (uint32_t i = 0; i < 512; i++)
		rig_request(&r->rings[0], i, 0, 0, 0, 64);
	rig_publish(&r->rings[0], 512, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);		/* there was no backlog yet */
	while (ring->intake.step != INTAKE_IDLE) {
		uint32_t taken = ring->intake.taken, parked = nr_parked(ring);

		poller_turn(r->poller);
		assert_true(ring->intake.taken - taken <= 4);
		if (nr_parked(ring) < parked)
			assert_true(parked - nr_parked(ring) <= 4);
		judged += ring->intake.taken > taken;
		admitted += nr_parked(ring) < parked;
	}
	assert_true(judged >= (512 - 64) / 4);
	assert_true(admitted >= 512 / 4);
	rig_stop(r);
}

static void a_turn_moves_a_bounded_number_of_bytes(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = options(0, 0) });
	struct poller_stats s;
	uint64_t before = 0;

	(void)state;
	for (uint32_t k = 0; k < RIG_RINGS; k++) {
		for (uint32_t i = 0; i < 64; i++)
			rig_request(&r->rings[k], i, 0, 0, 0, 3000);
		rig_publish(&r->rings[k], 64, TENT_OP_REQUEST, 0);
	}
	for (int turn = 0; turn < 8; turn++) {
		poller_turn(r->poller);
		poller_stats_read(r->poller, &s);
		assert_in_range(s.read_bytes - before, 8192, 16384 + 3000);
		before = s.read_bytes;
	}
	rig_settle(r);
	rig_stop(r);
}

static void a_turn_grows_with_the_number_of_rings_up_to_the_configured_bytes(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = options(0, 0) });
	static const struct { uint32_t rings; int64_t bytes; } rows[] = {
		{ 1, 16384 }, { 15, 16384 }, { 16, 32768 }, { 47, 49152 }, { 48, 65536 },
		{ 10000, 65536 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		r->poller->stats.rings = rows[i].rings;
		sched_size_turn(r->poller);
		assert_int_equal(r->poller->turn_bytes, rows[i].bytes);
	}
	r->poller->stats.rings = RIG_RINGS;
	rig_stop(r);
}

static void rings_of_a_level_take_turns(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = options(0, 0) });
	uint32_t ended[RIG_RINGS] = { 0 };

	(void)state;
	for (uint32_t k = 0; k < RIG_RINGS; k++) {
		for (uint32_t i = 0; i < 64; i++)
			rig_request(&r->rings[k], i, 0, 0, 0, 16000);
		rig_publish(&r->rings[k], 64, TENT_OP_REQUEST, 0);
	}
	for (int turn = 0; turn < 20; turn++) {
		poller_turn(r->poller);
		for (uint32_t k = 0; k < RIG_RINGS; k++)
			ended[k] += rig_reap_all(&r->rings[k]);
		for (uint32_t k = 1; k < RIG_RINGS; k++)
			assert_true(abs((int)ended[k] - (int)ended[0]) <= 2);
	}
	rig_settle(r);
	rig_stop(r);
}

/* A ring's requests end in order, though each is moved in pieces between others'. */
static void one_rings_transfers_end_in_order(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .poller = options(0, 0) });

	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		for (uint32_t i = 0; i < 20; i++)
			rig_request(&r->rings[k], i, TENT_OPCODE_WRITE, 0, 0, 65536);
		rig_publish(&r->rings[k], 20, TENT_OP_REQUEST, 0);
	}
	for (uint32_t i = 0; i < 20; i++)
		for (uint32_t k = 0; k < 2; k++) {
			struct tent_completion c = rig_finish(r, &r->rings[k]);

			assert_int_equal(c.index, i);
			assert_int_equal(c.bytes, 65536);
			assert_int_equal(c.attempts, 1);
		}
	rig_stop(r);
}

/* The first backend has no room; a request that may go to the second passes. */
static void a_full_backend_does_not_hold_other_levels_or_rings_up(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "busy=2" });
	struct rig_ring *a = &r->rings[0], *b = &r->rings[1];

	(void)state;
	for (uint32_t i = 0; i < 10; i++) {
		rig_request(a, i, 0, 0, 0, 8);
		rig_request(b, i, 0, 0, 0, 8);
	}
	rig_publish(a, 10, TENT_OP_REQUEST, 0);
	rig_publish(b, 10, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 10; i++) {
		struct tent_completion c = rig_finish(r, a);

		assert_int_equal(c.index, i);
		assert_int_equal(c.attempts, 1);
		assert_int_equal(rig_finish(r, b).index, i);
	}
	rig_stop(r);
}

/* ---- timeouts ----------------------------------------------------------- */

static void queued_requests_time_out(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = "busy=1", .poller = options(0, 1000000) });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (uint32_t i = 0; i < 9; i++)
		rig_request(ring, i, 0, 0, 0, 8)->request.requested_priority = 1 + (int)i % 3;
	rig_publish(ring, 9, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 9; i++) {
		struct tent_completion c = rig_finish(r, ring);

		assert_int_equal(c.status, TENT_STATUS_TIMEOUT);
		assert_int_equal(c.rule, TENT_RULE_TIMEOUT);
		assert_int_equal(c.error, TENT_ERR_TIMEOUT);
		assert_int_equal(c.bytes, 0);
	}
	rig_stop(r);
}

static void pending_requests_time_out_through_the_backend(void **state)
{
	static const char *const faults[] = { "pending=1,hold", "pending=1,hold,late" };

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct rig *r = rig_new(&(struct rig_options){
			.faults = faults[late], .poller = options(0, 1000000) });
		struct rig_ring *ring = &r->rings[0];
		struct poller_stats s;

		for (uint32_t i = 0; i < 9; i++)
			rig_request(ring, i, 0, 0, 0, 8);
		rig_publish(ring, 9, TENT_OP_REQUEST, 0);
		for (uint32_t i = 0; i < 9; i++)
			assert_int_equal(rig_finish(r, ring).status, TENT_STATUS_TIMEOUT);
		poller_stats_read(r->poller, &s);
		assert_int_equal(s.timed_out, 9);
		rig_stop(r);
	}
}

static void a_timeout_of_zero_means_none(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = "busy=1", .poller = options(0, 0) });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, 0, 0, 0, 8);
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	sched_tick(r->poller, UINT64_MAX / 2);
	assert_false(rig_reap(ring, &c));
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_old_entry_rises_alone),
		cmocka_unit_test(old_entries_rise_from_behind_a_fresh_one),
		cmocka_unit_test(an_empty_level_ages_nothing),
		cmocka_unit_test(entries_without_a_time_do_not_rise),
		cmocka_unit_test(all_old_entries_rise),
		cmocka_unit_test(ageing_looks_at_a_bounded_number_of_entries),
		cmocka_unit_test(high_goes_before_medium_before_low),
		cmocka_unit_test(without_priorities_first_come_is_first_served),
		cmocka_unit_test(low_work_is_not_starved_by_a_flood_of_high),
		cmocka_unit_test(without_ageing_a_flood_of_high_does_starve_it),
		cmocka_unit_test(a_small_request_passes_a_neighbours_large_ones),
		cmocka_unit_test(what_rose_gets_a_small_share_beside_what_belongs_there),
		cmocka_unit_test(what_rose_gets_a_small_share_beside_what_is_below),
		cmocka_unit_test(
			what_rose_does_not_stand_before_what_belongs_there_in_its_own_ring),
		cmocka_unit_test(a_neighbours_backlog_is_taken_a_few_slots_per_turn),
		cmocka_unit_test(a_batch_as_large_as_a_turn_takes_the_shares_of_later_turns),
		cmocka_unit_test(
			a_batch_longer_than_a_turn_is_judged_and_admitted_a_few_slots_per_turn),
		cmocka_unit_test(a_turn_moves_a_bounded_number_of_bytes),
		cmocka_unit_test(a_turn_grows_with_the_number_of_rings_up_to_the_configured_bytes),
		cmocka_unit_test(rings_of_a_level_take_turns),
		cmocka_unit_test(one_rings_transfers_end_in_order),
		cmocka_unit_test(a_full_backend_does_not_hold_other_levels_or_rings_up),
		cmocka_unit_test(queued_requests_time_out),
		cmocka_unit_test(pending_requests_time_out_through_the_backend),
		cmocka_unit_test(a_timeout_of_zero_means_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
