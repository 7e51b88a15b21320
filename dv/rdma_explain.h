/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_explain.h - what explain says of the rdma backend: see struct backend. Control. */
#ifndef TENT_DV_RDMA_EXPLAIN_H
#define TENT_DV_RDMA_EXPLAIN_H

#include "engine/backend.h"

void rdma_describe(const struct backend_instance *base, const struct transfer *t, json_t *plan);
void rdma_why_not(const struct backend_instance *base, const struct region *local,
		  const struct region *remote, char *text, size_t size);

#endif /* TENT_DV_RDMA_EXPLAIN_H */
