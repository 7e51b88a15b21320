/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_replay.c - READs and atomics that the peer, which this test plays, asks for again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/tests/common/stage.h"

static void expect_read_of(struct stage *s, uint32_t first, uint32_t nr, uint32_t offset)
{
	for (uint32_t i = 0; i < nr; i++) {
		uint8_t opcode = nr == 1 ? HCA_READ_RESPONSE_ONLY :
				 !i ? HCA_READ_RESPONSE_FIRST :
				 i + 1 == nr ? HCA_READ_RESPONSE_LAST : HCA_READ_RESPONSE_MIDDLE;

		stage_expect_answer(s, opcode, (int32_t)(first + i), HCA_AETH_ACK);
		assert_memory_equal(fabric_sent(s->f, s->f->nr_logged - s->seen)->payload,
				    s->memory.bytes + offset + i * STAGE_MTU,
				    fabric_sent(s->f, s->f->nr_logged - s->seen)->length);
	}
	stage_expect_silence(s);
}

static void read_is_replayed_from_where_it_is_asked(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	for (uint32_t i = 0; i < 1 << 16; i++)
		s->memory.bytes[i] = (uint8_t)(i >> 4);
	stage_inject(s, stage_read_packet(s, 0, 16, 3 * STAGE_MTU + 1));
	expect_read_of(s, 0, 4, 16);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 4, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 4, HCA_AETH_ACK);
	s->memory.bytes[STAGE_MTU + 17] = 'n';	/* memory is read anew */
	stage_inject(s, stage_read_packet(s, 0, 16, 3 * STAGE_MTU + 1));
	expect_read_of(s, 0, 4, 16);
	stage_inject(s, stage_read_packet(s, 2, 16 + 2 * STAGE_MTU, STAGE_MTU + 1));
	expect_read_of(s, 2, 2, 16 + 2 * STAGE_MTU);
	stage_inject(s, stage_read_packet(s, 3, 16 + 3 * STAGE_MTU, 1));
	expect_read_of(s, 3, 1, 16 + 3 * STAGE_MTU);
	stage_destroy(s);
}

static void replay_must_lie_within_the_first_read(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p;

	(void)state;
	stage_inject(s, stage_read_packet(s, 0, 0, 2 * STAGE_MTU));
	expect_read_of(s, 0, 2, 0);
	stage_inject(s, stage_read_packet(s, 0, 0, 2 * STAGE_MTU + 1));
	stage_inject(s, stage_read_packet(s, 1, 0, STAGE_MTU));
	stage_inject(s, stage_read_packet(s, 0, 8, STAGE_MTU));
	p = stage_read_packet(s, 0, 0, 2 * STAGE_MTU);
	p.rkey ^= 0x100;
	stage_inject(s, p);
	stage_inject(s, (struct hca_packet) { .opcode = HCA_FETCH_ADD, .rkey = s->memory.key,
		  .remote_address = fabric_address(&s->memory, 0) });
	stage_expect_silence(s);
	stage_expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

static void only_as_many_reads_as_agreed_are_remembered(void **state)
{
	struct fabric_path path = fabric_usual;
	struct stage *s;

	(void)state;
	path.max_reads = 2;
	s = stage_create(&path);
	for (uint32_t i = 0; i < 3; i++) {
		stage_inject(s, stage_read_packet(s, i, 8 * i, 8));
		expect_read_of(s, i, 1, 8 * i);
		fabric_run(s->f, 0);
	}
	stage_inject(s, stage_read_packet(s, 0, 0, 8));
	stage_expect_silence(s);
	stage_inject(s, stage_read_packet(s, 1, 8, 8));
	expect_read_of(s, 1, 1, 8);
	stage_destroy(s);
}

static void atomic_is_replayed_without_effect(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = {
		.opcode = HCA_FETCH_ADD, .rkey = s->memory.key, .swap_or_add = 5,
		.remote_address = fabric_address(&s->memory, 64),
	};
	uint64_t value = 100;

	(void)state;
	memcpy(s->memory.bytes + 64, &value, 8);
	for (uint32_t i = 0; i < 3; i++) {
		stage_inject(s, p);
		stage_expect_answer(s, HCA_ATOMIC_ACKNOWLEDGE, 0, HCA_AETH_ACK);
		assert_int_equal(fabric_sent(s->f, 0)->original, 100);
	}
	p.psn = 1;
	stage_inject(s, p);
	assert_int_equal(fabric_sent(s->f, 0)->original, 105);
	stage_destroy(s);
}

/* A READ of so many packets that its answer takes several turns. */
struct long_read {
	struct stage *s;
	struct fabric_region region;
	struct hca_packet request;
};

enum { LONG_PACKETS = 100 };

static struct long_read long_read_create(uint8_t max_reads)
{
	struct fabric_path path = fabric_usual;
	struct long_read r;

	path.max_reads = max_reads;
	r.s = stage_create(&path);
	r.region = fabric_region_create(r.s->host, LONG_PACKETS * STAGE_MTU, 15);
	r.request = stage_read_packet(r.s, 0, 0, LONG_PACKETS * STAGE_MTU);
	r.request.rkey = r.region.key;
	r.request.remote_address = fabric_address(&r.region, 0);
	stage_inject(r.s, r.request);
	assert_in_range(r.s->f->nr_logged, 1, LONG_PACKETS - 1);
	return r;
}

static void long_read_destroy(struct long_read *r)
{
	fabric_region_destroy(&r->region);
	stage_destroy(r->s);
}

static void pass_over(struct stage *s, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		assert_non_null(stage_next_sent(s));
}

static void read_under_way_is_replayed_only_for_what_was_sent(void **state)
{
	struct long_read r = long_read_create(1);
	struct hca_packet last = r.request;

	(void)state;
	/* The last packet is still to come; the first was, and is asked for again. */
	last.psn = LONG_PACKETS - 1;
	last.remote_address += (LONG_PACKETS - 1) * STAGE_MTU;
	last.dma_length = STAGE_MTU;
	stage_inject(r.s, last);
	stage_inject(r.s, r.request);
	fabric_run(r.s->f, 1000);
	assert_int_equal(r.s->f->nr_logged, 2 * LONG_PACKETS);
	long_read_destroy(&r);
}

static void one_read_more_than_agreed_is_an_invalid_request(void **state)
{
	struct long_read r = long_read_create(1);

	(void)state;
	stage_inject(r.s, stage_read_packet(r.s, LONG_PACKETS, 0, 8));
	fabric_run(r.s->f, 1000);
	pass_over(r.s, LONG_PACKETS);	/* the first has its answer */
	stage_expect_answer(r.s, HCA_ACKNOWLEDGE, LONG_PACKETS, HCA_AETH_NAK_INVALID_REQUEST);
	stage_expect_silence(r.s);
	stage_expect_state(r.s, HCA_QP_ERR);
	assert_true(fabric_has_event(r.s->host, HCA_EVENT_QP_REQUEST_ERROR));
	long_read_destroy(&r);
}

static void one_atomic_more_than_agreed_has_no_effect(void **state)
{
	struct long_read r = long_read_create(1);

	(void)state;
	stage_inject(r.s, (struct hca_packet) {
		.opcode = HCA_FETCH_ADD, .psn = LONG_PACKETS, .rkey = r.s->memory.key,
		.remote_address = fabric_address(&r.s->memory, 0), .swap_or_add = 1 });
	fabric_run(r.s->f, 1000);
	pass_over(r.s, LONG_PACKETS);
	stage_expect_answer(r.s, HCA_ACKNOWLEDGE, LONG_PACKETS, HCA_AETH_NAK_INVALID_REQUEST);
	assert_int_equal(r.s->memory.bytes[0], 0);
	long_read_destroy(&r);
}

static void reads_that_came_at_once_are_more_than_agreed(void **state)
{
	(void)state;
	for (uint32_t is_at_once = 0; is_at_once < 2; is_at_once++) {
		struct fabric_path path = fabric_usual;
		struct stage *s;

		path.max_reads = 1;
		s = stage_create(&path);
		stage_inject(s, stage_read_packet(s, 0, 0, 8));
		if (!is_at_once)
			fabric_run(s->f, 0);
		stage_inject(s, stage_read_packet(s, 1, 0, 8));
		stage_expect_answer(s, HCA_READ_RESPONSE_ONLY, 0, HCA_AETH_ACK);
		if (is_at_once)
			stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_NAK_INVALID_REQUEST);
		else
			stage_expect_answer(s, HCA_READ_RESPONSE_ONLY, 1, HCA_AETH_ACK);
		stage_destroy(s);
	}
}

