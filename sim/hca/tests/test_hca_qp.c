/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_qp.c - a queue pair's states: which changes there are, what each needs, and what
 * becomes of its work.
 */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "sim/hca/tests/common/pair.h"

enum {
	SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE, NR_STATES = HCA_QP_ERR + 1,
	RC_INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	RC_RTR = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RC_RTS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	UD_INIT = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
};

struct alone {
	struct fabric *f;
	struct fabric_host *host;
	struct fabric_qp *qp;
};

static struct alone alone_create(enum hca_transport t)
{
	struct alone a = { .f = fabric_create(true) };

	a.host = &a.f->host[0];
	a.qp = fabric_qp_create(a.host, &(struct fabric_qp_options) { .transport = t });
	return a;
}

static void alone_destroy(struct alone *a)
{
	struct fabric_cq *send_cq = a->qp->send_cq, *recv_cq = a->qp->recv_cq;

	fabric_qp_destroy(a->qp);
	fabric_cq_destroy(send_cq);
	fabric_cq_destroy(recv_cq);
	fabric_destroy(a->f);
}

static int change(struct alone *a, enum hca_qp_state to, uint32_t mask)
{
	struct hca_qp_values v = { .state = to, .path_mtu_bytes = 1024, .port = 1,
				   .current_state = fabric_state(a->qp) };

	return hca_qp_modify(a->qp->qp, &v, IBV_QP_STATE | mask);
}

static const uint32_t rc_masks[] = {
	[HCA_QP_INIT] = RC_INIT, [HCA_QP_RTR] = RC_RTR, [HCA_QP_RTS] = RC_RTS,
};
static const uint32_t ud_masks[] = {
	[HCA_QP_INIT] = UD_INIT, [HCA_QP_RTR] = 0, [HCA_QP_RTS] = IBV_QP_SQ_PSN,
};

/* By the shortest way. SQE has none but an error's. */
static void bring_to(struct alone *a, enum hca_transport t, enum hca_qp_state to)
{
	const uint32_t *masks = t == HCA_RC ? rc_masks : ud_masks;

	assert_int_equal(change(a, HCA_QP_RESET, 0), 0);
	for (int i = HCA_QP_INIT; i <= HCA_QP_RTS && i <= (int)to; i++)
		assert_int_equal(change(a, (enum hca_qp_state)i, masks[i]), 0);
	if (to == HCA_QP_SQD || to == HCA_QP_ERR)
		assert_int_equal(change(a, to, 0), 0);
	if (to == HCA_QP_SQE)
		fabric_post(a->qp, &(struct fabric_wr) { .opcode = 0x3f });
	assert_int_equal(fabric_state(a->qp), to);
}

/* Whether the change with exactly what it needs is legal. Rows: from, columns: to. */
static void only_the_specified_changes_are_legal(void **state)
{
	static const uint8_t legal[NR_STATES][NR_STATES] = {
		/*	      RESET INIT RTR RTS SQD SQE ERR */
		[HCA_QP_RESET] = { 1, 1, 0, 0, 0, 0, 1 },
		[HCA_QP_INIT] =  { 1, 1, 1, 0, 0, 0, 1 },
		[HCA_QP_RTR] =   { 1, 0, 0, 1, 0, 0, 1 },
		[HCA_QP_RTS] =   { 1, 0, 0, 1, 1, 0, 1 },
		[HCA_QP_SQD] =   { 1, 0, 0, 1, 1, 0, 1 },
		[HCA_QP_SQE] =   { 1, 0, 0, 1, 0, 0, 1 },
		[HCA_QP_ERR] =   { 1, 0, 0, 0, 0, 0, 1 },
	};
	static const enum hca_transport transports[] = { HCA_RC, HCA_UD };

	(void)state;
	for (uint32_t t = 0; t < 2; t++) {
		struct alone a = alone_create(transports[t]);

		for (int from = 0; from < NR_STATES; from++) {
			for (int to = 0; to < NR_STATES; to++) {
				uint32_t mask = 0;

				if (from == HCA_QP_SQE && transports[t] == HCA_RC)
					continue;
				bring_to(&a, transports[t], (enum hca_qp_state)from);
				if (to == from + 1 && to <= HCA_QP_RTS)
					mask = (t ? ud_masks : rc_masks)[to];
				assert_int_equal(change(&a, (enum hca_qp_state)to, mask),
						 legal[from][to] ? 0 : -EINVAL);
				assert_int_equal(fabric_state(a.qp), legal[from][to] ? to : from);
			}
		}
		alone_destroy(&a);
	}
}

