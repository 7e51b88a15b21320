/* SPDX-License-Identifier: Apache-2.0 */
/* test_intent_fields.c - what the judge makes of the fields of a sound request. */
#include "tests/test_intent_fix.h"

/* ---- fields ------------------------------------------------------------- */

static void compat_downgrades_unknown_intent_priority_and_policy_only(void **state)
{
	struct intent_fix *f = *state;
	struct fault_row rows[32];
	uint32_t n = fault_rows(f, rows);

	f->own->space.compat = true;
	for (uint32_t i = 0; i < n; i++) {
		bool downgraded = rows[i].rule == TENT_RULE_INTENT ||
				  rows[i].rule == TENT_RULE_PRIORITY;

		put(&f->slots[1], rows[i].offset, rows[i].size, rows[i].value);
		expect(f, 3, downgraded ? 0 : rows[i].rule, 1, rows[i].told);
		good(f, 1);
	}
	f->slots[0].request.intent_type = 99;
	f->slots[1].request.requested_priority = -5;
	f->slots[2].request.policy_name = (void *)3;
	memcpy(f->cells[2], "abc", 3);
	expect(f, 3, 0, 0, 0);
	assert_int_equal(f->transfers[0].flags, TENT_CQE_F_INTENT_DOWNGRADED);
	assert_int_equal(f->transfers[0].intent, TENT_INTENT_UNSPEC);
	assert_int_equal(f->transfers[1].flags, TENT_CQE_F_PRIORITY_DOWNGRADED);
	assert_int_equal(f->transfers[1].priority, TENT_PRIORITY_MEDIUM);
	assert_int_equal(f->transfers[2].flags, TENT_CQE_F_POLICY_DOWNGRADED);
}

static void every_named_policy_is_unknown_in_strict(void **state)
{
	struct intent_fix *f = *state;

	f->slots[2].request.policy_name = (void *)(uintptr_t)TENT_POLICY_NAME_MAX;
	memset(f->cells[2], 'x', TENT_CELL_SIZE);
	expect(f, 3, TENT_RULE_POLICY_UNKNOWN, 2, TENT_POLICY_NAME_MAX);
}

static void policy_names_are_1_to_63_of_the_allowed_characters(void **state)
{
	struct intent_fix *f = *state;
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789._:/-";

	f->slots[0].request.policy_name = (void *)(uintptr_t)UINT64_MAX;	/* "" */
	expect(f, 1, TENT_RULE_POLICY_LENGTH, 0, -1);
	f->slots[0].request.policy_name = (void *)(1ull << 32);
	expect(f, 1, TENT_RULE_POLICY_LENGTH, 0, 1ll << 32);
	f->slots[0].request.policy_name = (void *)2;
	f->cells[0][0] = 'a';
	for (int c = 0; c < 256; c++) {
		bool good_char = c && strchr(allowed, c);

		f->cells[0][1] = (char)c;
		f->cells[0][2] = '!';	/* beyond the name */
		expect(f, 1, good_char ? TENT_RULE_POLICY_UNKNOWN : TENT_RULE_POLICY_CHARS, 0,
		       good_char ? 2 : c);
	}
}

static void deadlines_reach_from_the_past_to_365_days(void **state)
{
	struct intent_fix *f = *state;
	static const uint64_t fine[] = { 0, 1, NOW - 1, NOW, NOW + DEADLINE_HORIZON_NS };

	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		f->slots[0].request.deadline_ns = fine[i];
		expect(f, 1, 0, 0, 0);
		assert_int_equal(f->transfers[0].deadline_ns, fine[i]);
	}
	f->slots[0].request.deadline_ns = 1700000000000000000ull + NOW; /* a wall clock's */
	expect(f, 1, TENT_RULE_DEADLINE_FAR, 0, 1700000000000000000ll + (int64_t)NOW);
	f->own->space.deadlines_refused = true;
	f->slots[0].request.deadline_ns = NOW;
	expect(f, 1, TENT_RULE_DEADLINE_CLOCK, 0, (int64_t)NOW);
	f->slots[0].request.deadline_ns = 0;
	expect(f, 1, 0, 0, 0);
}

