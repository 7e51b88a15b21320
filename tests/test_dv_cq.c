/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_cq.c - completions as the card writes them: whose an entry is, what each kind and
 * syndrome means, and which WQEs it retires.
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

#define BLOCKS 64u
#define NR(array) (sizeof(array) / sizeof(*(array)))

static const uint32_t cqe_sizes[] = { 64, 128 };

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

/* n WRITEs in one post; their cookies are 1..n. */
static void post(struct dv_queue *q, uint32_t n)
{
	const struct dv_piece p = { 0x1000, 0x2000, 3, 4, 64 };

	for (uintptr_t i = 1; i <= n; i++)
		assert_true(dv_sq_write(&q->sq, &p, (void *)i));
	dv_sq_ring(&q->sq);
}

/* NULL: none. */
static const struct mlx5_cqe64 *take(struct dv_queue *q)
{
	return dv_cq_is_ours(&q->cq, dv_cq_look(&q->cq)) ? dv_cq_take(&q->cq) : NULL;
}

/* ---- whose an entry is ----------------------------------------------------- */

static void a_new_queue_is_empty_whatever_was_in_its_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < NR(cqe_sizes); i++) {
		struct dv_queue q;

		dv_queue_open(&q, BLOCKS, cqe_sizes[i], 256);
		for (int dirt = 0; dirt < 256; dirt++) {
			memset(q.memory->cqes, dirt, sizeof(q.memory->cqes));
			dv_queue_seek(&q, 0, 0);
			for (uint32_t n = 0; n < BLOCKS; n++) {
				assert_null(take(&q));
				q.cq.next += q.cq.stride;
			}
		}
		dv_queue_close(&q);
	}
}

/* The owner bit changes with each lap; the laps around 2^32 are like all others. */
static void entries_are_taken_once_and_in_order_across_every_wrap(void **state)
{
	static const uint32_t starts[] = { 0, 1, BLOCKS - 1, BLOCKS, UINT32_MAX - 5,
					   UINT32_MAX - BLOCKS + 1, 0u - 2 * BLOCKS - 7 };

	(void)state;
	for (size_t i = 0; i < NR(cqe_sizes) * NR(starts); i++) {
		uint64_t seed = i;
		struct dv_queue q;
		uint16_t sent = 0, got = 0;

		dv_queue_open(&q, BLOCKS, cqe_sizes[i % 2], 256);
		dv_queue_seek(&q, 0, starts[i / 2]);
		while (got < 5 * BLOCKS) {
			const struct mlx5_cqe64 *cqe;

			for (uint32_t n = random_next(&seed) % (BLOCKS + 1); n; n--)
				dv_queue_complete(&q, sent++);
			while ((cqe = take(&q)))
				assert_int_equal(dv_cqe_counter(cqe), got++);
			assert_int_equal(got, sent);
		}
		dv_queue_close(&q);
	}
}

static void an_entry_that_the_card_is_still_writing_is_not_taken(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, BLOCKS);
	dv_queue_complete(q, 5);
	q->memory->cqes[63] ^= 1; /* op_own comes last: all else is there */
	assert_null(take(q));
	q->memory->cqes[63] ^= 1;
	assert_non_null(take(q));
}

/* ---- what it says ---------------------------------------------------------- */

static const struct mlx5_cqe64 *entry_of(struct dv_queue *q, uint8_t op_own)
{
	const struct mlx5_cqe64 *cqe;

	dv_queue_entry(q, 0x1234, op_own);
	cqe = take(q);
	assert_non_null(cqe);
	return cqe;
}

/* All that the seven bits beside the owner's can say; op_own 0xf. is invalid. */
static void success_is_one_value_of_op_own_and_no_other(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0);
	for (uint32_t op_own = 0; op_own < MLX5_CQE_INVALID << 4; op_own += 2) {
		const struct mlx5_cqe64 *cqe;

		dv_queue_entry(q, 0x1234, (uint8_t)op_own);
		assert_true(dv_cq_is_ours(&q->cq, dv_cq_look(&q->cq)));
		assert_int_equal(dv_cq_is_success(&q->cq, dv_cq_look(&q->cq)), op_own == 0);
		cqe = take(q);
		assert_int_equal(dv_cqe_qpn(cqe), QUEUE_QPN);
		assert_int_equal(dv_cqe_counter(cqe), 0x1234);
	}
}

