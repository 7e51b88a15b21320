/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_publish.c - batches on their way out, completions on their way back. */
#include "tests/ring_fake.h"

#define NEAR_WRAP (UINT32_MAX - 2)	/* 2^32 - 3 */

static struct tent_request_v1 request(uint64_t length)
{
	struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = 1, .length = length,
	};
	return r;
}

static int submit(struct tent_ring *ring, uint32_t count, uint64_t user_data)
{
	struct tent_request_v1 r[64];

	assert_true(count <= 64);
	for (uint32_t i = 0; i < count; i++)
		r[i] = request(user_data + i);
	return tent_ring_submit(ring, r, count, sizeof(r[0]), user_data, 0);
}

static struct tent_slot slot_of(const struct ring_host *h, uint32_t position)
{
	struct tent_slot s __attribute__((aligned(16)));

	ring_host_copy_slot(h, position, &s);
	return s;
}

static int open_near_wrap(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(8, 8, NEAR_WRAP, 0));
	return 0;
}

static int open_small(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(8, 4, NEAR_WRAP, 0));
	return 0;
}

static int open_many_completions(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(4, 16, NEAR_WRAP, 0));
	return 0;
}

static int close_pair(void **state)
{
	pair_close(*state);
	free(*state);
	return 0;
}

/* Many laps of batches of every size, both positions crossing 2^32. */
static void both_directions_cross_the_position_wrap(void **state)
{
	struct pair *p = *state;
	uint64_t sent = 0, done = 0;

	for (uint32_t lap = 0; lap < 40; lap++) {
		uint32_t nr = lap % 8 + 1, at = p->host->consumed;
		struct tent_completion c[8];

		assert_int_equal(tent_ring_room(p->ring), 8);
		assert_int_equal(submit(p->ring, nr, sent), 0);
		assert_int_equal(engine_take(p->host), nr);
		for (uint32_t i = 0; i < nr; i++) {
			struct tent_slot s = slot_of(p->host, at + i);

			assert_int_equal(s.seq, (uint32_t)(at + i + 1));
			assert_int_equal(s.user_data, sent);
			assert_int_equal(s.request.length, sent++);
			engine_complete(p->host, s.user_data, 1);
		}
		assert_int_equal(tent_ring_poll(p->ring, c, 8), nr);
		for (uint32_t i = 0; i < nr; i++)
			assert_int_equal(c[i].user_data, done++);
		assert_int_equal(tent_ring_poll(p->ring, c, 8), 0);
	}
	assert_true(p->host->consumed < NEAR_WRAP && p->host->cq_tail < NEAR_WRAP);
}

/* Position 2^32 - 1 is published with seq 0, which is what fresh memory holds. */
static void a_fresh_ring_is_empty_wherever_it_starts(void **state)
{
	(void)state;
	for (uint32_t first = UINT32_MAX - 20; first != 3; first++) {
		struct ring_geometry g = fake_geometry(8, 8, first, 0);
		struct tent_completion c;
		struct pair p;
		uint32_t nr;

		pair_open(&p, g);
		for (uint32_t i = 0; i < 8; i++) {
			assert_false(ring_host_peek(p.host, &nr));
			assert_int_equal(tent_ring_poll(p.ring, &c, 1), 0);
			assert_int_equal(submit(p.ring, 1, i), 0);
			engine_take(p.host);
			engine_complete(p.host, i, 1);
			assert_int_equal(tent_ring_poll(p.ring, &c, 1), 1);
		}
		pair_close(&p);
	}
}

static void every_slot_of_a_batch_is_a_clean_follower(void **state)
{
	struct pair *p = *state;
	struct tent_completion reaped;

	for (uint32_t i = 0; i < 8; i++)
		memset(tent_ring_slot(p->ring, i), 0xa5, sizeof(struct tent_slot));
	assert_int_equal(submit(p->ring, 1, 0), 0);
	engine_take(p->host);
	engine_complete(p->host, 0, 1);
	assert_int_equal(tent_ring_poll(p->ring, &reaped, 1), 1);

	assert_int_equal(tent_ring_submit(p->ring, (struct tent_request_v1[3]){
		request(1), request(2), request(3) }, 3, 88, 70, TENT_SLOT_F_ONE_COMPLETION), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct tent_slot s = slot_of(p->host, p->host->consumed + i);

		assert_int_equal(s.seq, (uint32_t)(p->host->consumed + i + 1));
		assert_int_equal(s.nr, i ? 0 : 3);
		assert_int_equal(s.user_data, 70 + i);
		assert_int_equal(s.op, TENT_OP_REQUEST);
		assert_int_equal(s.flags, i ? 0 : TENT_SLOT_F_ONE_COMPLETION);
		assert_int_equal(s.cq_head, i ? 0 : (uint32_t)(NEAR_WRAP + 1));
		assert_int_equal(s.resv0 | s.notify, 0);
		assert_int_equal(s.tail_offset, 0);
		assert_int_equal(s.entry_stride, 88);
	}
}

