/* SPDX-License-Identifier: Apache-2.0 */
/* test_indirect.c - batches too long for a ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "tests/common/rig.h"

struct fix {
	struct rig rig;
	struct region arrays;		/* one more region of client 0 */
	struct region_table *before;
	struct tent_slot *entries;
	char (*cells)[TENT_CELL_SIZE];
	struct tent_result *results;
	uint32_t count;
};

/* One more region, in its place among the others. */
static struct region_table *table_with(const struct region_table *t, struct region *g)
{
	struct region_table *new = calloc(1, sizeof(*t) + (t->nr + 1) * sizeof(t->entries[0]));
	uint64_t reach = 0;
	uint32_t n = 0;

	for (; n < t->nr && t->entries[n].base < g->base; n++)
		new->entries[n] = t->entries[n];
	new->entries[n] = (struct region_entry){ g->base, g->end, g, 0 };
	memcpy(&new->entries[n + 1], &t->entries[n], (t->nr - n) * sizeof(t->entries[0]));
	new->nr = t->nr + 1;
	for (uint32_t i = 0; i < new->nr; i++) {
		reach = reach > new->entries[i].end ? reach : new->entries[i].end;
		new->entries[i].max_end = reach;
	}
	return new;
}

static struct fix *start_with(const struct rig_options *o, uint32_t count)
{
	static struct fix f;
	struct rig_client *c = &f.rig.clients[0];
	size_t size = (size_t)count * (sizeof(*f.entries) + TENT_CELL_SIZE + sizeof(*f.results));

	rig_start(&f.rig, o);
	f.count = count;
	f.arrays = (struct region){ .segment = &c->segment, .shareable = true };
	f.arrays.addr = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	memset(f.arrays.addr, 0, size);
	f.arrays.base = (uintptr_t)f.arrays.addr;
	f.arrays.end = f.arrays.base + size;
	f.before = c->segment.table;
	c->segment.table = table_with(f.before, &f.arrays);
	f.entries = (void *)f.arrays.addr;
	f.cells = (void *)(f.entries + count);
	f.results = (void *)(f.cells + count);
	for (uint32_t i = 0; i < count; i++) {
		rig_fill(c, &f.entries[i], TENT_OPCODE_WRITE, i % 1000 * 8, i % 1000 * 64, 8);
		f.entries[i].user_data = 5000000 + i;
		f.results[i].bytes = 77;
	}
	return &f;
}

static struct fix *start(uint32_t count)
{
	return start_with(&(struct rig_options){ 0 }, count);
}

static void stop(struct fix *f)
{
	rig_stop(&f->rig);
	free(f->before);
	free(f->arrays.addr);
}

static struct tent_indirect *slot_of(struct fix *f)
{
	struct tent_slot *s = rig_slot(&f->rig.rings[0], 0);
	struct tent_indirect *a = (struct tent_indirect *)&s->request;

	s->user_data = 42;
	a->entries = (uintptr_t)f->entries;
	a->cells = (uintptr_t)f->cells;
	a->results = (uintptr_t)f->results;
	a->count = f->count;
	return a;
}

static void publish(struct fix *f)
{
	slot_of(f);
	rig_publish(&f->rig.rings[0], 1, TENT_OP_INDIRECT, 0);
}

static void expect_refused(struct fix *f, uint16_t rule, uint32_t index, uint32_t count)
{
	struct tent_completion c = rig_finish(&f->rig, &f->rig.rings[0]);

	assert_int_equal(c.rule, rule);
	assert_int_equal(c.flags, TENT_CQE_F_REJECTED);
	assert_int_equal(c.index, index);
	assert_int_equal(c.count, count);
	assert_int_equal(c.credits, 1);
	assert_int_equal(c.user_data, 42);
}

