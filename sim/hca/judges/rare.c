/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rare.c - through libmlx5, what no program of others here does: long CQEs with data in
 * them, a send queue that is drained, SEND with invalidate, a port whose MTU shrinks under a
 * UD queue pair. rare TENT_SIM; ends with 0 and "rare: ok", or says which line failed.
 */
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/judges/loop.h"

enum { QKEY = 0x11111111 };

static char *const far_half = loop_memory + LOOP_HALF;

static void fill(char with, uint32_t n)
{
	memset(loop_memory, 0, sizeof(loop_memory));
	for (uint32_t i = 0; i < n; i++)
		loop_memory[i] = (char)(with + i);
}

static void post_receive(struct loop *l, uint32_t n)
{
	struct ibv_sge s = { (uintptr_t)far_half, n, l->mr->lkey };
	struct ibv_recv_wr w = { .sg_list = &s, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(l->qp, &w, &bad));
}

static void post(struct loop *l, struct ibv_send_wr w, char *local, uint32_t n)
{
	struct ibv_sge s = { (uintptr_t)local, n, l->mr->lkey };
	struct ibv_send_wr *bad;

	w.sg_list = &s;
	w.num_sge = 1;
	w.send_flags |= IBV_SEND_SIGNALED;
	CHECK(!ibv_post_send(l->qp, &w, &bad));
}

/* ---- data in CQEs -------------------------------------------------------------------------- */

static uint32_t next_entry;		/* of the CQ, as nothing else polls it */

/* The next CQE, before libmlx5 has looked: where it has data, and in which form. */
static const char *peek(struct loop *l, uint8_t *form)
{
	struct mlx5dv_cq cq;
	struct mlx5dv_obj o = { .cq = { l->cq, &cq } };
	volatile struct mlx5_cqe64 *c;
	char *entry;

	CHECK(!mlx5dv_init_obj(&o, MLX5DV_OBJ_CQ));
	entry = (char *)cq.buf + next_entry++ % cq.cqe_cnt * cq.cqe_size;
	c = (void *)(entry + cq.cqe_size - 64);
	while (c->op_own >> 4 == MLX5_CQE_INVALID)
		;
	*form = c->op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64);
	return *form == MLX5_INLINE_SCATTER_64 ? entry : (const char *)c;
}

static void check_in_cqe(struct loop *l, uint32_t n, uint8_t form)
{
	uint8_t got;
	const char *data = peek(l, &got);

	CHECK(got == form && (!form || !memcmp(data, loop_memory, n)));
	CHECK(loop_wait(l).status == IBV_WC_SUCCESS);
}

static bool has_arrived(uint32_t n)
{
	return !memcmp(far_half, loop_memory, n) && !far_half[n];
}

/* What is received: the CQE of the send itself comes after it, as its acknowledgement does. */
static void check_send(struct loop *l, uint32_t n, uint8_t form)
{
	uint8_t none;

	fill('a', n);
	post_receive(l, n);
	post(l, (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, loop_memory, n);
	check_in_cqe(l, n, form);
	CHECK(has_arrived(n));
	peek(l, &none);
	CHECK(!none && loop_wait(l).status == IBV_WC_SUCCESS);
}

static void check_read(struct loop *l, uint32_t n, uint8_t form)
{
	fill('r', n);
	post(l, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ,
		.wr.rdma = { (uintptr_t)loop_memory, l->mr->rkey } }, far_half, n);
	check_in_cqe(l, n, form);
}

static void small_data_comes_in_cqes(void)
{
	struct loop l = { .signals_all = true };

	next_entry = 0;
	loop_make(&l);
	check_send(&l, 32, MLX5_INLINE_SCATTER_32);
	check_send(&l, 33, 0);
	check_read(&l, 32, MLX5_INLINE_SCATTER_32);
	CHECK(has_arrived(32));
	loop_drop(&l);
}

/* libmlx5 looks for what was read at `cqe` and `cqe - 1` of a void pointer, which is another
 * place of a long CQE than where a card puts it; rdma-core's 45184d2c8, after version 59, has
 * it look there. So only the CQE is judged. */
static void more_comes_in_long_cqes(void)
{
	struct loop l = { .signals_all = true };

	next_entry = 0;
	CHECK(!setenv("MLX5_CQE_SIZE", "128", 1));
	loop_make(&l);
	check_send(&l, 20, MLX5_INLINE_SCATTER_32);
	check_send(&l, 64, MLX5_INLINE_SCATTER_64);
	check_send(&l, 65, 0);
	check_read(&l, 32, MLX5_INLINE_SCATTER_32);
	check_read(&l, 33, MLX5_INLINE_SCATTER_64);
	loop_drop(&l);
	CHECK(!unsetenv("MLX5_CQE_SIZE"));
}

/* ---- draining ------------------------------------------------------------------------------ */

