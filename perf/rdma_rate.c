/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_rate.c - small requests a second to another engine over RDMA, and what one costs this
 * process, beside ibv_post_send() and ibv_poll_cq() with as many under way. A process of
 * tent does more for a request than that loop; by count `make cost` says how much.
 */
#include "perf/common/rdma_stream.h"

#define LIMIT 0.5

static struct rdma_options options = {
	.size = 64, .iterations = 5000, .qps = 1, .depth = 128, .rails = 1,
	.gid_index = RDMA_GID_BEST,
};

static const struct arg args[] = {
	RDMA_ARGS(&options, "bytes of a request"),
	RDMA_STREAM_ARGS(&options),
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless there are at least 0.5 of the WRITEs a second by libmlx5" },
	{ 0 },
};

static double thousands(double requests, uint32_t size)
{
	(void)size;
	return requests / 1e3;
}

static struct rdma_streams streams = { .runs = 5, .unit = "krequests/s", .in_unit = thousands };

static int judge(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e)
{
	double ratio = rdma_streams_ratio(&streams, RDMA_TENT, TENT_OPCODE_WRITE, 0);

	(void)b;
	return rdma_check(r, e, TENT_OPCODE_WRITE, ratio >= LIMIT, "%.2f of the WRITEs a second "
			  "by libmlx5, limit %.1f", ratio, LIMIT);
}

int main(int argc, char **argv)
{
	static const struct rdma_bench bench = {
		.name = "rdma_rate", .title = "small requests a second over RDMA, beside libmlx5",
		.args = args, .options = &options, .results = &streams,
		.prepare = rdma_streams_prepare, .measure = rdma_streams_measure,
		.print = rdma_streams_print, .judge = judge,
	};

	return rdma_bench_main(&bench, argc, argv);
}
