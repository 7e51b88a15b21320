/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_reference.c - the same requests, by libmlx5 on one queue pair and by hand on
 * another, of a software ConnectX: the same bytes in both send queues, and the same ends.
 * Each queue pair is connected to itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dv/run.h"
#include "tests/common/sim.h"

#define SIZE 4096u	/* source, then target */
#define DEPTH 32u
#define READS 4u

struct end {
	struct ibv_cq *ibv_cq;
	struct ibv_qp *qp;
	struct mlx5dv_qp raw;
	struct mlx5dv_cq raw_cq;
};

struct bench {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *memory;
	struct end theirs, ours;
	struct dv_uar uar;
	struct dv_sq sq;
	struct dv_cq cq;
	void *book;
};

static void connect_to_itself(struct ibv_context *context, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_port_attr port;
	union ibv_gid gid;

	assert_int_equal(ibv_query_port(context, 1, &port), 0);
	assert_int_equal(ibv_query_gid(context, 1, 0, &gid), 0);
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS), 0);
	a = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTR, .dest_qp_num = qp->qp_num, .path_mtu = port.active_mtu,
		.max_dest_rd_atomic = READS, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .grh = { .dgid = gid, .hop_limit = 64 },
			     .dlid = port.lid, .port_num = 1 },
	};
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER |
				       IBV_QP_MAX_DEST_RD_ATOMIC), 0);
	a = (struct ibv_qp_attr) {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = READS,
	};
	assert_int_equal(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

/* An error flushes each WQE, of which there are at most as many as blocks: four a WQE. */
static void end_open(struct bench *b, struct end *e)
{
	struct mlx5dv_obj o;
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_send_sge = 1,
			 .max_inline_data = DV_INLINE_MAX },
	};

	e->ibv_cq = ibv_create_cq(b->context, 8 * DEPTH, NULL, NULL, 0);
	assert_non_null(e->ibv_cq);
	a.send_cq = a.recv_cq = e->ibv_cq;
	e->qp = ibv_create_qp(b->pd, &a);
	assert_non_null(e->qp);
	o = (struct mlx5dv_obj) {
		.qp = { e->qp, &e->raw }, .cq = { e->ibv_cq, &e->raw_cq },
	};
	assert_int_equal(mlx5dv_init_obj(&o, MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ), 0);
	assert_true(e->raw_cq.cqe_cnt >= e->raw.sq.wqe_cnt);
}

static void bench_open(struct bench *b)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_true(list && list[0]);
	b->context = ibv_open_device(list[0]);
	assert_non_null(b->context);
	ibv_free_device_list(list);
	b->pd = ibv_alloc_pd(b->context);
	assert_int_equal(posix_memalign((void **)&b->memory, 4096, 2 * SIZE), 0);
	b->mr = ibv_reg_mr(b->pd, b->memory, 2 * SIZE, IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(b->mr);
	for (uint32_t i = 0; i < SIZE; i++)
		b->memory[i] = (uint8_t)(i * 7 + 3);
	end_open(b, &b->theirs);
	end_open(b, &b->ours);
	b->book = calloc(1, dv_sq_book_bytes(b->ours.raw.sq.wqe_cnt));
	dv_uar_init(&b->uar, &b->ours.raw);
	assert_int_equal(dv_sq_init(&b->sq, &b->ours.raw, b->ours.qp->qp_num, READS, &b->uar,
				    b->book), 0);
	assert_int_equal(dv_cq_init(&b->cq, &b->ours.raw_cq), 0);
	connect_to_itself(b->context, b->theirs.qp);
	connect_to_itself(b->context, b->ours.qp);
}

static void bench_close(struct bench *b)
{
	for (struct end *e = &b->theirs; e <= &b->ours; e++) {
		assert_int_equal(ibv_destroy_qp(e->qp), 0);
		assert_int_equal(ibv_destroy_cq(e->ibv_cq), 0);
	}
	assert_int_equal(ibv_dereg_mr(b->mr), 0);
	assert_int_equal(ibv_dealloc_pd(b->pd), 0);
	assert_int_equal(ibv_close_device(b->context), 0);
	free(b->memory);
	free(b->book);
}

/* ---- one request, twice ---------------------------------------------------- */

enum how { BY_WRITE, BY_INLINE, BY_READ };

