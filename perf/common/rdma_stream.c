/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_stream.c - see rdma_stream.h. */
#include <tent/tent.h>

#include "perf/common/rdma_stream.h"
#include "ring/clock.h"

/* ---- one run ----------------------------------------------------------- */

struct stream {
	struct rdma_ends *e;
	int subject, op;
	uint32_t size;
	uint64_t left, under_way;
};

static int begin(struct stream *s, uint32_t ring, const uint64_t *places, uint32_t nr)
{
	s->left -= nr;
	s->under_way += nr;
	if (s->subject == RDMA_VERBS)
		return verbs_post(&s->e->verbs, s->op, s->size, places, nr, s->e->stride) ? -1 : 0;
	return rdma_submit(s->e, ring, s->op, places, nr, s->size);
}

static int begin_all(struct stream *s)
{
	const uint64_t depth = s->e->o->depth;
	uint64_t places[RDMA_DEPTH_MAX];
	int rc = 0;

	for (uint32_t ring = 0; ring < s->e->o->qps && !rc; ring++) {
		uint64_t nr = depth < s->left ? depth : s->left;

		for (uint64_t i = 0; i < nr; i++)
			places[i] = ring * depth + i;
		rc = begin(s, ring, places, (uint32_t)nr);
	}
	return rc;
}

/* What has ended begins again, while requests are left. */
static int go_on(struct stream *s, uint32_t ring)
{
	uint64_t places[64];
	int n = s->subject == RDMA_VERBS ? verbs_poll(&s->e->verbs, places, 64) :
					   rdma_poll_ends(s->e, ring, places, 64);

	if (n <= 0)
		return n;
	s->under_way -= (uint64_t)n;
	if ((uint64_t)n > s->left)
		n = (int)s->left;
	return n ? begin(s, ring, places, (uint32_t)n) : 0;
}

static int run_requests(struct stream *s, uint64_t nr)
{
	int rc;

	s->left = nr;
	rc = begin_all(s);
	while (s->under_way && !rc)
		for (uint32_t ring = 0; ring < s->e->o->qps && !rc; ring++)
			rc = go_on(s, ring);
	return rc;
}

static int measure(struct rdma_streams *all, struct rdma_ends *e, int subject, int op, int size)
{
	struct stream s = { .e = e, .subject = subject, .op = op, .size = all->sizes[size] };
	struct rdma_flow *f = &all->flows[subject][op][size];
	const uint64_t nr = e->o->iterations;
	uint64_t began, cpu, ns;

	if (run_requests(&s, nr))
		return -1;
	began = clock_monotonic_ns();
	cpu = rdma_cpu_ns();
	if (run_requests(&s, nr))
		return -1;
	ns = clock_monotonic_ns() - began;
	samples_add(&f->rates, nr * 1000000000u / (ns ? ns : 1));
	samples_add(&f->cpu, (rdma_cpu_ns() - cpu) * 1000 / nr);
	return 0;
}

/* ---- all of them ------------------------------------------------------- */

void rdma_streams_prepare(const struct rdma_bench *b, struct report *r)
{
	struct rdma_streams *s = b->results;

	s->sizes[s->nr_sizes++] = (uint32_t)b->options->size;
	for (int i = 0; i < RDMA_SUBJECTS * RDMA_OPS * 2; i++) {
		samples_init(&(&s->flows[0][0][0] + i)->rates, (size_t)s->runs);
		samples_init(&(&s->flows[0][0][0] + i)->cpu, (size_t)s->runs);
	}
	report_fact(r, "method", "medians of %d runs of %llu requests; cpu_us: of this process, "
		    "a request", s->runs, (unsigned long long)b->options->iterations);
}

int rdma_streams_measure(const struct rdma_bench *b, struct rdma_ends *e)
{
	struct rdma_streams *s = b->results;
	int rc = 0;

	for (int run = 0; run < s->runs; run++)
		for (int op = 0; op < RDMA_OPS; op++)
			for (int size = 0; size < s->nr_sizes; size++)
				for (int i = !e->has_verbs; i < RDMA_SUBJECTS && !rc; i++)
					rc = measure(s, e, i, op, size);
	return rc;
}

static double rate(struct rdma_streams *s, int subject, int op, int size)
{
	return (double)samples_percentile(&s->flows[subject][op][size].rates, 0.5);
}

double rdma_streams_ratio(struct rdma_streams *s, int subject, int op, int size)
{
	return rate(s, subject, op, size) / rate(s, RDMA_VERBS, op, size);
}

static void row(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e,
		int subject, int op, int size)
{
	struct rdma_streams *s = b->results;
	struct samples *cpu = &s->flows[subject][op][size].cpu;

	rdma_row_begin(r, subject, op, s->sizes[size]);
	report_cell(r, 0, (double)b->options->depth);
	report_cell(r, 0, (double)b->options->qps);
	report_cell(r, 1, s->in_unit(rate(s, subject, op, size), s->sizes[size]));
	report_cell(r, 2, (double)samples_percentile(cpu, 0.5) / 1e6);
	rdma_row_end(r, e, rdma_streams_ratio(s, subject, op, size));
}

void rdma_streams_print(const struct rdma_bench *b, struct report *r, const struct rdma_ends *e)
{
	const struct rdma_streams *s = b->results;
	const char *const columns[] = {
		"what", "op", "bytes", "depth", "qps", s->unit, "cpu_us", "to_verbs",
	};

	report_table_begin(r, b->name, columns, sizeof(columns) / sizeof(*columns));
	for (int op = 0; op < RDMA_OPS; op++)
		for (int size = 0; size < s->nr_sizes; size++)
			for (int i = !e->has_verbs; i < RDMA_SUBJECTS; i++)
				row(b, r, e, i, op, size);
	report_table_end(r);
}