static void publish_sets_every_word_that_is_not_the_callers(void **state)
{
	struct pair *p = *state;
	uint32_t at = p->host->consumed;

	for (uint32_t i = 0; i < 2; i++) {
		struct tent_slot *s = tent_ring_slot(p->ring, i);

		memset(s, 0xa5, sizeof(*s));
		s->user_data = 5 + i;
		memset(&s->request, 0, sizeof(s->request) + 8);
	}
	assert_int_equal(tent_ring_publish(p->ring, 2, TENT_OP_NOP, 1), (uint32_t)(at + 2));
	for (uint32_t i = 0; i < 2; i++) {
		struct tent_slot s = slot_of(p->host, at + i);
		struct tent_slot want = {
			.seq = at + i + 1, .nr = i ? 0 : 2, .user_data = 5 + i,
			.op = i ? 0 : TENT_OP_NOP, .flags = i ? 0 : 1,
			.cq_head = i ? 0 : NEAR_WRAP,
		};

		assert_memory_equal(&s, &want, sizeof(s));
	}
}

static void a_full_ring_refuses_and_publishes_nothing(void **state)
{
	struct pair *p = *state;
	uint32_t nr;

	assert_int_equal(submit(p->ring, 9, 0), TENT_ERR_CAPACITY);
	assert_false(ring_host_peek(p->host, &nr));
	assert_string_equal(last_error().message, "count is 9; allowed: 8, the ring's room now");
	assert_int_equal(last_error().rule, TENT_RULE_BATCH_FULL);
	assert_int_equal(submit(p->ring, 5, 0), 0);
	assert_int_equal(tent_ring_room(p->ring), 3);
	assert_int_equal(submit(p->ring, 4, 0), TENT_ERR_CAPACITY);
	assert_int_equal(submit(p->ring, 3, 0), 0);
	assert_int_equal(tent_ring_room(p->ring), 0);
	assert_int_equal(submit(p->ring, 1, 0), TENT_ERR_CAPACITY);
	assert_int_equal(engine_take(p->host), 5);
	assert_int_equal(engine_take(p->host), 3);
	assert_false(ring_host_peek(p->host, &nr));
	assert_int_equal(submit(p->ring, 1, 0), TENT_ERR_CAPACITY); /* slots, no credits */
}

static void publish_beyond_the_room_does_nothing(void **state)
{
	struct pair *p = *state;
	uint32_t at = p->host->consumed, nr;

	assert_int_equal(tent_ring_publish(p->ring, 9, TENT_OP_NOP, 0), at);
	assert_int_equal(tent_ring_publish(p->ring, 0, TENT_OP_NOP, 0), at);
	assert_false(ring_host_peek(p->host, &nr));
}

/* 8 slots, 4 completions: it is the completions that run out. */
static void room_is_what_completions_allow(void **state)
{
	struct pair *p = *state;
	struct tent_completion c;

	assert_int_equal(tent_ring_room(p->ring), 4);
	assert_int_equal(submit(p->ring, 4, 0), 0);
	engine_take(p->host);
	assert_int_equal(tent_ring_room(p->ring), 0);
	engine_complete(p->host, 0, 1);
	assert_int_equal(tent_ring_room(p->ring), 0);	/* not reaped yet */
	assert_int_equal(tent_ring_poll(p->ring, &c, 1), 1);
	assert_int_equal(tent_ring_room(p->ring), 1);
}

/* 4 slots, 16 completions: slots come back at the verdict, long before the end. */
static void slots_are_free_once_judged(void **state)
{
	struct pair *p = *state;

	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(tent_ring_room(p->ring), 4);
		assert_int_equal(submit(p->ring, 4, 0), 0);
		assert_int_equal(tent_ring_room(p->ring), 0);
		engine_take(p->host);
	}
	assert_int_equal(tent_ring_room(p->ring), 0);
	for (uint32_t i = 0; i < 3; i++) {
		struct tent_completion c;

		engine_complete(p->host, 0, 1);
		tent_ring_poll(p->ring, &c, 1);
	}
	assert_int_equal(tent_ring_room(p->ring), 3);
}

static void one_completion_may_return_the_credits_of_a_batch(void **state)
{
	struct pair *p = *state;
	struct tent_completion c[2];

	assert_int_equal(submit(p->ring, 6, 9), 0);
	engine_take(p->host);
	engine_complete(p->host, 9, 6);
	assert_int_equal(tent_ring_poll(p->ring, c, 2), 1);
	assert_int_equal(c[0].credits, 6);
	assert_int_equal(tent_ring_room(p->ring), 8);
}

