/* SPDX-License-Identifier: Apache-2.0 */
/* sq.c - setting a send queue up, its doorbell, and WQEs of several blocks. */
#include <errno.h>

#include "dv/sq.h"
#include "ring/order.h"

void dv_uar_init(struct dv_uar *u, const struct mlx5dv_qp *qp)
{
	*u = (struct dv_uar) { .reg = qp->bf.reg, .half_bytes = qp->bf.size };
}

int dv_sq_init(struct dv_sq *sq, const struct mlx5dv_qp *qp, uint32_t qpn, uint32_t max_reads,
	       struct dv_uar *uar, void *book)
{
	uint32_t nr_bb = qp->sq.wqe_cnt;

	if (qp->sq.stride != DV_BB || nr_bb == 0 || nr_bb & (nr_bb - 1) || nr_bb > DV_SQ_MAX_BB)
		return -EINVAL;
	if (max_reads == 0 || max_reads > INT16_MAX || uar->reg != qp->bf.reg ||
	    uar->half_bytes != qp->bf.size)
		return -EINVAL;
	*sq = (struct dv_sq) {
		.buf	   = qp->sq.buf,
		.cookies   = book,
		.blocks	   = (struct dv_block *)((void **)book + nr_bb),
		.mask	   = nr_bb - 1,
		.end	   = nr_bb,
		.signal_due = DV_SIGNAL_EVERY - 1,
		.last	   = UINT32_MAX,
		.max_reads = (uint16_t)max_reads,
		.rdma_qpn_ds = dv_qpn_ds(qpn, DV_RDMA_DS),
		.qpn	   = qpn,
		.dbrec	   = qp->dbrec,
		.uar	   = uar,
	};
	return 0;
}

/* Whole blocks, in ascending order: the card executes the WQE from here, without fetching
 * it. Both are 8-aligned, and the stores neither split nor repeated. */
static void blueflame(uint8_t *reg, const void *wqe, uint32_t nr_bb)
{
	const uint64_t *from = wqe;
	uint64_t *to = (uint64_t *)(void *)reg;

	for (uint32_t i = 0; i < nr_bb * DV_BB / sizeof(*from); i++)
		store_relaxed(&to[i], from[i]);
	register_line_flush();
}

/* The first 8 bytes of the last WQE: which QP, and how far. */
static void doorbell(const struct dv_uar *u, const void *wqe)
{
	store_relaxed((uint64_t *)(void *)(u->reg + u->offset), *(const uint64_t *)wqe);
	if (u->half_bytes)
		register_flush();
}

void dv_sq_ring(struct dv_sq *sq)
{
	struct mlx5_wqe_ctrl_seg *ctrl = dv_sq_block(sq, sq->last);
	struct dv_uar *u = sq->uar;

	if (sq->rung == sq->pi)
		return;
	if (sq->signal_due != sq->last + DV_SIGNAL_EVERY)
		dv_sq_signal(sq, ctrl, sq->last);
	device_store_fence();	/* D1 */
	store_relaxed(&sq->dbrec[MLX5_SND_DBR], htobe32(sq->pi & 0xffff));
	register_fence();	/* D2 */
	if (sq->last == sq->rung && u->half_bytes)
		blueflame(u->reg + u->offset, ctrl, sq->pi - sq->last);
	else
		doorbell(u, ctrl);
	u->offset ^= u->half_bytes;
	sq->rung = sq->pi;
}

/* Fills the queue to its end, where the next WQE would be split. A NOP for each block: the
 * one shape of it that every driver uses. */
static void pad(struct dv_sq *sq, uint32_t nr_bb)
{
	for (; nr_bb; nr_bb--) {
		struct dv_wqe_nop *w = dv_sq_block(sq, sq->pi);

		dv_sq_note(sq, sq->pi, NULL, 1);
		dv_wqe_nop(w, sq->pi, sq->qpn);
		dv_sq_push(sq, &w->ctrl, sq->pi, 1);
	}
}

bool dv_sq_write_inline(struct dv_sq *sq, const struct dv_piece *p, const void *bytes,
			void *cookie)
{
	uint32_t nr_bb = dv_inline_bb(p->length);
	uint32_t to_end = sq->mask + 1 - (sq->pi & sq->mask);
	uint32_t padding = nr_bb > to_end ? to_end : 0;
	struct dv_wqe_inline *w;

	if (dv_sq_free_bb(sq) < padding + nr_bb)
		return false;
	pad(sq, padding);
	w = dv_sq_block(sq, sq->pi);
	dv_sq_note(sq, sq->pi, cookie, (uint8_t)nr_bb);
	dv_wqe_inline(w, sq->pi, sq->qpn, p, bytes);
	dv_sq_push(sq, &w->ctrl, sq->pi, nr_bb);
	return true;
}

bool dv_sq_retire(struct dv_sq *sq, uint32_t last, struct dv_op *op)
{
	while ((int32_t)(last - sq->ci) >= 0 && sq->ci != sq->pi) {
		uint32_t at = sq->ci & sq->mask;

		*op = (struct dv_op) {
			.cookie = sq->cookies[at], .length = dv_wqe_length(dv_sq_block(sq, at)),
			.remote = dv_wqe_remote(dv_sq_block(sq, at)),
		};
		dv_sq_free(sq, sq->ci + sq->blocks[at].nr_bb, sq->mask + 1, sq->blocks[at].reads);
		if (op->cookie)
			return true;
	}
	return false;
}
