/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_load.h - what rails have to do, for those who ask. The path is not asked for anything:
 * a poller counts what it hands to each rail as it always does, control makes a moving
 * average of these sums while there are connections, and what is out is added up by each
 * poller when somebody wants to know.
 */
#ifndef TENT_DV_RDMA_LOAD_H
#define TENT_DV_RDMA_LOAD_H

#include "dv/rdma.h"

#define RDMA_SAMPLE_NS 100000000u	/* between two looks at the sums */
#define RDMA_AVERAGE_NS 1000000000u	/* a look after so long counts for half */

struct rdma_loads {
	/* control's */
	uint64_t sampled_ns;
	struct rdma_load {
		uint64_t bytes;		/* the sum at that time */
		double bandwidth;	/* bytes a second */
	} rails[RDMA_RAILS_MAX];
	/* a row each, written by its poller */
	uint64_t out_bytes[RDMA_QUEUES_MAX][RDMA_RAILS_MAX];
};

/* Poller. */
void rdma_load_tell(struct backend_queue *base);
/* Control. */
uint32_t rdma_load_get(struct backend_instance *base, struct nic_load *loads, uint32_t max);
/* True: to be called again RDMA_SAMPLE_NS later. */
bool rdma_load_patrol(struct rdma_instance *inst, uint64_t now);

#endif /* TENT_DV_RDMA_LOAD_H */
