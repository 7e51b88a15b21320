/* SPDX-License-Identifier: Apache-2.0 */
/* test_intent.c - the judge: every refusal, their order, and what it makes of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <tent/tentring.h>

#include "tests/common/rig.h"

#define NR 8
#define NOW 1000000000000ull
#define FIELD(name) offsetof(struct tent_request_v1, name), \
	sizeof(((struct tent_request_v1 *)0)->name)

struct fix {
	struct rig rig;
	struct rig_client *own, *peer;
	struct judge j;
	struct region_hints hints;
	struct planner planner;
	_Alignas(64) struct tent_slot slots[NR];
	char cells[NR][TENT_CELL_SIZE];
	struct transfer transfers[NR], *list[NR];
	struct refusal why;
};

static void good(struct fix *f, uint32_t i)
{
	memset(&f->slots[i], 0, sizeof(f->slots[i]));
	rig_fill(f->own, &f->slots[i], TENT_OPCODE_READ, 64 * i, 128 * i, 64);
	f->slots[i].user_data = 1000 + i;
}

static int setup(void **state)
{
	static struct fix f;
	struct rig_options o = { 0 };

	memset(&f, 0, sizeof(f));
	rig_start(&f.rig, &o);
	f.own = &f.rig.clients[0];
	f.peer = &f.rig.clients[1];
	f.j = (struct judge){
		.space = &f.own->space, .handles = f.own->handles, .queues = &f.rig.queue,
		.nr_queues = 1, .now_ns = NOW, .seen_ticks = 77, .hints = &f.hints,
	};
	judge_settle(&f.j, &f.planner);
	assert_true(f.j.has_short_way);
	for (uint32_t i = 0; i < NR; i++) {
		f.list[i] = &f.transfers[i];
		good(&f, i);
	}
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;

	rig_stop(&f->rig);
	return 0;
}

static bool judge(struct fix *f, uint32_t n)
{
	struct sniff sniff;

	sniff_begin(&sniff, f->j.slot_flags);
	for (uint32_t i = 0; i < n; i++)
		sniff_slot(&sniff, &f->slots[i], i == 0);
	f->j.is_plain = sniff_is_plain(&sniff) && f->j.has_short_way;
	judge_load(&f->j, f->j.handles);
	f->why = (struct refusal){ .rule = 9999, .index = 9999, .value = 9999 };
	if (judge_batch(&f->j, f->slots, (const void *)f->cells, n, f->list, &f->why) ==
	    BATCH_REFUSED)
		return false;
	f->why.rule = 0;
	return true;
}

static void expect(struct fix *f, uint32_t n, uint16_t rule, uint32_t index, int64_t value)
{
	bool accepted = judge(f, n);

	if (accepted != !rule || f->why.rule != rule)
		print_error("expected %s, got %s\n", tent_rule_name(rule),
			    tent_rule_name(f->why.rule));
	assert_int_equal(f->why.rule, rule);
	assert_int_equal(accepted, rule == 0);
	if (!rule)
		return;
	assert_int_equal(f->why.index, index);
	assert_int_equal(f->why.value, value);
}

static void put(struct tent_slot *s, size_t offset, size_t size, uint64_t value)
{
	memcpy((uint8_t *)&s->request + offset, &value, size);
}

/* ---- one fault ---------------------------------------------------------- */

struct fault_row {
	uint16_t rule;
	size_t offset, size;
	uint64_t value;
	int64_t told;
};

static uint64_t own_end(const struct fix *f)
{
	return f->own->regions[0].end;
}