static void check_mask(enum hca_transport t, enum hca_qp_state from, enum hca_qp_state to,
		       uint32_t needs, uint32_t allows)
{
	struct alone a = alone_create(t);

	for (uint32_t bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
		if (bit == IBV_QP_STATE)
			continue;
		bring_to(&a, t, from);
		if (needs & bit)
			assert_int_equal(change(&a, to, needs & ~bit), -EINVAL);
		else
			assert_int_equal(change(&a, to, needs | bit), allows & bit ? 0 : -EINVAL);
	}
	bring_to(&a, t, from);
	assert_int_equal(change(&a, to, needs | allows), 0);
	alone_destroy(&a);
}

static void each_change_has_its_attributes(void **state)
{
	uint32_t running = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
			   IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

	(void)state;
	check_mask(HCA_RC, HCA_QP_RESET, HCA_QP_INIT, RC_INIT, 0);
	check_mask(HCA_RC, HCA_QP_INIT, HCA_QP_INIT, 0, RC_INIT);
	check_mask(HCA_RC, HCA_QP_INIT, HCA_QP_RTR, RC_RTR,
		   IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX);
	check_mask(HCA_RC, HCA_QP_RTR, HCA_QP_RTS, RC_RTS, running);
	check_mask(HCA_RC, HCA_QP_RTS, HCA_QP_RTS, 0, running);
	check_mask(HCA_RC, HCA_QP_RTS, HCA_QP_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY);
	check_mask(HCA_RC, HCA_QP_SQD, HCA_QP_RTS, 0, running);
	check_mask(HCA_UD, HCA_QP_RESET, HCA_QP_INIT, UD_INIT, 0);
	check_mask(HCA_UD, HCA_QP_INIT, HCA_QP_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY);
	check_mask(HCA_UD, HCA_QP_RTR, HCA_QP_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY);
	check_mask(HCA_UD, HCA_QP_SQE, HCA_QP_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY);
}

static void values_out_of_range_are_refused(void **state)
{
	struct alone a = alone_create(HCA_RC);
	struct hca_qp_values good = { .state = HCA_QP_RTR, .path_mtu_bytes = 1024 }, v;

	(void)state;
	bring_to(&a, HCA_RC, HCA_QP_INIT);
	for (uint32_t mtu = 0; mtu <= 8192; mtu = mtu ? mtu * 2 : 128) {
		bool is_mtu = mtu >= 256 && mtu <= 4096;

		v = good;
		v.path_mtu_bytes = mtu;
		bring_to(&a, HCA_RC, HCA_QP_INIT);
		assert_int_equal(hca_qp_modify(a.qp->qp, &v, IBV_QP_STATE | RC_RTR),
				 is_mtu ? 0 : -EINVAL);
	}
	bring_to(&a, HCA_RC, HCA_QP_INIT);
	v = good;
	v.max_dest_rd_atomic = 17;
	assert_int_equal(hca_qp_modify(a.qp->qp, &v, IBV_QP_STATE | RC_RTR), -EINVAL);
	v = good;
	v.min_rnr_timer = 32;
	assert_int_equal(hca_qp_modify(a.qp->qp, &v, IBV_QP_STATE | RC_RTR), -EINVAL);
	bring_to(&a, HCA_RC, HCA_QP_RTR);
	good = (struct hca_qp_values) { .state = HCA_QP_RTS };
	for (int i = 0; i < 4; i++) {
		v = good;
		*(i == 0 ? &v.timeout : i == 1 ? &v.retry_count : i == 2 ? &v.rnr_retry :
		  &v.max_rd_atomic) = 32;
		assert_int_equal(hca_qp_modify(a.qp->qp, &v, IBV_QP_STATE | RC_RTS), -EINVAL);
	}
	v = good;
	v.current_state = HCA_QP_RTS;
	assert_int_equal(hca_qp_modify(a.qp->qp, &v, IBV_QP_STATE | IBV_QP_CUR_STATE | RC_RTS),
			 -EINVAL);
	alone_destroy(&a);
}

