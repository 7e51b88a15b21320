/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_peer.c - what a card answers to a peer that this test plays: what it must never
 * send, what it sends twice, what it leaves out. Every reply is compared, and the queue
 * pair's state.
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

/* ---- requests that are in order --------------------------------------------------- */

static void write_in_order_is_acknowledged(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	stage_inject(s, stage_write_packet(s, HCA_WRITE_FIRST, 0, STAGE_MTU, 2 * STAGE_MTU + 3));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_MIDDLE, 1, STAGE_MTU, 0));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_ACK);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_LAST, 2, 3, 0));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 2, HCA_AETH_ACK);
	assert_int_equal(fabric_sent(s->f, 0)->msn, 1);
	assert_memory_equal(s->memory.bytes, s->payload, STAGE_MTU);
	assert_memory_equal(s->memory.bytes + 2 * STAGE_MTU, s->payload, 3);
	assert_int_equal(s->memory.bytes[2 * STAGE_MTU + 3], 0);
	stage_destroy(s);
}

static void packet_that_asks_for_nothing_gets_nothing(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

	(void)state;
	p.ack_request = false;
	stage_inject(s, p);
	assert_memory_equal(s->memory.bytes, s->payload, 8);
	stage_expect_silence(s);
	stage_destroy(s);
}

static void empty_requests_need_no_key(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 0, 0);

	(void)state;
	p.rkey = 0xdead;
	stage_inject(s, p);
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	p = stage_read_packet(s, 1, 0, 0);
	p.rkey = 0xdead;
	stage_inject(s, p);
	stage_expect_answer(s, HCA_READ_RESPONSE_ONLY, 1, HCA_AETH_ACK);
	stage_destroy(s);
}

/* ---- PSNs ------------------------------------------------------------------------- */

static void duplicate_is_acknowledged_and_has_no_effect(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, i, 8, 8));
		stage_expect_answer(s, HCA_ACKNOWLEDGE, (int32_t)i, HCA_AETH_ACK);
	}
	memset(s->memory.bytes, 'm', 8);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 1, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 3, HCA_AETH_ACK);
	assert_memory_equal(s->memory.bytes, "mmmmmmmm", 8);
	assert_int_equal(s->host->counters.duplicates, 1);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 4, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 4, HCA_AETH_ACK);
	stage_expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

static void stale_psn_counts_as_duplicate(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, -(1U << 22), 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, -1, HCA_AETH_ACK);
	assert_int_equal(s->memory.bytes[0], 0);
	stage_inject(s, stage_read_packet(s, -1U, 0, 8));
	stage_expect_silence(s);
	stage_expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

static void gap_is_reported_once(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 2, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_NAK_SEQUENCE);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 3, 8, 8));
	stage_inject(s, stage_read_packet(s, 4, 0, 8));
	stage_expect_silence(s);
	assert_int_equal(s->memory.bytes[0], 0);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 3, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_NAK_SEQUENCE);
	assert_int_equal(s->host->counters.out_of_sequence, 4);
	stage_expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

/* ---- what is refused -------------------------------------------------------------- */

static void check_refused(struct stage *s, struct hca_packet p, uint8_t syndrome,
			  enum hca_event event)
{
	uint32_t psn = p.psn;

	stage_inject(s, p);
	stage_expect_answer(s, HCA_ACKNOWLEDGE, (int32_t)psn, syndrome);
	stage_expect_state(s, HCA_QP_ERR);
	assert_true(fabric_has_event(s->host, event));
	/* And that was the last it has to say. */
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, psn, 8, 8));
	stage_expect_silence(s);
	stage_destroy(s);
}

static void wrong_keys_are_access_errors(void **state)
{
	static const struct { int32_t key, address, length; } wrong[] = {
		{ 1, 0, 0 }, { 0, -1, 0 }, { 0, (1 << 16) - 7, 0 }, { 0, 1 << 20, 0 },
		{ 0, 0, 1 << 16 }, { 0x100, 0, 0 },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct stage *s = stage_create(NULL);
		struct hca_packet p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

		if (wrong[i].length)
			p = stage_write_packet(s, HCA_WRITE_FIRST, 0, STAGE_MTU,
					       (uint32_t)wrong[i].length + 1);
		p.rkey += (uint32_t)wrong[i].key;
		p.remote_address += (uint64_t)(int64_t)wrong[i].address;
		check_refused(s, p, HCA_AETH_NAK_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERROR);
	}
}

