/* SPDX-License-Identifier: Apache-2.0 */
/* test_intent.c - the judge: every refusal, and their order. */
#include "tests/test_intent_fix.h"

/* ---- one fault ---------------------------------------------------------- */

static void each_wrong_value_is_refused_with_its_rule_index_and_value(void **state)
{
	struct intent_fix *f = *state;
	struct fault_row rows[32];
	uint32_t n = fault_rows(f, rows);

	for (uint32_t at = 0; at < 4; at++)
		for (uint32_t i = 0; i < n; i++) {
			put(&f->slots[at], rows[i].offset, rows[i].size, rows[i].value);
			expect(f, 4, rows[i].rule, at, rows[i].told);
			good(f, at);
		}
	expect(f, 4, 0, 0, 0);
}

static void negative_values_are_refused_like_large_ones(void **state)
{
	struct intent_fix *f = *state;
	static const struct fault_row rows[] = {
		{ TENT_RULE_OPCODE, FIELD(opcode), (uint32_t)-1, -1 },
		{ TENT_RULE_INTENT, FIELD(intent_type), (uint32_t)INT32_MIN, INT32_MIN },
		{ TENT_RULE_PRIORITY, FIELD(requested_priority), (uint32_t)-1, -1 },
		{ TENT_RULE_TRANSPORT, FIELD(transport_hint), (uint32_t)-7, -7 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put(&f->slots[1], rows[i].offset, rows[i].size, rows[i].value);
		expect(f, 3, rows[i].rule, 1, rows[i].told);
		good(f, 1);
	}
}

static void staging_internal_is_refused_in_strict_and_compat(void **state)
{
	struct intent_fix *f = *state;

	f->slots[2].request.intent_type = TENT_INTENT_STAGING_INTERNAL;
	expect(f, 3, TENT_RULE_INTENT_STAGING, 2, 6);
	f->own->space.compat = true;
	expect(f, 3, TENT_RULE_INTENT_STAGING, 2, 6);
}

static void dirty_reserved_words_of_the_slot_are_refused(void **state)
{
	struct intent_fix *f = *state;

	f->slots[1].notify = 1ull << 40;
	expect(f, 2, TENT_RULE_SLOT_RESV, 1, 1ll << 40);
	good(f, 1);
	f->slots[0].resv0 = 9;
	expect(f, 2, TENT_RULE_SLOT_RESV, 0, 9);
}

/* ---- layout ------------------------------------------------------------- */

static bool is_allowed_size(uint32_t size)
{
	static const uint32_t sizes[] = { 48, 52, 56, 64, 72, 76, 80, 88 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (size == sizes[i])
			return true;
	return size > 88 && size <= 4096 && size % 4 == 0;
}

static void struct_size_ends_on_a_field_boundary_up_to_4096(void **state)
{
	struct intent_fix *f = *state;

	f->slots[0].entry_stride = 0;
	for (uint32_t size = 0; size < 5000; size++) {
		f->slots[0].request.struct_size = size;
		expect(f, 1, is_allowed_size(size) ? 0 : TENT_RULE_STRUCT_SIZE, 0, size);
	}
	f->slots[0].request.struct_size = UINT32_MAX;
	expect(f, 1, TENT_RULE_STRUCT_SIZE, 0, UINT32_MAX);
}

static void struct_size_beyond_the_stride_is_refused(void **state)
{
	struct intent_fix *f = *state;

	for (uint32_t stride = 0; stride < 200; stride++) {
		f->slots[1].entry_stride = stride;
		expect(f, 2, stride && stride < 88 ? TENT_RULE_STRUCT_SIZE : 0, 1, 88);
	}
	f->slots[1].entry_stride = UINT32_MAX;
	expect(f, 2, 0, 0, 0);
	f->slots[1].entry_stride = 96;
	f->slots[1].request.struct_size = 100;
	expect(f, 2, TENT_RULE_STRUCT_SIZE, 1, 100);
}

/* Strides that differ within a batch: each is compared with its own entry. */
static void strides_that_look_fine_together_are_refused_apart(void **state)
{
	struct intent_fix *f = *state;

	for (uint32_t a = 0; a < 130; a++)
		for (uint32_t b = 0; b < 130; b++) {
			f->slots[0].entry_stride = a;
			f->slots[1].entry_stride = b;
			if (a && a < 88)
				expect(f, 2, TENT_RULE_STRUCT_SIZE, 0, 88);
			else
				expect(f, 2, b && b < 88 ? TENT_RULE_STRUCT_SIZE : 0, 1, 88);
		}
}

/* Each optional field has its worst value; only those within struct_size count. */
static void fields_beyond_struct_size_are_not_obeyed(void **state)
{
	struct intent_fix *f = *state;
	static const struct { uint32_t size; uint16_t rule; } rows[] = {
		{ 48, 0 }, { 52, TENT_RULE_INTENT }, { 56, TENT_RULE_PRIORITY },
		{ 64, TENT_RULE_DEADLINE_FAR }, { 72, TENT_RULE_POLICY_LENGTH },
		{ 76, TENT_RULE_TRANSPORT }, { 80, TENT_RULE_RESERVED0 }, { 88, TENT_RULE_FLAGS },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		good(f, 0);
		f->slots[0].request.struct_size = rows[i].size;
		memset((uint8_t *)&f->slots[0].request + (i ? rows[i - 1].size : 48), 0xff,
		       88 - (i ? rows[i - 1].size : 48));
		assert_int_equal(judge(f, 1), rows[i].rule == 0);
		assert_int_equal(f->why.rule, rows[i].rule);
	}
}

static void defaults_fill_what_a_short_entry_leaves_out(void **state)
{
	struct intent_fix *f = *state;
	struct transfer *t = &f->transfers[0];

	memset((uint8_t *)&f->slots[0].request + 48, 0xff, 40);
	f->slots[0].tail_offset = 1000;	/* what a longer entry left in the slot */
	f->slots[0].request.struct_size = 48;
	expect(f, 1, 0, 0, 0);
	assert_int_equal(t->intent, TENT_INTENT_UNSPEC);
	assert_int_equal(t->priority, TENT_PRIORITY_MEDIUM);
	assert_int_equal(t->deadline_ns, 0);
	assert_int_equal(t->flags, 0);
	assert_ptr_equal(t->queue, f->rig.queue);
}

static void a_tail_is_refused_in_strict_and_recorded_in_compat(void **state)
{
	struct intent_fix *f = *state;

	f->slots[1].request.struct_size = 96;
	f->slots[1].entry_stride = 96;
	expect(f, 2, 0, 0, 0);
	f->slots[1].tail_offset = 92;
	expect(f, 2, TENT_RULE_TAIL, 1, 92);
	f->own->space.compat = true;
	expect(f, 2, 0, 0, 0);
	assert_int_equal(f->transfers[0].flags, 0);
	assert_int_equal(f->transfers[1].flags, TENT_CQE_F_TAIL_IGNORED);
	f->slots[1].tail_offset = 96;	/* beyond the entry */
	expect(f, 2, 0, 0, 0);
	assert_int_equal(f->transfers[1].flags, 0);
}

/* ---- order -------------------------------------------------------------- */

/* Every pair of faults, in one entry and in two. */
static void of_two_faults_the_first_in_the_order_of_checks_is_the_answer(void **state)
{
	struct intent_fix *f = *state;
	struct fault_row rows[32];
	uint32_t n = fault_rows(f, rows);

	for (uint32_t a = 0; a < n; a++)
		for (uint32_t b = 0; b < n; b++) {
			bool a_first = stage(rows[a].rule) <= stage(rows[b].rule);
			const struct fault_row *first = &rows[a_first ? a : b];

			put(&f->slots[1], rows[a].offset, rows[a].size, rows[a].value);
			put(&f->slots[2], rows[b].offset, rows[b].size, rows[b].value);
			expect(f, 4, first->rule, a_first ? 1 : 2, first->told);
			good(f, 1);
			good(f, 2);
			if (rows[a].offset == rows[b].offset)
				continue;
			put(&f->slots[2], rows[a].offset, rows[a].size, rows[a].value);
			put(&f->slots[2], rows[b].offset, rows[b].size, rows[b].value);
			first = &rows[a < b ? a : b];	/* rows are in the order of checks */
			expect(f, 4, first->rule, 2, first->told);
			good(f, 2);
		}
}

/* ---- the short way and the long one ------------------------------------- */

static uint64_t odd_value(uint64_t *seed)
{
	static const uint64_t values[] = {
		0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 48, 56, 63, 64, 72, 88, 92, 96, 4096, 4100,
		NOW, NOW + DEADLINE_HORIZON_NS, UINT32_MAX, 1ull << 31, 1ull << 32, UINT64_MAX,
	};

	return values[random_next(seed) % (sizeof(values) / sizeof(values[0]))];
}

static void spoil(struct intent_fix *f, struct tent_slot *s, uint64_t *seed)
{
	static const struct { size_t offset, size; } fields[] = {
		{ FIELD(struct_size) }, { FIELD(schema_version) }, { FIELD(opcode) },
		{ FIELD(resv0) }, { FIELD(source) }, { FIELD(target_id) },
		{ FIELD(target_offset) }, { FIELD(length) }, { FIELD(intent_type) },
		{ FIELD(requested_priority) }, { FIELD(deadline_ns) }, { FIELD(policy_name) },
		{ FIELD(transport_hint) }, { FIELD(reserved0) }, { FIELD(flags) },
	};
	uint32_t which = random_next(seed) % 24;
	const struct rig_client *c = &f->rig.clients[random_next(seed) % 2];

	if (which < 15)
		put(s, fields[which].offset, fields[which].size, odd_value(seed));
	else if (which < 18)
		s->request.target_offset = rig_address(c, random_next(seed) % (9 * 65536));
	else if (which < 20)
		s->request.source = (void *)(uintptr_t)
				    rig_address(c, random_next(seed) % (9 * 65536));
	else if (which == 20)
		s->entry_stride = (uint32_t)odd_value(seed);
	else if (which == 21)
		s->tail_offset = (uint32_t)odd_value(seed);
	else if (which == 22)
		s->notify = random_next(seed) % 4 == 0;
	else
		s->resv0 = random_next(seed) % 4 == 0;
}

static void compare_transfers(const struct intent_fix *f, const struct transfer *other, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct transfer *a = &f->transfers[i], *b = &other[i];

		assert_ptr_equal(a->local, b->local);
		assert_ptr_equal(a->remote, b->remote);
		assert_ptr_equal(a->queue, b->queue);
		assert_memory_equal(&a->local_addr, &b->local_addr,
				    offsetof(struct transfer, batch) -
				    offsetof(struct transfer, local_addr));
	}
}

/* 100,000 random batches: what judge_batch() says with its short way and its hints is
 * what the checks say in order, and what it makes of the good ones is the same too. */
static void the_short_way_and_the_ordered_checks_agree(void **state)
{
	struct intent_fix *f = *state;
	struct transfer other[NR] = { 0 };
	struct transfer *other_list[NR];
	uint64_t seed = 20260101;
	uint32_t accepted = 0;

	for (uint32_t i = 0; i < NR; i++)
		other_list[i] = &other[i];
	for (int round = 0; round < 100000; round++) {
		uint32_t n = 1 + random_next(&seed) % 4, spoilt = random_next(&seed) % 4;
		struct refusal ordered, why;
		struct judge bare;
		bool ok;

		f->own->space.compat = random_next(&seed) % 2;
		f->j.slot_flags = random_next(&seed) % 3 ? 0 : TENT_SLOT_F_LEGACY;
		for (uint32_t i = 0; i < n; i++)
			good(f, i);
		while (spoilt--)
			spoil(f, &f->slots[random_next(&seed) % n], &seed);
		ok = judge(f, n);
		accepted += ok;
		assert_int_equal(judge_in_order(&f->j, f->slots, (const void *)f->cells, n,
						&ordered), ok);
		assert_int_equal(f->why.rule, ordered.rule);
		if (!ok) {
			assert_int_equal(f->why.index, ordered.index);
			assert_int_equal(f->why.value, ordered.value);
			continue;
		}
		bare = f->j;
		bare.way = SHORT_NONE;
		bare.hints = NULL;
		bare.planner = NULL;
		assert_true(judge_batch(&bare, f->slots, (const void *)f->cells, n, other_list,
					&why));
		compare_transfers(f, other, n);
	}
	assert_in_range(accepted, 20000, 90000);
}

static void a_later_stage_never_precedes(void **state)
{
	(void)state;
	assert_true(refusal_precedes(TENT_RULE_NO_TRANSPORT, 0));
	assert_true(refusal_precedes(TENT_RULE_STRUCT_SIZE, TENT_RULE_OPCODE));
	assert_true(refusal_precedes(TENT_RULE_FLAGS, TENT_RULE_SEGMENT));
	assert_true(refusal_precedes(TENT_RULE_SEGMENT, TENT_RULE_POLICY_UNKNOWN));
	assert_false(refusal_precedes(TENT_RULE_TAIL, TENT_RULE_STRUCT_SIZE));
	assert_false(refusal_precedes(TENT_RULE_SEGMENT, TENT_RULE_FLAGS));
	assert_false(refusal_precedes(TENT_RULE_OPCODE, TENT_RULE_FLAGS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_wrong_value_is_refused_with_its_rule_index_and_value),
		TEST(negative_values_are_refused_like_large_ones),
		TEST(staging_internal_is_refused_in_strict_and_compat),
		TEST(dirty_reserved_words_of_the_slot_are_refused),
		TEST(struct_size_ends_on_a_field_boundary_up_to_4096),
		TEST(struct_size_beyond_the_stride_is_refused),
		TEST(strides_that_look_fine_together_are_refused_apart),
		TEST(fields_beyond_struct_size_are_not_obeyed),
		TEST(defaults_fill_what_a_short_entry_leaves_out),
		TEST(a_tail_is_refused_in_strict_and_recorded_in_compat),
		TEST(of_two_faults_the_first_in_the_order_of_checks_is_the_answer),
		TEST(the_short_way_and_the_ordered_checks_agree),
		TEST(a_later_stage_never_precedes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