/* 8 slots, 4 completions: credits that were never owed give no room. */
static void an_engine_that_returns_too_many_credits_gets_no_more(void **state)
{
	struct pair *p = *state;
	static const uint32_t lies[] = { 3, 100, UINT32_MAX };

	for (size_t i = 0; i < 3; i++) {
		struct tent_completion c;

		assert_int_equal(submit(p->ring, 2, 0), 0);
		engine_take(p->host);
		engine_complete(p->host, 0, lies[i]);
		assert_int_equal(tent_ring_poll(p->ring, &c, 1), 1);
		assert_true(tent_ring_room(p->ring) <= 4);
		assert_int_equal(submit(p->ring, 5, 0), TENT_ERR_CAPACITY);
		if (tent_ring_room(p->ring) < 2)
			break;
	}
}

/* 4 slots, 16 completions: no slot is given out twice. */
static void an_engine_that_consumes_the_future_gets_nothing(void **state)
{
	struct pair *p = *state;
	uint32_t at = p->host->consumed;

	ring_host_consume(p->host, at + 1000);
	assert_int_equal(submit(p->ring, 4, 0), 0);
	assert_int_equal(tent_ring_room(p->ring), 0);
	assert_int_equal(submit(p->ring, 1, 0), TENT_ERR_CAPACITY);
	ring_host_consume(p->host, at - 1000);
	assert_int_equal(tent_ring_room(p->ring), 0);
	ring_host_consume(p->host, at + 3);
	assert_int_equal(tent_ring_room(p->ring), 3);
}

static void poll_stops_at_max_and_keeps_the_rest(void **state)
{
	struct pair *p = *state;
	struct tent_completion c[8];

	assert_int_equal(submit(p->ring, 5, 0), 0);
	engine_take(p->host);
	for (uint32_t i = 0; i < 5; i++)
		engine_complete(p->host, i, 1);
	assert_int_equal(tent_ring_poll(p->ring, c, 0), 0);
	assert_int_equal(tent_ring_poll(p->ring, c, 2), 2);
	assert_int_equal(tent_ring_poll(p->ring, c, 8), 3);
	assert_int_equal(c[2].user_data, 4);
}

/* The engine learns cq_head from slot 1; the line is for observers and dirtied only
 * every quarter of the ring. */
static void the_client_line_is_told_every_quarter(void **state)
{
	struct pair *p = *state;
	const struct tent_client_line *line = p->host->client_line;
	uint32_t start = line->cq_head;

	for (uint32_t i = 1; i <= 8; i++) {
		struct tent_completion c;

		assert_int_equal(submit(p->ring, 1, 0), 0);
		assert_int_equal(slot_of(p->host, p->host->consumed).cq_head,
				 (uint32_t)(NEAR_WRAP + i - 1));
		engine_take(p->host);
		engine_complete(p->host, 0, 1);
		tent_ring_poll(p->ring, &c, 1);
		assert_int_equal(line->cq_head, i < 2 ? start : NEAR_WRAP + i / 2 * 2);
	}
}

static void a_batch_dirties_two_lines_per_request(void **state)
{
	struct pair *p = *state;
	size_t size = p->host->client_mem.size;
	uint8_t *before = malloc(size), *now = p->host->client_mem.addr;
	uint32_t dirty = 0;

	assert_non_null(before);
	memset(now, 0xa5, 8 * sizeof(struct tent_slot)); /* so that any store shows */
	memcpy(before, now, size);
	assert_int_equal(submit(p->ring, 6, 0), 0);
	for (size_t line = 0; line < size; line += 64)
		dirty += memcmp(before + line, now + line, 64) != 0;
	assert_int_equal(dirty, 12);
	free(before);
}

static void consumed_is_compared_across_the_wrap(void **state)
{
	struct pair *p = *state;
	uint32_t at = p->host->consumed;

	for (uint32_t i = 0; i < 6; i++) {
		assert_true(tent_ring_consumed(p->ring, at + i));
		assert_false(tent_ring_consumed(p->ring, at + i + 1));
		assert_int_equal(submit(p->ring, 1, 0), 0);
		engine_take(p->host);
	}
}

