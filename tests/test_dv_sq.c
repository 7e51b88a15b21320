/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_sq.c - the send queue: its ends, credits, completions asked for, the window of
 * READs, and the register. The order of its stores is counted in test_dv_steps.c.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/dv_queue.h"
#include "tests/common/random.h"

#define BLOCKS 256u

/* Where positions begin: at the first use, and so that 16 and 32 bits of them wrap soon. */
static const uint32_t starts[] = { 0, 65536 - 3, UINT32_MAX - 2, UINT32_MAX - BLOCKS - 1 };

#define FOR_EACH_START(s) for (const uint32_t *s = starts; s < starts + 4; s++)

static int setup(void **state)
{
	static struct dv_queue q;

	dv_queue_open(&q, BLOCKS, 64, 256);
	*state = &q;
	return 0;
}

static int teardown(void **state)
{
	dv_queue_close(*state);
	return 0;
}

static const uint8_t bytes[DV_INLINE_MAX];

static struct dv_piece piece_of(uint32_t length)
{
	return (struct dv_piece) { 0x1000, 0x2000, 3, 4, length };
}

static bool write_one(struct dv_queue *q, uintptr_t cookie)
{
	struct dv_piece p = piece_of(64);

	return dv_sq_write(&q->sq, &p, (void *)cookie);
}

static bool read_one(struct dv_queue *q, uintptr_t cookie)
{
	struct dv_piece p = piece_of(64);

	return dv_sq_read(&q->sq, &p, (void *)cookie);
}

static bool write_inline(struct dv_queue *q, uint32_t length, uintptr_t cookie)
{
	struct dv_piece p = piece_of(length);

	return dv_sq_write_inline(&q->sq, &p, bytes, (void *)cookie);
}

static uint32_t count_signalled(struct dv_queue *q, uint32_t from, uint32_t to)
{
	uint32_t n = 0;

	for (; from != to; from++)
		n += dv_queue_is_signalled(q, from);
	return n;
}

/* Retires all up to the WQE at last; how many there were, with ascending cookies. */
static uint32_t retire(struct dv_queue *q, uint32_t last, uintptr_t first_cookie)
{
	struct dv_op op;
	uint32_t n = 0;

	while (dv_sq_retire(&q->sq, last, &op))
		assert_true(op.cookie == (void *)(first_cookie + n++));
	return n;
}

/* ---- its ends ------------------------------------------------------------ */

static void a_full_queue_refuses_and_one_retired_makes_room_for_one(void **state)
{
	struct dv_queue *q = *state;

	FOR_EACH_START(s) {
		dv_queue_seek(q, *s, 0);
		for (uint32_t i = 0; i < BLOCKS; i++)
			assert_true(write_one(q, i + 1));
		assert_false(write_one(q, 1));
		assert_false(read_one(q, 1));
		assert_false(write_inline(q, 1, 1));
		assert_int_equal(q->sq.pi, *s + BLOCKS);
		assert_int_equal(retire(q, *s, 1), 1);
		assert_true(write_one(q, BLOCKS + 1));
		assert_false(write_one(q, 1));
		assert_int_equal(retire(q, q->sq.last, 2), BLOCKS);
	}
}

static void the_card_is_told_where_each_wqe_lies_across_every_wrap(void **state)
{
	struct dv_queue *q = *state;

	FOR_EACH_START(s) {
		dv_queue_seek(q, *s, 0);
		for (uint32_t i = 0; i < 3 * BLOCKS; i++) {
			uint32_t at = *s + i;
			uint8_t *wqe = dv_queue_block(q, at);

			assert_true(write_one(q, i + 1));
			assert_int_equal(wqe[1] << 8 | wqe[2], at & 0xffff);
			dv_sq_ring(&q->sq);
			assert_int_equal(be32toh(q->memory->dbrec[MLX5_SND_DBR]),
					 (at + 1) & 0xffff);
			assert_int_equal(retire(q, at, i + 1), 1);
		}
	}
}

