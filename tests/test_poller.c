/* SPDX-License-Identifier: Apache-2.0 */
/* test_poller.c - orders of the control thread, and ends of rings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/rig.h"

/* A table of one client's regions without one of them, published as the control thread
 * would. */
static void unpublish(struct rig_client *c, struct region *gone)
{
	struct region_table *t = c->segment.table;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->nr; i++)
		if (t->entries[i].region != gone)
			t->entries[n++] = t->entries[i];
	t->nr = n;
}

static void send(struct rig *r, struct poller_command *c, enum poller_command_type type,
		 struct ring_state *ring, struct region *region)
{
	*c = (struct poller_command){ .type = type, .ring = ring, .region = region,
				      .rule = TENT_RULE_RING_CLOSED };
	poller_send(r->poller, c);
}

/* ---- dropping a region -------------------------------------------------- */

static void dropping_a_region_ends_queued_requests_that_touch_it(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "busy=1" });
	struct rig_client *own = &r->clients[0], *peer = &r->clients[1];
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_burst(ring, 6, 0, 64);			/* to the peer's region 0 */
	rig_burst(ring, 6, 2 * RIG_REGION_BYTES, 64);	/* to its region 1 */
	rig_settle(r);
	unpublish(peer, &peer->regions[1]);
	rig_order(r, POLLER_DROP_REGION, NULL, &peer->regions[1], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(rig_reap(ring, &c));
		assert_true(c.user_data >= 6);
		assert_int_equal(c.status, TENT_STATUS_FAILED);
		assert_int_equal(c.rule, TENT_RULE_TARGET_GONE);
		assert_int_equal(c.error, TENT_ERR_OWNER_GONE);
	}
	assert_false(rig_reap(ring, &c));
	unpublish(own, &own->regions[0]);
	rig_order(r, POLLER_DROP_REGION, NULL, &own->regions[0], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 6; i++) {
		assert_true(rig_reap(ring, &c));
		assert_int_equal(c.rule, TENT_RULE_SOURCE_GONE);
	}
	rig_stop(r);
}

static void dropping_a_region_waits_for_what_the_backend_has(void **state)
{
	static const char *const faults[] = { "pending=1,hold", "pending=1,hold,late" };

	(void)state;
	for (int late = 0; late < 2; late++) {
		struct rig *r = rig_new(&(struct rig_options){ .faults = faults[late] });
		struct region *region = &r->clients[1].regions[0];
		struct tent_completion c;

		rig_burst(&r->rings[0], 8, 0, 64);
		rig_burst(&r->rings[2], 8, 2 * RIG_REGION_BYTES, 64);
		rig_settle(r);
		rig_order(r, POLLER_DROP_REGION, NULL, region, TENT_RULE_TARGET_GONE);
		for (uint32_t i = 0; i < 8; i++) {
			assert_true(rig_reap(&r->rings[0], &c));
			assert_int_equal(c.rule, TENT_RULE_TARGET_GONE);
			assert_int_equal(c.status, TENT_STATUS_FAILED);
		}
		assert_false(rig_reap(&r->rings[2], &c));
		rig_stop(r);
	}
}

/* A long batch is half judged when a region it names goes: those requests end with the
 * reason once the batch is through, the others move. */
static void dropping_a_region_reaches_into_a_half_judged_batch(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_client *peer = &r->clients[1];
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0,
			    i < 5 ? 2 * RIG_REGION_BYTES : 0, 64);
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);		/* 16 of them */
	unpublish(peer, &peer->regions[1]);
	rig_order(r, POLLER_DROP_REGION, NULL, &peer->regions[1], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 64; i++) {
		struct tent_completion c = rig_finish(r, ring);

		assert_int_equal(c.index, i);
		assert_int_equal(c.rule, i < 5 ? TENT_RULE_TARGET_GONE : 0);
		assert_int_equal(c.status, i < 5 ? TENT_STATUS_FAILED : TENT_STATUS_COMPLETED);
	}
	assert_int_equal(peer->memory[2 * RIG_REGION_BYTES], 0x22);
	assert_int_equal(peer->memory[0], 0x11);
	rig_stop(r);
}