static struct dv_piece piece_of(const struct bench *b, uint32_t length)
{
	return (struct dv_piece) {
		.local = (uintptr_t)b->memory, .remote = (uintptr_t)b->memory + SIZE,
		.lkey = b->mr->lkey, .rkey = b->mr->rkey, .length = length,
	};
}

static void post_theirs(struct bench *b, enum how how, const struct dv_piece *p, bool is_last)
{
	struct ibv_sge s = { p->local, p->length, p->lkey };
	struct ibv_send_wr *bad, w = {
		.sg_list = &s, .num_sge = 1,
		.opcode = how == BY_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = (is_last ? IBV_SEND_SIGNALED : 0) |
			      (how == BY_INLINE ? IBV_SEND_INLINE : 0),
		.wr.rdma = { p->remote, p->rkey },
	};

	assert_int_equal(ibv_post_send(b->theirs.qp, &w, &bad), 0);
}

static void build_ours(struct bench *b, enum how how, const struct dv_piece *p)
{
	assert_true(how == BY_READ ? dv_sq_read(&b->sq, p, b) :
		    how == BY_INLINE ? dv_sq_write_inline(&b->sq, p, b->memory, b) :
		    dv_sq_write(&b->sq, p, b));
}

static enum ibv_wc_status end_of_theirs(struct bench *b)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(b->theirs.ibv_cq, 1, &wc)) == 0)
		;
	assert_int_equal(n, 1);
	return wc.status;
}

/* The run of the next completion: how many WQEs, and the fault of the last. */
static uint32_t end_of_ours(struct bench *b, const struct dv_fault **fault)
{
	struct dv_run run;
	struct dv_op op;
	uint32_t n = 0;

	while (!dv_run_next(&b->cq, &b->sq, &run))
		;
	for (*fault = run.fault; dv_run_op(&b->sq, &run, &op); n++)
		assert_ptr_equal(op.cookie, b);
	return n;
}

/* All that a card reads of the WQE at block at, but for the number of its queue pair. What
 * lies behind inline data, up to the end of its segment, nobody reads. */
static void same_wqe(const struct bench *b, uint32_t at, uint32_t inline_bytes)
{
	uint32_t mask = b->ours.raw.sq.wqe_cnt - 1;
	const uint8_t *theirs = (uint8_t *)b->theirs.raw.sq.buf + (at & mask) * DV_BB;
	const uint8_t *ours = (uint8_t *)b->ours.raw.sq.buf + (at & mask) * DV_BB;
	uint32_t size = (theirs[7] & 0x3f) * DV_SEGMENT;

	assert_memory_equal(ours, theirs, 4);
	assert_int_equal(ours[7], theirs[7]);
	assert_memory_equal(ours + 8, theirs + 8, inline_bytes ? 28 + inline_bytes : size - 8);
}

static void same_record(const struct bench *b)
{
	assert_int_equal(b->ours.raw.dbrec[MLX5_SND_DBR], b->theirs.raw.dbrec[MLX5_SND_DBR]);
}

/* ---- properties ------------------------------------------------------------ */

static void each_shape_is_what_libmlx5_writes_and_moves_its_bytes(void **state)
{
	static const struct { enum how how; uint32_t length; } rows[] = {
		{ BY_WRITE, 1 }, { BY_WRITE, 4096 }, { BY_READ, 100 }, { BY_READ, 4096 },
		{ BY_INLINE, 1 }, { BY_INLINE, 12 }, { BY_INLINE, 28 }, { BY_INLINE, 29 },
		{ BY_INLINE, 92 }, { BY_INLINE, 93 }, { BY_INLINE, 156 }, { BY_INLINE, 157 },
		{ BY_INLINE, 220 },
	};
	const struct dv_fault *fault;
	struct bench b;

	(void)state;
	bench_open(&b);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct dv_piece p = piece_of(&b, rows[i].length);
		uint8_t *from = b.memory, *to = b.memory + SIZE;
		uint32_t at = b.sq.pi;

		if (rows[i].how == BY_READ) {
			p.local = (uintptr_t)to;
			p.remote = (uintptr_t)from;
		}
		post_theirs(&b, rows[i].how, &p, true);
		assert_int_equal(end_of_theirs(&b), IBV_WC_SUCCESS);
		memset(to, 0, SIZE);
		build_ours(&b, rows[i].how, &p);
		dv_sq_ring(&b.sq);
		assert_int_equal(end_of_ours(&b, &fault), 1);
		assert_null(fault);
		same_wqe(&b, at, rows[i].how == BY_INLINE ? p.length : 0);
		same_record(&b);
		assert_memory_equal(to, from, p.length);
		if (p.length < SIZE)
			assert_int_equal(to[p.length], 0);
	}
	bench_close(&b);
}

