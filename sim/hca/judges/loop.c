/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/judges/loop.h"

#include <string.h>

char loop_memory[2 * LOOP_HALF];

struct ibv_context *loop_open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(context);
	return context;
}

static void connect_to_itself(struct loop *l)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				 .qp_access_flags = LOOP_ACCESS };

	CHECK(!ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_query_port(l->context, 1, &port));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = l->qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .dlid = port.lid,
			     .grh.hop_limit = 64 } };
	CHECK(!ibv_query_gid(l->context, 1, 0, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
				  .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void loop_make(struct loop *l)
{
	struct ibv_qp_init_attr init = { .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = l->signals_all };

	l->context = loop_open_device();
	CHECK(l->pd = ibv_alloc_pd(l->context));
	CHECK(l->mr = ibv_reg_mr(l->pd, loop_memory, sizeof(loop_memory), LOOP_ACCESS));
	CHECK(l->channel = ibv_create_comp_channel(l->context));
	CHECK(l->cq = ibv_create_cq(l->context, 16, NULL, l->channel, 0));
	init.send_cq = init.recv_cq = l->cq;
	CHECK(l->qp = ibv_create_qp(l->pd, &init));
	connect_to_itself(l);
}

void loop_drop(struct loop *l)
{
	CHECK(!ibv_destroy_qp(l->qp));
	CHECK(!ibv_destroy_cq(l->cq));
	CHECK(!ibv_destroy_comp_channel(l->channel));
	CHECK(!ibv_dereg_mr(l->mr));
	CHECK(!ibv_dealloc_pd(l->pd));
	CHECK(!ibv_close_device(l->context));
}

struct ibv_wc loop_wait(struct loop *l)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(l->cq, 1, &wc)))
		;
	CHECK(n == 1);
	return wc;
}

enum ibv_wc_status loop_write_to(struct loop *l, void *to, uint32_t rkey)
{
	struct ibv_sge s = { (uintptr_t)loop_memory, sizeof(int), l->mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)to, rkey } }, *bad;

	CHECK(!ibv_post_send(l->qp, &w, &bad));
	return loop_wait(l).status;
}

void loop_write(struct loop *l)
{
	static int value;

	value++;
	memcpy(loop_memory, &value, sizeof(value));
	CHECK(loop_write_to(l, loop_memory + LOOP_HALF, l->mr->rkey) == IBV_WC_SUCCESS);
	CHECK(!memcmp(loop_memory + LOOP_HALF, &value, sizeof(value)));
}
