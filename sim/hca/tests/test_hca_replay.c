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

static void read_under_way_is_replayed_only_for_what_was_sent(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_region big = fabric_region_create(s->host, 200 * STAGE_MTU, 15);
	struct hca_packet p = stage_read_packet(s, 0, 0, 200 * STAGE_MTU);
	uint32_t sent;

	(void)state;
	p.rkey = big.key;
	p.remote_address = fabric_address(&big, 0);
	stage_inject(s, p);
	sent = s->f->nr_logged;
	assert_in_range(sent, 1, 199);
	/* The last packet is still to come; the first was, and is asked for again. */
	p.psn = 199;
	p.remote_address += 199 * STAGE_MTU;
	p.dma_length = STAGE_MTU;
	stage_inject(s, p);
	p = stage_read_packet(s, 0, 0, 200 * STAGE_MTU);
	p.rkey = big.key;
	p.remote_address = fabric_address(&big, 0);
	stage_inject(s, p);
	fabric_run(s->f, 1000);
	assert_int_equal(s->f->nr_logged, 400);
	fabric_region_destroy(&big);
	stage_destroy(s);
}

static void region_that_goes_in_mid_read_ends_it(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_region big = fabric_region_create(s->host, 200 * STAGE_MTU, 15);
	struct hca_packet p = stage_read_packet(s, 0, 0, 200 * STAGE_MTU);
	const struct hca_packet *sent;
	uint32_t n = 0;

	(void)state;
	p.rkey = big.key;
	p.remote_address = fabric_address(&big, 0);
	stage_inject(s, p);
	fabric_region_destroy(&big);
	fabric_run(s->f, 1000);
	while ((sent = stage_next_sent(s)) && sent->opcode != HCA_ACKNOWLEDGE)
		n++;
	assert_in_range(n, 1, 199);
	assert_int_equal(sent->syndrome, HCA_AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(sent->psn, (STAGE_RQ_PSN + n) & HCA_PSN_MASK);
	stage_expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_is_replayed_from_where_it_is_asked),
		cmocka_unit_test(replay_must_lie_within_the_first_read),
		cmocka_unit_test(only_as_many_reads_as_agreed_are_remembered),
		cmocka_unit_test(atomic_is_replayed_without_effect),
		cmocka_unit_test(read_under_way_is_replayed_only_for_what_was_sent),
		cmocka_unit_test(region_that_goes_in_mid_read_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