static void a_batch_of_100000_ends_with_one_completion_and_all_results(void **state)
{
	struct fix *f = start(100000);
	struct rig_ring *ring = &f->rig.rings[0];
	struct tent_completion c;

	(void)state;
	publish(f);
	c = rig_finish(&f->rig, ring);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_int_equal(c.flags, TENT_CQE_F_BATCH);
	assert_int_equal(c.count, 100000);
	assert_int_equal(c.credits, 1);
	assert_int_equal(c.bytes, 800000);
	assert_int_equal(c.user_data, 42);
	for (uint32_t i = 0; i < 100000; i++) {
		assert_int_equal(f->results[i].bytes, 8);
		assert_int_equal(f->results[i].status, TENT_STATUS_COMPLETED);
		assert_int_equal(f->results[i].error, 0);
		assert_int_equal(f->results[i].rule, 0);
		assert_int_equal(f->results[i].transport, TENT_TRANSPORT_SHM);
	}
	assert_int_equal(f->rig.clients[1].memory[999 * 64 + 7], 0x11);
	assert_int_equal(f->rig.clients[1].memory[999 * 64 + 8], 0x22);
	rig_settle(&f->rig);
	assert_int_equal(f->rig.poller->indirect_entries, 0);
	assert_null(ring->state->indirect.transfers);
	stop(f);
}

static void nothing_starts_before_the_last_entry_is_judged(void **state)
{
	struct fix *f = start(1000);
	struct rig_ring *ring = &f->rig.rings[0];

	(void)state;
	publish(f);
	while (load_relaxed(&ring->host->line->consumed) == 0) {
		assert_int_equal(f->rig.clients[1].memory[0], 0x22);
		assert_int_equal(f->results[0].bytes, 77);
		poller_turn(f->rig.poller);
	}
	assert_int_equal(rig_finish(&f->rig, ring).status, TENT_STATUS_COMPLETED);
	stop(f);
}

static void one_bad_entry_refuses_all_of_it_and_writes_no_result(void **state)
{
	struct fix *f = start(10000);
	static const uint32_t bad[] = { 0, 15, 16, 5000, 9999 };

	(void)state;
	for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		f->entries[bad[k]].request.flags = 1;
		publish(f);
		expect_refused(f, TENT_RULE_FLAGS, bad[k], 10000);
		f->entries[bad[k]].request.flags = 0;
		rig_settle(&f->rig);
	}
	f->entries[9000].request.schema_version = 9;	/* an earlier check, later on */
	f->entries[3].request.target_id = 9;
	publish(f);
	expect_refused(f, TENT_RULE_SCHEMA, 9000, 10000);
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(f->results[i].bytes, 77);
	assert_int_equal(f->rig.clients[1].memory[0], 0x22);
	assert_int_equal(f->rig.rings[0].state->nr_free, 64);
	stop(f);
}

static void entries_that_pretend_to_be_slots_are_refused(void **state)
{
	struct fix *f = start(100);

	(void)state;
	for (size_t at = 0; at < 32; at++) {
		if (at >= 8 && at < 16)
			continue;	/* user_data */
		((uint8_t *)&f->entries[50])[at] = 1;
		publish(f);
		expect_refused(f, TENT_RULE_SLOT_RESV, 50, 100);
		((uint8_t *)&f->entries[50])[at] = 0;
		rig_settle(&f->rig);
	}
	stop(f);
}

static void results_tell_how_each_entry_ended(void **state)
{
	struct fix *f = start_with(&(struct rig_options){ .faults = "fail=3" }, 300);
	struct tent_completion c;

	(void)state;
	publish(f);
	c = rig_finish(&f->rig, &f->rig.rings[0]);
	assert_int_equal(c.status, TENT_STATUS_FAILED);
	assert_int_equal(c.rule, TENT_RULE_INJECTED);
	assert_int_equal(c.index, 2);
	for (uint32_t i = 0; i < 300; i++) {
		bool failed = i % 3 == 2;

		assert_int_equal(f->results[i].bytes, failed ? 0 : 8);
		assert_int_equal(f->results[i].rule, failed ? TENT_RULE_INJECTED : 0);
		assert_int_equal(f->results[i].status, failed ? TENT_STATUS_FAILED :
								TENT_STATUS_COMPLETED);
	}
	stop(f);
}

static void policy_names_come_from_the_cells_array(void **state)
{
	struct fix *f = start(100);

	(void)state;
	f->entries[70].request.policy_name = (void *)2;
	memcpy(f->cells[70], "a b", 3);
	publish(f);
	expect_refused(f, TENT_RULE_POLICY_CHARS, 70, 100);
	rig_settle(&f->rig);
	memcpy(f->cells[70], "ab", 3);
	publish(f);
	expect_refused(f, TENT_RULE_POLICY_UNKNOWN, 70, 100);
	rig_settle(&f->rig);
	slot_of(f)->cells = 0;		/* a name without text */
	rig_publish(&f->rig.rings[0], 1, TENT_OP_INDIRECT, 0);
	expect_refused(f, TENT_RULE_POLICY_CHARS, 70, 100);
	stop(f);
}