/* A WQE of four blocks at each place near the end. */
static void no_wqe_is_split_nops_fill_the_end(void **state)
{
	struct dv_queue *q = *state;

	for (uint32_t left = 1; left < 4; left++) {
		dv_queue_seek(q, 0u - left, 0);
		memset(q->memory->sq, 0xa5, sizeof(q->memory->sq));
		assert_true(write_inline(q, DV_INLINE_MAX, 7));
		for (uint32_t i = 0; i < left; i++) {
			uint8_t *nop = dv_queue_block(q, i - left);

			assert_int_equal(nop[3], MLX5_OPCODE_NOP);
			assert_int_equal(nop[7], 1);
			assert_int_equal(nop[1] << 8 | nop[2], (i - left) & 0xffff);
		}
		assert_int_equal(q->memory->sq[3], MLX5_OPCODE_RDMA_WRITE);
		assert_int_equal(q->memory->sq[7], 16);
		assert_int_equal(q->sq.last, 0);
		assert_int_equal(q->sq.pi, 4);
		assert_int_equal(retire(q, 0, 7), 1);
		assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS);
	}
}

static void one_that_just_fits_the_end_needs_no_nop(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0u - 4, 0);
	assert_true(write_inline(q, DV_INLINE_MAX, 7));
	assert_int_equal(q->sq.pi, 0);
	assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS - 4);
}

static void where_the_nops_would_not_fit_nothing_is_built(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0u - 2, 0);
	dv_sq_free(&q->sq, q->sq.pi - (BLOCKS - 5), BLOCKS, 0); /* five are free: two NOPs and three */
	assert_false(write_inline(q, DV_INLINE_MAX, 7));
	assert_int_equal(q->sq.pi, 0u - 2);
	dv_sq_free(&q->sq, q->sq.ci + 1, BLOCKS, 0);
	assert_true(write_inline(q, DV_INLINE_MAX, 7));
	assert_int_equal(dv_sq_free_bb(&q->sq), 0);
}

/* ---- credits ------------------------------------------------------------- */

/* What is under way is mirrored in a list that has no positions. */
static void credits_are_exact_under_any_mix(void **state)
{
	struct dv_queue *q = *state;
	uint64_t seed = 1;

	FOR_EACH_START(s) {
		uintptr_t next = 1, oldest = 1;

		dv_queue_seek(q, *s, 0);
		for (int i = 0; i < 20000; i++) {
			uint32_t r = random_next(&seed), length = 1 + r / 8 % DV_INLINE_MAX;
			bool done = r % 4 == 0 ? write_inline(q, length, next) :
				    r % 4 == 1 ? read_one(q, next) : write_one(q, next);

			next += done;
			assert_true(dv_sq_free_bb(&q->sq) <= BLOCKS);
			if (random_next(&seed) % 16 && done)
				continue;
			dv_sq_ring(&q->sq);
			oldest += retire(q, q->sq.last, oldest);
			assert_true(oldest == next);
			assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS);
			assert_int_equal(q->sq.reads, q->sq.done.reads);
		}
	}
}

static void a_completion_of_what_is_not_posted_is_not_found(void **state)
{
	struct dv_queue *q = *state;
	uint32_t at;

	FOR_EACH_START(s) {
		dv_queue_seek(q, *s, 0);
		assert_false(dv_sq_find(&q->sq, (uint16_t)*s, &at));
		assert_true(write_one(q, 1) && write_one(q, 2));
		assert_false(dv_sq_find(&q->sq, (uint16_t)*s, &at)); /* not rung yet */
		dv_sq_ring(&q->sq);
		assert_true(dv_sq_find(&q->sq, (uint16_t)(*s + 1), &at));
		assert_int_equal(at, *s + 1);
		assert_false(dv_sq_find(&q->sq, (uint16_t)(*s + 2), &at));
		assert_false(dv_sq_find(&q->sq, (uint16_t)(*s - 1), &at));
		assert_int_equal(retire(q, *s, 1), 1);
		assert_false(dv_sq_find(&q->sq, (uint16_t)*s, &at)); /* retired */
	}
}

/* ---- completions asked for ------------------------------------------------- */

static void a_post_asks_for_one_completion_and_for_one_more_each_64(void **state)
{
	struct dv_queue *q = *state;

	for (uint32_t n = 1; n <= BLOCKS; n++) {
		dv_queue_seek(q, 0, 0);
		for (uint32_t i = 0; i < n; i++)
			assert_true(write_one(q, 1));
		dv_sq_ring(&q->sq);
		assert_int_equal(count_signalled(q, 0, n), (n + 63) / 64);
		assert_true(dv_queue_is_signalled(q, n - 1));
		for (uint32_t i = 63; i < n; i += 64)
			assert_true(dv_queue_is_signalled(q, i));
	}
}

