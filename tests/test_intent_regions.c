/* SPDX-License-Identifier: Apache-2.0 */
/* test_intent_regions.c - the judge finds the memory that a request names. */
#include <pthread.h>
#include <sched.h>

#include "tests/test_intent_fix.h"

/* ---- addresses ---------------------------------------------------------- */

static void permissions_bind_everyone_but_the_owner(void **state)
{
	struct intent_fix *f = *state;
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
	struct intent_fix *f = *state;
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
	struct intent_fix *f = *state;

	f->own->handles->segments[RIG_CLOSED] = &f->own->segment;
	f->slots[0].request.target_id = RIG_CLOSED;
	f->slots[0].request.opcode = TENT_OPCODE_WRITE;
	f->slots[0].request.target_offset = f->own->regions[3].base;
	expect(f, 1, 0, 0, 0);
}

static void closed_and_unknown_handles_are_stale_wherever_they_stand(void **state)
{
	struct intent_fix *f = *state;
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
	struct intent_fix *f = *state;
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
	struct intent_fix *f = *state;

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
	struct intent_fix *f = *state;
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
	struct intent_fix *f = *state;
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

/* ---- memory that changes meanwhile --------------------------------------- */

#define MOVING_ROUNDS 200000u
#define MOVING_SPREAD 400u

struct mover {
	struct segment *segment;
	struct region_table *tables[2];	/* with the target's region, and without */
	uint32_t round;			/* being judged */
	uint32_t stop;
};

/* The control thread's part: one change in a round at most, at any instant of it. Nobody
 * waits for that: it may be off its core for many rounds. */
static void *move_table(void *arg)
{
	struct mover *m = arg;
	uint32_t seen = 0;

	for (uint32_t changes = 0; !load_acquire(&m->stop); changes++) {
		while (load_acquire(&m->round) == seen && !load_acquire(&m->stop))
			spin_pause();
		seen = load_acquire(&m->round);
		for (volatile uint32_t i = 0; i < changes % MOVING_SPREAD; i++)
			;
		store_release(&m->segment->table, m->tables[changes % 2]); /* R7 */
	}
	return NULL;
}

/* It goes on until there were both verdicts. */
static void a_registration_while_judging_gives_a_verdict_of_before_or_after(void **state)
{
	struct intent_fix *f = *state;
	struct segment *peer = f->own->handles->segments[RIG_PEER];
	struct region_table empty = { .nr = 0 };
	struct mover m = { .segment = peer, .tables = { peer->table, &empty } };
	uint32_t passed = 0, refused = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, move_table, &m), 0);
	for (uint32_t round = 1; round <= MOVING_ROUNDS || !passed || !refused; round++) {
		store_release(&m.round, round);
		if (judge(f, NR)) {
			passed++;
		} else {
			assert_int_equal(f->why.rule, TENT_RULE_TARGET_UNREGISTERED);
			refused++;
		}
		if (round % 1000 == 0)
			sched_yield();	/* on one core it moves only so */
	}
	store_release(&m.stop, 1u);
	pthread_join(thread, NULL);
	print_message("passed %u, refused %u\n", passed, refused);
	store_release(&peer->table, m.tables[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_registration_while_judging_gives_a_verdict_of_before_or_after),
		TEST(permissions_bind_everyone_but_the_owner),
		TEST(what_its_owner_may_touch_is_no_hint_for_others),
		TEST(an_owner_through_another_handle_is_still_the_owner),
		TEST(closed_and_unknown_handles_are_stale_wherever_they_stand),
		TEST(a_range_lies_in_one_region_to_the_last_byte),
		TEST(zero_length_still_has_its_addresses_checked_and_ends_at_once),
		TEST(hints_do_not_outlive_a_table),
		TEST(nested_regions_are_found_the_same_way_with_and_without_hints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
