/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_stream.c - see rdma_stream.h. */
#include <tent/tent.h>

#include "perf/common/rdma_stream.h"
#include "ring/clock.h"

const char *const rdma_subjects[RDMA_SUBJECTS] = { "verbs", "tent" };
const char *const rdma_ops[RDMA_OPS] = { "read", "write" };

struct stream {
	struct rdma_ends *e;
	enum rdma_subject subject;
	int op;
	uint32_t size;
	uint64_t left, under_way;
};

void rdma_flow_init(struct rdma_flow *f, size_t runs)
{
	samples_init(&f->rates, runs);
	samples_init(&f->cpu, runs);
}

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

int rdma_stream(struct rdma_ends *e, enum rdma_subject subject, int op, uint32_t size,
		struct rdma_flow *f)
{
	struct stream s = { .e = e, .subject = subject, .op = op, .size = size };
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

double rdma_flow_rate(struct rdma_flow *f)
{
	return (double)samples_percentile(&f->rates, 0.5);
}

double rdma_flow_cpu_us(struct rdma_flow *f)
{
	return (double)samples_percentile(&f->cpu, 0.5) / 1e6;
}
