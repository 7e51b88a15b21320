/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_lossy.c - two cards over wires that lose, repeat and reorder; and receive queues
 * that queue pairs share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

enum { MTU = 1024, SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE };

static void assert_failed(struct fabric_cqe c, uint8_t syndrome)
{
	assert_true(c.opcode == MLX5_CQE_REQ_ERR || c.opcode == MLX5_CQE_RESP_ERR);
	assert_int_equal(c.syndrome, syndrome);
}

struct wire {
	uint32_t loss, duplication, reordering, seed;
};

/* One of everything, in batches, over a bad wire; every byte and completion counts. */
static void check_wire(struct wire wire)
{
	struct fabric_path path = fabric_usual;
	struct pair *p;
	struct fabric_cqe c;
	uint64_t sum = 0;

	path.retries = 7;
	path.timeout = 10;
	path.max_reads = 4;
	p = pair_create(&path, NULL);
	p->f->random = wire.seed;
	p->f->loss = wire.loss;
	p->f->duplication = wire.duplication;
	p->f->reordering = wire.reordering;
	for (uint32_t round = 0; round < 40; round++) {
		uint32_t n = fabric_random(p->f) % 40000 + 8, expect = round + 1;
		struct fabric_sge s = pair_piece(&p->near, 500000, 8);

		memset(p->far.bytes, 0, 100000);
		memset(p->near.bytes + 300000, 0, 100000);
		pair_receive(p, 50000, n);
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, n, round, 0);
		pair_post(p, MLX5_OPCODE_SEND, 0, n, round + 7, 0);
		fabric_post(p->a, &(struct fabric_wr) {
			.opcode = MLX5_OPCODE_ATOMIC_FA, .rkey = p->far.key, .sge = &s, .nr_sge = 1,
			.remote_address = fabric_address(&p->far, 200000), .swap_or_add = 1 });
		pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, n, 300000, 0);
		c = pair_completion(p, p->a->send_cq);
		assert_int_equal(c.opcode, MLX5_CQE_REQ);
		assert_int_equal(c.wqe_counter, p->a->sq_pi - 1);
		assert_int_equal(pair_completion(p, p->b->recv_cq).byte_count, n);
		assert_memory_equal(p->far.bytes, p->near.bytes + round, n);
		assert_memory_equal(p->far.bytes + 50000, p->near.bytes + round + 7, n);
		assert_memory_equal(p->near.bytes + 300000, p->far.bytes, n);
		memcpy(&sum, p->far.bytes + 200000, 8);
		assert_int_equal(sum, expect);
	}
	assert_false(fabric_poll(p->a->send_cq, &c));
	assert_false(fabric_poll(p->b->recv_cq, &c));
	pair_destroy(p);
}

static void bad_wires_lose_nothing(void **state)
{
	static const struct wire wires[] = {
		{ .loss = 10 }, { .duplication = 100 }, { .reordering = 1 }, { .reordering = 50 },
		{ 10, 10, 10, 0 }, { 50, 50, 20, 0 },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(wires) / sizeof(*wires); i++) {
		for (uint32_t seed = 1; seed <= 5; seed++) {
			struct wire w = wires[i];

			w.seed = seed;
			check_wire(w);
		}
	}
}

static bool drop_first_of(void *ctx, int from, struct hca_packet *p)
{
	uint8_t *opcode = ctx;

	(void)from;
	if (p->opcode != *opcode)
		return true;
	*opcode = 0xff;
	return false;
}

static void each_kind_of_packet_may_get_lost(void **state)
{
	static const uint8_t opcodes[] = {
		HCA_WRITE_FIRST, HCA_WRITE_MIDDLE, HCA_WRITE_LAST, HCA_READ_REQUEST,
		HCA_READ_RESPONSE_FIRST, HCA_READ_RESPONSE_MIDDLE, HCA_READ_RESPONSE_LAST,
		HCA_ACKNOWLEDGE, HCA_FETCH_ADD, HCA_ATOMIC_ACKNOWLEDGE,
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(opcodes); i++) {
		uint8_t opcode = opcodes[i];
		struct pair *p = pair_create(NULL, NULL);
		struct fabric_sge s = pair_piece(&p->near, 100000, 8);
		uint64_t once = 0;

		p->f->filter = drop_first_of;
		p->f->filter_ctx = &opcode;
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 9000, 0, 0);
		fabric_post(p->a, &(struct fabric_wr) {
			.opcode = MLX5_OPCODE_ATOMIC_FA, .rkey = p->far.key, .sge = &s, .nr_sge = 1,
			.remote_address = fabric_address(&p->far, 200000), .swap_or_add = 1 });
		pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 9000, 20000, 0);
		assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
		assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
		assert_int_equal(opcode, i == 7 ? opcode : 0xff);
		assert_memory_equal(p->far.bytes, p->near.bytes, 9000);
		assert_memory_equal(p->near.bytes + 20000, p->far.bytes, 9000);
		memcpy(&once, p->far.bytes + 200000, 8);
		assert_int_equal(once, 1);
		pair_destroy(p);
	}
}

