/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that make, change and end completion queues, queue pairs and shared receive
 * queues, and the events of these.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "sim/hca/tests/common/program.h"
#include "sim/hca/uverbs/command.h"

/* Nothing is ever mapped so low. */
#define NOWHERE 8

/* ---- completion queues and events ------------------------------------------------------------ */

static void a_cq_has_room_for_a_power_of_two(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_create_cq in = { .cqe = 100, .comp_channel = -1 };
	struct ib_uverbs_create_cq_resp out;
	struct mlx5_ib_create_cq hw_in = { .buf_addr = (uintptr_t)p->memory,
		.db_addr = (uintptr_t)p->memory + 65536, .cqe_size = 64 };
	struct mlx5_ib_create_cq_resp hw_out;
	struct program_write w = { IB_USER_VERBS_CMD_CREATE_CQ, &in, sizeof(in), &out,
				   sizeof(out), &hw_in, sizeof(hw_in), &hw_out,
				   sizeof(hw_out) };

	assert_int_equal(program_write(p, &w), 0);
	assert_int_equal(out.cqe, 127);
	hw_in.cqe_size = 32;
	assert_int_equal(program_write(p, &w), -EINVAL);
	hw_in.cqe_size = 128;
	in.cqe = 0;
	assert_int_equal(program_write(p, &w), -EINVAL);
	in.cqe = UINT32_MAX;
	assert_int_equal(program_write(p, &w), -EINVAL);
	in.cqe = 10;
	in.comp_vector = 1000;
	assert_int_equal(program_write(p, &w), -EINVAL);
	in.comp_vector = 0;
	hw_in.cqe_comp_en = 1;
	assert_int_equal(program_write(p, &w), -EOPNOTSUPP);
	hw_in.cqe_comp_en = 0;
	hw_in.buf_addr = NOWHERE;
	assert_int_equal(program_write(p, &w), -EFAULT);
}

static void a_channel_has_to_be_one(void **state)
{
	struct program *p = *state;

	assert_int_equal(program_create_cq(p, 1, PROGRAM_FIRST_FD + 9, 0), -EBADF);
	assert_int_equal(program_create_cq(p, 1, PROGRAM_FIRST_FD, 0), -EINVAL);
	assert_true(program_create_cq(p, 1, program_create_channel(p), 0) >= 0);
}

/* What the engine has as the CQ's cookie. */
static struct object *cq_cookie(struct program *p, uint32_t handle)
{
	struct object *o = object_find(&p->file->objects, OBJECT_CQ, handle);

	assert_non_null(o);
	return o;
}

static void events_reported_are_those_that_were_read(void **state)
{
	struct program *p = *state;
	int channel = program_create_channel(p);
	struct event_queue *q = program_queue(p, channel);
	struct ib_uverbs_destroy_cq in = {
		.cq_handle = (uint32_t)program_create_cq(p, 1, channel, 0x1234) };
	struct ib_uverbs_destroy_cq_resp out;
	struct ib_uverbs_comp_event_desc e;

	for (int i = 0; i < 3; i++)
		uverbs_cq_event(cq_cookie(p, in.cq_handle));
	assert_int_equal(program_read_event(q, &e, sizeof(e) - 1), -EINVAL);
	assert_int_equal(program_read_event(q, &e, sizeof(e)), sizeof(e));
	assert_int_equal(e.cq_handle, 0x1234);
	assert_int_equal(program_read_event(q, &e, 100), sizeof(e));
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_DESTROY_CQ, in, out), 0);
	assert_int_equal(out.comp_events_reported, 2);
	assert_int_equal(program_read_event(q, &e, sizeof(e)), -EAGAIN);
}

static void an_event_read_to_a_bad_address_is_lost(void **state)
{
	struct program *p = *state;
	int channel = program_create_channel(p);
	struct event_queue *q = program_queue(p, channel);
	uint32_t cq = (uint32_t)program_create_cq(p, 1, channel, 0x1234);

	uverbs_cq_event(cq_cookie(p, cq));
	assert_int_equal(program_read_event(q, (void *)8, 100), -EFAULT);
	assert_int_equal(program_read_event(q, (void *)8, 100), -EAGAIN);
}

static void a_cq_takes_only_its_own_events_with_it(void **state)
{
	struct program *p = *state;
	int channel = program_create_channel(p);
	struct event_queue *q = program_queue(p, channel);
	uint32_t a = (uint32_t)program_create_cq(p, 1, channel, 1);
	uint32_t b = (uint32_t)program_create_cq(p, 1, channel, 2);
	struct ib_uverbs_destroy_cq in = { .cq_handle = a };
	struct ib_uverbs_destroy_cq_resp out;
	struct ib_uverbs_comp_event_desc e;

	uverbs_cq_event(cq_cookie(p, b));
	uverbs_cq_event(cq_cookie(p, a));
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_DESTROY_CQ, in, out), 0);
	uverbs_cq_event(cq_cookie(p, b));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(program_read_event(q, &e, sizeof(e)), sizeof(e));
		assert_int_equal(e.cq_handle, 2);
	}
	assert_int_equal(program_read_event(q, &e, sizeof(e)), -EAGAIN);
}

