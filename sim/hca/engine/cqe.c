/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cqe.c - what a completion says: struct mlx5_cqe64 and struct mlx5_err_cqe of mlx5dv.h, in
 * version 1, in which a queue pair goes by the number its program chose.
 */
#include <stddef.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

/* flags_rqpn: what kind of network header the packet had. */
enum {
	HAS_GRH = 1 << 28,
	ROCE_IPV6 = 1 << 24, ROCE_IPV4 = 2 << 24,
	SL_SHIFT = 24,
};

bool hca_route_is_ipv4(const struct hca *h, const struct hca_route *r)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return h->config.is_ethernet && !memcmp(r->sgid, prefix, sizeof(prefix));
}

static uint32_t flags_of(const struct hca *h, const struct hca_route *r)
{
	uint32_t flags = r->has_grh ? HAS_GRH : 0;

	if (!h->config.is_ethernet)
		return flags | (uint32_t)(r->sl & 0xf) << SL_SHIFT;
	return flags | (hca_route_is_ipv4(h, r) ? ROCE_IPV4 : ROCE_IPV6);
}

static void fill_common(struct mlx5_cqe64 *cqe, const struct hca_done *d)
{
	cqe->srqn_uidx = htobe32(d->qp->attr.uidx & 0xffffff);
	cqe->byte_cnt = htobe32(d->bytes);
	cqe->timestamp = htobe64(hca_now(d->qp->hca));
	cqe->wqe_counter = htobe16(d->wqe_index);
}

static void post(const struct hca_done *d, struct hca_cq *cq, void *cqe, uint32_t inline_bytes,
		 bool is_solicited)
{
	if (!hca_cq_post(cq, cqe, d->data, inline_bytes, is_solicited))
		d->qp->lost_cqe = true;
}

bool hca_fits_cqe(const struct hca_cq *cq, uint32_t bytes)
{
	return bytes && bytes <= (cq->attr.cqe_bytes == 128 ? 64 : 32);
}

void hca_complete_send(const struct hca_done *d)
{
	struct mlx5_cqe64 cqe = {
		.sop_drop_qpn = htobe32((uint32_t)d->opcode << 24 | d->qp->qpn),
		.op_own = MLX5_CQE_REQ << 4,
	};

	fill_common(&cqe, d);
	/* A sender's own completions count as solicited nowhere. */
	post(d, d->qp->attr.send_cq, &cqe, d->data ? d->bytes : 0, false);
}

void hca_complete_recv(const struct hca_done *d)
{
	struct mlx5_cqe64 cqe = {
		.slid = htobe16(d->route->slid),
		.flags_rqpn = htobe32(flags_of(d->qp->hca, d->route) |
				      (d->source_qpn & HCA_QPN_MASK)),
		.imm_inval_pkey = d->immediate,
		.sop_drop_qpn = htobe32(d->qp->qpn),
		.op_own = (uint8_t)(d->opcode << 4),
	};

	fill_common(&cqe, d);
	post(d, d->qp->attr.recv_cq, &cqe, d->data ? d->bytes : 0, d->is_solicited);
}

void hca_complete_error(const struct hca_done *d, bool is_send, uint8_t syndrome)
{
	struct mlx5_err_cqe cqe = {
		.srqn = htobe32(d->qp->attr.uidx & 0xffffff),
		/* Firmware's own numbers are not public: ours repeat the syndrome. */
		.vendor_err_synd = syndrome,
		.syndrome = syndrome,
		.s_wqe_opcode_qpn = htobe32((uint32_t)d->opcode << 24 | d->qp->qpn),
		.wqe_counter = htobe16(d->wqe_index),
		.op_own = (is_send ? MLX5_CQE_REQ_ERR : MLX5_CQE_RESP_ERR) << 4,
	};

	d->qp->hca->config.counters->error_cqes++;
	post(d, is_send ? d->qp->attr.send_cq : d->qp->attr.recv_cq, &cqe, 0, true);
}
