/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_ends.h - what rdma_lat, rdma_bw and rdma_rate have in common: two engines whose only
 * way to each other is RDMA, one here and one in another process, or on another host; beside
 * them, where it is a process of ours, the same by libmlx5. Options are named as perftest
 * names them. Without a device of this machine the program runs on software ones.
 */
#ifndef TENT_PERF_RDMA_ENDS_H
#define TENT_PERF_RDMA_ENDS_H

#include <tent/tentring.h>

#include "engine/engine.h"
#include "perf/common/bench.h"
#include "perf/common/process.h"
#include "perf/common/verbs_floor.h"

#define RDMA_QPS_MAX 16u
#define RDMA_DEPTH_MAX 512u

struct rdma_options {
	const char *device;	/* with commas: rails; NULL: software ones */
	const char *listen;	/* address: only serve others, until interrupted */
	const char *peer;	/* segment of who does that; NULL: a process of ours */
	uint64_t size, iterations, qps, depth;
	uint64_t rails;		/* software devices */
	int link;		/* of these; 0 RoCE, 1 InfiniBand */
	bool check, json;
};

#define RDMA_ARGS(o, sized)							\
	{ "d,device", ARG_TEXT, &(o)->device, 0, 0, NULL,				\
	  "mlx5 devices of this machine, with commas; none: software ones" },	\
	{ "s,size", ARG_SIZE, &(o)->size, 1, 16 << 20, NULL, sized },	\
	{ "n,iters", ARG_NUMBER, &(o)->iterations, 100, 100000000, NULL,		\
	  "requests per row" },							\
	{ "listen", ARG_TEXT, &(o)->listen, 0, 0, NULL,				\
	  "only serve --peer of another host, at this address" },		\
	{ "peer", ARG_TEXT, &(o)->peer, 0, 0, NULL,				\
	  "segment that --listen names; none: a process of this host" },	\
	{ "rails", ARG_NUMBER, &(o)->rails, 1, 8, NULL, "software devices" },	\
	{ "link", ARG_CHOICE, &(o)->link, 0, 0, "roce|ib", "of these" },	\
	ARG_JSON(&(o)->json)

/* As bench_main(); first of all it goes on by tent-sim if no device is named. */
int rdma_bench_main(const struct bench_program *p, struct rdma_options *o, int argc, char **argv);

struct rdma_ends {
	const struct rdma_options *o;
	/* there */
	struct process process;
	uint64_t target;	/* where it has its memory */
	tent_segment_id_t segment;
	/* here */
	struct engine *engine;
	struct tent_client *client;
	struct tent_ring *rings[RDMA_QPS_MAX]; /* each with a queue pair */
	uint8_t *memory;
	uint64_t stride;	/* from one request's bytes to the next's */
	bool has_verbs;
	struct verbs_end verbs;
};

/* depth places for each of qps. 0; -1 after saying why on stderr. */
int rdma_ends_open(struct rdma_ends *e, const struct rdma_options *o);
void rdma_ends_close(struct rdma_ends *e);
void rdma_facts(struct report *r, struct rdma_ends *e);

/* One request of this ring with the bytes of this place; its user_data is the place. */
int rdma_submit(struct rdma_ends *e, uint32_t ring, int opcode, const uint64_t *places,
		uint32_t nr, uint32_t size);
/* As verbs_poll(); drives the engine, if nobody else does. */
int rdma_poll_ends(struct rdma_ends *e, uint32_t ring, uint64_t *places, int nr);

/* CPU time of this process, its software device's too. */
uint64_t rdma_cpu_ns(void);

#endif /* TENT_PERF_RDMA_ENDS_H */
