/* SPDX-License-Identifier: Apache-2.0 */
/* test_intake.c - batches through the ring: whole or not at all, one completion each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/rig.h"
#include "tests/common/soak.h"

/* ---- requests ----------------------------------------------------------- */

static void a_batch_moves_its_bytes_and_completes_each_request_once(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	uint8_t *own = r->clients[0].memory, *peer = r->clients[1].memory;
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 100, 64);
	rig_request(ring, 1, TENT_OPCODE_READ, 1000, 2000, 300);
	rig_publish(ring, 2, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 2; i++) {
		c = rig_finish(r, ring);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.transport, TENT_TRANSPORT_SHM);
		assert_int_equal(c.index, i);
		assert_int_equal(c.user_data, i);
		assert_int_equal(c.count, 1);
		assert_int_equal(c.credits, 1);
		assert_int_equal(c.bytes, i ? 300 : 64);
		assert_int_equal(c.attempts, 1);
		assert_int_equal(c.error, 0);
		assert_int_equal(c.rule, 0);
		assert_true(c.posted_ticks <= c.device_ticks);
		assert_true(c.device_ticks <= c.published_ticks);
	}
	assert_int_equal(peer[99], 0x22);
	assert_int_equal(peer[100], 0x11);
	assert_int_equal(peer[163], 0x11);
	assert_int_equal(peer[164], 0x22);
	assert_int_equal(own[999], 0x11);
	assert_int_equal(own[1000], 0x22);
	assert_int_equal(own[1299], 0x22);
	assert_int_equal(own[1300], 0x11);
	assert_int_equal(load_relaxed(&ring->host->line->consumed), 2);
	rig_stop(r);
}

static void one_bad_entry_anywhere_refuses_the_batch_and_moves_nothing(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	uint8_t *before = malloc(8 * RIG_REGION_BYTES);
	uint32_t sizes[] = { 1, 2, 16, 17, 33, 64 };	/* turn_slots is 16 */

	(void)state;
	memcpy(before, r->clients[1].memory, 8 * RIG_REGION_BYTES);
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
		for (uint32_t bad = 0; bad < sizes[k]; bad++) {
			struct tent_completion c;

			for (uint32_t i = 0; i < sizes[k]; i++)
				rig_request(ring, i, TENT_OPCODE_WRITE, i * 64, i * 64, 64);
			rig_slot(ring, bad)->user_data = 5;
			rig_request(ring, bad, TENT_OPCODE_WRITE, 0, 0, 64)->request.flags = 4;
			rig_publish(ring, sizes[k], TENT_OP_REQUEST, 0);
			c = rig_finish(r, ring);
			rig_expect_refused(&c, TENT_RULE_FLAGS, bad, sizes[k]);
			assert_int_equal(c.bytes, 4);
			assert_int_equal(c.user_data, ring->position - sizes[k]);
			assert_false(rig_reap(ring, &c));
			assert_int_equal(load_relaxed(&ring->host->line->consumed),
					 ring->position);
		}
	rig_settle(r);
	assert_memory_equal(before, r->clients[1].memory, 8 * RIG_REGION_BYTES);
	free(before);
	rig_stop(r);
}

/* Faults of different stages in different pieces of a long batch. */
static void a_long_batch_answers_with_the_first_failure_of_all_its_pieces(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);
	rig_request(ring, 3, TENT_OPCODE_WRITE, 0, 0, 64)->request.target_id = 77;
	rig_request(ring, 20, TENT_OPCODE_WRITE, 0, 0, 64)->request.intent_type = 50;
	rig_request(ring, 40, TENT_OPCODE_WRITE, 0, 0, 64)->request.intent_type = 60;
	rig_request(ring, 60, TENT_OPCODE_WRITE, 0, 0, 64)->request.schema_version = 3;
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	rig_expect_refused(&c, TENT_RULE_SCHEMA, 60, 64);
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 64);
	rig_request(ring, 3, TENT_OPCODE_WRITE, 0, 0, 64)->request.target_id = 77;
	rig_request(ring, 20, TENT_OPCODE_WRITE, 0, 0, 64)->request.intent_type = 50;
	rig_request(ring, 40, TENT_OPCODE_WRITE, 0, 0, 64)->request.intent_type = 60;
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	rig_expect_refused(&c, TENT_RULE_INTENT, 20, 64);
	assert_int_equal(c.bytes, 50);
	rig_stop(r);
}

