/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - completions that are none of success. */
#include "dv/run.h"

/* RC executes in order, so what comes before the first error ended well, whether it asked
 * for a completion or not. Of what comes behind it nothing did, and the card need not
 * say so of each. */
void dv_run_fail(struct dv_sq *sq, struct dv_run *r)
{
	uint32_t last;
	bool is_posted = dv_sq_find(sq, dv_cqe_counter(r->cqe), &last);

	r->fault = dv_cqe_ok(r->cqe) ? &dv_fault_stray : dv_fault_of(r->cqe);
	if (r->fault->names_wqe && !is_posted)
		r->fault = &dv_fault_stray;
	r->last = r->fault->names_wqe ? last : sq->ci - 1;
	r->bad = sq->is_broken ? sq->ci : r->last;
	sq->is_broken = true;
}
