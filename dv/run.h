/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - the WQEs that one completion retires: the one that it names and those before it.
 *
 *	while (dv_run_next(cq, sq, &run))
 *		while ((op = dv_run_op(sq, &run, &fault)))
 *			...
 */
#ifndef TENT_DV_RUN_H
#define TENT_DV_RUN_H

#include "dv/cq.h"
#include "dv/error.h"
#include "dv/sq.h"

struct dv_run {
	uint32_t last;			/* block of the WQE that the completion names */
	uint32_t bad;			/* the first that did not end well; last + 1: none */
	const struct dv_fault *fault;	/* of those; NULL: there are none */
	const struct mlx5_cqe64 *cqe;	/* for dv_fault_describe() */
};

/* The rest of dv_run_next(), where something is wrong. */
void dv_run_fail(struct dv_sq *sq, struct dv_run *r);

/* Takes the next completion; false: there is none. With run->fault the QP has ended: post
 * nothing any more. If the fault names no WQE the run is empty. */
static inline bool dv_run_next(struct dv_cq *cq, struct dv_sq *sq, struct dv_run *r)
{
	r->cqe = dv_cq_next(cq);
	if (!r->cqe)
		return false;
	r->fault = NULL;
	if (!dv_sq_find(sq, dv_cqe_counter(r->cqe), &r->last) || !dv_cqe_ok(r->cqe) ||
	    sq->is_broken)
		dv_run_fail(sq, r);
	else
		r->bad = r->last + 1;
	return true;
}

/* The oldest WQE of the run that is left; NULL: none. *fault: why it failed, or NULL. */
static inline const struct dv_op *dv_run_op(struct dv_sq *sq, const struct dv_run *r,
					    const struct dv_fault **fault)
{
	const struct dv_op *op = dv_sq_retire(sq, r->last);

	/* ci stands behind it now. */
	*fault = op && (int32_t)(sq->ci - r->bad) > 0 ? r->fault : NULL;
	return op;
}

#endif /* TENT_DV_RUN_H */