static void keys_without_the_right_are_access_errors(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct stage *s = stage_create(NULL);
		struct hca_packet p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

		assert_int_equal(hca_mr_change(s->memory.mr, NULL, 15 & ~(2 << i), NULL, 0, 0), 0);
		if (i == 1)
			p = stage_read_packet(s, 0, 0, 8);
		else if (i == 2)
			p = (struct hca_packet) { .opcode = HCA_FETCH_ADD, .rkey = p.rkey,
						  .remote_address = p.remote_address };
		check_refused(s, p, HCA_AETH_NAK_REMOTE_ACCESS, HCA_EVENT_QP_ACCESS_ERROR);
	}
}

static void key_of_another_domain_is_an_access_error(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_pd *other;

	(void)state;
	assert_int_equal(hca_pd_create(s->host->hca, &other), 0);
	assert_int_equal(hca_mr_change(s->memory.mr, other, -1, NULL, 0, 0), 0);
	check_refused(s, stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8), HCA_AETH_NAK_REMOTE_ACCESS,
		      HCA_EVENT_QP_ACCESS_ERROR);
}

static void queue_pair_without_the_right_refuses_the_request(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct fabric_path path = fabric_usual;
		struct hca_packet p;
		struct stage *s;

		path.access &= ~(2U << i);
		s = stage_create(&path);
		p = i ? stage_read_packet(s, 0, 0, 8)
		      : stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);
		if (i == 2) {
			p.opcode = HCA_COMPARE_SWAP;
			p.dma_length = 0;
		}
		check_refused(s, p, HCA_AETH_NAK_INVALID_REQUEST, HCA_EVENT_QP_REQUEST_ERROR);
	}
}

static void malformed_messages_are_invalid_requests(void **state)
{
	static const struct { uint8_t before, opcode; uint32_t n, whole; } wrong[] = {
		{ 0xff, HCA_WRITE_MIDDLE, STAGE_MTU, 0 },
		{ 0xff, HCA_SEND_LAST, 8, 0 },
		{ 0xff, HCA_WRITE_FIRST, STAGE_MTU - 1, 3 * STAGE_MTU },
		{ 0xff, HCA_WRITE_ONLY, STAGE_MTU + 1, STAGE_MTU + 1 },
		{ 0xff, HCA_WRITE_ONLY, 8, 9 },
		{ 0xff, HCA_WRITE_ONLY, 9, 8 },
		{ 0xff, HCA_WRITE_FIRST, STAGE_MTU, STAGE_MTU },
		{ HCA_WRITE_FIRST, HCA_WRITE_LAST, 0, 0 },
		{ HCA_WRITE_FIRST, HCA_WRITE_LAST, 9, 0 },
		{ HCA_WRITE_FIRST, HCA_WRITE_ONLY, 8, 8 },
		{ HCA_WRITE_FIRST, HCA_SEND_LAST, 8, 0 },
		{ HCA_WRITE_FIRST, HCA_READ_REQUEST, 0, 8 },
		{ 0xff, 0x15, 0, 0 }, { 0xff, 0x1f, 0, 0 },
		{ 0xff, HCA_WRITE_FIRST, STAGE_MTU, (1 << 30) + 1 },
		{ 0xff, HCA_READ_REQUEST, 0, (1 << 30) + 1 },
		{ 0xff, HCA_READ_REQUEST, 1, 8 },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct stage *s = stage_create(NULL);
		uint32_t psn = 0;

		if (wrong[i].before != 0xff) {
			stage_inject(s, stage_write_packet(s, wrong[i].before, psn++, STAGE_MTU,
							   STAGE_MTU + 8));
			stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
		}
		check_refused(
			s, stage_write_packet(s, wrong[i].opcode, psn, wrong[i].n, wrong[i].whole),
			HCA_AETH_NAK_INVALID_REQUEST, HCA_EVENT_QP_REQUEST_ERROR);
	}
}

static void unaligned_atomic_is_an_invalid_request(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	check_refused(s, (struct hca_packet) {
		.opcode = HCA_FETCH_ADD, .rkey = s->memory.key,
		.remote_address = fabric_address(&s->memory, 4),
	}, HCA_AETH_NAK_INVALID_REQUEST, HCA_EVENT_QP_REQUEST_ERROR);
}