static void call_arguments_are_judged_before_the_room(void **state)
{
	struct pair *p = *state;
	static struct tent_request_v1 r[16];
	char *bytes = (char *)r;
	static const size_t strides[] = { 0, 8, 40, 47, 49, 52, 84, 4097, 4104, SIZE_MAX };

	assert_int_equal(tent_ring_submit(p->ring, NULL, 1, 88, 0, 0), TENT_ERR_ARGUMENTS);
	assert_int_equal(last_error().rule, TENT_RULE_ARG_NULL);
	assert_string_equal(last_error().field, "entries");
	assert_string_equal(last_error().message, "entries is NULL; allowed: not NULL");
	assert_int_equal(tent_ring_submit(p->ring, NULL, 0, 88, 0, 0), TENT_ERR_ARGUMENTS);
	for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
		assert_int_equal(tent_ring_submit(p->ring, r, 99, strides[i], 0, 0),
				 TENT_ERR_LAYOUT);
		assert_int_equal(last_error().rule, TENT_RULE_ARG_STRIDE);
	}
	for (size_t i = 1; i < 8; i++) {
		assert_int_equal(tent_ring_submit(p->ring, bytes + i, 1, 88, 0, 0),
				 TENT_ERR_LAYOUT);
		assert_int_equal(last_error().rule, TENT_RULE_ARG_ALIGN);
	}
	assert_int_equal(tent_ring_submit(p->ring, r, SIZE_MAX / 88 + 1, 88, 0, 0),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(last_error().rule, TENT_RULE_ARG_OVERFLOW);
	/* the product fits, the end of the array does not */
	assert_int_equal(tent_ring_submit(p->ring, r, SIZE_MAX / 88, 88, 0, 0),
			 TENT_ERR_ARGUMENTS);
	assert_int_equal(last_error().rule, TENT_RULE_ARG_OVERFLOW);
	assert_int_equal(tent_ring_submit(p->ring, r, 16, 88, 0, 0), TENT_ERR_CAPACITY);
	assert_int_equal(tent_ring_submit(p->ring, r, 0, 88, 0, 0), 0);
	assert_int_equal(tent_ring_room(p->ring), 8);
}

static void a_named_policy_uses_the_slots_own_cell(void **state)
{
	struct pair *p = *state;
	struct tent_request_v1 r[3] = { request(1), request(2), request(3) };
	char cell[TENT_CELL_SIZE] __attribute__((aligned(16)));

	r[0].policy_name = "first";
	r[2].policy_name = "third";
	assert_int_equal(tent_ring_submit(p->ring, r, 3, 88, 0, 0), 0);
	ring_host_copy_cell(p->host, p->host->consumed, cell);
	assert_memory_equal(cell, "first", 5);
	ring_host_copy_cell(p->host, p->host->consumed + 2, cell);
	assert_memory_equal(cell, "third", 5);
	assert_int_equal((uintptr_t)slot_of(p->host, p->host->consumed).request.policy_name, 5);
	assert_int_equal((uintptr_t)slot_of(p->host, p->host->consumed + 1).request.policy_name,
			 0);
	assert_ptr_equal(tent_ring_cell(p->ring, 0) - tent_ring_cell(p->ring, 1), -64);
}

static void a_ring_of_one_slot_works(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, fake_geometry(1, 1, NEAR_WRAP, 0));
	for (uint32_t i = 0; i < 10; i++) {
		struct tent_completion c;

		assert_int_equal(tent_ring_room(p.ring), 1);
		assert_int_equal(submit(p.ring, 2, i), TENT_ERR_CAPACITY);
		assert_int_equal(submit(p.ring, 1, i), 0);
		assert_int_equal(submit(p.ring, 1, i), TENT_ERR_CAPACITY);
		assert_int_equal(engine_take(p.host), 1);
		engine_complete(p.host, i, 1);
		assert_int_equal(tent_ring_poll(p.ring, &c, 1), 1);
		assert_int_equal(c.user_data, i);
	}
	pair_close(&p);
}

#define ON(open, test) cmocka_unit_test_setup_teardown(test, open, close_pair)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(open_near_wrap, both_directions_cross_the_position_wrap),
		cmocka_unit_test(a_fresh_ring_is_empty_wherever_it_starts),
		ON(open_near_wrap, every_slot_of_a_batch_is_a_clean_follower),
		ON(open_near_wrap, publish_sets_every_word_that_is_not_the_callers),
		ON(open_near_wrap, a_full_ring_refuses_and_publishes_nothing),
		ON(open_near_wrap, publish_beyond_the_room_does_nothing),
		ON(open_small, room_is_what_completions_allow),
		ON(open_many_completions, slots_are_free_once_judged),
		ON(open_near_wrap, one_completion_may_return_the_credits_of_a_batch),
		ON(open_small, an_engine_that_returns_too_many_credits_gets_no_more),
		ON(open_many_completions, an_engine_that_consumes_the_future_gets_nothing),
		ON(open_near_wrap, poll_stops_at_max_and_keeps_the_rest),
		ON(open_near_wrap, the_client_line_is_told_every_quarter),
		ON(open_near_wrap, a_batch_dirties_two_lines_per_request),
		ON(open_near_wrap, consumed_is_compared_across_the_wrap),
		ON(open_near_wrap, call_arguments_are_judged_before_the_room),
		ON(open_near_wrap, a_named_policy_uses_the_slots_own_cell),
		cmocka_unit_test(a_ring_of_one_slot_works),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