static void each_kind_of_entry_has_its_scope(void **state)
{
	static const struct { uint8_t opcode, scope; bool names_wqe; uint16_t rule; } rows[] = {
		{ MLX5_CQE_RESP_WR_IMM, DV_SCOPE_CONNECTION, false, TENT_RULE_PEER_LOST },
		{ MLX5_CQE_RESP_SEND, DV_SCOPE_CONNECTION, false, TENT_RULE_PEER_LOST },
		{ MLX5_CQE_RESP_SEND_IMM, DV_SCOPE_CONNECTION, false, TENT_RULE_PEER_LOST },
		{ MLX5_CQE_RESP_SEND_INV, DV_SCOPE_CONNECTION, false, TENT_RULE_PEER_LOST },
		{ MLX5_CQE_RESIZE_CQ, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ MLX5_CQE_NO_PACKET, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ 7, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ 8, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ 9, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ 10, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ 11, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ MLX5_CQE_SIG_ERR, DV_SCOPE_DEVICE, false, TENT_RULE_CARD },
		{ MLX5_CQE_RESP_ERR, DV_SCOPE_CONNECTION, false, TENT_RULE_PEER_LOST },
	};
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0);
	for (size_t i = 0; i < NR(rows); i++) {
		const struct dv_fault *f = dv_fault_of(entry_of(q, (uint8_t)(rows[i].opcode << 4)));

		assert_int_equal(f->scope, rows[i].scope);
		assert_int_equal(f->names_wqe, rows[i].names_wqe);
		assert_int_equal(f->rule, rows[i].rule);
		assert_true(strlen(f->text) > 10);
	}
}

/* What is scattered into an entry would be lost: it is off, and an error if it comes. */
static void data_or_more_completions_in_an_entry_are_an_error_of_the_card(void **state)
{
	static const uint8_t formats[] = { 0x4, 0x8, 0xc };
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0);
	for (size_t i = 0; i < NR(formats); i++) {
		const struct dv_fault *f = dv_fault_of(entry_of(q, formats[i]));

		assert_int_equal(f->scope, DV_SCOPE_DEVICE);
		assert_true(f->names_wqe);
	}
}

