/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_rc.c - two cards and a wire: every operation of a reliable connection, of every
 * size around the MTU; its windows, and receivers that are not ready.
 */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

enum { MTU = 1024, SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE };

static const uint32_t sizes[] = {
	0, 1, 31, 32, 33, 64, MTU - 1, MTU, MTU + 1, 2 * MTU, 3 * MTU - 1, 3 * MTU, 3 * MTU + 1,
	100 * MTU, 300 * MTU + 5,
};

#define EACH_SIZE(n) for (uint32_t size_i = 0, n; size_i < sizeof(sizes) / sizeof(*sizes) && \
			  (n = sizes[size_i], true); size_i++)

static void assert_done(struct fabric_cqe c, uint16_t index, uint8_t opcode)
{
	assert_int_equal(c.opcode, MLX5_CQE_REQ);
	assert_int_equal(c.wqe_counter, index);
	assert_int_equal(c.wqe_opcode, opcode);
	assert_int_equal(c.uidx, PAIR_UIDX_A);
}

static void assert_failed(struct fabric_cqe c, uint8_t syndrome)
{
	assert_true(c.opcode == MLX5_CQE_REQ_ERR || c.opcode == MLX5_CQE_RESP_ERR);
	assert_int_equal(c.syndrome, syndrome);
}

/* ---- operations ------------------------------------------------------------------- */

static void write_of_any_size_arrives_whole(void **state)
{
	(void)state;
	EACH_SIZE(n) {
		struct pair *p = pair_create(NULL, NULL);
		uint16_t index = pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, n, 3, 5);
		struct fabric_cqe c = pair_completion(p, p->a->send_cq);

		assert_done(c, index, MLX5_OPCODE_RDMA_WRITE);
		assert_int_equal(c.qpn, p->a->qpn);
		assert_memory_equal(p->far.bytes + 5, p->near.bytes + 3, n);
		assert_int_equal(p->far.bytes[5 + n], 0);
		assert_false(fabric_poll(p->b->recv_cq, &c));
		pair_destroy(p);
	}
}

static void read_of_any_size_arrives_whole(void **state)
{
	(void)state;
	EACH_SIZE(n) {
		struct pair *p = pair_create(NULL, NULL);
		struct fabric_cqe c;
		uint16_t index;

		memcpy(p->far.bytes, p->near.bytes, PAIR_SPACE);
		memset(p->near.bytes, 0, PAIR_SPACE);
		index = pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, n, 3, 5);
		c = pair_completion(p, p->a->send_cq);
		assert_done(c, index, MLX5_OPCODE_RDMA_READ);
		assert_int_equal(c.byte_count, n);
		assert_memory_equal(p->near.bytes + 3, p->far.bytes + 5, n);
		assert_int_equal(p->near.bytes[3 + n], 0);
		pair_destroy(p);
	}
}

static void check_message(uint8_t opcode, uint8_t completion, uint32_t immediate)
{
	EACH_SIZE(n) {
		struct pair *p = pair_create(NULL, NULL);
		bool is_write = opcode == MLX5_OPCODE_RDMA_WRITE_IMM;
		struct fabric_cqe c;
		uint16_t index;

		pair_receive(p, 5, is_write ? 0 : n);
		index = pair_post(p, opcode, SIGNALED, n, 3, 5);
		assert_done(pair_completion(p, p->a->send_cq), index, opcode);
		c = pair_completion(p, p->b->recv_cq);
		assert_int_equal(c.opcode, completion);
		assert_int_equal(c.byte_count, n);
		assert_int_equal(c.immediate, immediate);
		assert_int_equal(c.uidx, PAIR_UIDX_B);
		assert_int_equal(c.qpn, p->b->qpn);
		assert_int_equal(c.flags_rqpn & 0xffffff, p->a->qpn);
		assert_null(c.data);
		assert_memory_equal(p->far.bytes + 5, p->near.bytes + 3, n);
		assert_int_equal(p->far.bytes[5 + n], 0);
		pair_destroy(p);
	}
}

