/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_metrics.c - what somebody wants who asks every few seconds: TENT_QUERY_METRICS.
 * Sums only, so that the answer stays small however many clients and rings there are. A
 * name that a client chose can be in the directory's fault, and is in nothing else.
 */
#include "engine/meters.h"
#include "engine/peers.h"
#include "engine/query.h"

static const char *unit_name(enum meter_unit unit)
{
	static const char *const names[] = {
		[METER_US] = "us", [METER_BYTES] = "bytes", [METER_PERMILLE] = "permille",
	};

	return names[unit];
}

static json_t *histogram_json(const struct histogram *h, const struct meter_scale *scale)
{
	json_t *bounds = json_array(), *buckets = json_array();

	for (uint32_t i = 0; i < scale->nr; i++)
		json_array_append_new(bounds, json_integer(scale->bounds[i]));
	for (uint32_t i = 0; i <= scale->nr; i++)
		json_array_append_new(buckets, json_integer((json_int_t)h->buckets[i]));
	return json_pack("{s:s,s:o,s:o,s:I}", "unit", unit_name(scale->unit), "bounds", bounds,
			 "buckets", buckets, "sum", (json_int_t)h->sum);
}

static json_t *transfer_json(int transport, int opcode, const struct transport_meter *x)
{
	return json_pack("{s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:o,s:o}",
		"transport", word_json(WORD_TRANSPORT, transport),
		"operation", word_json(WORD_OPCODE, opcode),
		"requests", (json_int_t)x->requests,
		"failures", (json_int_t)x->failures,
		"bytes", (json_int_t)x->bytes,
		"attempts", (json_int_t)x->attempts,
		"attempt_failures", (json_int_t)x->attempt_failures,
		"latency", histogram_json(&x->latency, &meter_latency),
		"size", histogram_json(&x->size, &meter_size));
}

/* Those that did anything. */
static json_t *transfers_json(const struct meters *m)
{
	json_t *list = json_array();

	for (int i = 0; i < TENT_TRANSPORT_COUNT; i++) {
		for (int op = TENT_OPCODE_READ; op <= TENT_OPCODE_WRITE; op++) {
			const struct transport_meter *x = &m->transports[i][op];

			if (x->requests || x->attempts)
				json_array_append_new(list, transfer_json(i, op, x));
		}
	}
	return list;
}

static json_t *failovers_json(const struct meters *m)
{
	json_t *list = json_array();

	for (int from = 0; from < TENT_TRANSPORT_COUNT; from++) {
		for (int to = 0; to < TENT_TRANSPORT_COUNT; to++) {
			if (m->failovers[from][to])
				json_array_append_new(list, json_pack("{s:o,s:o,s:I}",
					"from", word_json(WORD_TRANSPORT, from),
					"to", word_json(WORD_TRANSPORT, to),
					"failovers", (json_int_t)m->failovers[from][to]));
		}
	}
	return list;
}

static json_t *peer_counts_json(const struct engine *e)
{
	uint32_t up = 0, callers = 0;

	for (const struct engine_peer *p = e->peers->list; p; p = p->next)
		up += p->state == PEER_UP;
	for (const struct link *l = e->links.list; l; l = l->next)
		callers += !l->peer;
	return json_pack("{s:i,s:i,s:i,s:I,s:I}",
		"known", (int)e->peers->nr, "up", (int)up, "callers", (int)callers,
		"accepted", (json_int_t)e->links.accepted,
		"refused", (json_int_t)e->links.refused);
}

static json_t *notifications_json(const struct notices *n)
{
	return json_pack("{s:I,s:I,s:I}",
		"delivered", (json_int_t)n->delivered,
		"sent", (json_int_t)n->sent,
		"refused", (json_int_t)n->refused);
}

json_t *metrics_json(const struct engine *e, const struct client *asks)
{
	struct meters sum = { .load = { .sum = 0 } };

	for (uint32_t i = 0; i < e->nr_pollers; i++)
		poller_meters_add(e->pollers[i].poller, &sum);
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
		"engine", facts_json(e),
		"usage", usage_json(e, asks),
		"private_pages", pages_json(),
		"totals", totals_json(e),
		"pollers", pollers_json(e),
		"peers", peer_counts_json(e),
		"directory", directory_json(e),
		"notifications", notifications_json(&e->notices),
		"transfers", transfers_json(&sum),
		"failovers", failovers_json(&sum),
		"queue_wait", histogram_json(&sum.queue_wait, &meter_stage),
		"transport", histogram_json(&sum.transport, &meter_stage),
		"load", histogram_json(&sum.load, &meter_load));
}
