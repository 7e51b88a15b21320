/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sq.h - the send queue of an RC QP, as one poller drives it.
 *
 * dv_sq_write(), dv_sq_write_inline() and dv_sq_read() build WQEs; dv_sq_ring() hands what
 * was built to the card: one doorbell record store and one register write a post, and a
 * completion is asked for by its last WQE and by each 64th before. RC completes in order,
 * so one completion retires a run of WQEs: dv_sq_retire() gives what each was posted for.
 * Credits are exact: a block is free again once its WQE is retired.
 *
 * Positions count blocks (DV_BB) and run free over 2^32; masked on use, and 16 bits of
 * them in what the card reads and writes.
 */
#ifndef TENT_DV_SQ_H
#define TENT_DV_SQ_H

#include <stdbool.h>

#include "dv/wqe.h"

#define DV_SIGNAL_EVERY 64u	/* WQEs */
#define DV_SQ_MAX_BB 32768u	/* half of what 16 bits can tell apart */

/* A page of registers that one thread writes: of one thread domain, for all of its QPs.
 * A BlueFlame register has two halves, used in turn, so that a write never meets the one
 * before it in the CPU's buffer. */
struct dv_uar {
	uint8_t *reg;
	uint32_t half_bytes;	/* 0: no BlueFlame, not write-combining: doorbells only */
	uint32_t offset;	/* of the half to use next */
};

/* What a WQE was posted for; kept beside its first block. */
struct dv_op {
	void *cookie;		/* NULL: a NOP of our own */
	uint32_t length;	/* bytes */
	uint8_t nr_bb;
	bool is_read;
};

struct dv_sq {
	uint8_t *buf;
	struct dv_op *ops;	/* one for each block */
	uint32_t mask;		/* blocks - 1 */
	uint32_t qpn;
	uint32_t pi;		/* where the next WQE begins */
	uint32_t ci;		/* where the oldest begins that is not retired */
	uint32_t last;		/* where the newest begins; -1: none was built yet */
	uint32_t rung;		/* pi as the card knows it */
	uint32_t unsignalled;	/* newest WQEs in a row that ask for no completion */
	uint32_t reads;		/* READs not retired */
	uint32_t max_reads;	/* the peer answers so many at once: max_rd_atomic */
	bool is_broken;		/* an error was read: the QP has ended */
	__be32 *dbrec;
	struct dv_uar *uar;
};

void dv_uar_init(struct dv_uar *u, const struct mlx5dv_qp *qp);

/* A QP that was just made or reset. ops: qp->sq.wqe_cnt of them, the caller's, as long as
 * the queue lives. uar: initialised from a QP of the same thread domain. -EINVAL: a queue
 * that is none of 64-byte blocks, or no read allowed, or another UAR. */
int dv_sq_init(struct dv_sq *sq, const struct mlx5dv_qp *qp, uint32_t qpn, uint32_t max_reads,
	       struct dv_uar *uar, struct dv_op *ops);

/* Hands to the card what was built since the last call; nothing, if nothing was. */
void dv_sq_ring(struct dv_sq *sq);

/* As dv_sq_write(), of bytes that the CPU can read now: at most DV_INLINE_MAX, never GPU
 * memory. They may change once this returned. */
bool dv_sq_write_inline(struct dv_sq *sq, const struct dv_piece *p, const void *bytes,
			void *cookie);

static inline uint32_t dv_sq_free_bb(const struct dv_sq *sq)
{
	return sq->mask + 1 - (sq->pi - sq->ci);
}

static inline void *dv_sq_block(const struct dv_sq *sq, uint32_t pi)
{
	return sq->buf + (size_t)(pi & sq->mask) * DV_BB;
}

static inline void dv_sq_signal(struct dv_sq *sq, struct mlx5_wqe_ctrl_seg *ctrl)
{
	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	sq->unsignalled = 0;
}

/* The WQE at pi is built. */
static inline void dv_sq_push(struct dv_sq *sq, struct mlx5_wqe_ctrl_seg *ctrl, struct dv_op op)
{
	sq->ops[sq->pi & sq->mask] = op;
	sq->last = sq->pi;
	sq->pi += op.nr_bb;
	if (++sq->unsignalled == DV_SIGNAL_EVERY)
		dv_sq_signal(sq, ctrl);
}

/* False: no room; nothing was built. cookie: not NULL. */
static inline bool dv_sq_write(struct dv_sq *sq, const struct dv_piece *p, void *cookie)
{
	struct dv_wqe_rdma *w = dv_sq_block(sq, sq->pi);

	if (dv_sq_free_bb(sq) < 1)
		return false;
	dv_wqe_rdma(w, MLX5_OPCODE_RDMA_WRITE, sq->pi, sq->qpn, p);
	dv_sq_push(sq, &w->ctrl, (struct dv_op) { cookie, p->length, 1, false });
	return true;
}

/* False: no room, or as many READs as the peer answers at once are under way. The one that
 * fills this window asks for a completion, or it would open late. */
static inline bool dv_sq_read(struct dv_sq *sq, const struct dv_piece *p, void *cookie)
{
	struct dv_wqe_rdma *w = dv_sq_block(sq, sq->pi);

	if (dv_sq_free_bb(sq) < 1 || sq->reads == sq->max_reads)
		return false;
	dv_wqe_rdma(w, MLX5_OPCODE_RDMA_READ, sq->pi, sq->qpn, p);
	dv_sq_push(sq, &w->ctrl, (struct dv_op) { cookie, p->length, 1, true });
	if (++sq->reads == sq->max_reads)
		dv_sq_signal(sq, &w->ctrl);
	return true;
}

/* Where the WQE begins that a completion names by 16 bits. False: it was not posted, or is
 * retired: the card, or who reads its words, is not to be trusted any more. */
static inline bool dv_sq_find(const struct dv_sq *sq, uint16_t counter, uint32_t *at)
{
	*at = sq->ci + (uint16_t)(counter - sq->ci);
	return *at - sq->ci < sq->rung - sq->ci;
}

/* The oldest WQE, up to and with the one at last; NULL: there is none. All that were
 * posted: last = sq->last. The op stays readable until the next WQE is built. */
static inline const struct dv_op *dv_sq_retire(struct dv_sq *sq, uint32_t last)
{
	while ((int32_t)(last - sq->ci) >= 0) {
		const struct dv_op *op = &sq->ops[sq->ci & sq->mask];

		sq->ci += op->nr_bb;
		sq->reads -= op->is_read;
		if (op->cookie)
			return op;
	}
	return NULL;
}

#endif /* TENT_DV_SQ_H */