/* ---- the slot ----------------------------------------------------------- */

static void counts_are_1_to_2_to_the_20(void **state)
{
	struct fix *f = start(10);
	static const uint32_t counts[] = { 0, TENT_INDIRECT_MAX + 1, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		slot_of(f)->count = counts[i];
		rig_publish(&f->rig.rings[0], 1, TENT_OP_INDIRECT, 0);
		expect_refused(f, TENT_RULE_INDIRECT_COUNT, 0, counts[i] ? counts[i] : 1);
	}
	stop(f);
}

static void arrays_lie_in_one_shareable_buffer_of_the_client(void **state)
{
	struct fix *f = start(100);
	uint64_t elsewhere = f->rig.clients[0].regions[0].base;
	uint64_t peers = f->rig.clients[1].regions[0].base;

	(void)state;
	for (int k = 0; k < 10; k++) {
		struct tent_indirect *a = slot_of(f);

		f->arrays.shareable = k != 9;
		if (k == 0)
			a->entries = elsewhere;
		if (k == 1)
			a->results = elsewhere;
		if (k == 2)
			a->cells = elsewhere;
		if (k == 3)
			a->entries = UINT64_MAX - 100;
		if (k == 4)
			a->results = f->arrays.end - 8;
		if (k == 5)
			a->entries += 4;	/* not aligned */
		if (k == 6)
			a->results += 1;
		if (k == 7)
			a->entries = a->results = a->cells = peers;
		if (k == 8)
			a->count = 200;		/* more than there is */
		rig_publish(&f->rig.rings[0], 1, TENT_OP_INDIRECT, 0);
		expect_refused(f, TENT_RULE_INDIRECT_BUFFER, 0, k == 8 ? 200 : 100);
	}
	stop(f);
}

static void reserved_words_of_the_area_are_zero(void **state)
{
	struct fix *f = start(10);

	(void)state;
	slot_of(f)->resv0 = 1;
	rig_publish(&f->rig.rings[0], 1, TENT_OP_INDIRECT, 0);
	expect_refused(f, TENT_RULE_SLOT_RESV, 0, 10);
	for (int i = 0; i < 7; i++) {
		slot_of(f)->resv1[i] = 1;
		rig_publish(&f->rig.rings[0], 1, TENT_OP_INDIRECT, 0);
		expect_refused(f, TENT_RULE_SLOT_RESV, 0, 10);
	}
	stop(f);
}

static void a_second_one_in_a_ring_is_refused_as_busy(void **state)
{
	struct fix *f = start_with(&(struct rig_options){ .faults = "pending=1,hold" }, 100);

	(void)state;
	publish(f);
	rig_settle(&f->rig);
	publish(f);
	expect_refused(f, TENT_RULE_INDIRECT_BUSY, 0, 100);
	stop(f);
}

/* The next one waits while the memory of the last goes back: none is refused. */
static void one_after_the_other_never_finds_it_busy(void **state)
{
	struct fix *f = start(50000);

	(void)state;
	for (int i = 0; i < 5; i++) {
		publish(f);
		assert_int_equal(rig_finish(&f->rig, &f->rig.rings[0]).status,
				 TENT_STATUS_COMPLETED);
	}
	stop(f);
}

/* ---- other traffic, cancel, ends ---------------------------------------- */

static void ordinary_batches_of_the_ring_run_beside_it(void **state)
{
	struct fix *f = start(20000);
	struct rig_ring *ring = &f->rig.rings[0];
	struct tent_completion c;
	uint32_t n = 0;

	(void)state;
	publish(f);
	for (uint32_t i = 0; i < 10; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 0, 0, 8)->request.requested_priority =
			TENT_PRIORITY_HIGH;
	rig_publish(ring, 10, TENT_OP_REQUEST, 0);
	do {
		c = rig_finish(&f->rig, ring);
		n++;
	} while (!(c.flags & TENT_CQE_F_BATCH));
	assert_int_equal(n, 11);	/* high ones passed it */
	stop(f);
}

