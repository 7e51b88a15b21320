/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_stream.h - so many requests, depth of them always under way: rdma_bw and rdma_rate. */
#ifndef TENT_PERF_RDMA_STREAM_H
#define TENT_PERF_RDMA_STREAM_H

#include "perf/common/rdma_ends.h"
#include "perf/common/samples.h"

#define RDMA_STREAM_ARGS(o)							\
	{ "t,depth", ARG_NUMBER, &(o)->depth, 1, RDMA_DEPTH_MAX, NULL,		\
	  "requests under way, by each queue pair" },				\
	{ "q,qps", ARG_NUMBER, &(o)->qps, 1, RDMA_QPS_MAX, NULL,		\
	  "queue pairs, each with a poller; with more than one the engine has threads" }

/* Of the measured half of each run; as many requests come before. */
struct rdma_flow {
	struct samples rates, cpu;	/* requests a second; ns of this process's CPU time for
					 * 1000 of them */
};

/* A program's rows, medians of so many runs. */
struct rdma_streams {
	int runs;
	const char *unit;		/* of the column that this fills: */
	double (*in_unit)(double requests, uint32_t size);
	uint32_t sizes[2];		/* the options' is added as the last */
	int nr_sizes;
	struct rdma_flow flows[RDMA_SUBJECTS][RDMA_OPS][2];
};

/* Of an rdma_bench whose results they are. */
void rdma_streams_prepare(const struct rdma_bench *b, struct report *r);
int rdma_streams_measure(const struct rdma_bench *b, struct rdma_ends *e);
void rdma_streams_print(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e);
/* Requests a second, as a part of those by libmlx5. */
double rdma_streams_ratio(struct rdma_streams *s, int subject, int op, int size);

#endif /* TENT_PERF_RDMA_STREAM_H */
