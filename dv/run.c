/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - completions that are none of success. */
#include "dv/run.h"

struct dv_run dv_run_fail(struct dv_sq *sq, const struct mlx5_cqe64 *cqe, bool is_stray)
{
	const struct dv_fault *fault = is_stray ? &dv_fault_stray : dv_fault_of(cqe);
	struct dv_run r = dv_run_to(sq, sq->ci - 1, cqe); /* an empty one */
	uint32_t last;

	sq->errors++;
	r.end = sq->ci;
	r.newest = &sq->done;
	r.fault = fault;
	if (!fault->names_wqe)
		return r;
	if (dv_sq_find(sq, dv_cqe_counter(cqe), &last)) {
		r = dv_run_to(sq, last, cqe);
		r.fault = fault;
	} else {
		r.fault = &dv_fault_stray;
	}
	return r;
}
