/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_rc.c - two cards and a wire: every operation of a reliable connection, of every
 * size around the MTU, over wires that lose, repeat and reorder.
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

#include "sim/hca/tests/common/fabric.h"

#define ALL_ACCESS (HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_READ | \
		    HCA_ACCESS_REMOTE_ATOMIC)

enum { MTU = 1024, SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE, SPACE = 1 << 20 };

static const uint64_t SECOND = 1000000000;

struct pair {
	struct fabric *f;
	struct fabric_qp *a, *b;
	struct fabric_region near, far;
};

static struct pair *pair_create(const struct fabric_path *path)
{
	struct pair *p = calloc(1, sizeof(*p));

	p->f = fabric_create(true);
	p->a = fabric_qp_create(&p->f->host[0], &(struct fabric_qp_options) { .uidx = 0xa });
	p->b = fabric_qp_create(&p->f->host[1], &(struct fabric_qp_options) { .uidx = 0xb });
	p->near = fabric_region_create(&p->f->host[0], SPACE, ALL_ACCESS);
	p->far = fabric_region_create(&p->f->host[1], SPACE, ALL_ACCESS);
	for (uint32_t i = 0; i < SPACE; i++)
		p->near.bytes[i] = (uint8_t)(i * 7 + (i >> 8));
	fabric_connect(p->a, p->b, path);
	return p;
}

static void cq_free(struct fabric_qp *qp, struct fabric_cq *s, struct fabric_cq *r)
{
	fabric_qp_destroy(qp);
	fabric_cq_destroy(s);
	fabric_cq_destroy(r);
}

static void pair_destroy(struct pair *p)
{
	cq_free(p->a, p->a->send_cq, p->a->recv_cq);
	cq_free(p->b, p->b->send_cq, p->b->recv_cq);
	fabric_region_destroy(&p->near);
	fabric_region_destroy(&p->far);
	fabric_destroy(p->f);
	free(p);
}

static struct fabric_cqe completion(struct pair *p, struct fabric_cq *cq)
{
	struct fabric_cqe c;

	fabric_run(p->f, 100 * SECOND);
	assert_true(fabric_poll(cq, &c));
	return c;
}

static struct fabric_sge piece(const struct fabric_region *r, uint64_t offset, uint32_t n)
{
	return (struct fabric_sge) { fabric_address(r, offset), n, r->key };
}

static uint16_t rdma(struct pair *p, uint8_t opcode, uint32_t bytes, uint64_t from, uint64_t to)
{
	struct fabric_sge s = piece(&p->near, from, bytes);

	return fabric_post(p->a, &(struct fabric_wr) {
		.opcode = opcode, .fm_ce_se = SIGNALED, .rkey = p->far.key,
		.remote_address = fabric_address(&p->far, to), .sge = &s, .nr_sge = bytes ? 1 : 0,
	});
}

static const uint32_t sizes[] = {
	0, 1, 31, 32, 33, 64, MTU - 1, MTU, MTU + 1, 2 * MTU, 3 * MTU - 1, 3 * MTU, 3 * MTU + 1,
	100 * MTU, 300 * MTU + 5,
};

#define EACH_SIZE(n) for (uint32_t size_i = 0, n; size_i < sizeof(sizes) / sizeof(*sizes) && \
			  (n = sizes[size_i], true); size_i++)

static void write_of_any_size_arrives_whole(void **state)
{
	(void)state;
	EACH_SIZE(n) {
		struct pair *p = pair_create(NULL);
		uint16_t index = rdma(p, MLX5_OPCODE_RDMA_WRITE, n, 3, 5);
		struct fabric_cqe c = completion(p, p->a->send_cq);

		assert_int_equal(c.opcode, MLX5_CQE_REQ);
		assert_int_equal(c.wqe_counter, index);
		assert_int_equal(c.uidx, 0xa);
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
		struct pair *p = pair_create(NULL);
		struct fabric_cqe c;

		memcpy(p->far.bytes, p->near.bytes, SPACE);
		memset(p->near.bytes, 0, SPACE);
		rdma(p, MLX5_OPCODE_RDMA_READ, n, 3, 5);
		c = completion(p, p->a->send_cq);
		assert_int_equal(c.opcode, MLX5_CQE_REQ);
		assert_int_equal(c.byte_count, n);
		assert_memory_equal(p->near.bytes + 3, p->far.bytes + 5, n);
		assert_int_equal(p->near.bytes[3 + n], 0);
		pair_destroy(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_of_any_size_arrives_whole),
		cmocka_unit_test(read_of_any_size_arrives_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