static void nothing_of_a_long_batch_starts_before_all_of_it_passed(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 64; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, i * 64, 64);
	rig_publish(ring, 64, TENT_OP_REQUEST, 0);
	for (uint32_t turn = 0; turn < 3; turn++) {
		poller_turn(r->poller);
		assert_int_equal(r->clients[1].memory[0], 0x22);
		assert_int_equal(load_relaxed(&ring->host->line->consumed), 0);
	}
	for (uint32_t i = 0; i < 64; i++) {
		c = rig_finish(r, ring);
		assert_int_equal(c.index, i);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	}
	assert_int_equal(r->clients[1].memory[0], 0x11);
	assert_int_equal(r->clients[1].memory[64 * 64 - 1], 0x11);
	assert_int_equal(r->clients[1].memory[64 * 64], 0x22);
	rig_stop(r);
}

static void positions_wrap_at_2_to_the_32(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 8, .completions = 8,
						     .first_position = UINT32_MAX - 2 });
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (uint32_t round = 0; round < 40; round++) {
		uint32_t nr = 1 + round % 7;

		for (uint32_t i = 0; i < nr; i++)
			rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 8);
		rig_publish(ring, nr, TENT_OP_REQUEST, 0);
		for (uint32_t i = 0; i < nr; i++) {
			struct tent_completion c = rig_finish(r, ring);

			assert_int_equal(c.status, TENT_STATUS_COMPLETED);
			assert_int_equal(c.index, i);
			assert_int_equal((uint32_t)c.user_data, ring->position - nr + i);
		}
		assert_int_equal(load_relaxed(&ring->host->line->consumed), ring->position);
	}
	rig_stop(r);
}

/* The same slot: an entry of 88 bytes with everything set, then one of 48. */
static void a_stale_slot_tail_is_not_obeyed(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .slots = 1, .completions = 1 });
	struct rig_ring *ring = &r->rings[0];
	struct tent_slot *s = rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 8);
	struct tent_completion c;

	(void)state;
	s->request.policy_name = (void *)5;
	s->request.transport_hint = 99;
	s->request.flags = 7;
	s->request.deadline_ns = UINT64_MAX;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	assert_int_equal(c.flags, TENT_CQE_F_REJECTED);
	s->request.struct_size = 48;
	rig_publish(ring, 1, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_int_equal(c.flags, 0);
	rig_stop(r);
}

static void compat_records_downgrades_in_completions_and_counters(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct poller_stats s;
	struct tent_completion c;

	(void)state;
	r->clients[0].space.compat = true;
	rig_request(ring, 0, 0, 0, 0, 8)->request.intent_type = 88;
	rig_request(ring, 1, 0, 0, 0, 8)->request.requested_priority = 88;
	rig_request(ring, 2, 0, 0, 0, 8)->request.policy_name = (void *)2;
	memcpy(rig_cell(ring, 2), "ok", 2);
	rig_request(ring, 3, 0, 0, 0, 8)->tail_offset = 90;
	rig_slot(ring, 3);
	rig_request(ring, 3, 0, 0, 0, 8)->request.struct_size = 100;
	((struct tent_slot *)(uintptr_t)ring->host->slots)[3].entry_stride = 104;
	((struct tent_slot *)(uintptr_t)ring->host->slots)[3].tail_offset = 90;
	rig_publish(ring, 4, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 4; i++) {
		static const uint16_t flags[] = {
			TENT_CQE_F_INTENT_DOWNGRADED, TENT_CQE_F_PRIORITY_DOWNGRADED,
			TENT_CQE_F_POLICY_DOWNGRADED, TENT_CQE_F_TAIL_IGNORED };

		c = rig_finish(r, ring);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.flags, flags[c.index]);
	}
	ring_stats_read(ring->state, &s);
	assert_int_equal(s.downgrades_intent, 1);
	assert_int_equal(s.downgrades_priority, 1);
	assert_int_equal(s.downgrades_policy, 1);
	assert_int_equal(s.tails_ignored, 1);
	assert_int_equal(s.completed, 4);
	rig_stop(r);
}

static void deadlines_are_counted_as_met_missed_and_infeasible(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct poller_stats s;

	(void)state;
	rig_request(ring, 0, 0, 0, 0, 8)->request.deadline_ns =
		clock_monotonic_ns() + 3600000000000ull;
	rig_request(ring, 1, 0, 0, 0, 8)->request.deadline_ns = 1;
	rig_publish(ring, 2, TENT_OP_REQUEST, 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct tent_completion c = rig_finish(r, ring);

		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.flags, c.index ? TENT_CQE_F_DEADLINE_MISSED : 0);
	}
	poller_stats_read(r->poller, &s);
	assert_int_equal(s.deadlines_met, 1);
	assert_int_equal(s.deadlines_missed, 1);
	assert_int_equal(s.deadlines_infeasible, 1);
	rig_stop(r);
}