static void drained_queue_says_so_and_waits(void)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct loop l = { .signals_all = false };
	struct ibv_async_event event;
	struct ibv_wc wc;

	loop_make(&l);
	fill('d', 4);
	for (int i = 0; i < 8; i++)
		post(&l, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
			.wr.rdma = { (uintptr_t)far_half, l.mr->rkey } }, loop_memory, 4);
	for (int i = 0; i < 8; i++)
		CHECK(loop_wait(&l).status == IBV_WC_SUCCESS);
	CHECK(!ibv_modify_qp(l.qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	CHECK(!ibv_get_async_event(l.context, &event));
	CHECK(event.event_type == IBV_EVENT_SQ_DRAINED && event.element.qp == l.qp);
	ibv_ack_async_event(&event);
	post(&l, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)far_half + 8, l.mr->rkey } }, loop_memory, 4);
	CHECK(!ibv_poll_cq(l.cq, 1, &wc) && !far_half[8]);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	CHECK(!ibv_modify_qp(l.qp, &a, IBV_QP_STATE));
	CHECK(loop_wait(&l).status == IBV_WC_SUCCESS && far_half[8] == 'd');
	loop_drop(&l);
}

/* ---- SEND with invalidate ------------------------------------------------------------------- */

/* No verb makes a key that a peer may invalidate but a memory window, and there are none. So
 * both ends hear that it may not be, and it stays. */
static void key_of_a_region_cannot_be_invalidated(void)
{
	struct loop l = { .signals_all = false }, other = { .signals_all = false };
	int nr_local = 0, nr_remote = 0;

	loop_make(&l);
	post_receive(&l, 8);
	post(&l, (struct ibv_send_wr){ .opcode = IBV_WR_SEND_WITH_INV,
		.invalidate_rkey = l.mr->rkey }, loop_memory, 8);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = loop_wait(&l);

		nr_local += wc.status == IBV_WC_LOC_ACCESS_ERR;
		nr_remote += wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_WR_FLUSH_ERR;
	}
	CHECK(nr_local == 1 && nr_remote == 1);
	loop_make(&other);
	loop_write(&other);
	loop_drop(&other);
	loop_drop(&l);
}

/* ---- an MTU that shrinks --------------------------------------------------------------------- */

static struct ibv_qp *make_datagram_qp(struct loop *l)
{
	struct ibv_qp_init_attr init = { .send_cq = l->cq, .recv_cq = l->cq,
		.cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(l->pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	return qp;
}

static struct ibv_ah *address_of(struct loop *l)
{
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(l->context, 1, &port));
	CHECK(!ibv_query_gid(l->context, 1, 0, &a.grh.dgid));
	a.dlid = port.lid;
	return ibv_create_ah(l->pd, &a);
}

static enum ibv_wc_status send_datagram(struct loop *l, struct ibv_qp *qp, struct ibv_ah *ah,
					uint32_t n)
{
	struct ibv_sge s = { (uintptr_t)loop_memory, n, l->mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .wr.ud = { ah, qp->qp_num, QKEY } }, *bad;

	CHECK(!ibv_post_send(qp, &w, &bad));
	return loop_wait(l).status;
}

static void set_mtu(const char *tent_sim, unsigned bytes)
{
	char command[512];

	snprintf(command, sizeof(command), "'%s' ctl 0 set mtu=%u", tent_sim, bytes);
	CHECK(!system(command));
}

static unsigned mtu_of(struct loop *l)
{
	struct ibv_port_attr port;

	CHECK(!ibv_query_port(l->context, 1, &port));
	return 128U << port.active_mtu;
}

static void shrunk_port_refuses_what_it_carried(const char *tent_sim)
{
	struct loop l = { .signals_all = false };
	struct ibv_ah *ah;
	struct ibv_qp *qp;
	unsigned mtu;

	loop_make(&l);
	mtu = mtu_of(&l);
	qp = make_datagram_qp(&l);
	CHECK(ah = address_of(&l));
	CHECK(send_datagram(&l, qp, ah, mtu) == IBV_WC_SUCCESS);
	set_mtu(tent_sim, mtu / 2);
	CHECK(mtu_of(&l) == mtu / 2);
	CHECK(send_datagram(&l, qp, ah, mtu / 2) == IBV_WC_SUCCESS);
	CHECK(send_datagram(&l, qp, ah, mtu / 2 + 1) == IBV_WC_LOC_LEN_ERR);
	set_mtu(tent_sim, mtu);
	CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(qp));
	loop_drop(&l);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	small_data_comes_in_cqes();
	more_comes_in_long_cqes();
	drained_queue_says_so_and_waits();
	key_of_a_region_cannot_be_invalidated();
	shrunk_port_refuses_what_it_carried(argv[1]);
	puts("rare: ok");
	return 0;
}
