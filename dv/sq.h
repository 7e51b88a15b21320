/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sq.h - the send queue of an RC QP, as one poller drives it.
 *
 * dv_sq_write(), dv_sq_write_inline() and dv_sq_read() build WQEs; dv_sq_ring() hands what
 * was built to the card: one doorbell record store and one register write a post, and a
 * completion is asked for by its last WQE, and by one in 64 blocks. RC completes in order,
 * so one completion retires a run of WQEs: run.h gives what each was posted for.
 * Credits are exact: a block is free again once its WQE is retired.
 *
 * Positions count blocks (DV_BB) and run free over 2^32; masked on use, and 16 bits of
 * them in what the card reads and writes.
 */
#ifndef TENT_DV_SQ_H
#define TENT_DV_SQ_H

#include <stdbool.h>

#include "dv/wqe.h"

#define DV_SIGNAL_EVERY 64u	/* blocks */
#define DV_SQ_MAX_BB 32768u	/* half of what 16 bits can tell apart */

/* A page of registers that one thread writes: of one thread domain, for all of its QPs.
 * A BlueFlame register has two halves, used in turn, so that a write never meets the one
 * before it in the CPU's buffer. */
struct dv_uar {
	uint8_t *reg;
	uint32_t half_bytes;	/* 0: no BlueFlame, not write-combining: doorbells only */
	uint32_t offset;	/* of the half to use next */
};

/* What is known of the WQE that begins in a block. */
struct dv_block {
	uint16_t reads;		/* READs built until it, and with it, of all times */
	uint8_t nr_bb;
};

struct dv_sq {
	uint8_t *buf;
	void **cookies;		/* by block: what for; NULL: a NOP of our own */
	struct dv_block *blocks;
	uint32_t mask;		/* blocks - 1 */
	uint32_t pi;		/* where the next WQE begins */
	uint32_t end;		/* where it must not reach: a lap behind ci */
	uint32_t signal_due;	/* the first that begins here or later asks for a completion */
	uint32_t last;		/* where the newest begins; -1: none was built yet */
	__be32 rdma_qpn_ds;	/* of every WQE without inline data */
	uint16_t reads;		/* READs built, of all times; wraps */
	struct dv_block done;	/* the newest that is retired: how many of them */
	uint16_t max_reads;	/* the peer answers so many at once: max_rd_atomic */
	uint32_t errors;	/* completions that said so; not 0: the QP has ended */
	uint32_t ci;		/* where the oldest begins that is not retired */
	uint32_t rung;		/* pi as the card knows it */
	uint32_t qpn;
	__be32 *dbrec;
	struct dv_uar *uar;
};

/* A WQE that was retired. */
struct dv_op {
	void *cookie;
	uint32_t length;	/* bytes */
	const struct dv_fault *fault; /* NULL: it ended well */
	uint64_t remote;	/* address at the peer; of one that did not end well alone */
};

void dv_uar_init(struct dv_uar *u, const struct mlx5dv_qp *qp);

/* Bytes that a queue of nr_bb blocks takes beside them. */
static inline size_t dv_sq_book_bytes(uint32_t nr_bb)
{
	return nr_bb * (sizeof(void *) + sizeof(struct dv_block));
}

/* A QP that was just made or reset. book: dv_sq_book_bytes() for qp->sq.wqe_cnt, aligned as
 * malloc() does, the caller's, as long as the queue lives. uar: initialised from a QP of the
 * same thread domain. -EINVAL: a queue that is none of 64-byte blocks, or no read allowed,
 * or another UAR. */
int dv_sq_init(struct dv_sq *sq, const struct mlx5dv_qp *qp, uint32_t qpn, uint32_t max_reads,
	       struct dv_uar *uar, void *book);

/* Hands to the card what was built since the last call; nothing, if nothing was. */
void dv_sq_ring(struct dv_sq *sq);

/* As dv_sq_write(), of bytes that the CPU can read now: at most DV_INLINE_MAX, never GPU
 * memory. They may change once this returned. */