static void a_wall_clock_deadline_is_refused(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	rig_request(ring, 0, 0, 0, 0, 8);
	rig_request(ring, 1, 0, 0, 0, 8)->request.deadline_ns = 1790000000000000000ull;
	rig_publish(ring, 2, TENT_OP_REQUEST, 0);
	c = rig_finish(r, ring);
	rig_expect_refused(&c, TENT_RULE_DEADLINE_FAR, 1, 2);
	rig_stop(r);
}

static void legacy_failures_end_their_request_only(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	rig_request(ring, 0, TENT_OPCODE_WRITE, 0, 0, 8);
	rig_request(ring, 1, TENT_OPCODE_WRITE, 0, 0, 8)->request.target_offset = 3;
	rig_request(ring, 2, TENT_OPCODE_WRITE, 0, 0, 8);
	rig_publish(ring, 3, TENT_OP_REQUEST, TENT_SLOT_F_LEGACY);
	for (uint32_t i = 0; i < 3; i++) {
		struct tent_completion c = rig_finish(r, ring);

		assert_int_equal(c.flags, 0);
		assert_int_equal(c.credits, 1);
		assert_int_equal(c.status, c.index == 1 ? TENT_STATUS_FAILED :
							  TENT_STATUS_COMPLETED);
		assert_int_equal(c.rule, c.index == 1 ? TENT_RULE_TARGET_UNREGISTERED : 0);
		assert_int_equal(c.attempts, c.index == 1 ? 0 : 1);
	}
	rig_stop(r);
}

static void zero_length_completes_at_once_with_0_bytes(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "busy=1" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		rig_request(ring, i, TENT_OPCODE_READ, 0, 0, i % 2 ? 0 : 8);
	rig_publish(ring, 4, TENT_OP_REQUEST, 0);
	poller_turn(r->poller);
	for (uint32_t i = 1; i < 4; i += 2) {	/* the others wait for the backend */
		assert_true(rig_reap(ring, &c));
		assert_int_equal(c.index, i);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.bytes, 0);
		assert_int_equal(c.attempts, 0);
	}
	assert_false(rig_reap(ring, &c));
	rig_stop(r);
}

/* ---- one completion ----------------------------------------------------- */

static void one_completion_stands_for_the_batch_and_returns_all_credits(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];
	uint32_t sizes[] = { 1, 5, 16, 40, 64 };

	(void)state;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		struct tent_completion c;

		for (uint32_t i = 0; i < sizes[k]; i++)
			rig_request(ring, i, TENT_OPCODE_READ, 0, 0, 10 + i);
		rig_publish(ring, sizes[k], TENT_OP_REQUEST, TENT_SLOT_F_ONE_COMPLETION);
		c = rig_finish(r, ring);
		rig_settle(r);
		assert_int_equal(c.flags, TENT_CQE_F_BATCH);
		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.count, sizes[k]);
		assert_int_equal(c.credits, sizes[k]);
		assert_int_equal(c.bytes, sizes[k] * (10 + 10 + sizes[k] - 1) / 2);
		assert_int_equal(c.user_data, ring->position - sizes[k]);
		assert_int_equal(c.transport, TENT_TRANSPORT_SHM);
		assert_false(rig_reap(ring, &c));
	}
	rig_stop(r);
}

static void the_first_failure_by_index_speaks_for_a_batch(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){ .faults = "fail=3" });
	struct rig_ring *ring = &r->rings[0];
	struct tent_completion c;

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		rig_request(ring, i, TENT_OPCODE_READ, 0, 0, 10)->request.requested_priority =
			i == 1 ? TENT_PRIORITY_LOW : TENT_PRIORITY_HIGH;
	rig_publish(ring, 8, TENT_OP_REQUEST, TENT_SLOT_F_ONE_COMPLETION);
	c = rig_finish(r, ring);	/* posted: 0 2 3! 4 5 6! 7 1 */
	assert_int_equal(c.flags, TENT_CQE_F_BATCH);
	assert_int_equal(c.status, TENT_STATUS_FAILED);
	assert_int_equal(c.rule, TENT_RULE_INJECTED);
	assert_int_equal(c.index, 3);
	assert_int_equal(c.count, 8);
	assert_int_equal(c.credits, 8);
	assert_int_equal(c.bytes, 60);
	rig_stop(r);
}

