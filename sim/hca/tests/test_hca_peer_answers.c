/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_peer_answers.c - what a card does when the peer, that this test plays, answers
 * its requests wrongly, late, twice or never.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/stage.h"

enum { SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE };

static void post(struct stage *s, uint8_t opcode, uint32_t bytes)
{
	struct fabric_sge sge = { fabric_address(&s->memory, 0), bytes, s->memory.key };

	fabric_post(s->qp, &(struct fabric_wr) {
		.opcode = opcode, .fm_ce_se = SIGNALED, .sge = &sge, .nr_sge = 1,
		.rkey = 0x1234, .remote_address = 0x10000,
	});
}

static void acknowledge(struct stage *s, uint32_t psn, uint8_t syndrome)
{
	stage_inject(s, (struct hca_packet) { .opcode = HCA_ACKNOWLEDGE, .psn = psn,
					.syndrome = syndrome });
}

static void expect_completion(struct stage *s, uint8_t opcode, uint16_t index, uint8_t syndrome)
{
	struct fabric_cqe c;

	assert_true(fabric_poll(s->qp->send_cq, &c));
	assert_int_equal(c.opcode, opcode);
	assert_int_equal(c.wqe_counter, index);
	assert_int_equal(c.syndrome, syndrome);
}

static void expect_no_completion(struct stage *s)
{
	struct fabric_cqe c;

	assert_false(fabric_poll(s->qp->send_cq, &c));
}

