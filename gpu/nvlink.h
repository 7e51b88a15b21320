/* SPDX-License-Identifier: Apache-2.0 */
/* nvlink.h - lanes: what a poller has on its way by one GPU. */
#ifndef TENT_GPU_NVLINK_H
#define TENT_GPU_NVLINK_H

#include "engine/backend.h"
#include "engine/transfer_list.h"
#include "gpu/memory.h"

#define NVLINK_QUEUES_MAX 64u
#define LANE_DEPTH 32u			/* flights of a lane; a power of two */
#define COPY_BYTES (8ull << 20)		/* of one flight, at most: what a cancel waits for */
#define PIECES_MAX 64u			/* copies of one flight, where bytes move onto themselves */

/* A copy, or a few in a row, and what says that they are over. */
struct flight {
	struct transfer *transfer;
	uint64_t bytes;
	uint16_t rule;		/* it was asked back: what it ends with; 0: it was not */
	cuda_event event;
};

/* Copies of one stream end in the order in which they began. The control thread makes a
 * lane before there is a region that leads to it; then it is the poller's. */
struct lane {
	cuda_context context;	/* held */
	cuda_stream stream;	/* NULL: there is no lane */
	uint32_t first, next;	/* flights on their way, modulo LANE_DEPTH */
	uint32_t failed;	/* what its context has come to; 0: it is well; any thread reads */
	struct flight flights[LANE_DEPTH];
};

struct nvlink_queue {
	struct backend_queue base;
	uint32_t in_flight;
	struct transfer_list ended;	/* for the next poll() */
	struct lane lanes[GPUS_MAX];
};

struct nvlink_instance {
	struct backend_instance base;
	const struct cuda_api *cuda;	/* from the first region on */
	struct gpu_pins *pins;
	uint32_t is_present;		/* a region of a GPU was there; any thread reads */
	int pinned_by;			/* the GPU of that region */
	uint32_t nr_queues;
	struct nvlink_queue *queues[NVLINK_QUEUES_MAX];
};

/* nvlink_lane.c. Control thread: all or nothing. 0, or what the driver says. */
cuda_result lane_open(const struct cuda_api *cuda, struct lane *l, int device);
/* No poller has it any more. What is still on its way is waited for. */
void lane_close(const struct cuda_api *cuda, struct lane *l, int device);

/* nvlink_copy.c. Poller. */
enum post_result nvlink_post(struct backend_queue *base, struct transfer *t, uint64_t budget);
struct transfer *nvlink_poll(struct backend_queue *base);
bool nvlink_cancel(struct backend_queue *base, struct transfer *t, uint16_t rule);

#endif /* TENT_GPU_NVLINK_H */