static void posts_of_many_are_the_same_over_many_laps(void **state)
{
	const struct dv_fault *fault;
	struct bench b;
	uint32_t laps;

	(void)state;
	bench_open(&b);
	laps = 3 * b.ours.raw.sq.wqe_cnt / 5;
	for (uint32_t i = 0; i < laps; i++) {
		struct dv_piece p = piece_of(&b, 8 + i % 50);
		uint32_t at = b.sq.pi;

		for (int n = 0; n < 5; n++) {
			post_theirs(&b, BY_WRITE, &p, n == 4);
			build_ours(&b, BY_WRITE, &p);
		}
		dv_sq_ring(&b.sq);
		assert_int_equal(end_of_theirs(&b), IBV_WC_SUCCESS);
		assert_int_equal(end_of_ours(&b, &fault), 5);
		assert_null(fault);
		for (uint32_t n = 0; n < 5; n++)
			same_wqe(&b, at + n, 0);
		same_record(&b);
	}
	bench_close(&b);
}

/* Four blocks at every place of a queue: NOPs in front of some, over many laps. */
static void inline_wqes_move_their_bytes_wherever_the_queue_ends(void **state)
{
	const struct dv_fault *fault;
	struct bench b;

	(void)state;
	bench_open(&b);
	for (uint32_t i = 0; i < 200; i++) {
		struct dv_piece p = piece_of(&b, i % 3 ? DV_INLINE_MAX : 28);

		memset(b.memory + SIZE, 0, SIZE);
		build_ours(&b, BY_INLINE, &p);
		dv_sq_ring(&b.sq);
		assert_int_equal(end_of_ours(&b, &fault), 1);
		assert_null(fault);
		assert_memory_equal(b.memory + SIZE, b.memory, p.length);
		assert_int_equal(dv_sq_free_bb(&b.sq), b.ours.raw.sq.wqe_cnt);
	}
	bench_close(&b);
}

static void a_wrong_local_key_fails_alike_and_what_is_behind_it_is_flushed(void **state)
{
	struct dv_piece p, wrong;
	const struct dv_fault *fault;
	struct bench b;

	(void)state;
	bench_open(&b);
	p = piece_of(&b, 64);
	wrong = p;
	wrong.lkey ^= 0x55500; /* of rkey the QP itself would hear first, as its own peer */
	post_theirs(&b, BY_WRITE, &wrong, true);
	assert_int_equal(end_of_theirs(&b), IBV_WC_LOC_PROT_ERR);
	build_ours(&b, BY_WRITE, &p);
	build_ours(&b, BY_WRITE, &wrong);
	build_ours(&b, BY_WRITE, &p);
	build_ours(&b, BY_WRITE, &p);
	dv_sq_ring(&b.sq);
	assert_int_equal(end_of_ours(&b, &fault), 2);
	assert_int_equal(fault->rule, TENT_RULE_SOURCE_GONE);
	assert_int_equal(fault->scope, DV_SCOPE_REQUEST);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(end_of_ours(&b, &fault), 1);
		assert_int_equal(fault->rule, TENT_RULE_NONE);
	}
	assert_int_equal(dv_sq_free_bb(&b.sq), b.ours.raw.sq.wqe_cnt);
	bench_close(&b);
}

int main(int argc, char **argv)
{
	static const char *const runs[] = { "--link roce", "--link ib", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_shape_is_what_libmlx5_writes_and_moves_its_bytes),
		cmocka_unit_test(posts_of_many_are_the_same_over_many_laps),
		cmocka_unit_test(inline_wqes_move_their_bytes_wherever_the_queue_ends),
		cmocka_unit_test(a_wrong_local_key_fails_alike_and_what_is_behind_it_is_flushed),
	};

	(void)argc;
	sim_main(argv, runs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