static void another_rings_request_is_not_held_up_by_it(void **state)
{
	struct fix *f = start(100000);
	struct rig_ring *other = &f->rig.rings[1];
	struct tent_completion c;

	(void)state;
	publish(f);
	for (uint32_t i = 0; i < 300; i++) {
		poller_turn(f->rig.poller);
		rig_request(other, 0, TENT_OPCODE_READ, 0, 0, 64);
		rig_publish(other, 1, TENT_OP_REQUEST, 0);
		poller_turn(f->rig.poller);
		assert_true(rig_reap(other, &c));	/* in the turn it came */
	}
	stop(f);
}

static void cancel(struct fix *f, uint64_t user_data)
{
	struct rig_ring *ring = &f->rig.rings[0];
	struct tent_slot *s = rig_slot(ring, 0);

	s->user_data = 1;
	s->request.source = (void *)(uintptr_t)user_data;
	rig_publish(ring, 1, TENT_OP_CANCEL, 0);
}

static void cancel_by_its_user_data_ends_all_of_it(void **state)
{
	struct fix *f = start_with(&(struct rig_options){ .faults = "busy=1" }, 3000);
	struct tent_completion c;

	(void)state;
	publish(f);
	rig_settle(&f->rig);
	cancel(f, 42);
	c = rig_finish(&f->rig, &f->rig.rings[0]);
	assert_int_equal(c.flags, TENT_CQE_F_BATCH);
	assert_int_equal(c.status, TENT_STATUS_CANCELED);
	assert_int_equal(c.count, 3000);
	for (uint32_t i = 0; i < 3000; i++)
		assert_int_equal(f->results[i].rule, TENT_RULE_CANCELED);
	c = rig_finish(&f->rig, &f->rig.rings[0]);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	stop(f);
}

static void cancel_of_one_entry_ends_that_entry(void **state)
{
	struct fix *f = start_with(&(struct rig_options){ .faults = "busy=1" }, 3000);

	(void)state;
	publish(f);
	rig_settle(&f->rig);
	cancel(f, 5000000 + 2500);
	assert_int_equal(rig_finish(&f->rig, &f->rig.rings[0]).status, TENT_STATUS_COMPLETED);
	assert_int_equal(f->results[2500].rule, TENT_RULE_CANCELED);
	assert_int_equal(f->results[2499].bytes, 77);
	stop(f);
}

static void drop(struct fix *f, struct region *g)
{
	struct rig_client *c = g == &f->arrays ? &f->rig.clients[0] : &f->rig.clients[1];
	struct region_table *t = c->segment.table;
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->nr; i++)
		if (t->entries[i].region != g)
			t->entries[n++] = t->entries[i];
	t->nr = n;
	rig_order(&f->rig, POLLER_DROP_REGION, NULL, g, TENT_RULE_TARGET_GONE);
}

/* After the drop is answered nobody may touch the arrays: they are poisoned. */
static void dropping_its_arrays_while_it_runs_ends_it_without_results(void **state)
{
	struct fix *f = start_with(&(struct rig_options){ .faults = "busy=1" }, 3000);
	struct tent_completion c;

	(void)state;
	publish(f);
	rig_settle(&f->rig);
	drop(f, &f->arrays);
	memset(f->arrays.addr, 0xee, 100);
	c = rig_finish(&f->rig, &f->rig.rings[0]);
	assert_int_equal(c.flags, TENT_CQE_F_BATCH);
	assert_int_equal(c.status, TENT_STATUS_FAILED);
	assert_int_equal(c.rule, TENT_RULE_SOURCE_GONE);
	rig_settle(&f->rig);
	for (uint32_t i = 0; i < 3000; i++)
		assert_int_equal(f->results[i].bytes, 77);
	stop(f);
}

static void dropping_its_arrays_while_it_is_judged_refuses_it(void **state)
{
	struct fix *f = start(3000);

	(void)state;
	publish(f);
	for (int i = 0; i < 10; i++)
		poller_turn(f->rig.poller);
	drop(f, &f->arrays);
	expect_refused(f, TENT_RULE_INDIRECT_BUFFER, 0, 3000);
	rig_settle(&f->rig);
	assert_int_equal(f->rig.poller->indirect_entries, 0);
	stop(f);
}

/* The phases of an INDIRECT of 3000 entries, each in its midst. */
enum phase { JUDGED, ADMITTED, RUNNING, PHASES };

static bool is_in(const struct indirect *ind, enum phase phase)
{
	switch (phase) {
	case JUDGED:
		return ind->judged > 150;
	case ADMITTED:
		return ind->admitted > 1000;
	default:
		return ind->admitted == 3000;
	}
}

