/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_keys.c - what a key opens, and to whom.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

enum { PAGE = 4096, SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE };

static struct umem *pin(void *p, uint64_t n)
{
	struct umem *m;

	assert_int_equal(umem_pin(&m, (uintptr_t)p, n, true), 0);
	return m;
}

/* A local write from the piece; its syndrome, 0 if it went well. */
static uint8_t use_as(struct pair *p, uint8_t opcode, struct fabric_sge piece)
{
	struct fabric_cqe c;

	fabric_post(p->a, &(struct fabric_wr) {
		.opcode = opcode, .fm_ce_se = SIGNALED, .sge = &piece, .nr_sge = 1,
		.rkey = p->far.key, .remote_address = fabric_address(&p->far, 0),
	});
	c = pair_completion(p, p->a->send_cq);
	assert_true(c.opcode == MLX5_CQE_REQ || c.opcode == MLX5_CQE_REQ_ERR);
	return c.syndrome;
}

static void range_is_enforced_to_the_byte(void **state)
{
	static const struct { int64_t before; uint32_t n; bool is_good; } uses[] = {
		{ 0, PAGE, true }, { PAGE - 1, 1, true }, { 1, PAGE - 1, true },
		{ -1, 1, false }, { 0, PAGE + 1, false }, { PAGE, 1, false }, { -1, PAGE, false },
		{ INT64_MIN, 8, false }, { INT64_MAX - 4, 8, false },
	};

	(void)state;
	for (uint32_t i = 0; i < sizeof(uses) / sizeof(*uses); i++) {
		struct pair *p = pair_create(NULL, NULL);
		struct fabric_region r = fabric_region_create(&p->f->host[0], PAGE, 0);
		struct fabric_sge s = { fabric_address(&r, 0) + (uint64_t)uses[i].before, uses[i].n,
					r.key };

		assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE, s),
				 uses[i].is_good ? 0 : MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
		assert_int_equal(fabric_state(p->a), uses[i].is_good ? HCA_QP_RTS : HCA_QP_ERR);
		fabric_region_destroy(&r);
		pair_destroy(p);
	}
}

static void addresses_start_at_the_iova(void **state)
{
	static const uint64_t starts[] = { 0, 0x123456000, UINT64_MAX - PAGE };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		struct pair *p = pair_create(NULL, NULL);
		uint8_t *bytes = aligned_alloc(PAGE, PAGE);
		struct hca_mr *mr;
		uint32_t key;

		memset(bytes, 'b', PAGE);
		assert_int_equal(hca_mr_create(p->f->host[0].pd, pin(bytes, PAGE), starts[i], PAGE,
					       0, &mr, &key),
				 0);
		assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE,
					(struct fabric_sge) { starts[i] + 1, 3, key }), 0);
		assert_memory_equal(p->far.bytes, "bbb", 4);
		hca_mr_destroy(mr);
		free(bytes);
		pair_destroy(p);
	}
}

static void local_write_needs_its_right(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_region r = fabric_region_create(&p->f->host[0], PAGE, 0);
	struct fabric_sge s = { fabric_address(&r, 0), 8, r.key };

	(void)state;
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE, s), 0);
	assert_int_equal(hca_mr_change(r.mr, NULL, HCA_ACCESS_LOCAL_WRITE, NULL, 0, 0), 0);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_READ, s), 0);
	assert_int_equal(hca_mr_change(r.mr, NULL, 0, NULL, 0, 0), 0);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_READ, s), MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	fabric_region_destroy(&r);
	pair_destroy(p);
}

static void key_is_dead_after_its_region(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_region r = fabric_region_create(&p->f->host[0], PAGE, 0);
	struct fabric_sge s = { 0, 8, r.key };

	(void)state;
	fabric_region_destroy(&r);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE, s), MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	pair_destroy(p);
}

static void domain_is_enforced_and_can_change(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_region r = fabric_region_create(&p->f->host[0], PAGE, 0);
	struct fabric_sge s = { fabric_address(&r, 0), 8, r.key };
	struct hca_pd *other;

	(void)state;
	assert_int_equal(hca_pd_create(p->f->host[0].hca, &other), 0);
	assert_int_equal(hca_mr_change(r.mr, other, -1, NULL, 0, 0), 0);
	assert_int_equal(hca_pd_destroy(other), -EBUSY);
	assert_int_equal(hca_mr_change(r.mr, p->f->host[0].pd, -1, NULL, 0, 0), 0);
	assert_int_equal(hca_pd_destroy(other), 0);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE, s), 0);
	assert_int_equal(hca_pd_create(p->f->host[0].hca, &other), 0);
	assert_int_equal(hca_mr_change(r.mr, other, -1, NULL, 0, 0), 0);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE, s), MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	fabric_region_destroy(&r);
	pair_destroy(p);
}

