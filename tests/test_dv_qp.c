/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_dv_qp.c - queue pairs of dv/ on software ConnectX devices: requests that libmlx5
 * posts on them reach what dv/ has made, and nothing else.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "dv/mr.h"
#include "dv/qp.h"
#include "tests/common/dv_fix.h"
#include "tests/common/sim.h"

#define SIZE 65536u
#define FAR_BASE 0x7000000000ull	/* what an owner calls its memory */

/* ---- queue pairs ------------------------------------------------------- */

/* One that asks, one that serves, and memory on both sides. */
struct pair {
	struct dv_device d;
	struct ibv_pd *pd;
	struct ibv_td *td;
	struct dv_qp asks, serves;
	uint8_t *near, *far;
	struct dv_mr *near_mr, *far_mr;
};

static void open_end(struct pair *p, struct dv_qp *q, uint32_t depth)
{
	const struct dv_qp_options o = { .depth = depth, .td = depth ? p->td : NULL, .sl = 3,
					 .tc = 96, .timeout = 8, .retries = 2 };

	if (dv_qp_open(q, &p->d, p->pd, &o, WHY) < 0)
		fail_msg("%s", dv_fix_why);
}

static void connect_to(struct dv_qp *q, const struct dv_qp *other)
{
	struct dv_endpoint e;

	dv_qp_endpoint(other, &e);
	if (dv_qp_connect(q, &e, WHY) < 0)
		fail_msg("%s", dv_fix_why);
}

static void pair_open(struct pair *p, unsigned int access)
{
	p->pd = dv_fix_pd(&p->d);
	p->td = dv_td_open(&p->d, WHY);
	assert_non_null(p->td);
	p->near = dv_fix_pages(SIZE);
	p->far = dv_fix_pages(SIZE);
	assert_int_equal(dv_mr_open(&p->near_mr, &p->d, p->pd, p->near, SIZE,
				    (uintptr_t)p->near, DV_ACCESS_LOCAL, NULL, WHY), 0);
	assert_int_equal(dv_mr_open(&p->far_mr, &p->d, p->pd, p->far, SIZE, FAR_BASE, access, NULL,
				    WHY), 0);
	open_end(p, &p->asks, 16);
	open_end(p, &p->serves, 0);
	connect_to(&p->serves, &p->asks);
	connect_to(&p->asks, &p->serves);
}

static void pair_close(struct pair *p)
{
	dv_qp_close(&p->asks);
	dv_qp_close(&p->serves);
	dv_mr_close(p->near_mr);
	dv_mr_close(p->far_mr);
	assert_int_equal(ibv_dealloc_td(p->td), 0);
	dv_fix_close(&p->d, p->pd);
	munmap(p->near, SIZE);
	munmap(p->far, SIZE);
}

static void post(struct pair *p, enum ibv_wr_opcode opcode, uint64_t at, uint32_t n)
{
	uint64_t span;
	struct ibv_sge s = { (uintptr_t)p->near, n, p->near_mr->local.keys[0] };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { at, dv_keys_find(&p->far_mr->remote, at, n, &span) } }, *bad;

	assert_int_equal(span, n);
	assert_int_equal(ibv_post_send(p->asks.qp, &w, &bad), 0);
}

static enum ibv_wc_status next_end(struct pair *p)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(p->asks.cq, 1, &wc)) == 0)
		;
	assert_int_equal(n, 1);
	return wc.status;
}

static void bytes_are_written_at_the_addresses_of_their_owner(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_READ | DV_ACCESS_WRITE);
	memset(p.near, 'w', SIZE);
	post(&p, IBV_WR_RDMA_WRITE, FAR_BASE + 100, 50000);
	assert_int_equal(next_end(&p), IBV_WC_SUCCESS);
	assert_int_equal(p.far[99], 0);
	assert_memory_equal(p.far + 100, p.near, 50000);
	assert_int_equal(p.far[50100], 0);
	pair_close(&p);
}

/* With 32 bytes or less it would come in the CQE if that had not been turned off. */
static void a_short_read_lands_in_memory(void **state)
{
	struct pair p;
	const struct mlx5_cqe64 *c;

	(void)state;
	pair_open(&p, DV_ACCESS_READ);
	memset(p.far, 'r', SIZE);
	post(&p, IBV_WR_RDMA_READ, FAR_BASE, 32);
	c = p.asks.cq_raw.buf;
	while (*(volatile const uint8_t *)&c->op_own >> 4 == MLX5_CQE_INVALID)
		;
	assert_memory_equal(p.near, p.far, 32);
	assert_int_equal(c->op_own & (MLX5_INLINE_SCATTER_32 | MLX5_INLINE_SCATTER_64), 0);
	assert_int_equal(next_end(&p), IBV_WC_SUCCESS);
	pair_close(&p);
}