static const struct indirect *run_into(struct fix *f, enum phase phase)
{
	const struct indirect *ind = &f->rig.rings[0].state->indirect;

	publish(f);
	while (!is_in(ind, phase))
		poller_turn(f->rig.poller);
	assert_true(ind->judged < 3000 || phase != JUDGED);
	assert_true(ind->admitted < 3000 || phase == RUNNING);
	return ind;
}

static void dropping_a_target_ends_the_entries_that_name_it(void **state)
{
	(void)state;
	for (enum phase phase = JUDGED; phase < PHASES; phase++) {
		struct fix *f = start_with(&(struct rig_options){ .faults = "busy=1" }, 3000);
		struct region *g = &f->rig.clients[1].regions[1];
		uint32_t judged;

		for (uint32_t i = 0; i < 3000; i += 100)
			f->entries[i].request.target_offset = g->base;
		judged = run_into(f, phase)->judged;
		drop(f, g);
		rig_settle(&f->rig);
		if (phase == JUDGED)	/* the rest was judged without the region */
			expect_refused(f, TENT_RULE_TARGET_UNREGISTERED,
				       (judged + 99) / 100 * 100, 3000);
		else
			for (uint32_t i = 0; i < 3000; i += 100)
				assert_int_equal(f->results[i].rule, TENT_RULE_TARGET_GONE);
		stop(f);
	}
}

static void close_and_check(struct fix *f, bool accepted)
{
	struct rig_ring *ring = &f->rig.rings[0];
	struct tent_completion c;

	rig_order(&f->rig, POLLER_CLOSE_RING, ring->state, NULL, TENT_RULE_RING_CLOSED);
	assert_int_equal(rig_reap(ring, &c), accepted);
	if (accepted) {
		assert_int_equal(c.flags, TENT_CQE_F_BATCH);
		assert_int_equal(c.rule, TENT_RULE_RING_CLOSED);
		assert_int_equal(c.count, 3000);
		assert_int_equal(f->results[0].rule, TENT_RULE_RING_CLOSED);
		assert_int_equal(f->results[2999].rule, TENT_RULE_RING_CLOSED);
	} else {
		assert_int_equal(f->results[0].bytes, 77);
	}
	assert_int_equal(f->rig.poller->indirect_entries, 0);
	assert_int_equal(f->rig.poller->nr_reclaiming, 0);
}

static void closing_the_ring_ends_it_in_every_phase(void **state)
{
	(void)state;
	for (int turns = 0; turns < 70; turns++) {	/* the steps of each, too */
		for (enum phase phase = JUDGED; phase < PHASES; phase++) {
			struct fix *f = start_with(&(struct rig_options){ .faults = "busy=1" },
						   3000);

			run_into(f, phase);
			for (int i = 0; i < turns; i++)
				poller_turn(f->rig.poller);
			close_and_check(f, phase != JUDGED);
			stop(f);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_of_100000_ends_with_one_completion_and_all_results),
		cmocka_unit_test(nothing_starts_before_the_last_entry_is_judged),
		cmocka_unit_test(one_bad_entry_refuses_all_of_it_and_writes_no_result),
		cmocka_unit_test(entries_that_pretend_to_be_slots_are_refused),
		cmocka_unit_test(results_tell_how_each_entry_ended),
		cmocka_unit_test(policy_names_come_from_the_cells_array),
		cmocka_unit_test(counts_are_1_to_2_to_the_20),
		cmocka_unit_test(arrays_lie_in_one_shareable_buffer_of_the_client),
		cmocka_unit_test(reserved_words_of_the_area_are_zero),
		cmocka_unit_test(a_second_one_in_a_ring_is_refused_as_busy),
		cmocka_unit_test(one_after_the_other_never_finds_it_busy),
		cmocka_unit_test(ordinary_batches_of_the_ring_run_beside_it),
		cmocka_unit_test(another_rings_request_is_not_held_up_by_it),
		cmocka_unit_test(cancel_by_its_user_data_ends_all_of_it),
		cmocka_unit_test(cancel_of_one_entry_ends_that_entry),
		cmocka_unit_test(dropping_its_arrays_while_it_runs_ends_it_without_results),
		cmocka_unit_test(dropping_its_arrays_while_it_is_judged_refuses_it),
		cmocka_unit_test(dropping_a_target_ends_the_entries_that_name_it),
		cmocka_unit_test(closing_the_ring_ends_it_in_every_phase),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