/* The queue pairs that share it may be of others. */
static void shared_queue_fills_memory_of_its_own_domain(void **state)
{
	(void)state;
	for (int is_own = 0; is_own < 2; is_own++) {
		struct fabric *f = fabric_create(true);
		struct fabric_host *h = &f->host[1];
		struct fabric_cq *cq = fabric_cq_create(h, 8, 64);
		struct hca_pd *pd = h->pd, *other;
		struct fabric_srq *srq;
		struct fabric_qp *qp;
		struct fabric_region r;
		struct fabric_cqe c;

		assert_int_equal(hca_pd_create(h->hca, &other), 0);
		h->pd = other;
		srq = fabric_srq_create(h, 8);
		h->pd = is_own ? other : pd;
		r = fabric_region_create(h, PAGE, HCA_ACCESS_LOCAL_WRITE);
		h->pd = pd;
		qp = fabric_qp_create(h, &(struct fabric_qp_options) {
			.srq = srq, .send_cq = cq, .recv_cq = cq });
		fabric_connect_to(qp, 0x10007, 0, 0, &fabric_usual);
		fabric_srq_post(srq, &(struct fabric_sge) { fabric_address(&r, 0), 8, r.key }, 1);
		hca_receive(h->hca, &(struct hca_packet) {
			.opcode = HCA_SEND_ONLY, .pkey = 0xffff, .dest_qpn = qp->qpn,
			.payload = (const uint8_t *)"datum", .length = 5,
			.route = fabric_route_of_peer(qp) });
		assert_true(fabric_poll(cq, &c));
		assert_int_equal(c.opcode, is_own ? MLX5_CQE_RESP_SEND : MLX5_CQE_RESP_ERR);
		assert_int_equal(c.syndrome, is_own ? 0 : MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
		assert_string_equal((char *)r.bytes, is_own ? "datum" : "");
		fabric_region_destroy(&r);
		fabric_qp_destroy(qp);
		fabric_cq_destroy(cq);
		fabric_srq_destroy(srq);
		fabric_destroy(f);
	}
}

static void rereg_moves_a_key_to_other_memory(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_region r = fabric_region_create(&p->f->host[0], PAGE, 0);
	uint8_t *bytes = aligned_alloc(PAGE, 2 * PAGE);

	(void)state;
	memset(bytes, 'n', 2 * PAGE);
	assert_int_equal(hca_mr_change(r.mr, NULL, -1, pin(bytes, 2 * PAGE), 0x5000, 2 * PAGE), 0);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE,
				(struct fabric_sge) { 0x5000 + 2 * PAGE - 3, 3, r.key }), 0);
	assert_memory_equal(p->far.bytes, "nnn", 4);
	assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE,
				(struct fabric_sge) { fabric_address(&r, 0), 8, r.key }),
			 MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	fabric_region_destroy(&r);
	free(bytes);
	pair_destroy(p);
}

static void keys_are_not_given_out_again_soon(void **state)
{
	struct fabric *f = fabric_create(true);
	uint8_t page[64];
	uint32_t first = 0;

	(void)state;
	for (uint32_t i = 0; i < 100000; i++) {
		struct umem *m = pin(page, sizeof(page));
		struct hca_mr *mr;
		uint32_t key;

		assert_int_equal(hca_mr_create(f->host[0].pd, m, 0, 64, 0, &mr, &key), 0);
		assert_int_not_equal(key, 0x100);	/* ends a list of segments */
		assert_int_not_equal(key, 0);
		if (!i)
			first = key;
		else
			assert_int_not_equal(key, first);
		hca_mr_destroy(mr);
	}
	fabric_destroy(f);
}

static void many_keys_live_at_once(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_region r[300];

	(void)state;
	for (uint32_t i = 0; i < 300; i++) {
		r[i] = fabric_region_create(&p->f->host[0], 64, 0);
		memset(r[i].bytes, (int)i, 64);
	}
	for (uint32_t i = 0; i < 300; i += 7) {
		struct fabric_sge s = { fabric_address(&r[i], 0), 8, r[i].key };

		assert_int_equal(use_as(p, MLX5_OPCODE_RDMA_WRITE, s), 0);
		assert_int_equal(p->far.bytes[0], (uint8_t)i);
	}
	for (uint32_t i = 0; i < 300; i++)
		fabric_region_destroy(&r[i]);
	pair_destroy(p);
}

static void region_must_fit_its_memory(void **state)
{
	struct fabric *f = fabric_create(true);
	uint8_t page[64];
	struct umem *m = pin(page, sizeof(page));
	struct hca_mr *mr;
	uint32_t key;

	(void)state;
	assert_int_equal(hca_mr_create(f->host[0].pd, m, 0, 65, 0, &mr, &key), -EINVAL);
	assert_int_equal(hca_mr_create(f->host[0].pd, m, UINT64_MAX - 62, 64, 0, &mr, &key),
			 -EINVAL);
	umem_release(m);
	fabric_destroy(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_is_enforced_to_the_byte),
		cmocka_unit_test(addresses_start_at_the_iova),
		cmocka_unit_test(local_write_needs_its_right),
		cmocka_unit_test(key_is_dead_after_its_region),
		cmocka_unit_test(domain_is_enforced_and_can_change),
		cmocka_unit_test(shared_queue_fills_memory_of_its_own_domain),
		cmocka_unit_test(rereg_moves_a_key_to_other_memory),
		cmocka_unit_test(keys_are_not_given_out_again_soon),
		cmocka_unit_test(many_keys_live_at_once),
		cmocka_unit_test(region_must_fit_its_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