static void as_many_reads_as_agreed_are_answered_at_once(void **state)
{
	struct long_read r = long_read_create(2);

	(void)state;
	stage_inject(r.s, stage_read_packet(r.s, LONG_PACKETS, 0, 8));
	fabric_run(r.s->f, 1000);
	pass_over(r.s, LONG_PACKETS);
	stage_expect_answer(r.s, HCA_READ_RESPONSE_ONLY, LONG_PACKETS, HCA_AETH_ACK);
	stage_expect_state(r.s, HCA_QP_RTS);
	long_read_destroy(&r);
}

static void read_that_is_repeated_counts_once(void **state)
{
	struct long_read r = long_read_create(1);

	(void)state;
	fabric_run(r.s->f, 1000);
	stage_inject(r.s, r.request);	/* as if nothing had arrived */
	stage_inject(r.s, stage_read_packet(r.s, LONG_PACKETS, 0, 8));
	fabric_run(r.s->f, 1000);
	pass_over(r.s, 2 * LONG_PACKETS);
	stage_expect_answer(r.s, HCA_READ_RESPONSE_ONLY, LONG_PACKETS, HCA_AETH_ACK);
	stage_expect_state(r.s, HCA_QP_RTS);
	long_read_destroy(&r);
}

static void region_that_goes_in_mid_read_ends_it(void **state)
{
	struct long_read r = long_read_create(1);
	const struct hca_packet *sent;
	uint32_t n = 0;

	(void)state;
	fabric_region_destroy(&r.region);
	fabric_run(r.s->f, 1000);
	while ((sent = stage_next_sent(r.s)) && sent->opcode != HCA_ACKNOWLEDGE)
		n++;
	assert_in_range(n, 1, LONG_PACKETS - 1);
	assert_int_equal(sent->syndrome, HCA_AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(sent->psn, (STAGE_RQ_PSN + n) & HCA_PSN_MASK);
	stage_expect_state(r.s, HCA_QP_ERR);
	stage_destroy(r.s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_is_replayed_from_where_it_is_asked),
		cmocka_unit_test(replay_must_lie_within_the_first_read),
		cmocka_unit_test(only_as_many_reads_as_agreed_are_remembered),
		cmocka_unit_test(atomic_is_replayed_without_effect),
		cmocka_unit_test(read_under_way_is_replayed_only_for_what_was_sent),
		cmocka_unit_test(one_read_more_than_agreed_is_an_invalid_request),
		cmocka_unit_test(one_atomic_more_than_agreed_has_no_effect),
		cmocka_unit_test(reads_that_came_at_once_are_more_than_agreed),
		cmocka_unit_test(as_many_reads_as_agreed_are_answered_at_once),
		cmocka_unit_test(read_that_is_repeated_counts_once),
		cmocka_unit_test(region_that_goes_in_mid_read_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
