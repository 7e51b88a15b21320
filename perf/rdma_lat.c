/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_lat.c - how long one request to another engine takes over RDMA, beside the same
 * request by ibv_post_send() and ibv_poll_cq() between the same two processes. tent is driven
 * by the thread that waits, as that loop is.
 */
#include "perf/common/rdma_ends.h"
#include "perf/common/samples.h"
#include "ring/clock.h"

#define WARMUP 100
#define LIMIT 1.5

enum { SIZES_MAX = 3 };

static struct rdma_options options = {
	.size = 65536, .iterations = 1000, .qps = 1, .depth = 1, .rails = 1,
	.gid_index = RDMA_GID_BEST,
};

static const struct arg args[] = {
	RDMA_ARGS(&options, "bytes of a request, at most: rows are 64, 4096 and this"),
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail unless a WRITE of 64 bytes takes at most 1.5 of that by libmlx5" },
	{ 0 },
};

static uint32_t sizes[SIZES_MAX];
static int nr_sizes;
static struct samples cells[RDMA_SUBJECTS][RDMA_OPS][SIZES_MAX];	/* ns */

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

static int measure(struct rdma_ends *e, int subject, int op, int size)
{
	for (uint64_t i = 0; i < WARMUP + options.iterations; i++) {
		uint64_t began = clock_monotonic_ns();
		int rc = subject == RDMA_VERBS ? verbs_round(e, op, sizes[size]) :
						 tent_round(e, op, sizes[size]);

		if (rc)
			return -1;
		if (i >= WARMUP)
			samples_add(&cells[subject][op][size], clock_monotonic_ns() - began);
	}
	return 0;
}

static int measure_all(const struct rdma_bench *b, struct rdma_ends *e)
{
	int rc = 0;

	(void)b;
	for (int op = 0; op < RDMA_OPS; op++)
		for (int size = 0; size < nr_sizes; size++)
			for (int i = !e->has_verbs; i < RDMA_SUBJECTS && !rc; i++)
				rc = measure(e, i, op, size);
	return rc;
}

static void prepare(const struct rdma_bench *b, struct report *r)
{
	static const uint32_t usual[] = { 64, 4096 };

	(void)b;
	(void)r;
	for (int i = 0; i < 2; i++)
		if (usual[i] < options.size)
			sizes[nr_sizes++] = usual[i];
	sizes[nr_sizes++] = (uint32_t)options.size;
	for (int i = 0; i < RDMA_SUBJECTS * RDMA_OPS * SIZES_MAX; i++)
		samples_init(&cells[0][0][0] + i, options.iterations);
}

/* ---- the table --------------------------------------------------------- */

static double p50(int subject, int op, int size)
{
	return (double)samples_percentile(&cells[subject][op][size], 0.5);
}

static void row(struct report *r, const struct rdma_ends *e, int subject, int op, int size)
{
	struct samples *s = &cells[subject][op][size];

	rdma_row_begin(r, subject, op, sizes[size]);
	report_cell(r, 0, (double)s->nr);
	report_cell(r, 2, p50(subject, op, size) / 1000);
	report_cell(r, 2, (double)samples_percentile(s, 0.99) / 1000);
	report_cell(r, 2, (double)samples_percentile(s, 0.999) / 1000);
	report_cell(r, 2, (double)samples_max(s) / 1000);
	rdma_row_end(r, e, p50(subject, op, size) / p50(RDMA_VERBS, op, size));
}

static void print(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e)
{
	static const char *const columns[] = {
		"what", "op", "bytes", "n", "p50_rtt_us", "p99_rtt_us", "p999_rtt_us",
		"max_rtt_us", "to_verbs",
	};

	report_table_begin(r, b->name, columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < RDMA_OPS; op++)
		for (int size = 0; size < nr_sizes; size++)
			for (int i = !e->has_verbs; i < RDMA_SUBJECTS; i++)
				row(r, e, i, op, size);
	report_table_end(r);
}

static int judge(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e)
{
	double ratio = p50(RDMA_TENT, TENT_OPCODE_WRITE, 0) / p50(RDMA_VERBS, TENT_OPCODE_WRITE, 0);

	(void)b;
	return rdma_check(r, e, TENT_OPCODE_WRITE, ratio <= LIMIT, "a WRITE of %u bytes takes "
			  "%.2f of what it takes by libmlx5, limit %.1f", sizes[0], ratio, LIMIT);
}

int main(int argc, char **argv)
{
	static const struct rdma_bench bench = {
		.name = "rdma_lat",
		.title = "round trip times of requests over RDMA, beside those of libmlx5",
		.args = args, .options = &options, .prepare = prepare, .measure = measure_all,
		.print = print, .judge = judge,
	};

	return rdma_bench_main(&bench, argc, argv);
}
