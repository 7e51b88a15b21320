/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_lat.c - how long one request to another engine takes over RDMA, beside the same
 * request by ibv_post_send() and ibv_poll_cq() between the same two processes. tent is driven
 * by the thread that waits, as that loop is.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "perf/common/machine.h"
#include "perf/common/rdma_ends.h"
#include "perf/common/samples.h"
#include "ring/clock.h"

#define TITLE "round trip times of requests over RDMA, beside those of libmlx5"
#define WARMUP 100
#define LIMIT 1.5

enum { VERBS, TENT, SUBJECTS };
enum { OPS = 2, SIZES_MAX = 3 };

static const char *const names[SUBJECTS] = { "verbs", "tent" };
static const char *const ops[OPS] = { "read", "write" };	/* enum tent_opcode */
static struct rdma_options options = {
	.size = 65536, .iterations = 1000, .qps = 1, .depth = 1, .rails = 1,
};

static const struct arg args[] = {
	RDMA_ARGS(&options, "bytes of a request, at most: rows are 64, 4096 and this"),
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless a WRITE of 64 bytes takes at most 1.5 of that by libmlx5" },
	{ 0 },
};

struct bench {
	struct rdma_ends ends;
	uint32_t sizes[SIZES_MAX];
	int nr_sizes;
	struct samples cells[SUBJECTS][OPS][SIZES_MAX];	/* ns */
};

static int verbs_round(struct rdma_ends *e, int op, uint32_t size)
{
	uint64_t place = 0;
	int n = 0;

	if (verbs_post(&e->verbs, op, size, &place, 1, e->stride))
		return -1;
	while (n == 0)
		n = verbs_poll(&e->verbs, &place, 1);
	return n < 0 ? -1 : 0;
}

static int tent_round(struct rdma_ends *e, int op, uint32_t size)
{
	uint64_t place = 0;
	int n = 0;

	if (rdma_submit(e, 0, op, &place, 1, size))
		return -1;
	while (n == 0)
		n = rdma_poll_ends(e, 0, &place, 1);
	return n < 0 ? -1 : 0;
}

static int measure(struct bench *b, int subject, int op, int size)
{
	for (uint64_t i = 0; i < WARMUP + options.iterations; i++) {
		uint64_t began = clock_monotonic_ns();
		int rc = subject == VERBS ? verbs_round(&b->ends, op, b->sizes[size]) :
					    tent_round(&b->ends, op, b->sizes[size]);

		if (rc)
			return -1;
		if (i >= WARMUP)
			samples_add(&b->cells[subject][op][size], clock_monotonic_ns() - began);
	}
	return 0;
}

/* ---- the table --------------------------------------------------------- */

static double p50(struct bench *b, int subject, int op, int size)
{
	return (double)samples_percentile(&b->cells[subject][op][size], 0.5);
}

static void row(struct report *r, struct bench *b, int subject, int op, int size)
{
	struct samples *s = &b->cells[subject][op][size];

	report_cell_text(r, names[subject]);
	report_cell_text(r, ops[op]);
	report_cell(r, 0, b->sizes[size]);
	report_cell(r, 0, (double)s->nr);
	report_cell(r, 2, p50(b, subject, op, size) / 1000);
	report_cell(r, 2, (double)samples_percentile(s, 0.99) / 1000);
	report_cell(r, 2, (double)samples_percentile(s, 0.999) / 1000);
	report_cell(r, 2, (double)samples_max(s) / 1000);
	if (b->ends.has_verbs)
		report_cell(r, 3, p50(b, subject, op, size) / p50(b, VERBS, op, size));
	else
		report_cell_none(r);
}

static void print_table(struct report *r, struct bench *b)
{
	static const char *const columns[] = {
		"what", "op", "bytes", "n", "p50_rtt_us", "p99_rtt_us", "p999_rtt_us",
		"max_rtt_us", "to_verbs",
	};

	report_table_begin(r, "rdma_lat", columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < OPS; op++)
		for (int size = 0; size < b->nr_sizes; size++)
			for (int i = !b->ends.has_verbs; i < SUBJECTS; i++)
				row(r, b, i, op, size);
	report_table_end(r);
}

static int judge(struct report *r, struct bench *b)
{
	double ratio = p50(b, TENT, TENT_OPCODE_WRITE, 0) / p50(b, VERBS, TENT_OPCODE_WRITE, 0);

	if (!b->ends.has_verbs) {
		report_fact(r, "check_write", "not compared: the peer has no end of verbs");
		return 2;
	}
	report_fact(r, "check_write", "%s: a WRITE of %u bytes takes %.2f of what it takes by "
		    "libmlx5, limit %.1f", ratio <= LIMIT ? "pass" : "FAIL", b->sizes[0], ratio,
		    LIMIT);
	return ratio <= LIMIT ? 0 : 1;
}

static void choose_sizes(struct bench *b)
{
	static const uint32_t usual[] = { 64, 4096 };

	for (int i = 0; i < 2; i++)
		if (usual[i] < options.size)
			b->sizes[b->nr_sizes++] = usual[i];
	b->sizes[b->nr_sizes++] = (uint32_t)options.size;
}

static int bench(struct report *r, struct bench *b)
{
	struct machine_watch watch;
	int rc = 0;

	choose_sizes(b);
	for (int i = 0; i < SUBJECTS * OPS * SIZES_MAX; i++)
		samples_init(&b->cells[0][0][0] + i, options.iterations);
	machine_facts(r);
	machine_warn(r, 2);
	machine_watch_begin(&watch);
	for (int op = 0; op < OPS; op++)
		for (int size = 0; size < b->nr_sizes; size++)
			for (int i = !b->ends.has_verbs; i < SUBJECTS && !rc; i++)
				rc = measure(b, i, op, size);
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
		.name = "rdma_lat", .title = TITLE, .args = args, .json = &options.json,
		.cores = 1, .run = run,
	};

	return rdma_bench_main(&program, &options, argc, argv);
}
