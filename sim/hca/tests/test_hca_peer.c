/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_peer.c - one card, and a peer that this test plays packet by packet: what it must
 * never send, what it sends twice, what it leaves out. Every reply is compared, and the
 * queue pair's state. PSNs wrap on the way.
 */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "sim/hca/tests/common/pair.h"

enum {
	MTU = 1024, PEER_QPN = 0x20005, SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE,
	RQ_PSN = 0xfffffe,		/* the peer's next */
	SQ_PSN = 0xfffffd,		/* ours */
};

struct stage {
	struct fabric *f;
	struct fabric_host *host;
	struct fabric_qp *qp;
	struct fabric_region memory;
	uint32_t seen;			/* packets of the log that were looked at */
	uint8_t payload[4096];
};

static struct stage *stage_create(const struct fabric_path *path)
{
	struct stage *s = calloc(1, sizeof(*s));

	s->f = fabric_create(true);
	s->f->is_cut = true;
	s->host = &s->f->host[0];
	s->qp = fabric_qp_create(s->host, &(struct fabric_qp_options) { .uidx = 1 });
	s->memory = fabric_region_create(s->host, 1 << 16, 15);
	fabric_connect_to(s->qp, PEER_QPN, RQ_PSN, SQ_PSN, path ? path : &fabric_usual);
	for (uint32_t i = 0; i < sizeof(s->payload); i++)
		s->payload[i] = (uint8_t)(i + 1);
	return s;
}

static void stage_destroy(struct stage *s)
{
	struct fabric_cq *send_cq = s->qp->send_cq, *recv_cq = s->qp->recv_cq;

	fabric_qp_destroy(s->qp);
	fabric_cq_destroy(send_cq);
	fabric_cq_destroy(recv_cq);
	fabric_region_destroy(&s->memory);
	fabric_destroy(s->f);
	free(s);
}

/* psn: added to RQ_PSN for requests; for acknowledgements and responses to SQ_PSN. */
static void inject(struct stage *s, struct hca_packet p)
{
	bool is_answer = p.opcode >= HCA_READ_RESPONSE_FIRST && p.opcode <= HCA_ATOMIC_ACKNOWLEDGE;

	p.dest_qpn = s->qp->qpn;
	p.pkey = p.pkey ? p.pkey : 0xffff;
	p.psn = (p.psn + (is_answer ? SQ_PSN : RQ_PSN)) & HCA_PSN_MASK;
	if (!p.payload)
		p.payload = s->payload;
	hca_receive(s->host->hca, &p);
}

static const struct hca_packet *next_sent(struct stage *s)
{
	if (s->seen == s->f->nr_logged)
		return NULL;
	return fabric_sent(s->f, s->f->nr_logged - ++s->seen);
}

static void expect_silence(struct stage *s)
{
	assert_null(next_sent(s));
}

/* psn: from RQ_PSN again. */
static void expect_answer(struct stage *s, uint8_t opcode, int32_t psn, uint8_t syndrome)
{
	const struct hca_packet *p = next_sent(s);

	assert_non_null(p);
	assert_int_equal(p->opcode, opcode);
	assert_int_equal(p->psn, (RQ_PSN + psn) & HCA_PSN_MASK);
	assert_int_equal(p->syndrome, syndrome);
	assert_int_equal(p->dest_qpn, PEER_QPN);
	assert_int_equal(p->pkey, 0xffff);
}

static const struct hca_packet *expect_request(struct stage *s, uint8_t opcode, uint32_t psn)
{
	const struct hca_packet *p = next_sent(s);

	assert_non_null(p);
	assert_int_equal(p->opcode, opcode);
	assert_int_equal(p->psn, (SQ_PSN + psn) & HCA_PSN_MASK);
	return p;
}

static struct hca_packet write_packet(struct stage *s, uint8_t opcode, uint32_t psn, uint32_t n,
				      uint32_t whole)
{
	return (struct hca_packet) {
		.opcode = opcode, .psn = psn, .length = n, .dma_length = whole,
		.remote_address = fabric_address(&s->memory, 0), .rkey = s->memory.key,
		.ack_request = true,
	};
}

