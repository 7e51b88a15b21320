/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_notice.c - notifications on a raw ring: how they are judged, and when they are
 * handed over. The test stands where the control thread does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/notice.h"
#include "tests/common/rig.h"

#define TEXT_AT 8192u	/* in region 0 of the client */
#define ROWS 20000

static struct rig *rig;

static struct rig_ring *ring_of(uint32_t i)
{
	return &rig->rings[i];
}

/* Writes a notification into the client's memory, and its address. */
static uint64_t put_text(const struct rig_client *c, const char *name, const char *message)
{
	uint8_t *at = c->memory + TEXT_AT;
	struct tent_notify n = { (uint32_t)strlen(name), (uint32_t)strlen(message) };

	memcpy(at, &n, sizeof(n));
	memcpy(at + sizeof(n), name, n.name_length);
	memcpy(at + sizeof(n) + n.name_length, message, n.message_length);
	return rig_address(c, TEXT_AT);
}

static void publish(struct rig_ring *ring, uint32_t nr, uint8_t op, uint16_t flags, uint64_t notify)
{
	((struct tent_slot *)ring->host->slots)[ring->position & ring->host->slot_mask].notify =
		notify;
	rig_publish(ring, nr, op, flags);
}

/* Takes what was handed over; how many. The last one's texts stay in *last. */
static uint32_t take(struct notice *last)
{
	struct notice *list = notices_take(rig->poller), *next;
	uint32_t nr = 0;

	for (; list; list = next, nr++) {
		next = list->next;
		if (last)
			*last = *list;
		list->back = (struct poller_command){
			.type = POLLER_NOTICE_BACK, .notice = list,
		};
		poller_send(rig->poller, &list->back);
	}
	return nr;
}

static int start(void **state)
{
	(void)state;
	rig = rig_new(NULL);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	take(NULL);
	rig_settle(rig);
	rig_stop(rig);
	return 0;
}

static void requests(struct rig_ring *ring, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		rig_request(ring, i, TENT_OPCODE_WRITE, 8 * i, 8 * i, 8);
}

static void it_is_handed_over_once_all_have_completed(void **state)
{
	struct rig_ring *ring = ring_of(0);
	struct notice n;

	(void)state;
	requests(ring, 5);
	publish(ring, 5, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY, put_text(ring->client, "n", "me"));
	rig_settle(rig);
	assert_int_equal(take(&n), 1);
	assert_string_equal(n.name, "n");
	assert_string_equal(n.message, "me");
	assert_int_equal(n.nr_targets, 1);
	assert_int_equal(n.targets[0], RIG_PEER);
	assert_int_equal(rig_reap_all(ring), 5);
}

static void with_one_completion_it_is_handed_over_too(void **state)
{
	struct rig_ring *ring = ring_of(0);

	(void)state;
	requests(ring, 5);
	publish(ring, 5, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY | TENT_SLOT_F_ONE_COMPLETION,
		put_text(ring->client, "n", "m"));
	rig_settle(rig);
	assert_int_equal(take(NULL), 1);
	assert_int_equal(rig_reap_all(ring), 1);
}

/* Whoever sees the last completion finds it handed over. */
static void it_precedes_the_last_completion(void **state)
{
	struct rig_ring *ring = ring_of(0);
	struct tent_completion c;

	(void)state;
	requests(ring, 3);
	publish(ring, 3, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY, put_text(ring->client, "n", "m"));
	for (int i = 0; i < 3; ) {
		poller_turn(rig->poller);
		while (rig_reap(ring, &c))
			i++;
		if (i == 3)
			assert_int_equal(take(NULL), 1);
	}
}

static void expect_text_refused(uint64_t notify, uint16_t rule)
{
	struct rig_ring *ring = ring_of(0);
	struct tent_completion c;

	requests(ring, 2);
	publish(ring, 2, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY, notify);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, rule, 0, 2);
	assert_int_equal(take(NULL), 0);
}

static void a_text_is_whole_and_in_shared_memory_or_refused(void **state)
{
	const struct rig_client *c = ring_of(0)->client;
	struct tent_notify *n = (struct tent_notify *)(c->memory + TEXT_AT);
	uint64_t at = put_text(c, "name", "message");

	(void)state;
	expect_text_refused(0, TENT_RULE_NOTIFY_TEXT);
	expect_text_refused(at + 4, TENT_RULE_NOTIFY_TEXT);
	expect_text_refused(UINT64_MAX - 7, TENT_RULE_NOTIFY_TEXT);
	memcpy(c->memory + RIG_REGION_BYTES - 8, n, 8);	/* its text would not lie in it */
	expect_text_refused(rig_address(c, RIG_REGION_BYTES - 8), TENT_RULE_NOTIFY_TEXT);
	n->name_length = 256;
	expect_text_refused(at, TENT_RULE_NOTIFY_NAME);
	n->name_length = UINT32_MAX;
	expect_text_refused(at, TENT_RULE_NOTIFY_NAME);
	n->name_length = 4;
	n->message_length = 4096;
	expect_text_refused(at, TENT_RULE_NOTIFY_MESSAGE);
	n->message_length = UINT32_MAX;
	expect_text_refused(at, TENT_RULE_NOTIFY_MESSAGE);
	c->memory[TEXT_AT + 8 + 4 + 7] = 0;
	n->message_length = 8;
	expect_text_refused(at, TENT_RULE_NOTIFY_MESSAGE);
	n->name_length = 20;
	expect_text_refused(at, TENT_RULE_NOTIFY_NAME);
}

