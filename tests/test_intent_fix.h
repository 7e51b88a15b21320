/* SPDX-License-Identifier: Apache-2.0 */
/* test_intent_fix.h - the judge on a rig: slots that are sound until a test spoils them. */
#ifndef TENT_TEST_INTENT_FIX_H
#define TENT_TEST_INTENT_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/rig.h"

#define NR 8
#define NOW 1000000000000ull
#define FIELD(name) offsetof(struct tent_request_v1, name), \
	sizeof(((struct tent_request_v1 *)0)->name)

struct intent_fix {
	struct rig rig;
	struct rig_client *own, *peer;
	struct judge j;
	struct region_hints hints;
	struct planner planner;
	uint32_t kinds[KINDS];
	_Alignas(64) struct tent_slot slots[NR];
	char cells[NR][TENT_CELL_SIZE];
	struct transfer transfers[NR], *list[NR];
	struct refusal why;
};

static inline void good(struct intent_fix *f, uint32_t i)
{
	memset(&f->slots[i], 0, sizeof(f->slots[i]));
	rig_fill(f->own, &f->slots[i], TENT_OPCODE_READ, 64 * i, 128 * i, 64);
	f->slots[i].user_data = 1000 + i;
}

static inline int setup(void **state)
{
	static struct intent_fix f;
	struct rig_options o = { 0 };

	memset(&f, 0, sizeof(f));
	rig_start(&f.rig, &o);
	f.own = &f.rig.clients[0];
	f.peer = &f.rig.clients[1];
	f.j = (struct judge){
		.space = &f.own->space, .handles = f.own->handles, .queues = &f.rig.queue,
		.nr_queues = 1, .now_ns = NOW, .seen_ticks = 77, .hints = &f.hints,
	};
	judge_settle(&f.j, &f.planner, f.kinds);
	assert_int_equal(f.j.short_way, SHORT_ALL);
	for (uint32_t i = 0; i < NR; i++) {
		f.list[i] = &f.transfers[i];
		good(&f, i);
	}
	*state = &f;
	return 0;
}

static inline int teardown(void **state)
{
	struct intent_fix *f = *state;

	rig_stop(&f->rig);
	return 0;
}

static inline bool judge(struct intent_fix *f, uint32_t n)
{
	struct sniff sniff;

	sniff_begin(&sniff, f->j.slot_flags);
	for (uint32_t i = 0; i < n; i++)
		sniff_slot(&sniff, &f->slots[i], i == 0);
	judge_load(&f->j, f->j.handles, f->own->space.contract);
	f->j.way = sniff_is_plain(&sniff) ? f->j.short_way : SHORT_NONE;
	f->why = (struct refusal){ .rule = 9999, .index = 9999, .value = 9999 };
	if (judge_batch(&f->j, f->slots, (const void *)f->cells, n, f->list, &f->why) ==
	    BATCH_REFUSED)
		return false;
	f->why.rule = 0;
	return true;
}

static inline void expect(struct intent_fix *f, uint32_t n, uint16_t rule, uint32_t index, int64_t value)
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

static inline void put(struct tent_slot *s, size_t offset, size_t size, uint64_t value)
{
	memcpy((uint8_t *)&s->request + offset, &value, size);
}

struct fault_row {
	uint16_t rule;
	size_t offset, size;
	uint64_t value;
	int64_t told;
};

static inline uint64_t own_end(const struct intent_fix *f)
{
	return f->own->regions[0].end;
}

/* What one wrong value anywhere gets, in the order of checks. */
static inline uint32_t fault_rows(const struct intent_fix *f, struct fault_row *rows)
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

static inline int stage(uint16_t rule)
{
	return rule < 10 ? 0 : rule < 30 ? 1 : rule < 40 ? 2 : 3;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif /* TENT_TEST_INTENT_FIX_H */
