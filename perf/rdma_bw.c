/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_bw.c - bytes a second to and from the memory of another engine over RDMA, beside
 * ibv_post_send() and ibv_poll_cq() with as many requests under way.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "perf/common/machine.h"
#include "perf/common/rdma_stream.h"

#define TITLE "bytes a second over RDMA, beside libmlx5"
#define RUNS 3
#define SMALL 65536u
#define LIMIT 0.8

enum { SIZES_MAX = 2 };

static struct rdma_options options = {
	.size = 1 << 20, .iterations = 500, .qps = 1, .depth = 16, .rails = 1,
};

static const struct arg args[] = {
	RDMA_ARGS(&options, "bytes of a request, at most: rows are 64K and this"),
	RDMA_STREAM_ARGS(&options),
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless requests of that size move at least 0.8 of what they do by libmlx5" },
	{ 0 },
};

struct bench {
	struct rdma_ends ends;
	uint32_t sizes[SIZES_MAX];
	int nr_sizes;
	struct rdma_flow flows[RDMA_SUBJECTS][RDMA_OPS][SIZES_MAX];
};

static double mib(struct bench *b, int subject, int op, int size)
{
	return rdma_flow_rate(&b->flows[subject][op][size]) * b->sizes[size] / (1 << 20);
}

static void row(struct report *r, struct bench *b, int subject, int op, int size)
{
	report_cell_text(r, rdma_subjects[subject]);
	report_cell_text(r, rdma_ops[op]);
	report_cell(r, 0, b->sizes[size]);
	report_cell(r, 0, (double)options.depth);
	report_cell(r, 0, (double)options.qps);
	report_cell(r, 1, mib(b, subject, op, size));
	report_cell(r, 2, rdma_flow_cpu_us(&b->flows[subject][op][size]));
	if (b->ends.has_verbs)
		report_cell(r, 3, mib(b, subject, op, size) / mib(b, RDMA_VERBS, op, size));
	else
		report_cell_none(r);
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "op", "bytes", "depth", "qps", "MiB/s", "cpu_us", "to_verbs",
	};

	report_table_begin(r, "rdma_bw", columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < RDMA_OPS; op++)
		for (int size = 0; size < b->nr_sizes; size++)
			for (int i = !b->ends.has_verbs; i < RDMA_SUBJECTS; i++)
				row(r, b, i, op, size);
	report_table_end(r);
}

static int judge(struct report *r, struct bench *b)
{
	const int last = b->nr_sizes - 1;
	int rc = 0;

	for (int op = 0; op < RDMA_OPS; op++) {
		double ratio = mib(b, RDMA_TENT, op, last) / mib(b, RDMA_VERBS, op, last);
		char name[32];

		snprintf(name, sizeof(name), "check_%s", rdma_ops[op]);
		if (!b->ends.has_verbs) {
			report_fact(r, name, "not compared: libmlx5 has one queue pair to a "
				    "process of this host");
			rc = 2;
			continue;
		}
		report_fact(r, name, "%s: %u bytes at a time move %.2f of what they do by "
			    "libmlx5, limit %.1f", ratio >= LIMIT ? "pass" : "FAIL",
			    b->sizes[last], ratio, LIMIT);
		rc |= ratio < LIMIT;
	}
	return rc;
}

static int measure_all(struct bench *b)
{
	int rc = 0;

	for (int run = 0; run < RUNS; run++)
		for (int op = 0; op < RDMA_OPS; op++)
			for (int size = 0; size < b->nr_sizes; size++)
				for (int i = !b->ends.has_verbs; i < RDMA_SUBJECTS && !rc; i++)
					rc = rdma_stream(&b->ends, (enum rdma_subject)i, op,
							 b->sizes[size], &b->flows[i][op][size]);
	return rc;
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;
	int rc;

	if (SMALL < options.size)
		b->sizes[b->nr_sizes++] = SMALL;
	b->sizes[b->nr_sizes++] = (uint32_t)options.size;
	for (int i = 0; i < RDMA_SUBJECTS * RDMA_OPS * SIZES_MAX; i++)
		rdma_flow_init(&b->flows[0][0][0] + i, RUNS);
	machine_facts(r);
	report_fact(r, "method", "medians of %d runs of %llu requests; cpu_us: of this process, "
		    "a request", RUNS, (unsigned long long)options.iterations);
	machine_warn(r, 2);
	machine_watch_begin(&watch);
	rc = measure_all(b);
	machine_watch_end(&watch, r);
	rdma_facts(r, &b->ends);
	if (rc)
		return 2;
	print_table(r, b);
	return options.check ? judge(r, b) : 0;
}

static int run(struct report *r)
{
	static struct bench b;
	int rc = rdma_ends_open(&b.ends, &options) ? 2 : bench(r, &b);

	rdma_ends_close(&b.ends);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "rdma_bw", .title = TITLE, .args = args, .json = &options.json,
		.cores = 1, .run = run,
	};

	return rdma_bench_main(&program, &options, argc, argv);
}