static void send_of_any_size_fills_a_receive(void **state)
{
	(void)state;
	check_message(MLX5_OPCODE_SEND, MLX5_CQE_RESP_SEND, 0);
}

static void send_with_immediate_delivers_it(void **state)
{
	(void)state;
	check_message(MLX5_OPCODE_SEND_IMM, MLX5_CQE_RESP_SEND_IMM, 0x44332211);
}

static void write_with_immediate_takes_a_receive(void **state)
{
	(void)state;
	check_message(MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_CQE_RESP_WR_IMM, 0x44332211);
}

static void send_with_invalidate_ends_a_key(void **state)
{
	struct fabric_region gone;
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;

	(void)state;
	gone = fabric_region_create(&p->f->host[1], 4096,
				    HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_INVALIDATE);
	pair_receive(p, 0, 100);
	fabric_post(p->a, &(struct fabric_wr) {
		.opcode = MLX5_OPCODE_SEND_INVAL, .immediate = htobe32(gone.key),
		.inline_data = "gone", .inline_bytes = 4,
	});
	c = pair_completion(p, p->b->recv_cq);
	assert_int_equal(c.opcode, MLX5_CQE_RESP_SEND_INV);
	assert_int_equal(be32toh(c.immediate), gone.key);
	fabric_post(p->a, &(struct fabric_wr) {
		.opcode = MLX5_OPCODE_RDMA_WRITE, .rkey = gone.key, .inline_data = "x",
		.remote_address = fabric_address(&gone, 0), .inline_bytes = 1,
	});
	assert_failed(pair_completion(p, p->a->send_cq), MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	assert_true(fabric_has_event(&p->f->host[1], HCA_EVENT_QP_ACCESS_ERROR));
	fabric_region_destroy(&gone);
	pair_destroy(p);
}

static void check_atomic(uint8_t opcode, uint64_t before, uint64_t add, uint64_t compare,
			 uint64_t after)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_sge s = pair_piece(&p->near, 8, 8);
	struct fabric_cqe c;

	memcpy(p->far.bytes + 16, &before, 8);
	fabric_post(p->a, &(struct fabric_wr) {
		.opcode = opcode, .fm_ce_se = SIGNALED, .rkey = p->far.key, .sge = &s,
		.nr_sge = 1, .remote_address = fabric_address(&p->far, 16),
		.swap_or_add = add, .compare = compare,
	});
	c = pair_completion(p, p->a->send_cq);
	assert_done(c, 0, opcode);
	assert_int_equal(c.byte_count, 8);
	assert_memory_equal(p->near.bytes + 8, &before, 8);
	assert_memory_equal(p->far.bytes + 16, &after, 8);
	pair_destroy(p);
}

static void atomics_return_what_was_there(void **state)
{
	(void)state;
	check_atomic(MLX5_OPCODE_ATOMIC_FA, UINT64_MAX, 3, 0, 2);
	check_atomic(MLX5_OPCODE_ATOMIC_CS, 0x0102030405060708, 9, 0x0102030405060708, 9);
	check_atomic(MLX5_OPCODE_ATOMIC_CS, 5, 9, 6, 5);
}

static void nop_completes_in_order(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 100, 0, 0);
	fabric_post(p->a, &(struct fabric_wr) { .fm_ce_se = SIGNALED });
	assert_done(pair_completion(p, p->a->send_cq), 0, MLX5_OPCODE_RDMA_WRITE);
	assert_done(pair_completion(p, p->a->send_cq), 1, MLX5_OPCODE_NOP);
	pair_destroy(p);
}