static void reads_need_room_to_be_remembered(void **state)
{
	struct fabric_path path = fabric_usual;
	struct stage *s;

	(void)state;
	path.max_reads = 0;
	s = stage_create(&path);
	check_refused(s, stage_read_packet(s, 0, 0, 8), HCA_AETH_NAK_INVALID_REQUEST,
		      HCA_EVENT_QP_REQUEST_ERROR);
}

static void foreign_packets_are_ignored(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

	(void)state;
	p.pkey = 0x1234;
	stage_inject(s, p);
	p.pkey = 0xffff;
	p.opcode = HCA_UD | HCA_SEND_ONLY;
	stage_inject(s, p);
	p.opcode = 0x20 | HCA_WRITE_ONLY;	/* unreliable connection */
	stage_inject(s, p);
	p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);
	p.pkey = 0xffff;
	p.psn = STAGE_RQ_PSN;
	p.dest_qpn = s->qp->qpn + 1;
	hca_receive(s->host->hca, &p);
	p.dest_qpn = 0xffffff;
	hca_receive(s->host->hca, &p);
	stage_expect_silence(s);
	stage_expect_state(s, HCA_QP_RTS);
	assert_int_equal(s->memory.bytes[0], 0);
	stage_destroy(s);
}

/* From another address: neither requests nor answers are taken. */
static void check_ignored(struct stage *s, struct hca_route from)
{
	struct hca_packet p = stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);
	struct fabric_sge sge = { fabric_address(&s->memory, 64), 8, s->memory.key };
	struct fabric_cqe c;

	p.route = from;
	stage_inject(s, p);
	stage_expect_silence(s);
	assert_int_equal(s->memory.bytes[0], 0);
	fabric_post(s->qp, &(struct fabric_wr) {
		.opcode = MLX5_OPCODE_RDMA_WRITE, .fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE,
		.sge = &sge, .nr_sge = 1 });
	stage_expect_request(s, HCA_WRITE_ONLY, 0);
	p = (struct hca_packet) { .opcode = HCA_ACKNOWLEDGE, .syndrome = HCA_AETH_ACK };
	p.route = from;
	stage_inject(s, p);
	assert_false(fabric_poll(s->qp->send_cq, &c));
	p.route.port = 0;			/* the peer's own */
	stage_inject(s, p);
	assert_true(fabric_poll(s->qp->send_cq, &c));
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	stage_destroy(s);
}

static void nobody_but_the_peer_is_heard(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_route from = fabric_route_of_peer(s->qp);

	(void)state;
	from.sgid[15]++;
	check_ignored(s, from);
	s = stage_create_ib();
	from = fabric_route_of_peer(s->qp);
	from.slid++;
	check_ignored(s, from);
}

/* ---- receives --------------------------------------------------------------------- */

static struct hca_packet send_packet(uint8_t opcode, uint32_t psn, uint32_t n)
{
	return (struct hca_packet) { .opcode = opcode, .psn = psn, .length = n,
				     .ack_request = true };
}

static void post_receive(struct stage *s, uint32_t n, uint32_t key)
{
	struct fabric_sge sge = { fabric_address(&s->memory, 0), n, key };

	fabric_post_recv(s->qp, &sge, 1);
}

static void send_without_receive_is_put_off(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_cqe c;

	(void)state;
	stage_inject(s, send_packet(HCA_SEND_ONLY, 0, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_RNR_NAK | 12);
	stage_inject(s, send_packet(HCA_SEND_ONLY, 1, 8));
	stage_expect_silence(s);
	post_receive(s, 8, s->memory.key);
	stage_inject(s, send_packet(HCA_SEND_ONLY, 0, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	stage_inject(s, send_packet(HCA_SEND_ONLY, 1, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_RNR_NAK | 12);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.opcode, MLX5_CQE_RESP_SEND);
	assert_int_equal(c.byte_count, 8);
	assert_false(fabric_poll(s->qp->recv_cq, &c));
	stage_destroy(s);
}

static void last_write_packet_with_immediate_may_be_put_off(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_cqe c;

	(void)state;
	stage_inject(s, stage_write_packet(s, HCA_WRITE_FIRST, 0, STAGE_MTU, STAGE_MTU + 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_LAST_IMM, 1, 8, 0));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_RNR_NAK | 12);
	assert_int_equal(s->memory.bytes[STAGE_MTU], 0);
	post_receive(s, 8, 0);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_LAST_IMM, 1, 8, 0));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_ACK);
	assert_memory_equal(s->memory.bytes + STAGE_MTU, s->payload, 8);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.byte_count, STAGE_MTU + 8);
	stage_destroy(s);
}

