/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_frame.h - what the two ends of a connection tell each other: docs/peers.md, "rdma". */
#ifndef TENT_DV_RDMA_FRAME_H
#define TENT_DV_RDMA_FRAME_H

#include <jansson.h>

#include "dv/qp.h"

/* What is said of a connection; endpoint or reason may be NULL. */
json_t *rdma_frame(const char *what, uint64_t id, const struct dv_endpoint *e,
		   const char *reason);
#define RDMA_NOT_SAID UINT32_MAX

/* What a peer says: judged, but for whether it makes sense now. */
struct rdma_said {
	const char *what;
	uint64_t id;
	uint32_t rail;		/* that is asked for; 0 where nothing is said */
	uint32_t service_level, traffic_class; /* the same; RDMA_NOT_SAID */
	bool has_endpoint;
	struct dv_endpoint endpoint;
	const char *reason;
};
/* False: it is no such frame. */
bool rdma_frame_read(const json_t *frame, struct rdma_said *s);

#endif /* TENT_DV_RDMA_FRAME_H */