/* Hints keep the way to a region: after the drop they must not lead there. */
static void a_dropped_region_is_not_found_any_more(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });
	struct rig_client *peer = &r->clients[1];
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (int round = 0; round < 3; round++) {
		rig_burst(ring, 4, 0, 64);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(rig_finish(r, ring).status, TENT_STATUS_COMPLETED);
	}
	unpublish(peer, &peer->regions[0]);	/* the table keeps its address */
	rig_order(r, POLLER_DROP_REGION, NULL, &peer->regions[0], TENT_RULE_TARGET_GONE);
	for (uint32_t i = 0; i < 4; i++) {
		struct tent_slot *s = rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);

		s->request.target_offset = peer->regions[0].base;
	}
	rig_publish(ring, 4, TENT_OP_REQUEST, 0);
	assert_int_equal(rig_finish(r, ring).rule, TENT_RULE_TARGET_UNREGISTERED);
	rig_stop(r);
}

/* ---- closing a ring ----------------------------------------------------- */

static void closing_a_ring_ends_its_work_and_leaves_others_alone(void **state)
{
	static const char *const faults[] = { "busy=1", "pending=1,hold", "pending=2,hold,late",
					      "pending=3,busy=2" };

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		struct rig *r = rig_new(&(struct rig_options){ .faults = faults[k] });
		uint32_t closed = 0;
		struct tent_completion c;

		rig_burst(&r->rings[0], 16, 0, 64);
		rig_burst(&r->rings[1], 16, 0, 64);
		poller_turn(r->poller);
		rig_order(r, POLLER_CLOSE_RING, r->rings[0].state, NULL,
			  TENT_RULE_RING_CLOSED);
		for (uint32_t i = 0; i < 16; i++) {
			assert_true(rig_reap(&r->rings[0], &c));
			closed += c.rule == TENT_RULE_RING_CLOSED;
			assert_true(c.rule == 0 || c.rule == TENT_RULE_RING_CLOSED);
		}
		assert_true(closed > 0);
		assert_false(rig_reap(&r->rings[0], &c));
		assert_int_equal(load_relaxed(&r->rings[0].host->line->end_rule),
				 TENT_RULE_RING_CLOSED);
		assert_null(r->rings[0].state->poller);
		while (rig_reap(&r->rings[1], &c))
			assert_int_equal(c.rule, 0);
		rig_stop(r);
	}
}

static void closing_an_unserved_ring_is_answered(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ 0 });

	(void)state;
	rig_order(r, POLLER_CLOSE_RING, r->rings[0].state, NULL, TENT_RULE_RING_CLOSED);
	rig_order(r, POLLER_CLOSE_RING, r->rings[0].state, NULL, TENT_RULE_RING_CLOSED);
	rig_stop(r);
}

static void closing_in_the_middle_of_a_long_batch_forgets_or_ends_it(void **state)
{
	uint32_t forgotten = 0, ended = 0;

	(void)state;
	for (uint32_t turns = 0; turns < 150; turns++) {
		struct rig *r = rig_new(&(struct rig_options){
			.faults = "busy=1", .slots = 64, .completions = 64 });
		struct rig_ring *ring = &r->rings[0];
		struct tent_completion c;
		struct poller_stats s;
		uint32_t n = 0;

		for (uint32_t i = 0; i < 64; i++)
			rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);
		rig_publish(ring, 64, TENT_OP_REQUEST, 0);
		for (uint32_t i = 0; i < turns; i++)
			poller_turn(r->poller);
		ring_stats_read(ring->state, &s);	/* was it accepted? */
		rig_order(r, POLLER_CLOSE_RING, ring->state, NULL, TENT_RULE_RING_CLOSED);
		for (; rig_reap(ring, &c); n++)
			assert_int_equal(c.rule, TENT_RULE_RING_CLOSED);
		assert_int_equal(n, s.requests);
		assert_int_equal(ring->state->nr_free, 64);
		forgotten += n == 0;
		ended += n == 64;
		rig_stop(r);
	}
	assert_int_equal(forgotten + ended, 150);
	assert_true(forgotten > 4 && ended > 4);
}

