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
	const uint8_t *next;	/* the entry to read next: its last 64 bytes */
	const uint8_t *stop;	/* where the lap ends */
	uint32_t stride;	/* bytes: 64 or 128 */
	uint8_t owner;		/* bit of entries of this lap */
	/* off the data path */
	uint32_t lap;		/* entries read when it began; runs free over 2^32 */
	const uint8_t *first;
	uint32_t nr;		/* entries, a power of two */
	uint32_t cqn;
	uint32_t told;		/* how far, in the doorbell record */
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

/* Entries read, and those of them that the card was not told of. */
uint32_t dv_cq_position(const struct dv_cq *cq);
uint32_t dv_cq_untold(const struct dv_cq *cq);

/* Asks for one event, on the channel of the queue, when an entry comes that was not read
 * yet. Poll once more after it: what had come before brings no event. */
void dv_cq_arm(struct dv_cq *cq);
/* An event was read from the channel. */
void dv_cq_event(struct dv_cq *cq);

/* The entry that is next, be it written yet or not. */
static inline const struct mlx5_cqe64 *dv_cq_head(const struct dv_cq *cq)
{
	return (const struct mlx5_cqe64 *)(const void *)cq->next;
}

/* Its op_own, to be looked at once: the card may write it now. */
static inline uint8_t dv_cq_look(const struct dv_cq *cq)
{
	return load_relaxed(&dv_cq_head(cq)->op_own);
}

static inline bool dv_cq_is_ours(const struct dv_cq *cq, uint8_t op_own)
{
	return !((op_own ^ cq->owner) & MLX5_CQE_OWNER_MASK);
}

/* It is ours, and the WQE that it names and all before it ended well. Whatever else a card
 * could say is for dv_fault_of(): errors, data in the entry, entries of other kinds. */
static inline bool dv_cq_is_success(const struct dv_cq *cq, uint8_t op_own)
{
	return op_own == (MLX5_CQE_REQ << 4 | cq->owner);
}

/* The next lap: the other owner bit. */
static inline void dv_cq_turn(struct dv_cq *cq)
{
	cq->next = cq->first;
	cq->owner ^= MLX5_CQE_OWNER_MASK;
	cq->lap += cq->nr;
}

/* Takes the entry that is ours. It stays as it is until the card comes round. */
static inline const struct mlx5_cqe64 *dv_cq_take(struct dv_cq *cq)
{
	const struct mlx5_cqe64 *cqe = dv_cq_head(cq);

	device_load_fence();	/* D3: the card writes op_own last */
	cq->next += cq->stride;
	if (cq->next == cq->stop)
		dv_cq_turn(cq);
	return cqe;
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