/* What one wrong value anywhere gets, in the order of checks. */
static uint32_t fault_rows(const struct fix *f, struct fault_row *rows)
{
	const struct fault_row all[] = {
		{ TENT_RULE_STRUCT_SIZE, FIELD(struct_size), 50, 50 },
		{ TENT_RULE_SCHEMA, FIELD(schema_version), 2, 2 },
		{ TENT_RULE_OPCODE, FIELD(opcode), 2, 2 },
		{ TENT_RULE_RESV0, FIELD(resv0), 5, 5 },
		{ TENT_RULE_INTENT, FIELD(intent_type), 7, 7 },
		{ TENT_RULE_PRIORITY, FIELD(requested_priority), 4, 4 },
		{ TENT_RULE_DEADLINE_FAR, FIELD(deadline_ns), NOW + DEADLINE_HORIZON_NS + 1,
		  (int64_t)(NOW + DEADLINE_HORIZON_NS + 1) },
		{ TENT_RULE_POLICY_LENGTH, FIELD(policy_name), 64, 64 },
		{ TENT_RULE_TRANSPORT, FIELD(transport_hint), 13, 13 },
		{ TENT_RULE_RESERVED0, FIELD(reserved0), 1, 1 },
		{ TENT_RULE_FLAGS, FIELD(flags), 1ull << 63, INT64_MIN },
		{ TENT_RULE_SEGMENT, FIELD(target_id), 3, 3 },
		{ TENT_RULE_SOURCE_RANGE, FIELD(source), UINT64_MAX - 62,
		  (int64_t)(UINT64_MAX - 62) },
		{ TENT_RULE_SOURCE_UNREGISTERED, FIELD(source), own_end(f) - 63,
		  (int64_t)(own_end(f) - 63) },
		{ TENT_RULE_TARGET_RANGE, FIELD(target_offset), UINT64_MAX - 62,
		  (int64_t)(UINT64_MAX - 62) },
		{ TENT_RULE_TARGET_UNREGISTERED, FIELD(target_offset), 1, 1 },
		{ TENT_RULE_TARGET_PERMISSION, FIELD(target_offset), f->peer->regions[3].base,
		  (int64_t)f->peer->regions[3].base },
		{ TENT_RULE_TRANSPORT_BUILD, FIELD(transport_hint), TENT_TRANSPORT_RDMA,
		  TENT_TRANSPORT_RDMA },
	};

	memcpy(rows, all, sizeof(all));
	return sizeof(all) / sizeof(all[0]);
}

static void each_wrong_value_is_refused_with_its_rule_index_and_value(void **state)
{
	struct fix *f = *state;
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
	struct fix *f = *state;
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
	struct fix *f = *state;

	f->slots[2].request.intent_type = TENT_INTENT_STAGING_INTERNAL;
	expect(f, 3, TENT_RULE_INTENT_STAGING, 2, 6);
	f->own->space.compat = true;
	expect(f, 3, TENT_RULE_INTENT_STAGING, 2, 6);
}

