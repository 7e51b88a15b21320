/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_bw.c - bytes a second to and from the memory of another engine over RDMA, beside
 * ibv_post_send() and ibv_poll_cq() with as many requests under way.
 */
#include "perf/common/rdma_stream.h"

#define SMALL 65536u
#define LIMIT 0.8

static struct rdma_options options = {
	.size = 1 << 20, .iterations = 500, .qps = 1, .depth = 16, .rails = 1,
	.gid_index = RDMA_GID_BEST,
};

static const struct arg args[] = {
	RDMA_ARGS(&options, "bytes of a request, at most: rows are 64K and this"),
	RDMA_STREAM_ARGS(&options),
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless requests of that size move at least 0.8 of what they do by libmlx5" },
	{ 0 },
};

static double mib(double requests, uint32_t size)
{
	return requests * size / (1 << 20);
}

static struct rdma_streams streams = { .runs = 3, .unit = "MiB/s", .in_unit = mib };

static void prepare(const struct rdma_bench *b, struct report *r)
{
	if (SMALL < options.size)
		streams.sizes[streams.nr_sizes++] = SMALL;
	rdma_streams_prepare(b, r);
}

static int judge(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e)
{
	const int last = streams.nr_sizes - 1;
	int rc = 0;

	(void)b;
	for (int op = 0; op < RDMA_OPS; op++) {
		double ratio = rdma_streams_ratio(&streams, RDMA_TENT, op, last);

		rc |= rdma_check(r, e, op, ratio >= LIMIT, "%u bytes at a time move %.2f of what "
				 "they do by libmlx5, limit %.1f", streams.sizes[last], ratio,
				 LIMIT);
	}
	return rc;
}

int main(int argc, char **argv)
{
	static const struct rdma_bench bench = {
		.name = "rdma_bw", .title = "bytes a second over RDMA, beside libmlx5",
		.args = args, .options = &options, .results = &streams, .prepare = prepare,
		.measure = rdma_streams_measure, .print = rdma_streams_print, .judge = judge,
	};

	return rdma_bench_main(&bench, argc, argv);
}