static void what_peers_may_only_read_is_not_written(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_READ);
	post(&p, IBV_WR_RDMA_WRITE, FAR_BASE, 8);
	assert_int_equal(next_end(&p), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p.far[0], 0);
	pair_close(&p);
}

static void a_domain_of_another_tenant_is_out_of_reach(void **state)
{
	struct ibv_pd *other;
	struct dv_mr *theirs;
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	other = dv_pd_open(&p.d, WHY);
	assert_non_null(other);
	assert_int_equal(dv_mr_open(&theirs, &p.d, other, p.far, SIZE, FAR_BASE, DV_ACCESS_WRITE,
				    NULL, WHY), 0);
	p.far_mr->remote.keys[0] = theirs->remote.keys[0];	/* it was guessed */
	post(&p, IBV_WR_RDMA_WRITE, FAR_BASE, 8);
	assert_int_equal(next_end(&p), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p.far[0], 0);
	dv_mr_close(theirs);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	pair_close(&p);
}

/* A READ from whose memory was taken back ends in an error, and none of it comes. */
static void memory_that_was_closed_is_out_of_reach(void **state)
{
	struct dv_keys known;
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_READ);
	memset(p.far, 'r', SIZE);
	known = p.far_mr->remote;
	dv_mr_close(p.far_mr);
	p.far_mr = calloc(1, sizeof(*p.far_mr));	/* a key that is none any more */
	assert_non_null(p.far_mr);
	p.far_mr->remote = known;
	post(&p, IBV_WR_RDMA_READ, FAR_BASE, 4096);
	assert_int_equal(next_end(&p), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(p.near[0], 0);
	pair_close(&p);
}

static void a_failed_queue_pair_flushes_what_was_posted(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	assert_int_equal(dv_qp_fail(&p.asks), 0);
	for (int i = 0; i < 3; i++)
		post(&p, IBV_WR_RDMA_WRITE, FAR_BASE, 8);
	for (int i = 0; i < 3; i++)
		assert_int_equal(next_end(&p), IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p.far[0], 0);
	pair_close(&p);
}

static void a_peer_that_serves_no_more_is_noticed(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	assert_int_equal(dv_qp_fail(&p.serves), 0);
	post(&p, IBV_WR_RDMA_WRITE, FAR_BASE, 8);
	assert_int_equal(next_end(&p), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(p.far[0], 0);
	pair_close(&p);
}

static void the_smaller_mtu_and_the_fewer_reads_are_used(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct dv_endpoint peer;
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	dv_qp_close(&p.asks);
	open_end(&p, &p.asks, 16);
	dv_qp_endpoint(&p.serves, &peer);
	peer.address.mtu = IBV_MTU_512;
	peer.reads = 3;
	assert_int_equal(dv_qp_connect(&p.asks, &peer, WHY), 0);
	assert_int_equal(ibv_query_qp(p.asks.qp, &a, IBV_QP_PATH_MTU | IBV_QP_MAX_QP_RD_ATOMIC,
				      &init), 0);
	assert_int_equal(a.path_mtu, IBV_MTU_512);
	assert_int_equal(a.max_rd_atomic, 3);
	assert_int_equal(p.asks.reads, 3);
	pair_close(&p);
}

static void service_level_and_traffic_class_are_those_of_its_options(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	assert_int_equal(ibv_query_qp(p.asks.qp, &a, IBV_QP_AV, &init), 0);
	assert_int_equal(a.ah_attr.sl, 3);
	assert_int_equal(a.ah_attr.is_global, !sim_has("ib"));
	if (a.ah_attr.is_global)
		assert_int_equal(a.ah_attr.grh.traffic_class, 96);
	pair_close(&p);
}

/* On InfiniBand another prefix; RoCE has a GRH anyway, of the IP version of its own GID. */
static void a_peer_in_another_subnet_is_reached_by_a_grh(void **state)
{
	struct ibv_qp_init_attr init;
	struct dv_endpoint peer;
	struct ibv_qp_attr a;
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	dv_qp_close(&p.asks);
	open_end(&p, &p.asks, 16);
	dv_qp_endpoint(&p.serves, &peer);
	peer.address.gid.raw[sim_has("ib") ? 0 : 15] ^= 1;
	assert_int_equal(dv_qp_connect(&p.asks, &peer, WHY), 0);
	assert_int_equal(ibv_query_qp(p.asks.qp, &a, IBV_QP_AV, &init), 0);
	assert_int_equal(a.ah_attr.is_global, 1);
	pair_close(&p);
}

static void an_endpoint_that_cannot_be_is_refused(void **state)
{
	static const struct {
		const char *says;
		struct dv_endpoint change;
	} bad[] = {
		{ "another link layer", { .address.link = 77 } },
		{ "no MTU", { .address.mtu = 9 } },
		{ "beyond 24 bits", { .qpn = 1u << 24 } },
		{ "beyond 24 bits", { .psn = 1u << 24 } },
	};
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	dv_qp_close(&p.asks);
	open_end(&p, &p.asks, 16);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct dv_endpoint *change = &bad[i].change;
		struct dv_endpoint e;

		dv_qp_endpoint(&p.serves, &e);
		e.address.link = change->address.link ? change->address.link : e.address.link;
		e.address.mtu = change->address.mtu ? change->address.mtu : e.address.mtu;
		e.qpn = change->qpn ? change->qpn : e.qpn;
		e.psn = change->psn ? change->psn : e.psn;
		assert_int_equal(dv_qp_connect(&p.asks, &e, WHY), -EINVAL);
		assert_non_null(strstr(dv_fix_why, bad[i].says));
		assert_non_null(strstr(dv_fix_why, "mlx5_0 port 1"));
	}
	pair_close(&p);
}