static void the_read_that_fills_the_window_asks_for_a_completion(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0);
	for (uint32_t i = 0; i < QUEUE_READS; i++)
		assert_true(read_one(q, i + 1));
	for (uint32_t i = 0; i < 10; i++)
		assert_true(write_one(q, 100));
	dv_sq_ring(&q->sq);
	assert_int_equal(count_signalled(q, 0, QUEUE_READS + 10), 2);
	assert_true(dv_queue_is_signalled(q, QUEUE_READS - 1));
	assert_true(dv_queue_is_signalled(q, QUEUE_READS + 9));
}

/* ---- the window of READs --------------------------------------------------- */

static void no_more_reads_are_under_way_than_the_peer_answers(void **state)
{
	struct dv_queue *q = *state;

	FOR_EACH_START(s) {
		dv_queue_seek(q, *s, 0);
		for (uint32_t i = 0; i < QUEUE_READS; i++)
			assert_true(read_one(q, i + 1));
		assert_false(read_one(q, 1));
		assert_true(write_one(q, QUEUE_READS + 1));
		assert_int_equal(retire(q, *s + 2, 1), 3);
		for (uint32_t i = 0; i < 3; i++)
			assert_true(read_one(q, QUEUE_READS + 2 + i));
		assert_false(read_one(q, 1));
	}
}

/* ---- the register ---------------------------------------------------------- */

static void a_single_wqe_goes_whole_through_one_half_after_the_other(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0);
	for (uint32_t i = 0; i < 5; i++) {
		uint8_t *half = dv_queue_register(q), other[64];
		uint32_t at = q->sq.pi;

		assert_ptr_equal(half, q->uar.reg + i % 2 * 256);
		memcpy(other, q->uar.reg + (i + 1) % 2 * 256, 64);
		assert_true(write_one(q, 1));
		dv_sq_ring(&q->sq);
		assert_memory_equal(half, dv_queue_block(q, at), 64);
		assert_memory_equal(q->uar.reg + (i + 1) % 2 * 256, other, 64);
	}
}

static void an_inline_wqe_goes_with_all_of_its_blocks(void **state)
{
	struct dv_queue *q = *state;

	for (uint32_t nr_bb = 1; nr_bb <= 4; nr_bb++) {
		uint8_t *half;

		dv_queue_seek(q, 0, 0);
		memset(q->memory->uar, 0x5a, sizeof(q->memory->uar));
		half = dv_queue_register(q);
		assert_true(write_inline(q, nr_bb * 64 - 36, 1));
		dv_sq_ring(&q->sq);
		assert_memory_equal(half, q->memory->sq, nr_bb * 64);
		assert_int_equal(half[nr_bb * 64], 0x5a);
	}
}

static void several_wqes_ring_once_with_8_bytes_of_the_last(void **state)
{
	struct dv_queue *q = *state;
	uint8_t *half;

	dv_queue_seek(q, 0, 0);
	memset(q->memory->uar, 0x5a, sizeof(q->memory->uar));
	half = dv_queue_register(q);
	assert_true(write_one(q, 1) && write_inline(q, DV_INLINE_MAX, 2) && write_one(q, 3));
	dv_sq_ring(&q->sq);
	assert_memory_equal(half, dv_queue_block(q, 5), 8);
	for (uint32_t i = 8; i < 512; i++)
		assert_int_equal(half[i], 0x5a);
}

static void a_queue_without_blueflame_rings_with_8_bytes_in_one_place(void **state)
{
	struct dv_queue *q = *state, plain;

	(void)q;
	dv_queue_open(&plain, BLOCKS, 64, 0);
	for (uint32_t i = 0; i < 3; i++) {
		memset(plain.memory->uar, 0x5a, sizeof(plain.memory->uar));
		assert_true(write_one(&plain, 1));
		dv_sq_ring(&plain.sq);
		assert_memory_equal(plain.uar.reg, dv_queue_block(&plain, i), 8);
		assert_int_equal(plain.uar.reg[8], 0x5a);
	}
	dv_queue_close(&plain);
}