static void lists_gather_and_scatter(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_sge from[20], to[3] = {
		pair_piece(&p->far, 0, 7), pair_piece(&p->far, 100, 2000),
		pair_piece(&p->far, 5000, 900),
	};
	uint8_t sent[1900], got[1900];

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		from[i] = pair_piece(&p->near, i * 997, 95);
		memcpy(sent + 95 * i, p->near.bytes + i * 997, 95);
	}
	fabric_post_recv(p->b, to, 3);
	fabric_post(p->a, &(struct fabric_wr) {
		.opcode = MLX5_OPCODE_SEND, .fm_ce_se = SIGNALED, .sge = from, .nr_sge = 20,
	});
	assert_int_equal(pair_completion(p, p->b->recv_cq).byte_count, 1900);
	memcpy(got, p->far.bytes, 7);
	memcpy(got + 7, p->far.bytes + 100, 1893);
	assert_memory_equal(got, sent, 1900);
	pair_destroy(p);
}

static void inline_data_wraps_at_the_queue_end(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	uint8_t text[200];

	(void)state;
	memset(text, 'i', sizeof(text));
	for (uint32_t i = 0; i < 200; i++) {
		text[i] = (uint8_t)i;
		fabric_post(p->a, &(struct fabric_wr) {
			.opcode = MLX5_OPCODE_RDMA_WRITE, .fm_ce_se = SIGNALED,
			.inline_data = text, .inline_bytes = i + 1, .rkey = p->far.key,
			.remote_address = fabric_address(&p->far, 1000 * i),
		});
		assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
		assert_memory_equal(p->far.bytes + 1000 * i, text, i + 1);
	}
	pair_destroy(p);
}

static void small_data_comes_in_the_cqe(void **state)
{
	static const uint32_t lengths[] = { 1, 8, 32, 33, 64, 65 };

	(void)state;
	for (uint32_t long_cqe = 0; long_cqe < 2; long_cqe++) {
		for (uint32_t i = 0; i < 6; i++) {
			struct fabric_qp_options o = { .scatter_send = true, .scatter_recv = true };
			uint32_t n = lengths[i], most = long_cqe ? 64 : 32;
			struct pair *p = pair_create(NULL, NULL);
			struct fabric_qp *a, *b;
			struct fabric_cq *near, *far;
			struct fabric_sge s = pair_piece(&p->near, 0, n);
			struct fabric_sge r = pair_piece(&p->far, 0, n);
			struct fabric_cqe c;

			near = fabric_cq_create(&p->f->host[0], 16, long_cqe ? 128 : 64);
			far = fabric_cq_create(&p->f->host[1], 16, long_cqe ? 128 : 64);
			o.send_cq = o.recv_cq = near;
			a = fabric_qp_create(&p->f->host[0], &o);
			o.send_cq = o.recv_cq = far;
			b = fabric_qp_create(&p->f->host[1], &o);
			fabric_connect(a, b, NULL);
			fabric_post_recv(b, &r, 1);
			fabric_post(a, &(struct fabric_wr) {
				.opcode = MLX5_OPCODE_SEND, .sge = &s, .nr_sge = 1 });
			c = pair_completion(p, far);
			assert_int_equal(c.byte_count, n);
			assert_true((c.data != NULL) == (n <= most));
			assert_memory_equal(c.data ? c.data : p->far.bytes, p->near.bytes, n);
			s = pair_piece(&p->near, 4096, n);
			fabric_post(a, &(struct fabric_wr) {
				.opcode = MLX5_OPCODE_RDMA_READ, .fm_ce_se = SIGNALED, .sge = &s,
				.nr_sge = 1, .rkey = p->far.key,
				.remote_address = fabric_address(&p->far, 300) });
			memset(p->far.bytes + 300, 'r', n);
			c = pair_completion(p, near);
			assert_true((c.data != NULL) == (n <= most));
			assert_memory_equal(c.data ? c.data : p->near.bytes + 4096,
					    p->far.bytes + 300, n);
			fabric_qp_destroy(a);
			fabric_qp_destroy(b);
			fabric_cq_destroy(near);
			fabric_cq_destroy(far);
			pair_destroy(p);
		}
	}
}

/* ---- order and windows ------------------------------------------------------------ */