static struct hca_packet read_packet(struct stage *s, uint32_t psn, uint32_t offset, uint32_t n)
{
	return (struct hca_packet) {
		.opcode = HCA_READ_REQUEST, .psn = psn, .dma_length = n, .rkey = s->memory.key,
		.remote_address = fabric_address(&s->memory, offset),
	};
}

static void expect_state(struct stage *s, enum hca_qp_state state)
{
	assert_int_equal(fabric_state(s->qp), state);
}

/* ---- requests that are in order ------------------------------------------------------- */

static void write_in_order_is_acknowledged(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	inject(s, write_packet(s, HCA_WRITE_FIRST, 0, MTU, 2 * MTU + 3));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	inject(s, write_packet(s, HCA_WRITE_MIDDLE, 1, MTU, 0));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_ACK);
	inject(s, write_packet(s, HCA_WRITE_LAST, 2, 3, 0));
	expect_answer(s, HCA_ACKNOWLEDGE, 2, HCA_AETH_ACK);
	assert_int_equal(fabric_sent(s->f, 0)->msn, 1);
	assert_memory_equal(s->memory.bytes, s->payload, MTU);
	assert_memory_equal(s->memory.bytes + 2 * MTU, s->payload, 3);
	assert_int_equal(s->memory.bytes[2 * MTU + 3], 0);
	stage_destroy(s);
}

static void packet_that_asks_for_nothing_gets_nothing(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

	(void)state;
	p.ack_request = false;
	inject(s, p);
	assert_memory_equal(s->memory.bytes, s->payload, 8);
	expect_silence(s);
	stage_destroy(s);
}

static void empty_requests_need_no_key(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = write_packet(s, HCA_WRITE_ONLY, 0, 0, 0);

	(void)state;
	p.rkey = 0xdead;
	inject(s, p);
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	p = read_packet(s, 1, 0, 0);
	p.rkey = 0xdead;
	inject(s, p);
	expect_answer(s, HCA_READ_RESPONSE_ONLY, 1, HCA_AETH_ACK);
	stage_destroy(s);
}

/* ---- PSNs ---------------------------------------------------------------------------------- */

static void duplicate_is_acknowledged_and_has_no_effect(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		inject(s, write_packet(s, HCA_WRITE_ONLY, i, 8, 8));
		expect_answer(s, HCA_ACKNOWLEDGE, (int32_t)i, HCA_AETH_ACK);
	}
	memset(s->memory.bytes, 'm', 8);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 1, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 3, HCA_AETH_ACK);
	assert_memory_equal(s->memory.bytes, "mmmmmmmm", 8);
	assert_int_equal(s->host->counters.duplicates, 1);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 4, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 4, HCA_AETH_ACK);
	expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

static void stale_psn_counts_as_duplicate(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	inject(s, write_packet(s, HCA_WRITE_ONLY, -(1U << 22), 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, -1, HCA_AETH_ACK);
	assert_int_equal(s->memory.bytes[0], 0);
	inject(s, read_packet(s, -1U, 0, 8));
	expect_silence(s);
	expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

static void gap_is_reported_once(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	inject(s, write_packet(s, HCA_WRITE_ONLY, 2, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_NAK_SEQUENCE);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 3, 8, 8));
	inject(s, read_packet(s, 4, 0, 8));
	expect_silence(s);
	assert_int_equal(s->memory.bytes[0], 0);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 0, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 3, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_NAK_SEQUENCE);
	assert_int_equal(s->host->counters.out_of_sequence, 4);
	expect_state(s, HCA_QP_RTS);
	stage_destroy(s);
}

/* ---- what is refused -------------------------------------------------------------------------- */

static void check_refused(struct stage *s, struct hca_packet p, uint8_t syndrome,
			  enum hca_event event)
{
	uint32_t psn = p.psn;