static void what_was_set_is_reported(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct hca_qp_values v;

	(void)state;
	hca_qp_query(p->a->qp, &v);
	assert_int_equal(v.path_mtu_bytes, fabric_usual.mtu);
	assert_int_equal(v.dest_qpn, p->b->qpn);
	assert_int_equal(v.sq_psn, fabric_usual.psn);
	assert_int_equal(v.rq_psn, (fabric_usual.psn + 100) & HCA_PSN_MASK);
	assert_int_equal(v.timeout, 14);
	assert_int_equal(v.access, fabric_usual.access);
	assert_int_equal(v.route.hop_limit, 64);
	pair_destroy(p);
}

/* ---- work and states --------------------------------------------------------------------- */

static void error_flushes_both_queues_in_order(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;

	(void)state;
	p->f->is_cut = true;
	for (uint32_t i = 0; i < 3; i++)
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, 100000, 0, 0);
	for (uint32_t i = 0; i < 3; i++)
		fabric_post_recv(p->a, NULL, 0);
	assert_int_equal(hca_qp_modify(p->a->qp, &(struct hca_qp_values) { .state = HCA_QP_ERR },
				       IBV_QP_STATE), 0);
	for (uint16_t i = 0; i < 3; i++) {
		assert_true(fabric_poll(p->a->send_cq, &c));
		assert_int_equal(c.opcode, MLX5_CQE_REQ_ERR);
		assert_int_equal(c.wqe_opcode, MLX5_OPCODE_RDMA_WRITE);
		assert_int_equal(c.syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		assert_int_equal(c.wqe_counter, i);
		assert_int_equal(c.uidx, PAIR_UIDX_A);
		assert_true(fabric_poll(p->a->recv_cq, &c));
		assert_int_equal(c.opcode, MLX5_CQE_RESP_ERR);
		assert_int_equal(c.wqe_counter, i);
	}
	assert_false(fabric_poll(p->a->send_cq, &c));
	assert_false(fabric_poll(p->a->recv_cq, &c));
	pair_destroy(p);
}

static void receives_posted_in_error_come_back(void **state)
{
	struct alone a = alone_create(HCA_RC);
	struct fabric_cqe c;

	(void)state;
	bring_to(&a, HCA_RC, HCA_QP_RTS);
	assert_int_equal(change(&a, HCA_QP_ERR, 0), 0);
	for (uint32_t i = 0; i < 20; i++) {
		fabric_post_recv(a.qp, NULL, 0);	/* rings nothing */
		fabric_run(a.f, 20 * 1000 * 1000);
		assert_true(fabric_poll(a.qp->recv_cq, &c));
		assert_int_equal(c.syndrome, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	}
	alone_destroy(&a);
}

static void reset_forgets_everything(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;

	(void)state;
	p->f->is_cut = true;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 100000, 0, 0);
	fabric_post_recv(p->a, NULL, 0);
	assert_int_equal(hca_qp_modify(p->a->qp, &(struct hca_qp_values) { .state = HCA_QP_RESET },
				       IBV_QP_STATE), 0);
	assert_int_equal(hca_qp_modify(p->b->qp, &(struct hca_qp_values) { .state = HCA_QP_RESET },
				       IBV_QP_STATE), 0);
	fabric_run(p->f, SECOND_NS);
	assert_false(fabric_poll(p->a->send_cq, &c));
	assert_false(fabric_poll(p->a->recv_cq, &c));
	assert_int_equal(hca_timers(p->f->host[0].hca), UINT64_MAX);
	/* libmlx5 clears its records. */
	memset(p->a->record, 0, 8);
	p->a->sq_pi = p->a->rq_pi = 0;
	p->f->is_cut = false;
	fabric_connect(p->a, p->b, NULL);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 1000, 0, 0);
	assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
	assert_memory_equal(p->far.bytes, p->near.bytes, 1000);
	pair_destroy(p);
}