/* A drop that stands at a ring which is closed meanwhile goes on with the next one. */
static void a_drop_survives_the_close_of_the_ring_it_is_at(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = "pending=1,hold,late", .slots = 2048, .completions = 2048 });
	struct poller_command drop, closes[RIG_RINGS];

	(void)state;
	for (uint32_t k = 0; k < RIG_RINGS; k++) {
		rig_burst(&r->rings[k], 500, 0, 64);
		for (int i = 0; i < 100; i++)
			poller_turn(r->poller);
	}
	send(r, &drop, POLLER_DROP_REGION, NULL, &r->clients[1].regions[0]);
	drop.rule = TENT_RULE_TARGET_GONE;
	poller_turn(r->poller);
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		send(r, &closes[k], POLLER_CLOSE_RING, r->rings[k].state, NULL);
	for (int i = 0; i < 100; i++)
		poller_turn(r->poller);
	assert_true(load_acquire(&drop.answered));
	for (uint32_t k = 0; k < RIG_RINGS; k++)
		assert_true(load_acquire(&closes[k].answered));
	rig_stop(r);
}

/* ---- stop --------------------------------------------------------------- */

/* Random work on all rings, then stop: every admitted request has exactly one end. */
static void stop_ends_every_accepted_request_exactly_once(void **state)
{
	static const char *const faults[] = { "busy=2", "pending=1,hold", "pending=2,hold,late",
					      "fail=2,more=1" };
	uint64_t seed = 3;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		struct rig *r = rig_new(&(struct rig_options){
			.faults = faults[round % 4], .slots = 64, .completions = 64 });
		uint64_t admitted = 0, ended = 0;
		struct poller_stats s;

		for (uint32_t k = 0; k < RIG_RINGS; k++)
			for (uint32_t left = 64; left; ) {
				uint32_t n = 1 + random_next(&seed) % left;

				rig_burst(&r->rings[k], n, 0, 40000);
				if (random_next(&seed) % 2)
					poller_turn(r->poller);
				left -= n;
			}
		for (uint32_t i = random_next(&seed) % 8; i; i--)
			poller_turn(r->poller);
		rig_order(r, POLLER_STOP, NULL, NULL, TENT_RULE_ENGINE_STOPPED);
		for (uint32_t k = 0; k < RIG_RINGS; k++) {
			uint64_t seen[2] = { 0, 0 };
			struct tent_completion c;

			ring_stats_read(r->rings[k].state, &s);
			admitted += s.requests;
			while (rig_reap(&r->rings[k], &c)) {
				assert_false(seen[c.user_data / 64] >> c.user_data % 64 & 1);
				seen[c.user_data / 64] |= 1ull << c.user_data % 64;
				ended++;
			}
			assert_int_equal(load_relaxed(&r->rings[k].host->line->end_rule),
					 TENT_RULE_ENGINE_STOPPED);
		}
		assert_int_equal(admitted, ended);
		poller_stats_read(r->poller, &s);
		assert_int_equal(s.requests, admitted);
		assert_int_equal(s.in_flight, 0);
		rig_stop(r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dropping_a_region_ends_queued_requests_that_touch_it),
		cmocka_unit_test(dropping_a_region_waits_for_what_the_backend_has),
		cmocka_unit_test(dropping_a_region_reaches_into_a_half_judged_batch),
		cmocka_unit_test(a_dropped_region_is_not_found_any_more),
		cmocka_unit_test(closing_a_ring_ends_its_work_and_leaves_others_alone),
		cmocka_unit_test(closing_an_unserved_ring_is_answered),
		cmocka_unit_test(closing_in_the_middle_of_a_long_batch_forgets_or_ends_it),
		cmocka_unit_test(a_drop_survives_the_close_of_the_ring_it_is_at),
		cmocka_unit_test(stop_ends_every_accepted_request_exactly_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