static void only_signalled_wqes_complete(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;

	(void)state;
	for (uint32_t i = 0; i < 10; i++)
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, i % 5 == 4 ? SIGNALED : 0, 10, 0, i * 10);
	assert_int_equal(pair_completion(p, p->a->send_cq).wqe_counter, 4);
	assert_int_equal(pair_completion(p, p->a->send_cq).wqe_counter, 9);
	assert_false(fabric_poll(p->a->send_cq, &c));
	pair_destroy(p);
}

static void batch_asks_for_few_acknowledgements(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_sge s = pair_piece(&p->near, 0, 8);

	(void)state;
	for (uint32_t i = 0; i < 48; i++)
		fabric_write_wqe(p->a, &(struct fabric_wr) {
			.opcode = MLX5_OPCODE_RDMA_WRITE, .fm_ce_se = SIGNALED, .rkey = p->far.key,
			.remote_address = fabric_address(&p->far, i * 8), .sge = &s, .nr_sge = 1 });
	fabric_ring(p->a);
	fabric_run(p->f, SECOND_NS);
	assert_int_equal(p->f->host[0].counters.packets_sent, 48);
	assert_int_equal(p->f->host[1].counters.packets_sent, 3);
	assert_int_equal(p->f->host[0].counters.cqes, 48);
	pair_destroy(p);
}

static void window_bounds_what_is_in_flight(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	uint64_t in_flight;

	(void)state;
	p->f->is_cut = true;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 500 * MTU, 0, 0);
	in_flight = hca_qp_bytes_in_flight(p->a->qp);
	assert_in_range(in_flight, MTU, 128 * MTU);
	assert_int_equal(p->f->host[0].counters.packets_sent, in_flight / MTU);
	assert_true(fabric_sent(p->f, 0)->ack_request);
	pair_destroy(p);
}

static void reads_in_flight_are_counted(void **state)
{
	struct fabric_path path = fabric_usual;
	struct pair *p;

	(void)state;
	path.max_reads = 3;
	p = pair_create(&path, NULL);
	p->f->is_cut = true;
	for (uint32_t i = 0; i < 8; i++)
		pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 8, i * 8, i * 8);
	assert_int_equal(p->f->host[0].counters.packets_sent, 3);
	p->f->is_cut = false;
	for (uint32_t i = 0; i < 8; i++)
		assert_done(pair_completion(p, p->a->send_cq), (uint16_t)i, MLX5_OPCODE_RDMA_READ);
	pair_destroy(p);
}

static void fence_waits_for_reads(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	p->f->is_cut = true;
	pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 8, 0, 0);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED | MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE, 8, 8,
		  8);
	assert_int_equal(p->f->host[0].counters.packets_sent, 2);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED | MLX5_WQE_CTRL_FENCE, 8, 0, 8);
	assert_int_equal(p->f->host[0].counters.packets_sent, 2);
	p->f->is_cut = false;
	for (uint16_t i = 0; i < 3; i++)
		assert_int_equal(pair_completion(p, p->a->send_cq).wqe_counter, i);
	pair_destroy(p);
}

static void write_after_read_carries_what_was_read(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	memset(p->far.bytes, 'r', 4000);
	pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 4000, 0, 0);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED | MLX5_WQE_CTRL_FENCE, 4000, 0, 8000);
	pair_completion(p, p->a->send_cq);
	pair_completion(p, p->a->send_cq);
	assert_memory_equal(p->far.bytes + 8000, p->far.bytes, 4000);
	pair_destroy(p);
}

static void acknowledgement_waits_for_a_long_read(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 900 * MTU, 0, 0);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 8, 0, 0);
	pair_post(p, MLX5_OPCODE_RDMA_READ, SIGNALED, 900 * MTU, 0, 0);
	for (uint16_t i = 0; i < 3; i++)
		assert_int_equal(pair_completion(p, p->a->send_cq).wqe_counter, i);
	assert_int_equal(p->f->host[0].counters.retries, 0);
	pair_destroy(p);
}

