/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the WQEs that one completion retires: the one that it names and those before it.
 *
 *	while (dv_run_next(cq, sq, &run))
 *		while (dv_run_op(sq, &run, &op))
 *			...
 */
#ifndef TENT_DV_RUN_H
#define TENT_DV_RUN_H

#include "dv/cq.h"
#include "dv/error.h"
#include "dv/sq.h"

struct dv_run {
	uint32_t at;			/* the oldest WQE that is left of it */
	uint32_t end;			/* behind the last */
	const struct dv_block *newest;	/* of the WQE that the completion names */
	const struct dv_fault *fault;	/* NULL: all ended well */
	const struct mlx5_cqe64 *cqe;	/* for dv_fault_describe() */
	/* of the queue: no store of the caller's is in their way here */
	uint32_t mask;
	void *const *cookies;
	const struct dv_block *blocks;
};

/* Up to the WQE at last. */
static inline struct dv_run dv_run_to(const struct dv_sq *sq, uint32_t last,
				      const struct mlx5_cqe64 *cqe)
{
	const struct dv_block *b = &sq->blocks[last & sq->mask];

	return (struct dv_run) {
		.at = sq->ci, .end = last + b->nr_bb, .newest = b, .cqe = cqe,
		.mask = sq->mask, .cookies = sq->cookies, .blocks = sq->blocks,
	};
}

/* Of a completion with which something is wrong. is_stray: nothing but the WQE it names. */
__attribute__((cold))
struct dv_run dv_run_fail(struct dv_sq *sq, const struct mlx5_cqe64 *cqe, bool is_stray);

/* Takes the next completion; false: there is none. Its run has to be taken to its end, only
 * then are its blocks free. With run->fault the QP has ended: post nothing any more. If the
 * fault names no WQE the run is empty. */
static inline bool dv_run_next(struct dv_cq *cq, struct dv_sq *sq, struct dv_run *r)
{
	uint8_t op_own = dv_cq_look(cq);
	const struct mlx5_cqe64 *cqe;
	uint32_t last;

	if (!dv_cq_is_success(cq, op_own)) { /* asked first: it needs one comparison */
		if (!dv_cq_is_ours(cq, op_own))
			return false;
		*r = dv_run_fail(sq, dv_cq_take(cq), false);
		return true;
	}
	cqe = dv_cq_take(cq);
	if (dv_sq_find(sq, dv_cqe_counter(cqe), &last))
		*r = dv_run_to(sq, last, cqe);
	else
		*r = dv_run_fail(sq, cqe, true);
	return true;
}

/* The WQE before r->at. RC executes in order, so what comes before the first error ended
 * well, whether it asked for a completion or not. Of what comes behind it nothing did, and
 * the card need not say so of each. */
static inline bool dv_run_is_bad(const struct dv_sq *sq, const struct dv_run *r)
{
	return sq->errors > 1 || r->at == r->end;
}

/* Retires the oldest WQE of the run that is left; false: that was the last. */
static inline bool dv_run_op(struct dv_sq *sq, struct dv_run *r, struct dv_op *op)
{
	while (r->at != r->end) {
		uint32_t at = r->at & r->mask;

		r->at += r->blocks[at].nr_bb;
		op->cookie = r->cookies[at];
		if (!op->cookie)
			continue;
		op->length = dv_wqe_length(dv_sq_block(sq, at));
		op->fault = NULL;
		if (r->fault) { /* a branch, or who looks for the fault looks twice */
			op->fault = dv_run_is_bad(sq, r) ? r->fault : NULL;
			op->remote = dv_wqe_remote(dv_sq_block(sq, at));
		}
		return true;
	}
	dv_sq_free(sq, r->end, r->mask + 1, r->newest->reads);
	return false;
}

#endif /* TENT_DV_RUN_H */
