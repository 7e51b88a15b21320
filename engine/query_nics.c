/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_nics.c - what network interfaces have to do: TENT_QUERY_NICS. Pollers keep no sum of
 * what is out for those who ask; they add it up when they are asked to.
 */
#include "engine/query.h"

#define NICS_MAX 64

static void add_nics(json_t *list, struct backend_instance *inst)
{
	struct nic_load loads[NICS_MAX];
	uint32_t nr = inst->ops->loads ? inst->ops->loads(inst, loads, NICS_MAX) : 0;

	for (uint32_t i = 0; i < nr; i++)
		json_array_append_new(list, json_pack("{s:s,s:I,s:f}",
			"device", loads[i].name,
			"in_flight_bytes", (json_int_t)loads[i].out_bytes,
			"bytes_per_second", loads[i].bandwidth));
}

static json_t *nics_json(const struct engine *e)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < e->nr_instances; i++)
		add_nics(list, e->instances[i]);
	return json_pack("{s:o}", "nics", list);
}

static void nics_told(struct engine *e, void *client)
{
	struct client *c = client;

	client_reply_json(e, c, nics_json(e));
	client_idle(e, c);
}

void client_ask_nics(struct engine *e, struct client *c)
{
	const struct poller_command order = { .type = POLLER_TELL_LOAD };

	round_begin(c->round);
	round_add_all(e, c->round, &order);
	client_await(e, c, nics_told);
}