static void work_posted_before_rts_waits_for_it(void **state)
{
	struct alone a = alone_create(HCA_RC);
	struct fabric_cqe c;

	(void)state;
	bring_to(&a, HCA_RC, HCA_QP_RTR);
	fabric_post(a.qp, &(struct fabric_wr) { .fm_ce_se = SIGNALED });
	assert_false(fabric_poll(a.qp->send_cq, &c));
	assert_int_equal(change(&a, HCA_QP_RTS, RC_RTS), 0);
	assert_true(fabric_poll(a.qp->send_cq, &c));
	alone_destroy(&a);
}

static void drained_queue_holds_new_work(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_host *h = &p->f->host[0];
	struct fabric_cqe c;

	(void)state;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 5000, 0, 0);
	assert_int_equal(hca_qp_modify(p->a->qp, &(struct hca_qp_values) {
		.state = HCA_QP_SQD, .sqd_event = true,
	}, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_false(fabric_has_event(h, HCA_EVENT_SQ_DRAINED));
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 8, 0, 9000);
	fabric_run(p->f, SECOND_NS);
	assert_true(fabric_has_event(h, HCA_EVENT_SQ_DRAINED));
	assert_int_equal(h->nr_events, 1);
	assert_true(fabric_poll(p->a->send_cq, &c));
	assert_false(fabric_poll(p->a->send_cq, &c));
	assert_int_equal(hca_qp_modify(p->a->qp, &(struct hca_qp_values) { .state = HCA_QP_RTS },
				       IBV_QP_STATE), 0);
	assert_int_equal(pair_completion(p, p->a->send_cq).wqe_counter, 1);
	pair_destroy(p);
}

static void malformed_wqe_ends_alone_and_in_turn(void **state)
{
	static const struct { uint8_t offset, value; } wrong[] = {
		{ 0, 1 },			/* opmod */
		{ 2, 9 },			/* index */
		{ 3, 0x25 }, { 3, 0xff },	/* opcode: UMR, none */
		{ 5, 9 },			/* QPN */
		{ 7, 0 }, { 7, 1 }, { 7, 2 }, { 7, 63 },	/* size */
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct pair *p = pair_create(NULL, NULL);
		struct fabric_cqe c;

		pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 8, 0, 0);
		fabric_write_wqe(p->a, &(struct fabric_wr) {
			.opcode = MLX5_OPCODE_RDMA_READ, .sge = &(struct fabric_sge) {
				fabric_address(&p->near, 0), 8, p->near.key }, .nr_sge = 1,
			.rkey = p->far.key, .remote_address = fabric_address(&p->far, 0) });
		p->a->buffer[64 + wrong[i].offset] = wrong[i].value;
		fabric_ring(p->a);
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, 8, 0, 0);
		assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
		c = pair_completion(p, p->a->send_cq);
		if (wrong[i].offset == 7 && wrong[i].value == 2) {
			/* Whole without its data: a READ of nothing. */
			assert_int_equal(c.opcode, MLX5_CQE_INVALID);
			pair_destroy(p);
			continue;
		}
		assert_int_equal(c.opcode, MLX5_CQE_REQ_ERR);
		assert_int_equal(c.wqe_counter, 1);
		assert_int_equal(c.syndrome, MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
		assert_int_equal(pair_completion(p, p->a->send_cq).syndrome,
				 MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
		assert_int_equal(fabric_state(p->a), HCA_QP_ERR);
		pair_destroy(p);
	}
}

