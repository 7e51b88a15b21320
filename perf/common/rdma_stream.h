/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_stream.h - so many requests, depth of them always under way: for rdma_bw, rdma_rate. */
#ifndef TENT_PERF_RDMA_STREAM_H
#define TENT_PERF_RDMA_STREAM_H

#include "perf/common/rdma_ends.h"
#include "perf/common/samples.h"

enum rdma_subject { RDMA_VERBS, RDMA_TENT, RDMA_SUBJECTS };
enum { RDMA_OPS = 2 };		/* enum tent_opcode */

extern const char *const rdma_subjects[RDMA_SUBJECTS], *const rdma_ops[RDMA_OPS];

#define RDMA_STREAM_ARGS(o)							\
	{ "t,depth", ARG_NUMBER, &(o)->depth, 1, RDMA_DEPTH_MAX, NULL,		\
	  "requests under way, by each queue pair" },				\
	{ "q,qps", ARG_NUMBER, &(o)->qps, 1, RDMA_QPS_MAX, NULL,		\
	  "queue pairs, each with a poller; with more than one the engine has threads" }

/* Of the measured half; as many requests come before. */
struct rdma_flow {
	struct samples rates, cpu;	/* of each run: requests a second; ns of this process's
					 * CPU time for 1000 of them */
};
void rdma_flow_init(struct rdma_flow *f, size_t runs);

/* One run. 0; -1 after saying why on stderr. */
int rdma_stream(struct rdma_ends *e, enum rdma_subject subject, int op, uint32_t size,
		struct rdma_flow *f);

/* Medians. */
double rdma_flow_rate(struct rdma_flow *f);
double rdma_flow_cpu_us(struct rdma_flow *f);	/* of one request */

#endif /* TENT_PERF_RDMA_STREAM_H */