static const struct { uint8_t syndrome, scope; uint16_t rule; } syndromes[] = {
	{ 0x01, DV_SCOPE_REQUEST, TENT_RULE_CARD },		/* local length */
	{ 0x02, DV_SCOPE_CONNECTION, TENT_RULE_CARD },		/* local QP operation */
	{ 0x04, DV_SCOPE_REQUEST, TENT_RULE_SOURCE_GONE },	/* local protection */
	{ 0x05, DV_SCOPE_CONNECTION, TENT_RULE_NONE },		/* flushed */
	{ 0x06, DV_SCOPE_DEVICE, TENT_RULE_CARD },		/* memory window bind */
	{ 0x10, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* bad response */
	{ 0x11, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* local access */
	{ 0x12, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* remote invalid request */
	{ 0x13, DV_SCOPE_REQUEST, TENT_RULE_TARGET_GONE },	/* remote access */
	{ 0x14, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* remote operation */
	{ 0x15, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* retries exceeded */
	{ 0x16, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* RNR retries exceeded */
	{ 0x22, DV_SCOPE_CONNECTION, TENT_RULE_PEER_LOST },	/* remote aborted */
};

static void each_syndrome_has_its_scope_and_rule_and_all_others_the_wide_ones(void **state)
{
	struct dv_queue *q = *state;
	size_t known = 0;

	dv_queue_seek(q, 0, 0);
	for (uint32_t s = 0; s < 256; s++) {
		bool is_known = known < NR(syndromes) && syndromes[known].syndrome == s;
		const struct mlx5_cqe64 *cqe;
		const struct dv_fault *f;

		dv_queue_fail(q, 7, (uint8_t)s);
		cqe = take(q);
		f = dv_fault_of(cqe);
		assert_int_equal(f->scope, is_known ? syndromes[known].scope : DV_SCOPE_DEVICE);
		assert_int_equal(f->rule, is_known ? syndromes[known].rule : TENT_RULE_CARD);
		assert_true(f->names_wqe);
		known += is_known;
	}
	assert_int_equal(known, NR(syndromes));
}

static void an_error_is_one_sentence_with_its_queue_and_numbers(void **state)
{
	struct dv_queue *q = *state;
	const struct mlx5_cqe64 *cqe;
	char text[200];

	dv_queue_seek(q, 0, 0);
	dv_queue_fail(q, 7, 0x15);
	cqe = take(q);
	dv_fault_describe(dv_fault_of(cqe), cqe, text, sizeof(text));
	assert_string_equal(text, "WRITE of QP 0x123456, block 7: the peer's card does not answer "
			    "(syndrome 0x15, vendor 0x88)");
	cqe = entry_of(q, MLX5_CQE_SIG_ERR << 4);
	dv_fault_describe(dv_fault_of(cqe), cqe, text, sizeof(text));
	assert_string_equal(text, "completion of QP 0x123456, block 4660: a signature error, and "
			    "nothing is signed (op_own 0xc0)");
	dv_fault_describe(dv_fault_of(cqe), cqe, text, 10);
	assert_string_equal(text, "completio");
}

/* ---- what it retires ------------------------------------------------------- */

/* Of the next run, a letter for each WQE: good, or bad. */
static const char *next_run(struct dv_queue *q, struct dv_run *r)
{
	static char letters[BLOCKS + 1];
	struct dv_op op;
	uint32_t n = 0;

	if (!dv_run_next(&q->cq, &q->sq, r))
		return NULL;
	while (dv_run_op(&q->sq, r, &op)) {
		assert_true(!op.fault || op.fault == r->fault);
		assert_int_equal(op.length, 64);
		letters[n++] = op.fault ? 'b' : 'g';
	}
	letters[n] = 0;
	return letters;
}

static void one_completion_retires_a_run(void **state)
{
	struct dv_queue *q = *state;
	struct dv_run r;

	dv_queue_seek(q, 65530, 0u - 2);
	post(q, 10);
	assert_null(next_run(q, &r));
	dv_queue_complete(q, (uint16_t)(65530 + 3));
	assert_string_equal(next_run(q, &r), "gggg");
	dv_queue_complete(q, (uint16_t)(65530 + 9));
	assert_string_equal(next_run(q, &r), "gggggg");
	assert_null(r.fault);
	assert_null(next_run(q, &r));
	assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS);
}

static void before_an_error_all_ended_well_and_behind_it_none(void **state)
{
	struct dv_queue *q = *state;
	struct dv_run r;

	dv_queue_seek(q, 0, 0);
	post(q, 10);
	dv_queue_fail(q, 2, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	for (uint16_t i = 3; i < 10; i++)
		dv_queue_fail(q, i, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_string_equal(next_run(q, &r), "ggb");
	assert_int_equal(r.fault->scope, DV_SCOPE_REQUEST);
	for (uint16_t i = 3; i < 10; i++) {
		assert_string_equal(next_run(q, &r), "b");
		assert_int_equal(r.fault->rule, TENT_RULE_NONE);
	}
	assert_null(next_run(q, &r));
	assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS);
}

static void a_card_that_flushes_many_with_one_entry_says_well_of_none(void **state)
{
	struct dv_queue *q = *state;
	struct dv_run r;

	dv_queue_seek(q, 0, 0);
	post(q, 10);
	dv_queue_fail(q, 0, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	dv_queue_fail(q, 9, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_string_equal(next_run(q, &r), "b");
	assert_string_equal(next_run(q, &r), "bbbbbbbbb");
}

static void credits_return_whichever_wqe_fails(void **state)
{
	struct dv_queue *q = *state;
	struct dv_run r;

	for (uint16_t bad = 0; bad < BLOCKS; bad++) {
		uint32_t retired = 0;
		const char *letters;

		dv_queue_seek(q, 0u - 30, 0u - 30);
		post(q, BLOCKS);
		for (uint16_t i = bad; i < BLOCKS; i++)
			dv_queue_fail(q, (uint16_t)(i - 30), i == bad ? 0x13 : 0x05);
		while ((letters = next_run(q, &r)))
			retired += (uint32_t)strlen(letters);
		assert_int_equal(retired, BLOCKS);
		assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS);
	}
}

static void an_entry_about_no_wqe_of_ours_ends_the_card_and_retires_none(void **state)
{
	struct dv_queue *q = *state;
	struct dv_run r;

	for (int i = 0; i < 3; i++) {
		dv_queue_seek(q, 0, 0);
		post(q, 4);
		if (i == 0)
			dv_queue_complete(q, 4);
		else if (i == 1)
			dv_queue_fail(q, 4, 0x13);
		else
			dv_queue_entry(q, 2, MLX5_CQE_RESIZE_CQ << 4);
		assert_string_equal(next_run(q, &r), "");
		assert_int_equal(r.fault->scope, DV_SCOPE_DEVICE);
		assert_int_equal(q->sq.errors, 1);
		assert_int_equal(dv_sq_free_bb(&q->sq), BLOCKS - 4);
	}
}

/* ---- what the card is told ------------------------------------------------- */

static void the_record_has_24_bits_of_how_far_we_are(void **state)
{
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0x12345678);
	dv_cq_tell(&q->cq);
	assert_int_equal(be32toh(q->memory->cq_dbrec[0]), 0x345678);
}

static void arming_stores_record_and_register_with_the_number_of_events(void **state)
{
	static const uint8_t golden[8] = { 0x20, 0x34, 0x56, 0x78, 0, 0, 0, QUEUE_CQN };
	struct dv_queue *q = *state;

	dv_queue_seek(q, 0, 0x12345678);
	for (int i = 0; i < 6; i++)
		dv_cq_event(&q->cq);
	dv_cq_arm(&q->cq);
	assert_memory_equal(&q->memory->cq_dbrec[1], golden, 4);
	assert_memory_equal(q->memory->cq_uar + 0x20, golden, 8);
}

static void queues_of_odd_sizes_are_refused(void **state)
{
	static const struct { uint32_t nr, size; } rows[] = {
		{ 0, 64 }, { 100, 64 }, { 64, 32 }, { 64, 256 }, { 1 << 24, 64 },
	};
	struct dv_queue *q = *state;
	struct dv_cq cq;

	for (size_t i = 0; i < NR(rows); i++) {
		struct mlx5dv_cq dcq = q->dcq;

		dcq.cqe_cnt = rows[i].nr;
		dcq.cqe_size = rows[i].size;
		assert_int_equal(dv_cq_init(&cq, &dcq), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_queue_is_empty_whatever_was_in_its_memory),
		cmocka_unit_test(entries_are_taken_once_and_in_order_across_every_wrap),
		cmocka_unit_test(an_entry_that_the_card_is_still_writing_is_not_taken),
		cmocka_unit_test(success_is_one_value_of_op_own_and_no_other),
		cmocka_unit_test(each_kind_of_entry_has_its_scope),
		cmocka_unit_test(data_or_more_completions_in_an_entry_are_an_error_of_the_card),
		cmocka_unit_test(each_syndrome_has_its_scope_and_rule_and_all_others_the_wide_ones),
		cmocka_unit_test(an_error_is_one_sentence_with_its_queue_and_numbers),
		cmocka_unit_test(one_completion_retires_a_run),
		cmocka_unit_test(before_an_error_all_ended_well_and_behind_it_none),
		cmocka_unit_test(a_card_that_flushes_many_with_one_entry_says_well_of_none),
		cmocka_unit_test(credits_return_whichever_wqe_fails),
		cmocka_unit_test(an_entry_about_no_wqe_of_ours_ends_the_card_and_retires_none),
		cmocka_unit_test(the_record_has_24_bits_of_how_far_we_are),
		cmocka_unit_test(arming_stores_record_and_register_with_the_number_of_events),
		cmocka_unit_test(queues_of_odd_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