static void lengths_that_cannot_be_are_local_errors(void **state)
{
	struct fabric_sge big[2];
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	big[0] = big[1] = pair_piece(&p->near, 0, 1 << 29);
	big[1].length++;
	fabric_post(p->a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_RDMA_WRITE, .sge = big,
						.nr_sge = 2 });
	assert_int_equal(pair_completion(p, p->a->send_cq).syndrome,
			 MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	pair_destroy(p);
	p = pair_create(NULL, NULL);
	big[0] = pair_piece(&p->near, 0, 0);	/* which means 2 GiB */
	fabric_post(p->a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_RDMA_WRITE, .sge = big,
						.nr_sge = 1 });
	assert_int_equal(pair_completion(p, p->a->send_cq).syndrome,
			 MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	pair_destroy(p);
	p = pair_create(NULL, NULL);
	big[0] = pair_piece(&p->near, 0, 7);
	fabric_post(p->a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_ATOMIC_FA, .sge = big,
						.nr_sge = 1 });
	assert_int_equal(pair_completion(p, p->a->send_cq).syndrome,
			 MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	pair_destroy(p);
	p = pair_create(NULL, NULL);
	fabric_post(p->a, &(struct fabric_wr) { .opcode = MLX5_OPCODE_RDMA_READ,
						.inline_data = "12345678", .inline_bytes = 8 });
	assert_int_equal(pair_completion(p, p->a->send_cq).syndrome,
			 MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	pair_destroy(p);
}

static void record_past_the_queue_is_fatal(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	p->a->record[6] = 0x12;
	fabric_ring(p->a);
	assert_int_equal(fabric_state(p->a), HCA_QP_ERR);
	assert_true(fabric_has_event(&p->f->host[0], HCA_EVENT_QP_FATAL));
	pair_destroy(p);
}

static void record_that_covers_unfinished_work_is_fatal(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	p->f->is_cut = true;
	for (uint32_t i = 0; i < 64; i++)
		pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, 8, 0, 0);
	assert_int_equal(fabric_state(p->a), HCA_QP_RTS);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, 8, 0, 0);
	assert_int_equal(fabric_state(p->a), HCA_QP_ERR);
	pair_destroy(p);
}

static void chosen_wqe_ends_with_the_chosen_syndrome(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;

	(void)state;
	p->f->host[0].faults.syndrome = 0x22;
	p->f->host[0].faults.syndrome_at = 2;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 8, 0, 0);
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, SIGNALED, 8, 0, 0);
	assert_int_equal(pair_completion(p, p->a->send_cq).opcode, MLX5_CQE_REQ);
	c = pair_completion(p, p->a->send_cq);
	assert_int_equal(c.syndrome, 0x22);
	assert_int_equal(c.wqe_counter, 1);
	pair_destroy(p);
}