/* The last bytes of a region hold lengths, and no text. */
static void lengths_at_the_end_of_a_region_say_that_there_is_no_text(void **state)
{
	struct rig_ring *ring = ring_of(0);
	uint64_t at = rig_address(ring->client, RIG_REGION_BYTES - 8);

	(void)state;
	memset(ring->client->memory + RIG_REGION_BYTES - 8, 0, 8);
	requests(ring, 1);
	publish(ring, 1, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY, at);
	rig_settle(rig);
	assert_int_equal(take(NULL), 1);
	assert_int_equal(rig_reap_all(ring), 1);
}

static void a_text_is_refused_before_what_its_entries_break(void **state)
{
	struct rig_ring *ring = ring_of(0);
	struct tent_completion c;

	(void)state;
	requests(ring, 2);
	((struct tent_slot *)ring->host->slots)[(ring->position + 1) & ring->host->slot_mask]
		.request.schema_version = 9;
	publish(ring, 2, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY, 8);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, TENT_RULE_NOTIFY_TEXT, 0, 2);
}

static void a_dirty_word_without_the_flag_is_refused(void **state)
{
	struct rig_ring *ring = ring_of(0);
	struct tent_completion c;
	uint64_t at = put_text(ring->client, "n", "m");

	(void)state;
	requests(ring, 1);
	publish(ring, 1, TENT_OP_REQUEST, 0, at);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, TENT_RULE_SLOT_RESV, 0, 1);
	rig_slot(ring, 0);
	publish(ring, 1, TENT_OP_NOP, TENT_SLOT_F_NOTIFY, at);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, TENT_RULE_SLOT_RESV, 0, 1);
	assert_int_equal(take(NULL), 0);
}

static void the_65th_waits_until_one_is_back(void **state)
{
	struct rig_ring *ring = ring_of(0);
	uint64_t at = put_text(ring->client, "n", "m");

	(void)state;
	for (uint32_t i = 0; i < NOTICES_PER_RING + 1; i++) {
		requests(ring, 1);
		publish(ring, 1, TENT_OP_REQUEST, TENT_SLOT_F_NOTIFY, at);
		rig_settle(rig);
		rig_reap_all(ring);
	}
	assert_int_equal(load_relaxed(&ring->host->line->consumed), NOTICES_PER_RING);
	assert_int_equal(take(NULL), NOTICES_PER_RING);
	rig_settle(rig);
	assert_int_equal(load_relaxed(&ring->host->line->consumed), NOTICES_PER_RING + 1);
	assert_int_equal(rig_reap_all(ring), 1);
	assert_int_equal(take(NULL), 1);
}

static void other_rings_go_on_meanwhile(void **state)
{
	(void)state;
	the_65th_waits_until_one_is_back(state);
	requests(ring_of(1), 1);
	publish(ring_of(1), 1, TENT_OP_REQUEST, 0, 0);
	assert_int_equal(rig_finish(rig, ring_of(1)).status, TENT_STATUS_COMPLETED);
}

/* ---- the same verdict ------------------------------------------------------ */

/* One word of a sound slot, or two, becomes something else. */
static void spoil(struct tent_slot *s, uint64_t *seed)
{
	uint32_t *word = (uint32_t *)&s->request + random_next(seed) % 24;
	static const uint32_t values[] = { 0, 1, 2, 3, 6, 7, 12, 13, 48, 64, 88, 96, 4096,
					   0x7fffffff, 0x80000000, 0xffffffff };

	if (random_next(seed) % 2)
		*word = values[random_next(seed) % 16];
	if (random_next(seed) % 8 == 0)
		s->resv0 = 1;
}

static void build(struct rig_ring *ring, uint32_t nr, uint64_t seed)
{
	for (uint32_t i = 0; i < nr; i++) {
		struct tent_slot *s = rig_request(ring, i, random_next(&seed) % 2,
						  random_next(&seed) % 4096,
						  random_next(&seed) % 4096,
						  random_next(&seed) % 64);

		s->user_data = i;
		if (random_next(&seed) % 4 == 0)
			spoil(s, &seed);
	}
}

/* The completions of a batch, by user_data where it was accepted. */
static uint32_t verdict(struct rig_ring *ring, uint32_t nr, uint16_t flags, uint64_t notify,
			struct tent_completion *out)
{
	struct tent_completion c;
	uint32_t got = 0;

	publish(ring, nr, TENT_OP_REQUEST, flags, notify);
	rig_settle(rig);
	while (rig_reap(ring, &c))
		out[c.flags & TENT_CQE_F_REJECTED ? 0 : c.user_data] = c, got++;
	return got;
}