static void priority_and_default_choose_the_level(void **state)
{
	struct intent_fix *f = *state;
	static const uint8_t levels[] = { 2, 0, 1, 2 };

	f->own->space.default_priority = TENT_PRIORITY_LOW;
	judge_settle(&f->j, &f->planner, f->kinds);
	for (int p = 0; p < 4; p++)
		f->slots[p].request.requested_priority = p;
	expect(f, 4, 0, 0, 0);
	for (int p = 0; p < 4; p++) {
		assert_int_equal(f->transfers[p].priority, p ? p : TENT_PRIORITY_LOW);
		assert_int_equal(f->transfers[p].level, levels[p]);
	}
	f->j.one_level = true;
	judge_settle(&f->j, &f->planner, f->kinds);
	expect(f, 4, 0, 0, 0);
	for (int p = 0; p < 4; p++)
		assert_int_equal(f->transfers[p].level, 0);
}

static void what_was_asked_arrives_in_the_transfer(void **state)
{
	struct intent_fix *f = *state;

	f->j.first_index = 40;
	for (int round = 0; round < 2; round++) {	/* without hints, then with them */
		for (uint32_t i = 0; i < NR; i++) {
			good(f, i);
			f->slots[i].request.intent_type = (int)i % 6;
			f->slots[i].request.opcode = (int)i % 2;
		}
		memset(f->transfers, 0xa5, sizeof(f->transfers));
		expect(f, NR, 0, 0, 0);
		for (uint32_t i = 0; i < NR; i++) {
			const struct transfer *t = &f->transfers[i];

			assert_int_equal(t->opcode, i % 2);
			assert_int_equal(t->intent, i % 6);
			assert_int_equal(t->user_data, 1000 + i);
			assert_int_equal(t->index, 40 + i);
			assert_int_equal(t->length, 64);
			assert_int_equal(t->done, 0);
			assert_int_equal(t->status, TENT_STATUS_WAITING);
			assert_int_equal(t->error, 0);
			assert_int_equal(t->rule, 0);
			assert_int_equal(t->flags, 0);
			assert_int_equal(t->attempts, 0);
			assert_int_equal(t->deadline_ns, 0);
			assert_int_equal(t->seen_ticks, 77);
			assert_null(t->batch);
			assert_int_equal(t->transport, TENT_TRANSPORT_SHM);
			assert_ptr_equal(t->queue, f->rig.queue);
			assert_ptr_equal(t->local, &f->own->regions[0]);
			assert_ptr_equal(t->remote, &f->peer->regions[0]);
			assert_ptr_equal(transfer_local(t), f->own->memory + 64 * i);
			assert_ptr_equal(transfer_remote(t), f->peer->memory + 128 * i);
		}
	}
}

/* ---- legacy ------------------------------------------------------------- */

static void legacy_priorities_count_from_high(void **state)
{
	struct intent_fix *f = *state;

	f->j.slot_flags = TENT_SLOT_F_LEGACY;
	for (int p = 0; p < 3; p++)
		f->slots[p].request.requested_priority = p;
	expect(f, 3, 0, 0, 0);
	for (int p = 0; p < 3; p++) {
		assert_int_equal(f->transfers[p].priority, p + 1);
		assert_int_equal(f->transfers[p].level, p);
	}
	f->slots[1].request.requested_priority = 3;
	expect(f, 3, TENT_RULE_PRIORITY_LEGACY, 1, 3);
	f->own->space.compat = true;
	expect(f, 3, TENT_RULE_PRIORITY_LEGACY, 1, 3);
}

static void legacy_batches_let_address_and_policy_failures_fail_the_one_request(void **state)
{
	struct intent_fix *f = *state;
	struct fault_row rows[32];
	uint32_t n = fault_rows(f, rows);

	f->j.slot_flags = TENT_SLOT_F_LEGACY;
	for (uint32_t i = 0; i < n; i++) {
		bool soft = stage(rows[i].rule) >= 2 &&
			    rows[i].rule != TENT_RULE_TRANSPORT_BUILD;

		if (rows[i].rule == TENT_RULE_PRIORITY)
			continue;
		put(&f->slots[1], rows[i].offset, rows[i].size, rows[i].value);
		expect(f, 3, soft ? 0 : rows[i].rule, 1, rows[i].told);
		good(f, 1);
		if (!soft)
			continue;
		assert_int_equal(f->transfers[1].status, TENT_STATUS_FAILED);
		assert_int_equal(f->transfers[1].rule, rows[i].rule);
		assert_int_equal(f->transfers[1].error, tent_rule_error(rows[i].rule));
		assert_null(f->transfers[1].local);
		assert_int_equal(f->transfers[0].status, TENT_STATUS_WAITING);
		assert_int_equal(f->transfers[2].status, TENT_STATUS_WAITING);
	}
	f->slots[1].request.policy_name = (void *)1;
	f->cells[1][0] = 'p';
	expect(f, 3, 0, 0, 0);
	assert_int_equal(f->transfers[1].rule, TENT_RULE_POLICY_UNKNOWN);
}