/* ---- queue pairs and shared receive queues ------------------------------------------------- */

struct qp_world {
	uint32_t pd, cq, uar, handle;
	struct mlx5_ib_create_qp hw_in;
	struct ib_uverbs_create_qp in;	/* ends in what is not there */
};

static int create_qp(struct program *p, struct qp_world *w)
{
	struct ib_uverbs_create_qp_resp out;
	struct mlx5_ib_create_qp_resp hw_out;
	int rc = program_write(p, &(struct program_write){
		IB_USER_VERBS_CMD_CREATE_QP, &w->in, sizeof(w->in), &out, sizeof(out),
		&w->hw_in, sizeof(w->hw_in), &hw_out, sizeof(hw_out) });

	w->handle = out.qp_handle;
	return rc;
}

static void make_qp_world(struct program *p, struct qp_world *w)
{
	w->pd = (uint32_t)program_alloc_pd(p);
	w->cq = (uint32_t)program_create_cq(p, 15, -1, 0);
	assert_true(program_alloc_uar(p, &w->uar) >= 0);
	w->in = (struct ib_uverbs_create_qp){
		.user_handle = 0x77, .pd_handle = w->pd, .send_cq_handle = w->cq,
		.recv_cq_handle = w->cq, .max_send_wr = 4, .max_recv_wr = 4,
		.max_send_sge = 1, .max_recv_sge = 1, .qp_type = IBV_QPT_RC,
	};
	w->hw_in = (struct mlx5_ib_create_qp){
		.buf_addr = (uintptr_t)p->memory + 4 * 4096,
		.db_addr = (uintptr_t)p->memory + PROGRAM_BYTES - 256,
		.sq_wqe_count = 4, .rq_wqe_count = 4, .rq_wqe_shift = 4,
		.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_SCATTER_CQE,
		.bfreg_index = w->uar,
	};
}

static void queue_pairs_of_other_kinds_are_eopnotsupp(void **state)
{
	struct program *p = *state;
	struct qp_world w;

	make_qp_world(p, &w);
	assert_int_equal(create_qp(p, &w), 0);
	w.in.qp_type = IBV_QPT_UC;
	assert_int_equal(create_qp(p, &w), -EOPNOTSUPP);
	w.in.qp_type = IBV_QPT_RAW_PACKET;
	assert_int_equal(create_qp(p, &w), -EOPNOTSUPP);
	w.in.qp_type = 77;
	assert_int_equal(create_qp(p, &w), -EINVAL);
	w.in.qp_type = IBV_QPT_UD;
	assert_int_equal(create_qp(p, &w), 0);
	w.hw_in.flags |= MLX5_QP_FLAG_TYPE_DCI;
	assert_int_equal(create_qp(p, &w), -EOPNOTSUPP);
}

static void a_qp_of_wrong_parts_is_refused(void **state)
{
	struct program *p = *state;
	struct qp_world good, w;

	make_qp_world(p, &good);
	w = good;
	w.in.pd_handle = 99;
	assert_int_equal(create_qp(p, &w), -ENOENT);
	w = good;
	w.in.send_cq_handle = w.pd;
	assert_int_equal(create_qp(p, &w), -ENOENT);
	w = good;
	w.in.is_srq = 1;
	assert_int_equal(create_qp(p, &w), -ENOENT);
	w = good;
	w.hw_in.bfreg_index++;
	assert_int_equal(create_qp(p, &w), -EINVAL);
	w = good;
	w.hw_in.sq_wqe_count = 3;
	assert_int_equal(create_qp(p, &w), -EINVAL);
	w = good;
	w.hw_in.rq_wqe_shift = 64;
	assert_int_equal(create_qp(p, &w), -EINVAL);
	w = good;
	w.hw_in.rq_wqe_count = UINT32_MAX;
	assert_int_equal(create_qp(p, &w), -EINVAL);
	w = good;
	w.in.max_send_sge = 31;
	assert_int_equal(create_qp(p, &w), -EINVAL);
	w = good;
	w.hw_in.buf_addr = NOWHERE;
	assert_int_equal(create_qp(p, &w), -EFAULT);
}

static void a_fault_refuses_queue_pairs(void **state)
{
	struct program *p = *state;
	struct qp_world w;

	make_qp_world(p, &w);
	p->qp_refusal = -ENOMEM;
	assert_int_equal(create_qp(p, &w), -ENOMEM);
	p->qp_refusal = 0;
	assert_int_equal(create_qp(p, &w), 0);
}