	inject(s, p);
	expect_answer(s, HCA_ACKNOWLEDGE, (int32_t)psn, syndrome);
	expect_state(s, HCA_QP_ERR);
	assert_true(fabric_has_event(s->host, event));
	/* And that was the last it has to say. */
	inject(s, write_packet(s, HCA_WRITE_ONLY, psn, 8, 8));
	expect_silence(s);
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
		struct hca_packet p = write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

		if (wrong[i].length)
			p = write_packet(s, HCA_WRITE_FIRST, 0, MTU, (uint32_t)wrong[i].length + 1);
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
		struct hca_packet p = write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

		assert_int_equal(hca_mr_change(s->memory.mr, NULL, 15 & ~(2 << i), NULL, 0, 0), 0);
		if (i == 1)
			p = read_packet(s, 0, 0, 8);
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
	check_refused(s, write_packet(s, HCA_WRITE_ONLY, 0, 8, 8), HCA_AETH_NAK_REMOTE_ACCESS,
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
		p = i ? read_packet(s, 0, 0, 8) : write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);
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
		{ 0xff, HCA_WRITE_MIDDLE, MTU, 0 },
		{ 0xff, HCA_SEND_LAST, 8, 0 },
		{ 0xff, HCA_WRITE_FIRST, MTU - 1, 3 * MTU },
		{ 0xff, HCA_WRITE_ONLY, MTU + 1, MTU + 1 },
		{ 0xff, HCA_WRITE_ONLY, 8, 9 },
		{ 0xff, HCA_WRITE_ONLY, 9, 8 },
		{ 0xff, HCA_WRITE_FIRST, MTU, MTU },
		{ HCA_WRITE_FIRST, HCA_WRITE_LAST, 0, 0 },
		{ HCA_WRITE_FIRST, HCA_WRITE_LAST, 9, 0 },
		{ HCA_WRITE_FIRST, HCA_WRITE_ONLY, 8, 8 },
		{ HCA_WRITE_FIRST, HCA_SEND_LAST, 8, 0 },
		{ HCA_WRITE_FIRST, HCA_READ_REQUEST, 0, 8 },
		{ 0xff, 0x15, 0, 0 }, { 0xff, 0x1f, 0, 0 },
		{ 0xff, HCA_WRITE_ONLY, 8, 0x80000001 },
		{ 0xff, HCA_READ_REQUEST, 0, 0x80000001 },
		{ 0xff, HCA_READ_REQUEST, 1, 8 },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct stage *s = stage_create(NULL);
		uint32_t psn = 0;

		if (wrong[i].before != 0xff) {
			inject(s, write_packet(s, wrong[i].before, psn++, MTU, MTU + 8));
			expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
		}
		check_refused(s, write_packet(s, wrong[i].opcode, psn, wrong[i].n, wrong[i].whole),
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
	check_refused(s, read_packet(s, 0, 0, 8), HCA_AETH_NAK_INVALID_REQUEST,
		      HCA_EVENT_QP_REQUEST_ERROR);
}

static void foreign_packets_are_ignored(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p = write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);

	(void)state;
	p.pkey = 0x1234;
	inject(s, p);
	p.pkey = 0xffff;
	p.opcode = HCA_UD | HCA_SEND_ONLY;
	inject(s, p);
	p.opcode = 0x20 | HCA_WRITE_ONLY;	/* unreliable connection */
	inject(s, p);
	p = write_packet(s, HCA_WRITE_ONLY, 0, 8, 8);
	p.pkey = 0xffff;
	p.psn = RQ_PSN;
	p.dest_qpn = s->qp->qpn + 1;
	hca_receive(s->host->hca, &p);
	p.dest_qpn = 0xffffff;
	hca_receive(s->host->hca, &p);
	expect_silence(s);
	expect_state(s, HCA_QP_RTS);
	assert_int_equal(s->memory.bytes[0], 0);
	stage_destroy(s);
}