static void a_refused_one_completion_batch_returns_its_credits_once(void **state)
{
	struct rig *r = rig_new(NULL);
	struct rig_ring *ring = &r->rings[0];

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {	/* more than batch records */
		struct tent_completion c;

		rig_request(ring, 0, TENT_OPCODE_READ, 0, 0, 8);
		rig_request(ring, 1, TENT_OPCODE_READ, 0, 0, 8)->request.opcode = 9;
		rig_publish(ring, 2, TENT_OP_REQUEST, TENT_SLOT_F_ONE_COMPLETION);
		c = rig_finish(r, ring);
		rig_expect_refused(&c, TENT_RULE_OPCODE, 1, 2);
	}
	rig_stop(r);
}

/* ---- credits ------------------------------------------------------------ */

/* Random batches of every kind, an honest client that keeps to its credits: they come
 * back exactly, and no ring ends. */
static void credits_are_exact_over_random_sequences(void **state)
{
	struct rig *r = rig_new(&(struct rig_options){
		.faults = "fail=7,pending=3,busy=11", .slots = 32, .completions = 64,
		.first_position = UINT32_MAX - 1000 });
	uint64_t seed = 11, published = 0, refused = 0;
	uint32_t rounds = soak_rounds(100000);
	uint32_t owed[RIG_RINGS] = { 0 };

	(void)state;
	for (uint32_t round = 0; round < rounds; round++) {
		uint32_t k = random_next(&seed) % RIG_RINGS, nr = 1 + random_next(&seed) % 32;
		struct rig_ring *ring = &r->rings[k];
		uint16_t flags = random_next(&seed) % 3 ? 0 : TENT_SLOT_F_ONE_COMPLETION;
		bool fits = owed[k] + nr <= 64 &&
			    load_acquire(&ring->host->line->consumed) == ring->position;
		struct tent_completion c;

		if (fits) {
			for (uint32_t i = 0; i < nr; i++)
				rig_request(ring, i, TENT_OPCODE_READ, 0, 0, i);
			if (random_next(&seed) % 8 == 0)
				rig_request(ring, nr / 2, 0, 0, 0, 8)->request.flags = 1;
			rig_publish(ring, nr, TENT_OP_REQUEST, flags);
			owed[k] += nr;
			published += nr;
		}
		if (random_next(&seed) % 2)
			poller_turn(r->poller);
		if (random_next(&seed) % 3 && rig_reap(ring, &c)) {
			assert_true(c.credits <= owed[k]);
			owed[k] -= c.credits;
			refused += c.flags & TENT_CQE_F_REJECTED ? c.credits : 0;
		}
	}
	rig_settle(r);
	for (uint32_t k = 0; k < RIG_RINGS; k++) {
		struct tent_completion c;

		while (rig_reap(&r->rings[k], &c)) {
			owed[k] -= c.credits;
			refused += c.flags & TENT_CQE_F_REJECTED ? c.credits : 0;
		}
		assert_int_equal(owed[k], 0);
		assert_int_equal(load_relaxed(&r->rings[k].host->line->end_rule), 0);
		assert_int_equal(r->rings[k].host->pending, 0);
		assert_int_equal(r->rings[k].state->nr_free, 64);
	}
	assert_true(refused > rounds / 100 && published > 5 * refused);
	rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_moves_its_bytes_and_completes_each_request_once),
		cmocka_unit_test(one_bad_entry_anywhere_refuses_the_batch_and_moves_nothing),
		cmocka_unit_test(a_long_batch_answers_with_the_first_failure_of_all_its_pieces),
		cmocka_unit_test(nothing_of_a_long_batch_starts_before_all_of_it_passed),
		cmocka_unit_test(positions_wrap_at_2_to_the_32),
		cmocka_unit_test(a_stale_slot_tail_is_not_obeyed),
		cmocka_unit_test(compat_records_downgrades_in_completions_and_counters),
		cmocka_unit_test(deadlines_are_counted_as_met_missed_and_infeasible),
		cmocka_unit_test(a_wall_clock_deadline_is_refused),
		cmocka_unit_test(legacy_failures_end_their_request_only),
		cmocka_unit_test(zero_length_completes_at_once_with_0_bytes),
		cmocka_unit_test(one_completion_stands_for_the_batch_and_returns_all_credits),
		cmocka_unit_test(the_first_failure_by_index_speaks_for_a_batch),
		cmocka_unit_test(a_refused_one_completion_batch_returns_its_credits_once),
		cmocka_unit_test(credits_are_exact_over_random_sequences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
