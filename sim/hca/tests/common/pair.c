/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/tests/common/pair.h"

static const uint32_t all_access = HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_WRITE |
				   HCA_ACCESS_REMOTE_READ | HCA_ACCESS_REMOTE_ATOMIC |
				   HCA_ACCESS_REMOTE_INVALIDATE;

/* Made once: filling a megabyte for each test, or each input of a fuzzer, takes too long. */
static const uint8_t *pattern(void)
{
	static uint8_t bytes[PAIR_SPACE];
	static bool is_made;

	for (uint32_t i = 0; i < PAIR_SPACE && !is_made; i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8));
	is_made = true;
	return bytes;
}

struct pair *pair_create(const struct fabric_path *path, const struct fabric_qp_options *o)
{
	struct fabric_qp_options options = { 0 };
	struct pair *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	if (o)
		options = *o;
	p->f = fabric_create(true);
	options.uidx = PAIR_UIDX_A;
	p->a = fabric_qp_create(&p->f->host[0], &options);
	options.uidx = PAIR_UIDX_B;
	p->b = fabric_qp_create(&p->f->host[1], &options);
	p->near = fabric_region_create(&p->f->host[0], PAIR_SPACE, all_access);
	p->far = fabric_region_create(&p->f->host[1], PAIR_SPACE, all_access);
	memcpy(p->near.bytes, pattern(), PAIR_SPACE);
	fabric_connect(p->a, p->b, path);
	return p;
}

static void qp_free(struct fabric_qp *qp)
{
	struct fabric_cq *send_cq = qp->send_cq, *recv_cq = qp->recv_cq;

	fabric_qp_destroy(qp);
	fabric_cq_destroy(send_cq);
	if (recv_cq != send_cq)
		fabric_cq_destroy(recv_cq);
}

void pair_destroy(struct pair *p)
{
	qp_free(p->a);
	qp_free(p->b);
	fabric_region_destroy(&p->near);
	fabric_region_destroy(&p->far);
	fabric_destroy(p->f);
	free(p);
}

struct fabric_sge pair_piece(const struct fabric_region *r, uint64_t offset, uint32_t n)
{
	return (struct fabric_sge) { fabric_address(r, offset), n, r->key };
}

struct fabric_cqe pair_completion(struct pair *p, struct fabric_cq *cq)
{
	struct fabric_cqe c;

	if (fabric_poll(cq, &c))
		return c;
	fabric_run(p->f, 100 * SECOND_NS);
	if (!fabric_poll(cq, &c)) {
		memset(&c, 0, sizeof(c));
		c.opcode = MLX5_CQE_INVALID;
	}
	return c;
}

uint16_t pair_post(struct pair *p, uint8_t opcode, uint8_t fm_ce_se, uint32_t bytes,
		   uint64_t from, uint64_t to)
{
	struct fabric_sge s = pair_piece(&p->near, from, bytes);

	return fabric_post(p->a, &(struct fabric_wr) {
		.opcode = opcode, .fm_ce_se = fm_ce_se, .rkey = p->far.key,
		.remote_address = fabric_address(&p->far, to), .sge = &s, .nr_sge = bytes ? 1 : 0,
		.immediate = 0x44332211,
	});
}

void pair_receive(struct pair *p, uint64_t offset, uint32_t bytes)
{
	struct fabric_sge s = pair_piece(&p->far, offset, bytes);

	fabric_post_recv(p->b, &s, bytes ? 1 : 0);
}
