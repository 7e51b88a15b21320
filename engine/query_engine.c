/* SPDX-License-Identifier: Apache-2.0 */
/* query_engine.c - what the engine is, has, and has done: TENT_QUERY_STATS. */
#define _GNU_SOURCE
#include <string.h>

#include "engine/pages.h"
#include "engine/query.h"
#include "engine/stats.h"

static const char *page_name(uint32_t kind)
{
	return kind == TENT_PAGE_HUGE ? "huge" : "base";
}

const char *page_reason(int32_t reason)
{
	const char *name = reason ? strerrorname_np(reason) : "";

	return name ? name : "?";
}

json_t *pollers_json(const struct engine *e)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < e->nr_pollers; i++) {
		struct poller_stats s;
		json_t *row = json_pack("{s:i,s:i,s:i}", "poller", (int)i,
					"core", e->config.cores[i],
					"rings", (int)e->pollers[i].nr_rings);

		poller_stats_read(e->pollers[i].poller, &s);
		json_object_update_new(row, stats_json(&s));
		json_array_append_new(list, row);
	}
	return list;
}

static json_t *ring_json(const struct client *c, const struct client_ring *r)
{
	const struct shared_mem *m = &ring_state_host(r->state)->client_mem;
	struct poller_stats s;
	json_t *row;

	ring_stats_read(r->state, &s);
	row = json_pack("{s:i,s:i,s:i,s:i,s:i,s:s,s:s}",
			"client", (int)c->id, "ring", (int)r->id, "poller", (int)r->poller,
			"slots", (int)r->geometry.slot_count,
			"completions", (int)r->geometry.completion_count,
			"pages", page_name(m->page_kind),
			"page_reason", page_reason(m->page_reason));
	json_object_update_new(row, stats_json(&s));
	json_object_del(row, "turns");	/* a poller's */
	json_object_del(row, "sleeps");
	return row;
}

static json_t *rings_json(const struct engine *e)
{
	json_t *list = json_array();

	for (const struct client *c = e->clients; c; c = c->next) {
		for (const struct client_ring *r = c->rings; r; r = r->next)
			json_array_append_new(list, ring_json(c, r));
	}
	return list;
}

json_t *totals_json(const struct engine *e)
{
	struct poller_stats sum = { 0 }, s;

	for (uint32_t i = 0; i < e->nr_pollers; i++) {
		poller_stats_read(e->pollers[i].poller, &s);
		stats_add(&sum, &s);
		sum.in_flight += s.in_flight;
	}
	return stats_json(&sum);
}

static json_t *transports_json(const struct engine *e)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < e->nr_instances; i++)
		json_array_append_new(list, json_string(e->instances[i]->ops->name));
	return list;
}

/* Of those that have something to say. */
static json_t *transport_facts_json(const struct engine *e)
{
	json_t *all = json_object();

	for (uint32_t i = 0; i < e->nr_instances; i++) {
		const struct backend *b = e->instances[i]->ops;
		char text[2048] = "";

		if (!b->facts)
			continue;
		b->facts(e->instances[i], text, sizeof(text));
		json_object_set_new(all, b->name, json_string(text));
	}
	return all;
}

json_t *facts_json(const struct engine *e)
{
	const struct engine_config *c = &e->config;

	return json_pack("{s:i,s:i,s:o,s:I,s:s,s:s,s:s,s:i,s:i,s:s,s:i,s:b}",
		"pid", (int)e->pid,
		"uid", (int)e->uid,
		"epoch", hex_json(e->epoch),
		"uptime_ms", (json_int_t)((clock_monotonic_ns() - e->started_ns) / 1000000),
		"mode", c->caller_mode ? "caller" : "thread",
		"idle", c->adaptive && !c->caller_mode ? "adaptive" : "busy",
		"validation", c->compat ? "compat" : "strict",
		"turn_slots", (int)c->turn_slots,
		"request_timeout_ms", (int)(c->request_timeout_ns / 1000000),
		"host", c->host,
		"port", (int)c->port,
		"priorities", !c->no_priorities);
}

json_t *usage_json(const struct engine *e, const struct client *asks)
{
	const struct tenants *t = &e->tenants;

	return json_pack("{s:i,s:i,s:I,s:i,s:i,s:i,s:i,s:i,s:i}",
		"clients", (int)e->nr_clients - (asks->observer && !asks->own),
		"clients_max", (int)e->config.clients_max,
		"clients_ended", (json_int_t)e->clients_ended,
		"refused_waiting", (int)e->nr_refused,
		"names", (int)e->names.nr,
		"descriptors", (int)t->used[RESOURCE_FDS],
		"descriptors_max", (int)t->limit[RESOURCE_FDS],
		"mappings", (int)t->used[RESOURCE_MAPS],
		"mappings_max", (int)t->limit[RESOURCE_MAPS]);
}

/* Of memory that only this process touches; rings and buffers tell their own. */
json_t *pages_json(void)
{
	struct pages_totals t;

	pages_totals_read(&t);
	return json_pack("{s:I,s:I,s:s,s:s}",
		"huge_bytes", (json_int_t)t.huge_bytes, "base_bytes", (json_int_t)t.base_bytes,
		"reason", page_reason(t.reason), "missing", t.missing ? t.missing : "");
}

json_t *engine_json(struct engine *e, const struct client *asks)
{
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}",
		"engine", facts_json(e),
		"transports", transports_json(e),
		"transport_facts", transport_facts_json(e),
		"usage", usage_json(e, asks),
		"private_pages", pages_json(),
		"totals", totals_json(e),
		"pollers", pollers_json(e),
		"rings", rings_json(e));
}