static void check_bad_receive(uint32_t room, bool has_key, uint8_t aeth, uint8_t syndrome)
{
	struct stage *s = stage_create(NULL);
	struct fabric_cqe c;

	post_receive(s, room, has_key ? s->memory.key : 0x777700);
	post_receive(s, room, s->memory.key);
	stage_inject(s, send_packet(HCA_SEND_FIRST, 0, STAGE_MTU));
	if (room >= STAGE_MTU && has_key) {
		stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
		stage_inject(s, send_packet(HCA_SEND_LAST, 1, 8));
	}
	stage_expect_answer(s, HCA_ACKNOWLEDGE, room >= STAGE_MTU && has_key, aeth);
	stage_expect_state(s, HCA_QP_ERR);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.opcode, MLX5_CQE_RESP_ERR);
	assert_int_equal(c.syndrome, syndrome);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_int_equal(c.wqe_counter, 1);
	assert_false(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(s->host->nr_events, 0);
	stage_destroy(s);
}

static void message_that_fits_no_receive_fails_both(void **state)
{
	(void)state;
	check_bad_receive(100, true, HCA_AETH_NAK_INVALID_REQUEST,
			  MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	check_bad_receive(STAGE_MTU + 7, true, HCA_AETH_NAK_INVALID_REQUEST,
			  MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	check_bad_receive(4 * STAGE_MTU, false, HCA_AETH_NAK_REMOTE_OPERATION,
			  MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
}

static void key_that_may_not_be_invalidated_stays(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = send_packet(HCA_SEND_ONLY_INVALIDATE, 0, 8);
	struct fabric_cqe c;

	(void)state;
	post_receive(s, 100, s->memory.key);
	p.rkey = s->memory.key;
	stage_inject(s, p);
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_NAK_REMOTE_ACCESS);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.syndrome, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
	stage_expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

/* ---- what people ask for ---------------------------------------------------------- */

static void asked_for_nak_answers_the_chosen_request(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	s->host->faults.nak_at = 2;
	s->host->faults.nak_syndrome = HCA_AETH_RNR_NAK | 3;
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 0, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 1, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_RNR_NAK | 3);
	stage_inject(s, stage_write_packet(s, HCA_WRITE_ONLY, 1, 8, 8));
	stage_expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_ACK);
	s->host->faults.nak_at = 1;
	s->host->faults.nak_syndrome = HCA_AETH_NAK_REMOTE_OPERATION;
	check_refused(s, stage_write_packet(s, HCA_WRITE_ONLY, 2, 8, 8),
		      HCA_AETH_NAK_REMOTE_OPERATION, HCA_EVENT_QP_REQUEST_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_in_order_is_acknowledged),
		cmocka_unit_test(packet_that_asks_for_nothing_gets_nothing),
		cmocka_unit_test(empty_requests_need_no_key),
		cmocka_unit_test(duplicate_is_acknowledged_and_has_no_effect),
		cmocka_unit_test(stale_psn_counts_as_duplicate),
		cmocka_unit_test(gap_is_reported_once),
		cmocka_unit_test(wrong_keys_are_access_errors),
		cmocka_unit_test(keys_without_the_right_are_access_errors),
		cmocka_unit_test(key_of_another_domain_is_an_access_error),
		cmocka_unit_test(queue_pair_without_the_right_refuses_the_request),
		cmocka_unit_test(malformed_messages_are_invalid_requests),
		cmocka_unit_test(unaligned_atomic_is_an_invalid_request),
		cmocka_unit_test(reads_need_room_to_be_remembered),
		cmocka_unit_test(foreign_packets_are_ignored),
		cmocka_unit_test(nobody_but_the_peer_is_heard),
		cmocka_unit_test(send_without_receive_is_put_off),
		cmocka_unit_test(last_write_packet_with_immediate_may_be_put_off),
		cmocka_unit_test(message_that_fits_no_receive_fails_both),
		cmocka_unit_test(key_that_may_not_be_invalidated_stays),
		cmocka_unit_test(asked_for_nak_answers_the_chosen_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
