/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_load.c - see rdma_load.h. */
#include <stdio.h>

#include "dv/rdma_load.h"
#include "ring/clock.h"

/* ---- the poller -------------------------------------------------------- */

void rdma_load_tell(struct backend_queue *base)
{
	const struct rdma_queue *q = (const struct rdma_queue *)base;
	uint64_t *told = q->inst->loads->out_bytes[q->index];
	uint64_t out[RDMA_RAILS_MAX] = { 0 };
	const struct rdma_conn *c;

	TAILQ_FOREACH(c, &q->conns, link)
		out[c->lane->rail] += c->out_bytes;
	for (uint32_t i = 0; i < RDMA_RAILS_MAX; i++)
		store_relaxed(&told[i], out[i]);
}

/* ---- control ----------------------------------------------------------- */

static uint64_t handed_to(const struct rdma_instance *inst, uint32_t rail)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < inst->nr_queues; i++)
		sum += load_relaxed(&inst->queues[i]->tracks[rail].counts.bytes);
	return sum;
}

static uint64_t out_of(const struct rdma_instance *inst, uint32_t rail)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < inst->nr_queues; i++)
		sum += load_relaxed(&inst->loads->out_bytes[i][rail]);
	return sum;
}

/* The longer ago the last look is, the more this one counts. */
static void take_sample(struct rdma_load *load, uint64_t bytes, uint64_t ns)
{
	double rate = (double)(bytes - load->bytes) * 1e9 / (double)ns;

	load->bandwidth += (rate - load->bandwidth) * (double)ns /
			   (double)(ns + RDMA_AVERAGE_NS);
	load->bytes = bytes;
}

/* Nothing is handed to a rail without a connection, so the sums may rest until there is one. */
bool rdma_load_patrol(struct rdma_instance *inst, uint64_t now)
{
	struct rdma_loads *l = inst->loads;
	uint64_t ns = now - l->sampled_ns;

	if (ns >= RDMA_SAMPLE_NS) {
		for (uint32_t i = 0; i < inst->nr_rails; i++)
			take_sample(&l->rails[i], handed_to(inst, i), ns);
		l->sampled_ns = now;
	}
	return !LIST_EMPTY(&inst->conns);
}

uint32_t rdma_load_get(struct backend_instance *base, struct nic_load *loads, uint32_t max)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	uint32_t nr = 0;

	rdma_load_patrol(inst, clock_monotonic_ns());
	for (uint32_t i = 0; i < inst->nr_rails && nr < max; i++) {
		const struct rdma_rail *r = &inst->rails[i];

		if (!r->is_open || r->is_gone)
			continue;
		loads[nr] = (struct nic_load){
			.out_bytes = out_of(inst, i),
			.bandwidth = inst->loads->rails[i].bandwidth,
		};
		snprintf(loads[nr++].name, sizeof(loads->name), "%s", r->name);
	}
	return nr;
}