static void dirty_reserved_words_of_the_slot_are_refused(void **state)
{
	struct fix *f = *state;

	f->slots[1].resv1 = 1ull << 40;
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
	struct fix *f = *state;

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
	struct fix *f = *state;

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
	struct fix *f = *state;

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
	struct fix *f = *state;
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
	struct fix *f = *state;
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
	struct fix *f = *state;

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

/* ---- fields ------------------------------------------------------------- */

static void compat_downgrades_unknown_intent_priority_and_policy_only(void **state)
{
	struct fix *f = *state;
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
	struct fix *f = *state;

	f->slots[2].request.policy_name = (void *)(uintptr_t)TENT_POLICY_NAME_MAX;
	memset(f->cells[2], 'x', TENT_CELL_SIZE);
	expect(f, 3, TENT_RULE_POLICY_UNKNOWN, 2, TENT_POLICY_NAME_MAX);
}

static void policy_names_are_1_to_63_of_the_allowed_characters(void **state)
{
	struct fix *f = *state;
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
	struct fix *f = *state;
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
	struct fix *f = *state;
	static const uint8_t levels[] = { 2, 0, 1, 2 };

	f->own->space.default_priority = TENT_PRIORITY_LOW;
	judge_settle(&f->j, &f->planner);
	for (int p = 0; p < 4; p++)
		f->slots[p].request.requested_priority = p;
	expect(f, 4, 0, 0, 0);
	for (int p = 0; p < 4; p++) {
		assert_int_equal(f->transfers[p].priority, p ? p : TENT_PRIORITY_LOW);
		assert_int_equal(f->transfers[p].level, levels[p]);
	}
	f->j.one_level = true;
	judge_settle(&f->j, &f->planner);
	expect(f, 4, 0, 0, 0);
	for (int p = 0; p < 4; p++)
		assert_int_equal(f->transfers[p].level, 0);
}

static void what_was_asked_arrives_in_the_transfer(void **state)
{
	struct fix *f = *state;

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

/* ---- addresses ---------------------------------------------------------- */

static void permissions_bind_everyone_but_the_owner(void **state)
{
	struct fix *f = *state;
	/* regions 0 and 1 READ_WRITE, 2 READ_ONLY, 3 LOCAL; opcode; other, own */
	static const struct { int region, opcode; bool other; } rows[] = {
		{ 0, 0, true }, { 0, 1, true }, { 2, 0, true }, { 2, 1, false },
		{ 3, 0, false }, { 3, 1, false },
	};

	for (int round = 0; round < 2; round++)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			struct tent_request_v1 *r = &f->slots[0].request;

			r->opcode = rows[i].opcode;
			r->target_id = RIG_PEER;
			r->target_offset = f->peer->regions[rows[i].region].base;
			expect(f, 1, rows[i].other ? 0 : TENT_RULE_TARGET_PERMISSION, 0,
			       (int64_t)r->target_offset);
			r->target_id = TENT_LOCAL_SEGMENT;
			r->target_offset = f->own->regions[rows[i].region].base;
			expect(f, 1, 0, 0, 0);
		}
}

/* A poller's hints serve all its clients: the owner goes first, then the other client
 * asks for the same bytes, and the other way round. */
static void what_its_owner_may_touch_is_no_hint_for_others(void **state)
{
	struct fix *f = *state;
	struct judge others = f->j;

	others.space = &f->peer->space;
	others.handles = f->peer->handles;
	for (int round = 0; round < 3; round++)
		for (int region = 0; region < RIG_REGIONS; region++) {
			struct tent_request_v1 *r = &f->slots[0].request;
			struct judge own = f->j;
			bool allowed = region < 2;

			r->opcode = TENT_OPCODE_WRITE;
			r->target_id = TENT_LOCAL_SEGMENT;
			r->target_offset = f->own->regions[region].base;
			expect(f, 1, 0, 0, 0);
			f->j = others;
			rig_fill(f->peer, &f->slots[0], TENT_OPCODE_WRITE, 0, 0, 64);
			r->target_offset = f->own->regions[region].base;
			expect(f, 1, allowed ? 0 : TENT_RULE_TARGET_PERMISSION, 0,
			       (int64_t)r->target_offset);
			f->j = own;
			good(f, 0);
		}
}

/* A handle to the own segment that is not handle 0 is the owner's as well. */
static void an_owner_through_another_handle_is_still_the_owner(void **state)
{
	struct fix *f = *state;

	f->own->handles->segments[RIG_CLOSED] = &f->own->segment;
	f->slots[0].request.target_id = RIG_CLOSED;
	f->slots[0].request.opcode = TENT_OPCODE_WRITE;
	f->slots[0].request.target_offset = f->own->regions[3].base;
	expect(f, 1, 0, 0, 0);
}

static void closed_and_unknown_handles_are_stale_wherever_they_stand(void **state)
{
	struct fix *f = *state;
	static const uint64_t ids[] = { RIG_CLOSED, 3, UINT32_MAX, 1ull << 32, UINT64_MAX,
					UINT64_MAX - 1, 1ull << 63 };

	for (int round = 0; round < 2; round++)		/* without hints, then with them */
		for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
			for (uint32_t at = 0; at < 3; at++) {
				f->slots[at].request.target_id = ids[i];
				expect(f, 3, TENT_RULE_SEGMENT, at, (int64_t)ids[i]);
				good(f, at);
				expect(f, 3, 0, 0, 0);
			}
}

static void a_range_lies_in_one_region_to_the_last_byte(void **state)
{
	struct fix *f = *state;
	struct tent_request_v1 *r = &f->slots[0].request;
	uint64_t end = f->own->regions[1].end, base = f->own->regions[1].base;

	for (int round = 0; round < 2; round++)
		for (uint64_t length = 0; length < 3; length++) {
			r->length = length;
			r->source = (void *)(uintptr_t)(end - length);
			expect(f, 1, 0, 0, 0);
			r->source = (void *)(uintptr_t)(end - length + 1);
			expect(f, 1, TENT_RULE_SOURCE_UNREGISTERED, 0,
			       (int64_t)(end - length + 1));
			r->source = (void *)(uintptr_t)base;
			expect(f, 1, 0, 0, 0);
			r->source = (void *)(uintptr_t)(base - 1);
			expect(f, 1, TENT_RULE_SOURCE_UNREGISTERED, 0, (int64_t)(base - 1));
			r->source = (void *)(uintptr_t)base;
		}
	r->length = RIG_REGION_BYTES;
	r->target_offset = f->peer->regions[1].base;
	expect(f, 1, 0, 0, 0);
	r->length++;
	expect(f, 1, TENT_RULE_SOURCE_UNREGISTERED, 0, (int64_t)base);
}

static void zero_length_still_has_its_addresses_checked_and_ends_at_once(void **state)
{
	struct fix *f = *state;

	f->slots[0].request.length = 0;
	expect(f, 2, 0, 0, 0);
	assert_int_equal(f->transfers[0].status, TENT_STATUS_COMPLETED);
	assert_int_equal(f->transfers[0].done, 0);
	assert_int_equal(f->transfers[1].status, TENT_STATUS_WAITING);
	f->slots[0].request.target_offset = 4096;
	expect(f, 2, TENT_RULE_TARGET_UNREGISTERED, 0, 4096);
}

/* A dropped region must not be found through a hint once the table is a new one. */
static void hints_do_not_outlive_a_table(void **state)
{
	struct fix *f = *state;
	struct region_table *old = f->own->segment.table, *empty = calloc(1, sizeof(*empty));

	expect(f, 4, 0, 0, 0);
	expect(f, 4, 0, 0, 0);
	f->own->segment.table = empty;
	expect(f, 4, TENT_RULE_SOURCE_UNREGISTERED, 0, (int64_t)f->own->regions[0].base);
	f->own->segment.table = old;
	expect(f, 4, 0, 0, 0);
	free(empty);
}

/* ---- region tables ------------------------------------------------------ */

#define MANY 200

static int by_base(const void *a, const void *b)
{
	const struct region_entry *x = a, *y = b;

	if (x->base != y->base)
		return x->base < y->base ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static struct region_table *random_table(struct region *regions, uint64_t *seed)
{
	struct region_table *t = calloc(1, sizeof(*t) + MANY * sizeof(t->entries[0]));
	uint64_t reach = 0;

	t->nr = MANY;
	for (uint32_t i = 0; i < MANY; i++) {
		regions[i].base = random_next(seed) % 2000;
		regions[i].end = regions[i].base + 1 + random_next(seed) % (i % 7 ? 20 : 800);
		regions[i].addr = (uint8_t *)1;
		regions[i].permission = TENT_PERM_GLOBAL_READ_WRITE;
		t->entries[i] = (struct region_entry){ regions[i].base, regions[i].end,
						       &regions[i], 0 };
	}
	qsort(t->entries, MANY, sizeof(t->entries[0]), by_base);
	for (uint32_t i = 0; i < MANY; i++) {
		reach = reach > t->entries[i].end ? reach : t->entries[i].end;
		t->entries[i].max_end = reach;
	}
	return t;
}

/* Overlapping and nested regions: found exactly when some region holds the range, and
 * the same one with hints as without. */
static void nested_regions_are_found_the_same_way_with_and_without_hints(void **state)
{
	struct fix *f = *state;
	struct region_table *kept = f->own->segment.table, *t;
	static struct region regions[MANY];
	uint64_t seed = 5;

	t = random_table(regions, &seed);
	f->own->segment.table = t;
	for (int i = 0; i < 100000; i++) {
		uint64_t addr = random_next(&seed) % 2100, length = random_next(&seed) % 30;
		const struct region *plain = region_find(t, addr, length);
		bool held = false, found;

		for (uint32_t k = 0; k < MANY; k++)
			held |= addr >= t->entries[k].base && addr + length <= t->entries[k].end;
		assert_int_equal(plain != NULL, held);
		f->slots[0].request.source = (void *)(uintptr_t)addr;
		f->slots[0].request.length = length;
		found = judge(f, 1);
		assert_int_equal(found, held);
		if (held)
			assert_ptr_equal(f->transfers[0].local, plain);
	}
	f->own->segment.table = kept;
	free(t);
}

/* ---- order -------------------------------------------------------------- */

static int stage(uint16_t rule)
{
	return rule < 10 ? 0 : rule < 30 ? 1 : rule < 40 ? 2 : 3;
}

/* Every pair of faults, in one entry and in two. */
static void of_two_faults_the_first_in_the_order_of_checks_is_the_answer(void **state)
{
	struct fix *f = *state;
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

/* ---- legacy ------------------------------------------------------------- */

static void legacy_priorities_count_from_high(void **state)
{
	struct fix *f = *state;

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
	struct fix *f = *state;
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
	struct fix *f = *state;
	struct backend other = rig_copy_backend;
	struct backend_queue second = { .ops = &other };
	struct backend_queue *queues[] = { f->rig.queue, &second };

	other.transport = TENT_TRANSPORT_TCP;
	f->j.queues = queues;
	f->j.nr_queues = 2;
	judge_settle(&f->j, &f->planner);
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
	struct fix *f = *state;
	struct backend far = rig_copy_backend;
	struct backend_queue second = { .ops = &far };
	struct backend_queue *queues[] = { f->rig.queue, &second };

	far.transport = TENT_TRANSPORT_TCP;
	far.reaches = null_backend.reaches;
	f->j.queues = queues;
	f->j.nr_queues = 2;
	judge_settle(&f->j, &f->planner);
	f->peer->regions[1].addr = NULL;
	f->slots[1].request.target_offset = f->peer->regions[1].base;
	for (int round = 0; round < 2; round++) {
		expect(f, 3, 0, 0, 0);
		assert_ptr_equal(f->transfers[0].queue, f->rig.queue);
		assert_ptr_equal(f->transfers[1].queue, &second);
		assert_ptr_equal(f->transfers[2].queue, f->rig.queue);
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

static void spoil(struct fix *f, struct tent_slot *s, uint64_t *seed)
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
		s->resv1 = random_next(seed) % 4 == 0;
	else
		s->resv0 = random_next(seed) % 4 == 0;
}

static void compare_transfers(const struct fix *f, const struct transfer *other, uint32_t n)
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
	struct fix *f = *state;
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
		bare.is_plain = false;
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

/* ---- memory that changes meanwhile --------------------------------------- */

#define MOVING_ROUNDS 200000u
#define MOVING_SPREAD 400u

struct mover {
	struct segment *segment;
	struct region_table *tables[2];	/* with the target's region, and without */
	uint32_t round;			/* judged by now, or being judged */
	uint32_t moved;			/* the round in which the last change was made */
};

/* The control thread's part: one change in each round, at any instant of it. */
static void *move_table(void *arg)
{
	struct mover *m = arg;

	for (uint32_t round = 1; round <= MOVING_ROUNDS; round++) {
		while (load_acquire(&m->round) != round)
			spin_pause();
		for (volatile uint32_t i = 0; i < round % MOVING_SPREAD; i++)
			;
		store_release(&m->segment->table, m->tables[round % 2]); /* R7 */
		store_release(&m->moved, round);
	}
	return NULL;
}

static void a_registration_while_judging_gives_a_verdict_of_before_or_after(void **state)
{
	struct fix *f = *state;
	struct segment *peer = f->own->handles->segments[RIG_PEER];
	struct region_table empty = { .nr = 0 };
	struct mover m = { .segment = peer, .tables = { peer->table, &empty } };
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, move_table, &m), 0);
	for (uint32_t round = 1; round <= MOVING_ROUNDS; round++) {
		store_release(&m.round, round);
		if (!judge(f, NR))
			assert_int_equal(f->why.rule, TENT_RULE_TARGET_UNREGISTERED);
		while (load_acquire(&m.moved) != round)
			spin_pause();
	}
	pthread_join(thread, NULL);
	store_release(&peer->table, m.tables[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_wrong_value_is_refused_with_its_rule_index_and_value),
		TEST(negative_values_are_refused_like_large_ones),
		TEST(a_registration_while_judging_gives_a_verdict_of_before_or_after),
		TEST(staging_internal_is_refused_in_strict_and_compat),
		TEST(dirty_reserved_words_of_the_slot_are_refused),
		TEST(struct_size_ends_on_a_field_boundary_up_to_4096),
		TEST(struct_size_beyond_the_stride_is_refused),
		TEST(strides_that_look_fine_together_are_refused_apart),
		TEST(fields_beyond_struct_size_are_not_obeyed),
		TEST(defaults_fill_what_a_short_entry_leaves_out),
		TEST(a_tail_is_refused_in_strict_and_recorded_in_compat),
		TEST(compat_downgrades_unknown_intent_priority_and_policy_only),
		TEST(every_named_policy_is_unknown_in_strict),
		TEST(policy_names_are_1_to_63_of_the_allowed_characters),
		TEST(deadlines_reach_from_the_past_to_365_days),
		TEST(priority_and_default_choose_the_level),
		TEST(what_was_asked_arrives_in_the_transfer),
		TEST(permissions_bind_everyone_but_the_owner),
		TEST(what_its_owner_may_touch_is_no_hint_for_others),
		TEST(an_owner_through_another_handle_is_still_the_owner),
		TEST(closed_and_unknown_handles_are_stale_wherever_they_stand),
		TEST(a_range_lies_in_one_region_to_the_last_byte),
		TEST(zero_length_still_has_its_addresses_checked_and_ends_at_once),
		TEST(hints_do_not_outlive_a_table),
		TEST(nested_regions_are_found_the_same_way_with_and_without_hints),
		TEST(of_two_faults_the_first_in_the_order_of_checks_is_the_answer),
		TEST(legacy_priorities_count_from_high),
		TEST(legacy_batches_let_address_and_policy_failures_fail_the_one_request),
		TEST(a_hint_pins_its_transport_or_fails),
		TEST(neighbours_in_a_batch_are_planned_each_by_itself),
		TEST(the_short_way_and_the_ordered_checks_agree),
		TEST(a_later_stage_never_precedes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