/* ---- plan --------------------------------------------------------------- */

static void a_hint_pins_its_transport_or_fails(void **state)
{
	struct intent_fix *f = *state;
	struct backend other = rig_copy_backend;
	struct backend_queue second = { .ops = &other, .inst = f->rig.queue->inst };
	struct backend_queue *queues[] = { f->rig.queue, &second };

	other.transport = TENT_TRANSPORT_TCP;
	f->j.queues = queues;
	f->j.nr_queues = 2;
	judge_settle(&f->j, &f->planner, f->kinds);
	expect(f, 1, 0, 0, 0);
	assert_ptr_equal(f->transfers[0].queue, f->rig.queue);
	f->slots[0].request.transport_hint = TENT_TRANSPORT_TCP;
	expect(f, 1, 0, 0, 0);
	assert_ptr_equal(f->transfers[0].queue, &second);
	assert_int_equal(f->transfers[0].transport, TENT_TRANSPORT_TCP);
	for (int hint = 1; hint < TENT_TRANSPORT_COUNT; hint++) {
		bool here = hint == TENT_TRANSPORT_SHM || hint == TENT_TRANSPORT_TCP;

		f->slots[0].request.transport_hint = hint;
		expect(f, 1, here ? 0 : TENT_RULE_TRANSPORT_BUILD, 0, hint);
	}
	f->peer->regions[0].addr = NULL;	/* out of reach */
	memset(&f->hints, 0, sizeof(f->hints));
	f->slots[0].request.transport_hint = TENT_TRANSPORT_TCP;
	expect(f, 1, TENT_RULE_TRANSPORT_REACH, 0, TENT_TRANSPORT_TCP);
	f->slots[0].request.transport_hint = TENT_TRANSPORT_UNSPEC;
	expect(f, 1, TENT_RULE_NO_TRANSPORT, 0, 0);
}

static void neighbours_in_a_batch_are_planned_each_by_itself(void **state)
{
	struct intent_fix *f = *state;
	struct backend far = rig_copy_backend;
	struct backend_queue second = { .ops = &far, .inst = f->rig.queue->inst };
	struct backend_queue *queues[] = { f->rig.queue, &second };

	far.transport = TENT_TRANSPORT_TCP;
	far.reaches = null_backend.reaches;
	f->j.queues = queues;
	f->j.nr_queues = 2;
	judge_settle(&f->j, &f->planner, f->kinds);
	f->peer->regions[1].addr = NULL;
	f->slots[1].request.target_offset = f->peer->regions[1].base;
	for (int round = 0; round < 2; round++) {
		expect(f, 3, 0, 0, 0);
		assert_ptr_equal(f->transfers[0].queue, f->rig.queue);
		assert_ptr_equal(f->transfers[1].queue, &second);
		assert_ptr_equal(f->transfers[2].queue, f->rig.queue);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(compat_downgrades_unknown_intent_priority_and_policy_only),
		TEST(every_named_policy_is_unknown_in_strict),
		TEST(policy_names_are_1_to_63_of_the_allowed_characters),
		TEST(deadlines_reach_from_the_past_to_365_days),
		TEST(priority_and_default_choose_the_level),
		TEST(what_was_asked_arrives_in_the_transfer),
		TEST(legacy_priorities_count_from_high),
		TEST(legacy_batches_let_address_and_policy_failures_fail_the_one_request),
		TEST(a_hint_pins_its_transport_or_fails),
		TEST(neighbours_in_a_batch_are_planned_each_by_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