static void nak_in_mid_message_resends_from_there(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	post(s, MLX5_OPCODE_RDMA_WRITE, 4 * STAGE_MTU);
	stage_expect_request(s, HCA_WRITE_FIRST, 0);
	stage_expect_request(s, HCA_WRITE_MIDDLE, 1);
	stage_expect_request(s, HCA_WRITE_MIDDLE, 2);
	assert_true(stage_expect_request(s, HCA_WRITE_LAST, 3)->ack_request);
	acknowledge(s, 2, HCA_AETH_NAK_SEQUENCE);
	stage_expect_request(s, HCA_WRITE_MIDDLE, 2);
	assert_true(stage_expect_request(s, HCA_WRITE_LAST, 3)->ack_request);
	stage_expect_silence(s);
	expect_no_completion(s);
	acknowledge(s, 3, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	stage_destroy(s);
}

static void naks_without_progress_run_out(void **state)
{
	struct fabric_path path = fabric_usual;
	struct stage *s;

	(void)state;
	path.retries = 2;
	s = stage_create(&path);
	post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	for (uint32_t i = 0; i < 3; i++) {
		stage_expect_request(s, HCA_WRITE_ONLY, 0);
		acknowledge(s, 0, HCA_AETH_NAK_SEQUENCE);
	}
	stage_expect_silence(s);
	expect_completion(s, MLX5_CQE_REQ_ERR, 0, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	stage_expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

static void one_acknowledgement_ends_all_before_it(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	acknowledge(s, 3, HCA_AETH_ACK);
	for (uint16_t i = 0; i < 4; i++)
		expect_completion(s, MLX5_CQE_REQ, i, 0);
	expect_no_completion(s);
	stage_destroy(s);
}

static void stale_and_ghost_acknowledgements_do_nothing(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	acknowledge(s, 0, HCA_AETH_ACK);
	acknowledge(s, 0, HCA_AETH_NAK_REMOTE_ACCESS);
	post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	stage_expect_request(s, HCA_WRITE_ONLY, 0);
	acknowledge(s, -1U, HCA_AETH_NAK_SEQUENCE);
	acknowledge(s, 1, HCA_AETH_ACK);
	acknowledge(s, 1, HCA_AETH_NAK_REMOTE_ACCESS);
	acknowledge(s, 0, 0x7f);		/* a reserved NAK */
	acknowledge(s, 0, 0x40);		/* a reserved class */
	stage_inject(s, (struct hca_packet) { .opcode = HCA_READ_RESPONSE_ONLY, .psn = 1 });
	stage_expect_silence(s);
	expect_no_completion(s);
	acknowledge(s, 0, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	stage_expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

static void each_nak_has_its_syndrome(void **state)
{
	static const struct { uint8_t aeth, syndrome; } naks[] = {
		{ HCA_AETH_NAK_INVALID_REQUEST, MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR },
		{ HCA_AETH_NAK_REMOTE_ACCESS, MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR },
		{ HCA_AETH_NAK_REMOTE_OPERATION, MLX5_CQE_SYNDROME_REMOTE_OP_ERR },
	};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct stage *s = stage_create(NULL);

		for (uint32_t n = 0; n < 4; n++)
			post(s, MLX5_OPCODE_RDMA_WRITE, 8);
		acknowledge(s, 1, naks[i].aeth);
		expect_completion(s, MLX5_CQE_REQ, 0, 0);
		expect_completion(s, MLX5_CQE_REQ_ERR, 1, naks[i].syndrome);
		expect_completion(s, MLX5_CQE_REQ_ERR, 2, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		expect_completion(s, MLX5_CQE_REQ_ERR, 3, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		expect_no_completion(s);
		stage_expect_state(s, HCA_QP_ERR);
		post(s, MLX5_OPCODE_RDMA_WRITE, 8);
		expect_completion(s, MLX5_CQE_REQ_ERR, 4, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		stage_destroy(s);
	}
}

static void receiver_not_ready_is_waited_for(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	post(s, MLX5_OPCODE_SEND, 8);
	stage_expect_request(s, HCA_SEND_ONLY, 0);
	acknowledge(s, 0, HCA_AETH_RNR_NAK | 14);	/* 1.28 ms */
	post(s, MLX5_OPCODE_SEND, 8);
	fabric_run(s->f, 1270 * 1000);
	stage_expect_silence(s);
	fabric_run(s->f, 20 * 1000);
	stage_expect_request(s, HCA_SEND_ONLY, 0);
	stage_expect_request(s, HCA_SEND_ONLY, 1);
	stage_expect_silence(s);
	stage_destroy(s);
}

static void acknowledgement_while_waiting_spares_what_it_covers(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	post(s, MLX5_OPCODE_RDMA_WRITE, 3 * STAGE_MTU);
	acknowledge(s, 0, HCA_AETH_RNR_NAK | 14);
	acknowledge(s, 1, HCA_AETH_ACK);
	s->seen = s->f->nr_logged;
	fabric_run(s->f, 2000 * 1000);
	stage_expect_request(s, HCA_WRITE_LAST, 2);
	stage_expect_silence(s);
	stage_destroy(s);
}

static void wqe_that_changed_since_is_not_sent_again(void **state)
{
	static const uint8_t offsets[] = { 3, 7, 35 };	/* opcode, size, length */

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct stage *s = stage_create(NULL);

		post(s, MLX5_OPCODE_RDMA_WRITE, 8);
		post(s, MLX5_OPCODE_RDMA_WRITE, 8);
		s->seen = s->f->nr_logged;
		s->qp->buffer[offsets[i]]++;
		acknowledge(s, 0, HCA_AETH_NAK_SEQUENCE);
		stage_expect_silence(s);
		expect_completion(s, MLX5_CQE_REQ_ERR, 0, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
		stage_expect_state(s, HCA_QP_ERR);
		stage_destroy(s);
	}
}

static void respond(struct stage *s, uint8_t opcode, uint32_t psn, uint32_t n)
{
	stage_inject(s, (struct hca_packet) { .opcode = opcode, .psn = psn, .length = n,
					.syndrome = HCA_AETH_ACK });
}

static void missing_response_is_asked_for_again(void **state)
{
	struct stage *s = stage_create(NULL);
	const struct hca_packet *p;

	(void)state;
	post(s, MLX5_OPCODE_RDMA_READ, 5 * STAGE_MTU);
	p = stage_expect_request(s, HCA_READ_REQUEST, 0);
	assert_int_equal(p->dma_length, 5 * STAGE_MTU);
	respond(s, HCA_READ_RESPONSE_FIRST, 0, STAGE_MTU);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 2, STAGE_MTU);
	p = stage_expect_request(s, HCA_READ_REQUEST, 1);
	assert_int_equal(p->dma_length, 4 * STAGE_MTU);
	assert_int_equal(p->remote_address, 0x10000 + STAGE_MTU);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 3, STAGE_MTU);
	respond(s, HCA_READ_RESPONSE_FIRST, 0, STAGE_MTU);
	stage_expect_silence(s);
	respond(s, HCA_READ_RESPONSE_FIRST, 1, STAGE_MTU);
	stage_expect_silence(s);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 3, STAGE_MTU);	/* and the next is lost again */
	p = stage_expect_request(s, HCA_READ_REQUEST, 2);
	assert_int_equal(p->dma_length, 3 * STAGE_MTU);
	respond(s, HCA_READ_RESPONSE_FIRST, 2, STAGE_MTU);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 3, STAGE_MTU);
	expect_no_completion(s);
	respond(s, HCA_READ_RESPONSE_LAST, 4, STAGE_MTU);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	stage_expect_silence(s);
	stage_destroy(s);
}

static void acknowledgement_past_a_read_asks_for_it_again(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	post(s, MLX5_OPCODE_RDMA_READ, 8);
	post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	stage_expect_request(s, HCA_WRITE_ONLY, 0);
	stage_expect_request(s, HCA_READ_REQUEST, 1);
	stage_expect_request(s, HCA_WRITE_ONLY, 2);
	acknowledge(s, 2, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	expect_no_completion(s);
	stage_expect_request(s, HCA_READ_REQUEST, 1);
	stage_expect_request(s, HCA_WRITE_ONLY, 2);
	respond(s, HCA_READ_RESPONSE_ONLY, 1, 8);
	expect_completion(s, MLX5_CQE_REQ, 1, 0);
	acknowledge(s, 2, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 2, 0);
	stage_expect_silence(s);
	stage_destroy(s);
}

/* Two, and the next when one is done: of READs that take pieces, of atomics, and of what is
 * sent again. */
static void no_more_reads_than_agreed_are_on_their_way(void **state)
{
	struct fabric_path path = fabric_usual;
	uint32_t piece = 32 * STAGE_MTU;	/* HCA_READ_PACKETS */
	struct stage *s;

	(void)state;
	path.max_reads = 2;
	path.mtu = STAGE_MTU;
	s = stage_create(&path);
	post(s, MLX5_OPCODE_ATOMIC_FA, 8);
	post(s, MLX5_OPCODE_RDMA_READ, piece + 8);
	post(s, MLX5_OPCODE_ATOMIC_FA, 8);
	stage_expect_request(s, HCA_FETCH_ADD, 0);
	stage_expect_request(s, HCA_READ_REQUEST, 1);
	stage_expect_silence(s);
	fabric_run(s->f, (4096ULL << 14) + 1000);
	stage_expect_request(s, HCA_FETCH_ADD, 0);
	stage_expect_request(s, HCA_READ_REQUEST, 1);
	stage_expect_silence(s);
	respond(s, HCA_ATOMIC_ACKNOWLEDGE, 0, 0);
	stage_expect_request(s, HCA_READ_REQUEST, 33);
	stage_expect_silence(s);
	respond(s, HCA_READ_RESPONSE_FIRST, 1, STAGE_MTU);
	stage_expect_silence(s);
	for (uint32_t psn = 2; psn <= 32; psn++)
		respond(s, psn < 32 ? HCA_READ_RESPONSE_MIDDLE : HCA_READ_RESPONSE_LAST, psn,
			STAGE_MTU);
	stage_expect_request(s, HCA_FETCH_ADD, 34);
	stage_expect_silence(s);
	stage_destroy(s);
}

static void check_bad_response(uint8_t opcode, uint8_t response, uint32_t n)
{
	struct stage *s = stage_create(NULL);

	post(s, opcode, 8);
	respond(s, response, 0, n);
	expect_completion(s, MLX5_CQE_REQ_ERR, 0, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	stage_expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

static void response_that_does_not_fit_is_bad(void **state)
{
	(void)state;
	check_bad_response(MLX5_OPCODE_RDMA_READ, HCA_READ_RESPONSE_ONLY, 7);
	check_bad_response(MLX5_OPCODE_RDMA_READ, HCA_READ_RESPONSE_ONLY, 9);
	check_bad_response(MLX5_OPCODE_RDMA_READ, HCA_ATOMIC_ACKNOWLEDGE, 0);
	check_bad_response(MLX5_OPCODE_RDMA_WRITE, HCA_READ_RESPONSE_ONLY, 8);
	check_bad_response(MLX5_OPCODE_ATOMIC_FA, HCA_READ_RESPONSE_ONLY, 8);
}

static void region_that_goes_while_reading_is_a_local_error(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_region gone = fabric_region_create(s->host, 4096, 1);
	struct fabric_sge sge = { fabric_address(&gone, 0), 8, gone.key };

	(void)state;
	fabric_post(s->qp, &(struct fabric_wr) { .opcode = MLX5_OPCODE_RDMA_READ, .sge = &sge,
						 .nr_sge = 1 });
	fabric_region_destroy(&gone);
	respond(s, HCA_READ_RESPONSE_ONLY, 0, 8);
	expect_completion(s, MLX5_CQE_REQ_ERR, 0, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	stage_expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

static void silence_is_retried_from_the_oldest(void **state)
{
	struct stage *s = stage_create(NULL);
	uint64_t timeout_ns = 4096ULL << 14;

	(void)state;
	post(s, MLX5_OPCODE_RDMA_WRITE, 3 * STAGE_MTU);
	acknowledge(s, 0, HCA_AETH_ACK);
	s->seen = s->f->nr_logged;
	fabric_run(s->f, timeout_ns - 1000);
	stage_expect_silence(s);
	fabric_run(s->f, 2000);
	stage_expect_request(s, HCA_WRITE_MIDDLE, 1);
	stage_expect_request(s, HCA_WRITE_LAST, 2);
	/* What comes after all acknowledges what is sent again. */
	acknowledge(s, 2, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	fabric_run(s->f, 10 * timeout_ns);
	stage_expect_silence(s);
	stage_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nak_in_mid_message_resends_from_there),
		cmocka_unit_test(naks_without_progress_run_out),
		cmocka_unit_test(one_acknowledgement_ends_all_before_it),
		cmocka_unit_test(stale_and_ghost_acknowledgements_do_nothing),
		cmocka_unit_test(each_nak_has_its_syndrome),
		cmocka_unit_test(receiver_not_ready_is_waited_for),
		cmocka_unit_test(acknowledgement_while_waiting_spares_what_it_covers),
		cmocka_unit_test(wqe_that_changed_since_is_not_sent_again),
		cmocka_unit_test(missing_response_is_asked_for_again),
		cmocka_unit_test(acknowledgement_past_a_read_asks_for_it_again),
		cmocka_unit_test(no_more_reads_than_agreed_are_on_their_way),
		cmocka_unit_test(response_that_does_not_fit_is_bad),
		cmocka_unit_test(region_that_goes_while_reading_is_a_local_error),
		cmocka_unit_test(silence_is_retried_from_the_oldest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
