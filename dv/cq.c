/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c - setting a completion queue up, and what is said to the card about it. */
#include <errno.h>

#include "dv/cq.h"

#define CQE_BYTES 64u		/* at the end of each entry */
#define CI_MASK 0xffffffu	/* bits of a position that the card is told */

enum { SET_CI, ARM };		/* words of the doorbell record */

int dv_cq_init(struct dv_cq *cq, const struct mlx5dv_cq *dv)
{
	uint32_t nr = dv->cqe_cnt;
	uint8_t *cqe;

	if ((dv->cqe_size != 64 && dv->cqe_size != 128) || nr == 0 || nr & (nr - 1) ||
	    nr > CI_MASK)
		return -EINVAL;
	cqe = (uint8_t *)dv->buf + dv->cqe_size - CQE_BYTES;
	*cq = (struct dv_cq) {
		.next	= cqe,
		.stop	= cqe + (size_t)nr * dv->cqe_size,
		.stride = dv->cqe_size,
		.first	= cqe,
		.nr	= nr,
		.cqn	= dv->cqn,
		.dbrec	= dv->dbrec,
		.uar	= dv->cq_uar,
	};
	/* Not ours either, so that the owner bit alone tells an entry. */
	for (; cqe != cq->stop; cqe += dv->cqe_size)
		cqe[offsetof(struct mlx5_cqe64, op_own)] = MLX5_CQE_INVALID << 4 |
							   MLX5_CQE_OWNER_MASK;
	return 0;
}

uint32_t dv_cq_position(const struct dv_cq *cq)
{
	return cq->lap + (uint32_t)((size_t)(cq->next - cq->first) / cq->stride);
}

uint32_t dv_cq_untold(const struct dv_cq *cq)
{
	return dv_cq_position(cq) - cq->told;
}

void dv_cq_tell(struct dv_cq *cq)
{
	cq->told = dv_cq_position(cq);
	store_relaxed(&cq->dbrec[SET_CI], htobe32(cq->told & CI_MASK));
}

void dv_cq_arm(struct dv_cq *cq)
{
	uint32_t word = (cq->events & 3) << 28 | MLX5_CQ_DB_REQ_NOT |
			(dv_cq_position(cq) & CI_MASK);
	uint64_t both = htobe64((uint64_t)word << 32 | cq->cqn);

	dv_cq_tell(cq);
	store_relaxed(&cq->dbrec[ARM], htobe32(word));
	register_fence();	/* D2 */
	store_relaxed((uint64_t *)(void *)(cq->uar + MLX5_CQ_DOORBELL), both);
}

void dv_cq_event(struct dv_cq *cq)
{
	cq->events++;
}
