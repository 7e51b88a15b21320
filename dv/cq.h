/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cq.h - the completion queue of one QP, read as the card writes it.
 *
 * One QP, because libmlx5 walks and moves entries of the queue by an index of its own when
 * a QP of it is destroyed or reset: entries of another QP would get lost. It has at least
 * as many entries as the send queue has blocks, so it cannot overflow: a WQE completes at
 * most once, and its block is not used again before that was read.
 *
 * The card is told how far we are only where it insists, dv_cq_tell(), and never on the
 * data path. Scatter-to-CQE and compression are off.
 */
#ifndef TENT_DV_CQ_H
#define TENT_DV_CQ_H

#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ring/order.h"

struct dv_cq {
	uint8_t *cqes;		/* the first one's 64 bytes that matter: its last */
	uint32_t ci;		/* the next to read; runs free over 2^32 */
	uint32_t nr;		/* entries, a power of two */
	uint32_t shift;		/* an entry is 1 << shift bytes, 64 or 128 */
	/* off the data path */
	uint32_t cqn;
	uint32_t told;		/* ci in the doorbell record */
	uint32_t events;	/* heard of; the card compares two bits of it */
	__be32 *dbrec;
	uint8_t *uar;
};

/* Marks every entry invalid: nothing may have been completed to it yet. -EINVAL: entries
 * that are none of 64 or 128 bytes, or no power of two of them. */
int dv_cq_init(struct dv_cq *cq, const struct mlx5dv_cq *dv);

/* How far we are, into the doorbell record. For a queue that the card guards against
 * overruns: at least once in its length. */
void dv_cq_tell(struct dv_cq *cq);

/* Asks for one event, on the channel of the queue, when an entry comes that was not read
 * yet. Poll once more after it: what had come before brings no event. */
void dv_cq_arm(struct dv_cq *cq);
/* An event was read from the channel. */
void dv_cq_event(struct dv_cq *cq);

/* The next entry, or NULL. It stays as it is until the card comes round. */
static inline const struct mlx5_cqe64 *dv_cq_next(struct dv_cq *cq)
{
	size_t at = (size_t)(cq->ci & (cq->nr - 1)) << cq->shift;
	const struct mlx5_cqe64 *cqe = (const struct mlx5_cqe64 *)(const void *)(cq->cqes + at);
	uint8_t op_own = load_relaxed(&cqe->op_own);

	/* Its owner bit changes with every lap of ours. */
	if ((op_own & MLX5_CQE_OWNER_MASK) != !!(cq->ci & cq->nr) ||
	    op_own >> 4 == MLX5_CQE_INVALID)
		return NULL;
	device_load_fence();	/* D3: the card writes op_own last */
	cq->ci++;
	return cqe;
}

/* Did the WQE that it names, and all before it, end well? Whatever else a card could say
 * is for dv_fault_of(): errors, data in the entry, entries of other kinds. */
static inline bool dv_cqe_ok(const struct mlx5_cqe64 *cqe)
{
	return (cqe->op_own & ~MLX5_CQE_OWNER_MASK) == MLX5_CQE_REQ << 4;
}

static inline uint32_t dv_cqe_qpn(const struct mlx5_cqe64 *cqe)
{
	return be32toh(cqe->sop_drop_qpn) & 0xffffff;
}

/* First block of the WQE, for dv_sq_find(). */
static inline uint16_t dv_cqe_counter(const struct mlx5_cqe64 *cqe)
{
	return be16toh(cqe->wqe_counter);
}

#endif /* TENT_DV_CQ_H */