static void queues_of_one_register_take_its_halves_in_turn(void **state)
{
	struct dv_queue *q = *state;
	static _Alignas(16) uint8_t book[BLOCKS * 16];
	struct dv_piece p = piece_of(64);
	struct dv_sq other;

	dv_queue_seek(q, 0, 0);
	assert_int_equal(dv_sq_init(&other, &q->qp, QUEUE_QPN + 1, 1, &q->uar, book), 0);
	assert_true(write_one(q, 1) && dv_sq_write(&other, &p, q));
	dv_sq_ring(&q->sq);
	assert_int_equal(q->uar.offset, 256);
	dv_sq_ring(&other);
	assert_int_equal(q->uar.offset, 0);
}

static void ringing_with_nothing_built_stores_nothing(void **state)
{
	struct dv_queue *q = *state;
	uint8_t before[512];

	dv_queue_seek(q, 0, 0);
	for (int i = 0; i < 2; i++) {
		memcpy(before, q->uar.reg, 512);
		q->memory->dbrec[MLX5_SND_DBR] = 0x5a5a5a5a;
		dv_sq_ring(&q->sq);
		assert_memory_equal(before, q->uar.reg, 512);
		assert_int_equal(q->memory->dbrec[MLX5_SND_DBR], 0x5a5a5a5a);
		assert_true(write_one(q, 1));
		dv_sq_ring(&q->sq);
	}
}

/* ---- setting up ------------------------------------------------------------ */

static void queues_that_none_of_this_fits_are_refused(void **state)
{
	struct dv_queue *q = *state;
	struct mlx5dv_qp good = q->qp;
	struct { uint32_t nr_bb, stride, half, reads; } rows[] = {
		{ 0, 64, 256, 1 }, { 100, 64, 256, 1 }, { 65536, 64, 256, 1 },
		{ 64, 128, 256, 1 }, { 64, 64, 0, 1 }, { 64, 64, 256, 0 },
	};
	struct dv_sq sq;

	dv_queue_seek(q, 0, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct mlx5dv_qp qp = good;

		qp.sq.wqe_cnt = rows[i].nr_bb;
		qp.sq.stride = rows[i].stride;
		qp.bf.size = rows[i].half;
		assert_int_equal(dv_sq_init(&sq, &qp, 1, rows[i].reads, &q->uar, q->book),
				 -EINVAL);
	}
	good.bf.reg = q->memory->uar;
	assert_int_equal(dv_sq_init(&sq, &good, 1, 1, &q->uar, q->book), -EINVAL);
	assert_int_equal(dv_sq_init(&sq, &q->qp, 1, 1, &q->uar, q->book), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_queue_refuses_and_one_retired_makes_room_for_one),
		cmocka_unit_test(the_card_is_told_where_each_wqe_lies_across_every_wrap),
		cmocka_unit_test(no_wqe_is_split_nops_fill_the_end),
		cmocka_unit_test(one_that_just_fits_the_end_needs_no_nop),
		cmocka_unit_test(where_the_nops_would_not_fit_nothing_is_built),
		cmocka_unit_test(credits_are_exact_under_any_mix),
		cmocka_unit_test(a_completion_of_what_is_not_posted_is_not_found),
		cmocka_unit_test(a_post_asks_for_one_completion_and_for_one_more_each_64),
		cmocka_unit_test(the_read_that_fills_the_window_asks_for_a_completion),
		cmocka_unit_test(no_more_reads_are_under_way_than_the_peer_answers),
		cmocka_unit_test(a_single_wqe_goes_whole_through_one_half_after_the_other),
		cmocka_unit_test(an_inline_wqe_goes_with_all_of_its_blocks),
		cmocka_unit_test(several_wqes_ring_once_with_8_bytes_of_the_last),
		cmocka_unit_test(a_queue_without_blueflame_rings_with_8_bytes_in_one_place),
		cmocka_unit_test(queues_of_one_register_take_its_halves_in_turn),
		cmocka_unit_test(ringing_with_nothing_built_stores_nothing),
		cmocka_unit_test(queues_that_none_of_this_fits_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
