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
#define RDMA_GID_BEST 255u	/* as gid_index */
#define RDMA_DEPTH_MAX 512u

struct rdma_options {
	const char *device;	/* with commas: rails; NULL: software ones */
	const char *listen;	/* address: only serve others, until interrupted */
	const char *peer;	/* segment of who does that; NULL: a process of ours */
	uint64_t size, iterations, qps, depth;
	uint64_t gid_index;
	uint64_t rails;		/* software devices */
	int link;		/* of these; 0 RoCE, 1 InfiniBand */
	bool check, json;
};

#define RDMA_ARGS(o, sized)							\
	{ "d,device", ARG_TEXT, &(o)->device, 0, 0, NULL,				\
	  "mlx5 devices of this machine, with commas; none: software ones" },	\
	{ "x,gid-index", ARG_NUMBER, &(o)->gid_index, 0, RDMA_GID_BEST, NULL,	\
	  "of the device's GID table; 255: the best that there is" },		\
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

/* What one of them does between two ends. */
struct rdma_bench {
	const char *name, *title;
	const struct arg *args;
	struct rdma_options *options;
	void *results;
	/* All required. Facts of its own, and room for results. */
	void (*prepare)(const struct rdma_bench *b, struct report *r);
	/* 0; -1 after saying why on stderr. */
	int (*measure)(const struct rdma_bench *b, struct rdma_ends *e);
	void (*print)(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e);
	/* With --check: the exit status. */
	int (*judge)(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e);
};

/* As bench_main(); first of all it goes on by tent-sim if no device is named. */
int rdma_bench_main(const struct rdma_bench *b, int argc, char **argv);

/* ---- rows: one for each operation by each subject, verbs only where it is compared ---- */

enum rdma_subject { RDMA_VERBS, RDMA_TENT, RDMA_SUBJECTS };
enum { RDMA_OPS = 2 };		/* enum tent_opcode */

/* Its first cells: what, op, bytes; and the last one, to_verbs. */
void rdma_row_begin(struct report *r, int subject, int op, uint32_t size);
void rdma_row_end(struct report *r, const struct rdma_ends *e, double to_verbs);
/* The fact check_OP; the exit status. */
__attribute__((format(printf, 5, 6)))
int rdma_check(struct report *r, const struct rdma_ends *e, int op, bool pass,
	       const char *format, ...);

/* ---- requests ---------------------------------------------------------- */

/* One request of this ring with the bytes of this place; its user_data is the place. */
int rdma_submit(struct rdma_ends *e, uint32_t ring, int opcode, const uint64_t *places,
		uint32_t nr, uint32_t size);
/* As verbs_poll(); drives the engine, if nobody else does. */
int rdma_poll_ends(struct rdma_ends *e, uint32_t ring, uint64_t *places, int nr);

/* CPU time of this process, its software device's too. */
uint64_t rdma_cpu_ns(void);

#endif /* TENT_PERF_RDMA_ENDS_H */