static void assert_same(const struct tent_completion *a, const struct tent_completion *b)
{
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->status, b->status);
	assert_int_equal(a->transport, b->transport);
	assert_int_equal(a->bytes, b->bytes);
	assert_int_equal(a->error, b->error);
	assert_int_equal(a->index, b->index);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->credits, b->credits);
	assert_int_equal(a->rule, b->rule);
}

static void every_row_has_the_verdict_that_it_has_without(void **state)
{
	struct rig_ring *ring = ring_of(0);
	struct tent_completion with[8], without[8];
	uint32_t accepted = 0, told = 0;
	uint64_t seed = 20261130;

	(void)state;
	for (int row = 0; row < ROWS; row++) {
		uint32_t nr = 1 + random_next(&seed) % 8, batch = random_next(&seed), got;
		uint16_t flags = random_next(&seed) % 2 ? TENT_SLOT_F_LEGACY : 0;
		bool all;

		build(ring, nr, batch);
		got = verdict(ring, nr, flags, 0, without);
		build(ring, nr, batch);
		assert_int_equal(verdict(ring, nr, flags | TENT_SLOT_F_NOTIFY,
					 put_text(ring->client, "n", "m"), with), got);
		for (uint32_t i = 0; i < got; i++)
			assert_same(&with[i], &without[i]);
		all = !(with[0].flags & TENT_CQE_F_REJECTED);
		accepted += all;
		for (uint32_t i = 0; i < got; i++)
			all &= with[i].status == TENT_STATUS_COMPLETED;
		assert_int_equal(take(NULL), all);
		told += all;
		rig_settle(rig);
	}
	assert_true(told > ROWS / 10 && accepted > told && accepted < ROWS * 9 / 10);
}

/* ---- op NOTIFY -------------------------------------------------------------- */

static struct tent_slot *alone(struct rig_ring *ring, uint64_t target)
{
	struct tent_slot *s = rig_slot(ring, 0);

	s->request.target_id = target;
	s->user_data = 77;
	return s;
}

static void alone_it_ends_when_it_is_back(void **state)
{
	struct rig_ring *ring = ring_of(0);
	struct tent_completion c;
	struct notice n;

	(void)state;
	alone(ring, RIG_PEER);
	publish(ring, 1, TENT_OP_NOTIFY, 0, put_text(ring->client, "a", ""));
	rig_settle(rig);
	assert_false(rig_reap(ring, &c));
	assert_int_equal(take(&n), 1);
	assert_string_equal(n.name, "a");
	c = rig_finish(rig, ring);
	assert_int_equal(c.user_data, 77);
	assert_int_equal(c.status, TENT_STATUS_COMPLETED);
	assert_int_equal(c.credits, 1);
}

static void alone_it_needs_a_target_that_is_open_and_nothing_else(void **state)
{
	struct rig_ring *ring = ring_of(0);
	uint64_t at = put_text(ring->client, "a", "");
	struct tent_completion c;

	(void)state;
	for (size_t k = offsetof(struct tent_slot, request); k < sizeof(struct tent_slot); k++) {
		if (k >= offsetof(struct tent_slot, request.target_id) &&
		    k < offsetof(struct tent_slot, request.target_id) + 8)
			continue;
		((uint8_t *)alone(ring, RIG_PEER))[k] = 1;
		publish(ring, 1, TENT_OP_NOTIFY, 0, at);
		c = rig_finish(rig, ring);
		rig_expect_refused(&c, TENT_RULE_SLOT_RESV, 0, 1);
	}
	alone(ring, RIG_CLOSED);
	publish(ring, 1, TENT_OP_NOTIFY, 0, at);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, TENT_RULE_SEGMENT, 0, 1);
	alone(ring, UINT64_MAX);
	publish(ring, 1, TENT_OP_NOTIFY, 0, at);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, TENT_RULE_SEGMENT, 0, 1);
	alone(ring, RIG_PEER);
	publish(ring, 1, TENT_OP_NOTIFY, 0, 0);
	c = rig_finish(rig, ring);
	rig_expect_refused(&c, TENT_RULE_NOTIFY_TEXT, 0, 1);
	assert_int_equal(take(NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
	const struct CMUnitTest tests[] = {
		TEST(it_is_handed_over_once_all_have_completed),
		TEST(with_one_completion_it_is_handed_over_too),
		TEST(it_precedes_the_last_completion),
		TEST(a_text_is_whole_and_in_shared_memory_or_refused),
		TEST(lengths_at_the_end_of_a_region_say_that_there_is_no_text),
		TEST(a_text_is_refused_before_what_its_entries_break),
		TEST(a_dirty_word_without_the_flag_is_refused),
		TEST(the_65th_waits_until_one_is_back),
		TEST(other_rings_go_on_meanwhile),
		TEST(every_row_has_the_verdict_that_it_has_without),
		TEST(alone_it_ends_when_it_is_back),
		TEST(alone_it_needs_a_target_that_is_open_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