static void a_qp_is_asked_what_it_was_told(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_modify_qp in = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.attr_mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			     IBV_QP_ACCESS_FLAGS };
	struct ib_uverbs_query_qp query;
	struct ib_uverbs_query_qp_resp out;
	struct qp_world w;

	make_qp_world(p, &w);
	assert_int_equal(create_qp(p, &w), 0);
	in.qp_handle = query.qp_handle = w.handle;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), 0);
	in = (struct ib_uverbs_modify_qp){ .qp_handle = w.handle, .qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = 0x123456, .rq_psn = 0xabcdef,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.dest = { .is_global = 1, .port_num = 1, .sgid_index = 1, .hop_limit = 64,
			  .dgid = { [15] = 9 } },
		.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER };
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), 0);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_QP, query, out), 0);
	assert_int_equal(out.qp_state, IBV_QPS_RTR);
	assert_int_equal(out.path_mtu, IBV_MTU_1024);
	assert_int_equal(out.dest_qp_num, 0x123456);
	assert_int_equal(out.rq_psn, 0xabcdef);
	assert_int_equal(out.min_rnr_timer, 12);
	assert_int_equal(out.port_num, 1);
	assert_int_equal(out.dest.sgid_index, 1);
	assert_int_equal(out.dest.dgid[15], 9);
	assert_int_equal(out.dest.hop_limit, 64);
	assert_int_equal(out.max_send_wr, 4);
}

static void wrong_modifications_change_nothing(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_modify_qp init = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.attr_mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			     IBV_QP_ACCESS_FLAGS }, in;
	struct qp_world w;

	make_qp_world(p, &w);
	assert_int_equal(create_qp(p, &w), 0);
	init.qp_handle = w.handle;
	in = init;
	in.port_num = 2;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), -EINVAL);
	in = init;
	in.qp_state = 200;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), -EINVAL);
	in = init;
	in.attr_mask |= 1 << 22;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), -EOPNOTSUPP);
	in = init;
	in.qp_state = IBV_QPS_RTS;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), -EINVAL);
	in = init;
	in.pkey_index = 1;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), -EINVAL);
	in = init;
	in.qp_handle = 99;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, in), -ENOENT);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_QP, init), 0);
}

static void what_a_qp_uses_is_ebusy(void **state)
{
	struct program *p = *state;
	struct ib_uverbs_destroy_cq cq;
	struct ib_uverbs_destroy_cq_resp cq_out;
	struct ib_uverbs_destroy_qp qp;
	struct ib_uverbs_destroy_qp_resp qp_out;
	struct qp_world w;

	make_qp_world(p, &w);
	assert_int_equal(create_qp(p, &w), 0);
	cq.cq_handle = w.cq;
	qp.qp_handle = w.handle;
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_DESTROY_CQ, cq, cq_out), -EBUSY);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_DESTROY_QP, qp, qp_out), 0);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_DESTROY_QP, qp, qp_out), -ENOENT);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_DESTROY_CQ, cq, cq_out), 0);
}

static void an_srq_keeps_its_limit_below_its_size(void **state)
{
	struct program *p = *state;
	int srq = program_create_srq(p, (uint32_t)program_alloc_pd(p), 7);
	struct ib_uverbs_modify_srq modify = { .srq_handle = (uint32_t)srq,
					       .attr_mask = IBV_SRQ_LIMIT, .srq_limit = 8 };
	struct ib_uverbs_query_srq query = { .srq_handle = (uint32_t)srq };
	struct ib_uverbs_query_srq_resp out;
	struct ib_uverbs_async_event_desc e;

	assert_true(srq >= 0);
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_SRQ, modify), -EINVAL);
	assert_int_equal(program_read_event(p->fds[0], &e, sizeof(e)), -EAGAIN);
	/* It is empty, so it is below any limit: the event comes, the limit goes. */
	modify.srq_limit = 5;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_SRQ, modify), 0);
	assert_int_equal(program_read_event(p->fds[0], &e, sizeof(e)), sizeof(e));
	assert_int_equal(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(PROGRAM_WRITE(p, IB_USER_VERBS_CMD_QUERY_SRQ, query, out), 0);
	assert_int_equal(out.srq_limit, 0);
	assert_int_equal(out.max_wr, 7);
	modify.attr_mask = IBV_SRQ_MAX_WR;
	assert_int_equal(PROGRAM_WRITE_IN(p, IB_USER_VERBS_CMD_MODIFY_SRQ, modify), -EINVAL);
	assert_int_equal(program_create_srq(p, 99, 7), -ENOENT);
	assert_int_equal(program_create_srq(p, 0, UINT32_MAX), -EINVAL);
}

#define OPEN(test) \
	cmocka_unit_test_setup_teardown(test, program_setup_open, program_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OPEN(a_cq_has_room_for_a_power_of_two),
		OPEN(a_channel_has_to_be_one),
		OPEN(events_reported_are_those_that_were_read),
		OPEN(an_event_read_to_a_bad_address_is_lost),
		OPEN(a_cq_takes_only_its_own_events_with_it),
		OPEN(queue_pairs_of_other_kinds_are_eopnotsupp),
		OPEN(a_qp_of_wrong_parts_is_refused),
		OPEN(a_fault_refuses_queue_pairs),
		OPEN(a_qp_is_asked_what_it_was_told),
		OPEN(wrong_modifications_change_nothing),
		OPEN(what_a_qp_uses_is_ebusy),
		OPEN(an_srq_keeps_its_limit_below_its_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