/* ---- receives -------------------------------------------------------------------------------------- */

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
	inject(s, send_packet(HCA_SEND_ONLY, 0, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_RNR_NAK | 12);
	inject(s, send_packet(HCA_SEND_ONLY, 1, 8));
	expect_silence(s);
	post_receive(s, 8, s->memory.key);
	inject(s, send_packet(HCA_SEND_ONLY, 0, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	inject(s, send_packet(HCA_SEND_ONLY, 1, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_RNR_NAK | 12);
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
	inject(s, write_packet(s, HCA_WRITE_FIRST, 0, MTU, MTU + 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	inject(s, write_packet(s, HCA_WRITE_LAST_IMM, 1, 8, 0));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_RNR_NAK | 12);
	assert_int_equal(s->memory.bytes[MTU], 0);
	post_receive(s, 8, 0);
	inject(s, write_packet(s, HCA_WRITE_LAST_IMM, 1, 8, 0));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_ACK);
	assert_memory_equal(s->memory.bytes + MTU, s->payload, 8);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.byte_count, MTU + 8);
	stage_destroy(s);
}

static void check_bad_receive(uint32_t room, bool has_key, uint8_t aeth, uint8_t syndrome)
{
	struct stage *s = stage_create(NULL);
	struct fabric_cqe c;

	post_receive(s, room, has_key ? s->memory.key : 0x777700);
	post_receive(s, room, s->memory.key);
	inject(s, send_packet(HCA_SEND_FIRST, 0, MTU));
	if (room >= MTU && has_key) {
		expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
		inject(s, send_packet(HCA_SEND_LAST, 1, 8));
	}
	expect_answer(s, HCA_ACKNOWLEDGE, room >= MTU && has_key, aeth);
	expect_state(s, HCA_QP_ERR);
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
	check_bad_receive(MTU + 7, true, HCA_AETH_NAK_INVALID_REQUEST,
			  MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	check_bad_receive(4 * MTU, false, HCA_AETH_NAK_REMOTE_OPERATION,
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
	inject(s, p);
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_NAK_REMOTE_ACCESS);
	assert_true(fabric_poll(s->qp->recv_cq, &c));
	assert_int_equal(c.syndrome, MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
	expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

/* ---- responses that are asked for again --------------------------------------------------------- */

static void expect_read_of(struct stage *s, uint32_t first, uint32_t nr, uint32_t offset)
{
	for (uint32_t i = 0; i < nr; i++) {
		uint8_t opcode = nr == 1 ? HCA_READ_RESPONSE_ONLY :
				 !i ? HCA_READ_RESPONSE_FIRST :
				 i + 1 == nr ? HCA_READ_RESPONSE_LAST : HCA_READ_RESPONSE_MIDDLE;

		expect_answer(s, opcode, (int32_t)(first + i), HCA_AETH_ACK);
		assert_memory_equal(fabric_sent(s->f, s->f->nr_logged - s->seen)->payload,
				    s->memory.bytes + offset + i * MTU,
				    fabric_sent(s->f, s->f->nr_logged - s->seen)->length);
	}
	expect_silence(s);
}

static void read_is_replayed_from_where_it_is_asked(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	for (uint32_t i = 0; i < 1 << 16; i++)
		s->memory.bytes[i] = (uint8_t)(i >> 4);
	inject(s, read_packet(s, 0, 16, 3 * MTU + 1));
	expect_read_of(s, 0, 4, 16);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 4, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 4, HCA_AETH_ACK);
	s->memory.bytes[MTU + 17] = 'n';	/* memory is read anew */
	inject(s, read_packet(s, 0, 16, 3 * MTU + 1));
	expect_read_of(s, 0, 4, 16);
	inject(s, read_packet(s, 2, 16 + 2 * MTU, MTU + 1));
	expect_read_of(s, 2, 2, 16 + 2 * MTU);
	inject(s, read_packet(s, 3, 16 + 3 * MTU, 1));
	expect_read_of(s, 3, 1, 16 + 3 * MTU);
	stage_destroy(s);
}

static void replay_must_lie_within_the_first_read(void **state)
{
	struct stage *s = stage_create(NULL);
	struct hca_packet p;

	(void)state;
	inject(s, read_packet(s, 0, 0, 2 * MTU));
	expect_read_of(s, 0, 2, 0);
	inject(s, read_packet(s, 0, 0, 2 * MTU + 1));
	inject(s, read_packet(s, 1, 0, MTU));
	inject(s, read_packet(s, 0, 8, MTU));
	p = read_packet(s, 0, 0, 2 * MTU);
	p.rkey ^= 0x100;
	inject(s, p);
	inject(s, (struct hca_packet) { .opcode = HCA_FETCH_ADD, .rkey = s->memory.key,
		  .remote_address = fabric_address(&s->memory, 0) });
	expect_silence(s);
	expect_state(s, HCA_QP_RTS);
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
		inject(s, read_packet(s, i, 8 * i, 8));
		expect_read_of(s, i, 1, 8 * i);
	}
	inject(s, read_packet(s, 0, 0, 8));
	expect_silence(s);
	inject(s, read_packet(s, 1, 8, 8));
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
		inject(s, p);
		expect_answer(s, HCA_ATOMIC_ACKNOWLEDGE, 0, HCA_AETH_ACK);
		assert_int_equal(fabric_sent(s->f, 0)->original, 100);
	}
	p.psn = 1;
	inject(s, p);
	assert_int_equal(fabric_sent(s->f, 0)->original, 105);
	stage_destroy(s);
}

static void read_under_way_is_replayed_only_for_what_was_sent(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_region big = fabric_region_create(s->host, 200 * MTU, 15);
	struct hca_packet p = read_packet(s, 0, 0, 200 * MTU);
	uint32_t sent;

	(void)state;
	p.rkey = big.key;
	p.remote_address = fabric_address(&big, 0);
	inject(s, p);
	sent = s->f->nr_logged;
	assert_in_range(sent, 1, 199);
	/* The last packet is still to come; the first was, and is asked for again. */
	p.psn = 199;
	p.remote_address += 199 * MTU;
	p.dma_length = MTU;
	inject(s, p);
	p = read_packet(s, 0, 0, 200 * MTU);
	p.rkey = big.key;
	p.remote_address = fabric_address(&big, 0);
	inject(s, p);
	fabric_run(s->f, 1000);
	assert_int_equal(s->f->nr_logged, 400);
	fabric_region_destroy(&big);
	stage_destroy(s);
}

static void region_that_goes_in_mid_read_ends_it(void **state)
{
	struct stage *s = stage_create(NULL);
	struct fabric_region big = fabric_region_create(s->host, 200 * MTU, 15);
	struct hca_packet p = read_packet(s, 0, 0, 200 * MTU);
	const struct hca_packet *sent;
	uint32_t n = 0;

	(void)state;
	p.rkey = big.key;
	p.remote_address = fabric_address(&big, 0);
	inject(s, p);
	fabric_region_destroy(&big);
	fabric_run(s->f, 1000);
	while ((sent = next_sent(s)) && sent->opcode != HCA_ACKNOWLEDGE)
		n++;
	assert_in_range(n, 1, 199);
	assert_int_equal(sent->syndrome, HCA_AETH_NAK_REMOTE_ACCESS);
	assert_int_equal(sent->psn, (RQ_PSN + n) & HCA_PSN_MASK);
	expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

/* ---- our own requests, and how the peer answers them ------------------------------------------------- */

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
	inject(s, (struct hca_packet) { .opcode = HCA_ACKNOWLEDGE, .psn = psn,
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
	post(s, MLX5_OPCODE_RDMA_WRITE, 4 * MTU);
	expect_request(s, HCA_WRITE_FIRST, 0);
	expect_request(s, HCA_WRITE_MIDDLE, 1);
	expect_request(s, HCA_WRITE_MIDDLE, 2);
	assert_true(expect_request(s, HCA_WRITE_LAST, 3)->ack_request);
	acknowledge(s, 2, HCA_AETH_NAK_SEQUENCE);
	expect_request(s, HCA_WRITE_MIDDLE, 2);
	assert_true(expect_request(s, HCA_WRITE_LAST, 3)->ack_request);
	expect_silence(s);
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
		expect_request(s, HCA_WRITE_ONLY, 0);
		acknowledge(s, 0, HCA_AETH_NAK_SEQUENCE);
	}
	expect_silence(s);
	expect_completion(s, MLX5_CQE_REQ_ERR, 0, MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	expect_state(s, HCA_QP_ERR);
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
	expect_request(s, HCA_WRITE_ONLY, 0);
	acknowledge(s, -1U, HCA_AETH_NAK_SEQUENCE);
	acknowledge(s, 1, HCA_AETH_ACK);
	acknowledge(s, 1, HCA_AETH_NAK_REMOTE_ACCESS);
	acknowledge(s, 0, 0x7f);		/* a reserved NAK */
	acknowledge(s, 0, 0x40);		/* a reserved class */
	inject(s, (struct hca_packet) { .opcode = HCA_READ_RESPONSE_ONLY, .psn = 1 });
	expect_silence(s);
	expect_no_completion(s);
	acknowledge(s, 0, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	expect_state(s, HCA_QP_RTS);
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
		expect_state(s, HCA_QP_ERR);
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
	expect_request(s, HCA_SEND_ONLY, 0);
	acknowledge(s, 0, HCA_AETH_RNR_NAK | 14);	/* 1.28 ms */
	post(s, MLX5_OPCODE_SEND, 8);
	fabric_run(s->f, 1270 * 1000);
	expect_silence(s);
	fabric_run(s->f, 20 * 1000);
	expect_request(s, HCA_SEND_ONLY, 0);
	expect_request(s, HCA_SEND_ONLY, 1);
	expect_silence(s);
	stage_destroy(s);
}

static void respond(struct stage *s, uint8_t opcode, uint32_t psn, uint32_t n)
{
	inject(s, (struct hca_packet) { .opcode = opcode, .psn = psn, .length = n,
					.syndrome = HCA_AETH_ACK });
}

static void missing_response_is_asked_for_again(void **state)
{
	struct stage *s = stage_create(NULL);
	const struct hca_packet *p;

	(void)state;
	post(s, MLX5_OPCODE_RDMA_READ, 5 * MTU);
	p = expect_request(s, HCA_READ_REQUEST, 0);
	assert_int_equal(p->dma_length, 5 * MTU);
	respond(s, HCA_READ_RESPONSE_FIRST, 0, MTU);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 2, MTU);
	p = expect_request(s, HCA_READ_REQUEST, 1);
	assert_int_equal(p->dma_length, 4 * MTU);
	assert_int_equal(p->remote_address, 0x10000 + MTU);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 3, MTU);
	respond(s, HCA_READ_RESPONSE_FIRST, 0, MTU);
	expect_silence(s);
	respond(s, HCA_READ_RESPONSE_FIRST, 1, MTU);
	expect_silence(s);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 3, MTU);	/* and the next is lost again */
	p = expect_request(s, HCA_READ_REQUEST, 2);
	assert_int_equal(p->dma_length, 3 * MTU);
	respond(s, HCA_READ_RESPONSE_FIRST, 2, MTU);
	respond(s, HCA_READ_RESPONSE_MIDDLE, 3, MTU);
	expect_no_completion(s);
	respond(s, HCA_READ_RESPONSE_LAST, 4, MTU);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	expect_silence(s);
	stage_destroy(s);
}

static void acknowledgement_past_a_read_asks_for_it_again(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	post(s, MLX5_OPCODE_RDMA_READ, 8);
	post(s, MLX5_OPCODE_RDMA_WRITE, 8);
	expect_request(s, HCA_WRITE_ONLY, 0);
	expect_request(s, HCA_READ_REQUEST, 1);
	expect_request(s, HCA_WRITE_ONLY, 2);
	acknowledge(s, 2, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	expect_no_completion(s);
	expect_request(s, HCA_READ_REQUEST, 1);
	expect_request(s, HCA_WRITE_ONLY, 2);
	respond(s, HCA_READ_RESPONSE_ONLY, 1, 8);
	expect_completion(s, MLX5_CQE_REQ, 1, 0);
	acknowledge(s, 2, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 2, 0);
	expect_silence(s);
	stage_destroy(s);
}

static void check_bad_response(uint8_t opcode, uint8_t response, uint32_t n)
{
	struct stage *s = stage_create(NULL);

	post(s, opcode, 8);
	respond(s, response, 0, n);
	expect_completion(s, MLX5_CQE_REQ_ERR, 0, MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	expect_state(s, HCA_QP_ERR);
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
	expect_state(s, HCA_QP_ERR);
	stage_destroy(s);
}

static void silence_is_retried_from_the_oldest(void **state)
{
	struct stage *s = stage_create(NULL);
	uint64_t timeout_ns = 4096ULL << 14;

	(void)state;
	post(s, MLX5_OPCODE_RDMA_WRITE, 3 * MTU);
	acknowledge(s, 0, HCA_AETH_ACK);
	s->seen = s->f->nr_logged;
	fabric_run(s->f, timeout_ns - 1000);
	expect_silence(s);
	fabric_run(s->f, 2000);
	expect_request(s, HCA_WRITE_MIDDLE, 1);
	expect_request(s, HCA_WRITE_LAST, 2);
	/* What comes after all acknowledges what is sent again. */
	acknowledge(s, 2, HCA_AETH_ACK);
	expect_completion(s, MLX5_CQE_REQ, 0, 0);
	fabric_run(s->f, 10 * timeout_ns);
	expect_silence(s);
	stage_destroy(s);
}

/* ---- what people ask for ----------------------------------------------------------------------------- */

static void asked_for_nak_answers_the_chosen_request(void **state)
{
	struct stage *s = stage_create(NULL);

	(void)state;
	s->host->faults.nak_at = 2;
	s->host->faults.nak_syndrome = HCA_AETH_RNR_NAK | 3;
	inject(s, write_packet(s, HCA_WRITE_ONLY, 0, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 0, HCA_AETH_ACK);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 1, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_RNR_NAK | 3);
	inject(s, write_packet(s, HCA_WRITE_ONLY, 1, 8, 8));
	expect_answer(s, HCA_ACKNOWLEDGE, 1, HCA_AETH_ACK);
	s->host->faults.nak_at = 1;
	s->host->faults.nak_syndrome = HCA_AETH_NAK_REMOTE_OPERATION;
	check_refused(s, write_packet(s, HCA_WRITE_ONLY, 2, 8, 8), HCA_AETH_NAK_REMOTE_OPERATION,
		      HCA_EVENT_QP_REQUEST_ERROR);
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
		cmocka_unit_test(send_without_receive_is_put_off),
		cmocka_unit_test(last_write_packet_with_immediate_may_be_put_off),
		cmocka_unit_test(message_that_fits_no_receive_fails_both),
		cmocka_unit_test(key_that_may_not_be_invalidated_stays),
		cmocka_unit_test(read_is_replayed_from_where_it_is_asked),
		cmocka_unit_test(replay_must_lie_within_the_first_read),
		cmocka_unit_test(only_as_many_reads_as_agreed_are_remembered),
		cmocka_unit_test(atomic_is_replayed_without_effect),
		cmocka_unit_test(read_under_way_is_replayed_only_for_what_was_sent),
		cmocka_unit_test(region_that_goes_in_mid_read_ends_it),
		cmocka_unit_test(nak_in_mid_message_resends_from_there),
		cmocka_unit_test(naks_without_progress_run_out),
		cmocka_unit_test(one_acknowledgement_ends_all_before_it),
		cmocka_unit_test(stale_and_ghost_acknowledgements_do_nothing),
		cmocka_unit_test(each_nak_has_its_syndrome),
		cmocka_unit_test(receiver_not_ready_is_waited_for),
		cmocka_unit_test(missing_response_is_asked_for_again),
		cmocka_unit_test(acknowledgement_past_a_read_asks_for_it_again),
		cmocka_unit_test(response_that_does_not_fit_is_bad),
		cmocka_unit_test(region_that_goes_while_reading_is_a_local_error),
		cmocka_unit_test(silence_is_retried_from_the_oldest),
		cmocka_unit_test(asked_for_nak_answers_the_chosen_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