/* ---- shared receive queues -------------------------------------------------------- */

static void shared_queue_is_consumed_by_its_links(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_srq *s = fabric_srq_create(&p->f->host[1], 8);
	struct fabric_qp *a, *b;
	struct fabric_cqe c;

	(void)state;
	a = fabric_qp_create(&p->f->host[0], &(struct fabric_qp_options) {
		.send_cq = p->a->send_cq, .recv_cq = p->a->recv_cq });
	b = fabric_qp_create(&p->f->host[1], &(struct fabric_qp_options) {
		.send_cq = p->b->send_cq, .recv_cq = p->b->recv_cq, .srq = s, .uidx = 0x77 });
	fabric_connect(a, b, NULL);
	for (uint32_t i = 0; i < 4; i++) {
		struct fabric_sge r = pair_piece(&p->far, i * 100, 100);

		fabric_srq_post(s, &r, 1);
	}
	assert_int_equal(hca_srq_set_limit(s->srq, 4), 0);
	for (uint32_t i = 0; i < 40; i++) {
		struct fabric_sge r = pair_piece(&p->far, i * 100, 100);
		char text[16] = { (char)i };

		fabric_post(a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_SEND,
			    .inline_data = text, .inline_bytes = 16 });
		c = pair_completion(p, p->b->recv_cq);
		assert_int_equal(c.opcode, MLX5_CQE_RESP_SEND);
		assert_int_equal(c.uidx, 0x77);
		/* Freed out of turn, so that links and indices differ. */
		fabric_srq_free_wqe(s, c.wqe_counter);
		if (i % 2)
			fabric_srq_post(s, &r, 1);
		fabric_srq_post(s, &r, 1);
		if (i % 2) {
			fabric_post(a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_SEND });
			c = pair_completion(p, p->b->recv_cq);
			fabric_srq_free_wqe(s, c.wqe_counter);
		}
	}
	assert_true(fabric_has_event(&p->f->host[1], HCA_EVENT_SRQ_LIMIT));
	assert_int_equal(hca_srq_limit(s->srq), 0);
	fabric_qp_destroy(a);
	fabric_qp_destroy(b);
	fabric_srq_destroy(s);
	pair_destroy(p);
}

static void trace_has_a_line_for_each_step(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	p->f->is_cut = true;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, MTU, 0, 0);
	assert_int_equal(p->f->nr_traced, 2);	/* WQE, packet */
	assert_string_equal(p->f->trace, "packet sent rc write_only qpn 0x020000 psn 16777200 "
			    "bytes 1024 ack_request 1 aeth 0x00 msn 0");
	p->f->is_cut = false;
	assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
	assert_int_equal(p->f->nr_traced, 7); /* sent again, and received; so the answer; CQE */
	assert_string_equal(p->f->trace, "cqe cqn 1 index 0 opcode 0 qpn 0x010000 wqe 0 bytes 0 "
			    "syndrome 0x00");
	pair_destroy(p);
}

static void garbage_link_breaks_the_shared_queue(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_srq *s = fabric_srq_create(&p->f->host[1], 8);
	struct fabric_qp *a, *b;

	(void)state;
	a = fabric_qp_create(&p->f->host[0], &(struct fabric_qp_options) {
		.send_cq = p->a->send_cq, .recv_cq = p->a->recv_cq });
	b = fabric_qp_create(&p->f->host[1], &(struct fabric_qp_options) {
		.send_cq = p->b->send_cq, .recv_cq = p->b->recv_cq, .srq = s });
	fabric_connect(a, b, NULL);
	fabric_srq_post(s, NULL, 0);
	fabric_srq_post(s, NULL, 0);
	s->buffer[3] = 8;			/* one past the last */
	for (uint32_t i = 0; i < 2; i++)
		fabric_post(a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_SEND });
	assert_failed(pair_completion(p, p->a->send_cq), MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
	assert_true(fabric_has_event(&p->f->host[1], HCA_EVENT_SRQ_ERROR));
	assert_true(fabric_has_event(&p->f->host[1], HCA_EVENT_QP_FATAL));
	assert_int_equal(fabric_state(b), HCA_QP_ERR);
	fabric_qp_destroy(a);
	fabric_qp_destroy(b);
	fabric_srq_destroy(s);
	pair_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_wires_lose_nothing),
		cmocka_unit_test(each_kind_of_packet_may_get_lost),
		cmocka_unit_test(shared_queue_is_consumed_by_its_links),
		cmocka_unit_test(garbage_link_breaks_the_shared_queue),
		cmocka_unit_test(trace_has_a_line_for_each_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