bool dv_sq_write_inline(struct dv_sq *sq, const struct dv_piece *p, const void *bytes,
			void *cookie);

static inline uint32_t dv_sq_free_bb(const struct dv_sq *sq)
{
	return sq->end - sq->pi;
}

static inline void *dv_sq_block(const struct dv_sq *sq, uint32_t pi)
{
	return sq->buf + (size_t)(pi & sq->mask) * DV_BB;
}

static inline void dv_sq_signal(struct dv_sq *sq, struct mlx5_wqe_ctrl_seg *ctrl, uint32_t at)
{
	ctrl->fm_ce_se = MLX5_WQE_CTRL_CQ_UPDATE;
	sq->signal_due = at + DV_SIGNAL_EVERY;
}

/* A WQE of nr_bb blocks at pi. */
static inline void dv_sq_note(struct dv_sq *sq, uint32_t pi, void *cookie, uint8_t nr_bb)
{
	struct dv_block *b = &sq->blocks[pi & sq->mask];

	sq->cookies[pi & sq->mask] = cookie;
	b->reads = sq->reads;
	b->nr_bb = nr_bb;
}

/* It is built. */
static inline void dv_sq_push(struct dv_sq *sq, struct mlx5_wqe_ctrl_seg *ctrl, uint32_t pi,
			      uint32_t nr_bb)
{
	sq->last = pi;
	sq->pi = pi + nr_bb;
	if ((int32_t)(pi - sq->signal_due) >= 0)
		dv_sq_signal(sq, ctrl, pi);
}

/* False: no room; nothing was built. cookie: not NULL. */
static inline bool dv_sq_write(struct dv_sq *sq, const struct dv_piece *p, void *cookie)
{
	uint32_t pi = sq->pi;
	struct dv_wqe_rdma *w = dv_sq_block(sq, pi);

	if (pi == sq->end)
		return false;
	dv_sq_note(sq, pi, cookie, 1);
	dv_wqe_rdma(w, MLX5_OPCODE_RDMA_WRITE, pi, sq->rdma_qpn_ds, p);
	dv_sq_push(sq, &w->ctrl, pi, 1);
	return true;
}

/* False: no room, or as many READs as the peer answers at once are under way. The one that
 * fills this window asks for a completion, or it would open late. */
static inline bool dv_sq_read(struct dv_sq *sq, const struct dv_piece *p, void *cookie)
{
	uint16_t window = (uint16_t)(sq->done.reads + sq->max_reads);
	uint32_t pi = sq->pi;
	struct dv_wqe_rdma *w = dv_sq_block(sq, pi);

	if (pi == sq->end || sq->reads == window)
		return false;
	sq->reads++;
	dv_sq_note(sq, pi, cookie, 1);
	dv_wqe_rdma(w, MLX5_OPCODE_RDMA_READ, pi, sq->rdma_qpn_ds, p);
	dv_sq_push(sq, &w->ctrl, pi, 1);
	if (sq->reads == window)
		dv_sq_signal(sq, &w->ctrl, pi);
	return true;
}

/* Where the WQE begins that a completion names by 16 bits. False: it was not posted, or is
 * retired: the card, or who reads its words, is not to be trusted any more. */
static inline bool dv_sq_find(const struct dv_sq *sq, uint16_t counter, uint32_t *at)
{
	*at = sq->ci + (uint16_t)(counter - sq->ci);
	return *at - sq->ci < sq->rung - sq->ci;
}

/* All WQEs before the one at ci are retired, and with them so many READs of all times. nr_bb:
 * blocks of the queue. */
static inline void dv_sq_free(struct dv_sq *sq, uint32_t ci, uint32_t nr_bb, uint16_t reads)
{
	sq->ci = ci;
	sq->end = ci + nr_bb;
	sq->done.reads = reads;
}

/* Retires the oldest WQE, if it begins at or before last; false: there is none. All that
 * were built: last = sq->pi - 1. For queues that end; where completions come, see run.h. */
bool dv_sq_retire(struct dv_sq *sq, uint32_t last, struct dv_op *op);

#endif /* TENT_DV_SQ_H */