/* Halves of a register take turns: two threads that ring one would spoil that. */
static void threads_ring_registers_of_their_own(void **state)
{
	struct dv_qp other;
	struct ibv_td *td;
	struct pair p;

	(void)state;
	pair_open(&p, DV_ACCESS_WRITE);
	td = p.td;
	p.td = dv_td_open(&p.d, WHY);
	open_end(&p, &other, 16);
	assert_ptr_not_equal(other.sq_raw.bf.reg, p.asks.sq_raw.bf.reg);
	dv_qp_close(&other);
	assert_int_equal(ibv_dealloc_td(p.td), 0);
	p.td = td;
	open_end(&p, &other, 16);
	assert_ptr_equal(other.sq_raw.bf.reg, p.asks.sq_raw.bf.reg);
	dv_qp_close(&other);
	pair_close(&p);
}

static void a_queue_deeper_than_the_device_has_is_refused(void **state)
{
	const struct dv_qp_options o = { .depth = 1u << 20 };
	struct dv_device d;
	struct ibv_pd *pd = dv_fix_pd(&d);
	struct dv_qp q;

	(void)state;
	assert_int_equal(dv_qp_open(&q, &d, pd, &o, WHY), -EINVAL);
	assert_non_null(strstr(dv_fix_why, "mlx5_0: a QP of 1048576 requests; allowed: up to"));
	dv_fix_close(&d, pd);
}

int main(int argc, char **argv)
{
	static const char *const links[] = {
		"--link roce", "--link ib", NULL,
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_written_at_the_addresses_of_their_owner),
		cmocka_unit_test(a_short_read_lands_in_memory),
		cmocka_unit_test(what_peers_may_only_read_is_not_written),
		cmocka_unit_test(a_domain_of_another_tenant_is_out_of_reach),
		cmocka_unit_test(memory_that_was_closed_is_out_of_reach),
		cmocka_unit_test(a_failed_queue_pair_flushes_what_was_posted),
		cmocka_unit_test(a_peer_that_serves_no_more_is_noticed),
		cmocka_unit_test(the_smaller_mtu_and_the_fewer_reads_are_used),
		cmocka_unit_test(service_level_and_traffic_class_are_those_of_its_options),
		cmocka_unit_test(a_peer_in_another_subnet_is_reached_by_a_grh),
		cmocka_unit_test(an_endpoint_that_cannot_be_is_refused),
		cmocka_unit_test(threads_ring_registers_of_their_own),
		cmocka_unit_test(a_queue_deeper_than_the_device_has_is_refused),
	};

	(void)argc;
	sim_main(argv, links);
	return cmocka_run_group_tests_name(sim_has("ib") ? "dv, InfiniBand" : "dv, RoCE", tests,
					   NULL, NULL);
}