/* ---- receivers that are not ready ------------------------------------------------- */

static void receive_that_comes_late_is_waited_for(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;

	(void)state;
	pair_post(p, MLX5_OPCODE_SEND, SIGNALED, 3000, 0, 0);
	fabric_run(p->f, 100000000);
	assert_false(fabric_poll(p->a->send_cq, &c));
	assert_true(p->f->host[1].counters.rnr_naks_sent > 3);
	pair_receive(p, 0, 3000);
	assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
	assert_int_equal(pair_completion(p, p->b->recv_cq).byte_count, 3000);
	assert_memory_equal(p->far.bytes, p->near.bytes, 3000);
	pair_destroy(p);
}

static void receiver_that_stays_unready_ends_the_wqe(void **state)
{
	struct fabric_path path = fabric_usual;
	struct pair *p;

	(void)state;
	path.rnr_retries = 2;
	path.rnr_timer = 16;		/* 2.56 ms */
	p = pair_create(&path, NULL);
	p->f->host[0].faults.timeout_scale_percent = 200;
	pair_post(p, MLX5_OPCODE_SEND, 0, 10, 0, 0);
	pair_post(p, MLX5_OPCODE_SEND, 0, 10, 0, 0);
	fabric_run(p->f, 10 * 1000 * 1000);
	assert_int_equal(fabric_state(p->a), HCA_QP_RTS);
	assert_failed(pair_completion(p, p->a->send_cq), MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	assert_failed(pair_completion(p, p->a->send_cq), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	assert_int_equal(p->f->host[1].counters.rnr_naks_sent, 3);
	assert_int_equal(fabric_state(p->a), HCA_QP_ERR);
	pair_destroy(p);
}

static void silent_peer_ends_the_wqe_after_all_retries(void **state)
{
	struct fabric_path path = fabric_usual;
	struct pair *p;
	uint64_t start;

	(void)state;
	path.retries = 3;
	p = pair_create(&path, NULL);
	start = p->f->now_ns;
	p->f->loss = 1000;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, 10, 0, 0);
	fabric_run(p->f, 200 * 1000 * 1000);
	assert_int_equal(fabric_state(p->a), HCA_QP_RTS);
	fabric_run(p->f, 100 * 1000 * 1000);
	assert_true(p->f->now_ns - start >= 4 * (4096ULL << 14));
	assert_failed(pair_completion(p, p->a->send_cq),
		      MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	assert_int_equal(p->f->host[0].counters.packets_sent, 4);
	assert_int_equal(p->f->host[0].counters.timeouts, 4);
	pair_destroy(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_of_any_size_arrives_whole),
		cmocka_unit_test(read_of_any_size_arrives_whole),
		cmocka_unit_test(send_of_any_size_fills_a_receive),
		cmocka_unit_test(send_with_immediate_delivers_it),
		cmocka_unit_test(write_with_immediate_takes_a_receive),
		cmocka_unit_test(send_with_invalidate_ends_a_key),
		cmocka_unit_test(atomics_return_what_was_there),
		cmocka_unit_test(nop_completes_in_order),
		cmocka_unit_test(lists_gather_and_scatter),
		cmocka_unit_test(inline_data_wraps_at_the_queue_end),
		cmocka_unit_test(small_data_comes_in_the_cqe),
		cmocka_unit_test(only_signalled_wqes_complete),
		cmocka_unit_test(batch_asks_for_few_acknowledgements),
		cmocka_unit_test(window_bounds_what_is_in_flight),
		cmocka_unit_test(reads_in_flight_are_counted),
		cmocka_unit_test(fence_waits_for_reads),
		cmocka_unit_test(write_after_read_carries_what_was_read),
		cmocka_unit_test(acknowledgement_waits_for_a_long_read),
		cmocka_unit_test(receive_that_comes_late_is_waited_for),
		cmocka_unit_test(receiver_that_stays_unready_ends_the_wqe),
		cmocka_unit_test(silent_peer_ends_the_wqe_after_all_retries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
