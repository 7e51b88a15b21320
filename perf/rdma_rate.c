/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_rate.c - small requests a second to another engine over RDMA, and what one costs this
 * process, beside ibv_post_send() and ibv_poll_cq() with as many under way. A process of
 * tent does more for a request than that loop; by count `make cost` says how much.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "perf/common/machine.h"
#include "perf/common/rdma_stream.h"

#define TITLE "small requests a second over RDMA, beside libmlx5"
#define RUNS 5
#define LIMIT 0.5

static struct rdma_options options = {
	.size = 64, .iterations = 5000, .qps = 1, .depth = 128, .rails = 1,
};

static const struct arg args[] = {
	RDMA_ARGS(&options, "bytes of a request"),
	RDMA_STREAM_ARGS(&options),
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless there are at least 0.5 of the WRITEs a second by libmlx5" },
	{ 0 },
};

struct bench {
	struct rdma_ends ends;
	struct rdma_flow flows[RDMA_SUBJECTS][RDMA_OPS];
};

static double to_verbs(struct bench *b, int subject, int op)
{
	return rdma_flow_rate(&b->flows[subject][op]) / rdma_flow_rate(&b->flows[RDMA_VERBS][op]);
}

static void row(struct report *r, struct bench *b, int subject, int op)
{
	report_cell_text(r, rdma_subjects[subject]);
	report_cell_text(r, rdma_ops[op]);
	report_cell(r, 0, (double)options.size);
	report_cell(r, 0, (double)options.depth);
	report_cell(r, 0, (double)options.qps);
	report_cell(r, 1, rdma_flow_rate(&b->flows[subject][op]) / 1e3);
	report_cell(r, 2, rdma_flow_cpu_us(&b->flows[subject][op]));
	if (b->ends.has_verbs)
		report_cell(r, 3, to_verbs(b, subject, op));
	else
		report_cell_none(r);
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "op", "bytes", "depth", "qps", "krequests/s", "cpu_us", "to_verbs",
	};

	report_table_begin(r, "rdma_rate", columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < RDMA_OPS; op++)
		for (int i = !b->ends.has_verbs; i < RDMA_SUBJECTS; i++)
			row(r, b, i, op);
	report_table_end(r);
}

static int judge(struct report *r, struct bench *b)
{
	double ratio;

	if (!b->ends.has_verbs) {
		report_fact(r, "check_write", "not compared: libmlx5 has one queue pair to a "
			    "process of this host");
		return 2;
	}
	ratio = to_verbs(b, RDMA_TENT, TENT_OPCODE_WRITE);
	report_fact(r, "check_write", "%s: %.2f of the WRITEs a second by libmlx5, limit %.1f",
		    ratio >= LIMIT ? "pass" : "FAIL", ratio, LIMIT);
	return ratio >= LIMIT ? 0 : 1;
}

static int measure_all(struct bench *b)
{
	int rc = 0;

	for (int run = 0; run < RUNS; run++)
		for (int op = 0; op < RDMA_OPS; op++)
			for (int i = !b->ends.has_verbs; i < RDMA_SUBJECTS && !rc; i++)
				rc = rdma_stream(&b->ends, (enum rdma_subject)i, op,
						 (uint32_t)options.size, &b->flows[i][op]);
	return rc;
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;
	int rc;

	for (int i = 0; i < RDMA_SUBJECTS * RDMA_OPS; i++)
		rdma_flow_init(&b->flows[0][0] + i, RUNS);
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
		.name = "rdma_rate", .title = TITLE, .args = args, .json = &options.json,
		.cores = 1, .run = run,
	};

	return rdma_bench_main(&program, &options, argc, argv);
}