static void removed_device_flushes_everybody(void **state)
{
	struct pair *p = pair_create(NULL, NULL);

	(void)state;
	p->f->is_cut = true;
	pair_post(p, MLX5_OPCODE_RDMA_WRITE, 0, 8, 0, 0);
	hca_remove(p->f->host[0].hca);
	assert_int_equal(fabric_state(p->a), HCA_QP_ERR);
	assert_int_equal(pair_completion(p, p->a->send_cq).syndrome,
			 MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	pair_destroy(p);
}

static void polled_records_need_a_first_ring(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_cqe c;
	struct fabric_wr nop = { .fm_ce_se = SIGNALED };

	(void)state;
	fabric_write_wqe(p->a, &nop);
	assert_false(hca_poll_records(p->f->host[0].hca));
	assert_false(fabric_poll(p->a->send_cq, &c));
	fabric_ring(p->a);
	assert_true(fabric_poll(p->a->send_cq, &c));
	fabric_write_wqe(p->a, &nop);
	assert_true(hca_poll_records(p->f->host[0].hca));
	assert_true(fabric_poll(p->a->send_cq, &c));
	assert_false(hca_poll_records(p->f->host[0].hca));
	hca_send_doorbell(p->f->host[0].hca, 0xffffff);
	pair_destroy(p);
}

/* The register that they share held the first's, until the second's came. */
static void overwritten_first_doorbell_is_not_lost(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_qp_options o = { .transport = HCA_RC, .send_cq = p->a->send_cq,
				       .recv_cq = p->a->recv_cq };
	struct fabric_qp *first = fabric_qp_create(&p->f->host[0], &o);
	struct fabric_qp *silent = fabric_qp_create(&p->f->host[0], &o);
	struct fabric_wr nop = { .fm_ce_se = SIGNALED };
	struct fabric_cqe c;

	(void)state;
	memset(silent->record, 0x5a, 8);	/* a custom allocator's may be full of anything */
	fabric_connect_to(first, 2, 0, 0, &fabric_usual);
	fabric_connect_to(silent, 2, 0, 0, &fabric_usual);
	fabric_write_wqe(first, &nop);
	fabric_post(p->a, &nop);
	assert_true(hca_poll_records(p->f->host[0].hca));
	assert_true(fabric_poll(p->a->send_cq, &c));
	assert_int_equal(c.qpn, p->a->qpn);
	assert_true(fabric_poll(p->a->send_cq, &c));
	assert_int_equal(c.qpn, first->qpn);
	assert_false(hca_poll_records(p->f->host[0].hca));
	assert_int_equal(fabric_state(silent), HCA_QP_RTS);
	fabric_qp_destroy(first);
	fabric_qp_destroy(silent);
	pair_destroy(p);
}

static void first_packet_before_rts_is_reported(void **state)
{
	struct alone a = alone_create(HCA_RC);
	struct hca_packet p = { .opcode = HCA_WRITE_ONLY, .pkey = 0xffff, .dest_qpn = a.qp->qpn };

	(void)state;
	hca_receive(a.host->hca, &p);
	bring_to(&a, HCA_RC, HCA_QP_INIT);
	hca_receive(a.host->hca, &p);
	assert_int_equal(a.host->nr_events, 0);
	bring_to(&a, HCA_RC, HCA_QP_RTR);
	hca_receive(a.host->hca, &p);
	assert_int_equal(a.host->events[0].event, HCA_EVENT_COMM_EST);
	alone_destroy(&a);
}

static void shared_queue_users_hear_that_nothing_more_comes(void **state)
{
	struct fabric *f = fabric_create(true);
	struct fabric_srq *s = fabric_srq_create(&f->host[0], 8);
	struct fabric_cq *cq = fabric_cq_create(&f->host[0], 8, 64);
	struct fabric_qp *qp = fabric_qp_create(&f->host[0], &(struct fabric_qp_options) {
		.send_cq = cq, .recv_cq = cq, .srq = s });
	struct fabric_cqe c;

	(void)state;
	assert_int_equal(hca_srq_destroy(s->srq), -EBUSY);
	fabric_connect_to(qp, 0x20001, 0, 0, &fabric_usual);
	fabric_srq_post(s, NULL, 0);
	assert_int_equal(hca_qp_modify(qp->qp, &(struct hca_qp_values) { .state = HCA_QP_ERR },
				       IBV_QP_STATE), 0);
	assert_true(fabric_has_event(&f->host[0], HCA_EVENT_LAST_WQE_REACHED));
	assert_false(fabric_poll(cq, &c));
	fabric_qp_destroy(qp);
	fabric_srq_destroy(s);
	fabric_cq_destroy(cq);
	fabric_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_specified_changes_are_legal),
		cmocka_unit_test(each_change_has_its_attributes),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(what_was_set_is_reported),
		cmocka_unit_test(error_flushes_both_queues_in_order),
		cmocka_unit_test(receives_posted_in_error_come_back),
		cmocka_unit_test(reset_forgets_everything),
		cmocka_unit_test(work_posted_before_rts_waits_for_it),
		cmocka_unit_test(drained_queue_holds_new_work),
		cmocka_unit_test(malformed_wqe_ends_alone_and_in_turn),
		cmocka_unit_test(lengths_that_cannot_be_are_local_errors),
		cmocka_unit_test(record_past_the_queue_is_fatal),
		cmocka_unit_test(record_that_covers_unfinished_work_is_fatal),
		cmocka_unit_test(chosen_wqe_ends_with_the_chosen_syndrome),
		cmocka_unit_test(removed_device_flushes_everybody),
		cmocka_unit_test(polled_records_need_a_first_ring),
		cmocka_unit_test(overwritten_first_doorbell_is_not_lost),
		cmocka_unit_test(first_packet_before_rts_is_reported),
		cmocka_unit_test(shared_queue_users_hear_that_nothing_more_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
