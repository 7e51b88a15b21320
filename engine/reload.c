/* SPDX-License-Identifier: Apache-2.0 */
/* reload.c - see reload.h, and engine.h for its owner's side. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contracts.h"
#include "engine/query.h"
#include "engine/reload.h"

/* What was read, on its way to the control thread. */
struct reload {
	struct inbox_item item;		/* first */
	struct contract_set *set;
	uint64_t asked;			/* whose wishes it fulfils */
	bool good;
	char text[1024];		/* what is wrong; or what only a new start changes */
};

/* ---- who waits --------------------------------------------------------- */

void client_ask_reload(struct engine *e, struct client *c)
{
	if (!e->reloads.ask) {
		client_refuse_text(e, c, TENT_RULE_NOT_BUILT, 0, "this engine is a program's "
				   "own: it is configured when it starts");
		return;
	}
	c->busy = true;
	c->reload_asked = ++e->reloads.asked;
	e->reloads.ask(e->reloads.context);
}

static json_t *answer_json(const struct engine *e, const char *later)
{
	const struct contract_config *c = e->contracts ? contract_set_config(e->contracts) : NULL;
	json_t *list = json_array();

	for (size_t length; (length = strcspn(later, "\n")); ) {
		json_array_append_new(list, json_stringn(later, length));
		later += length + (later[length] == '\n');
	}
	return json_pack("{s:b,s:i,s:i,s:b,s:o}", "reloaded", true,
			 "policies", c ? (int)c->nr_policies : 0,
			 "tenants", c ? (int)c->nr_tenants : 0,
			 "qos", c && c->has_qos,
			 "at_next_start", list);
}

static void answer(struct engine *e, struct client *c, const struct reload *r)
{
	c->reload_asked = 0;
	if (!c->ending && r->good)
		client_reply_json(e, c, answer_json(e, r->text));
	else if (!c->ending)
		client_refuse_text(e, c, TENT_RULE_CONFIG, 0, "%s", r->text);
	client_idle(e, c);
}

static struct client *find_waiting(const struct engine *e, uint64_t asked)
{
	struct client *c = e->clients;

	while (c && !(c->reload_asked && c->reload_asked <= asked))
		c = c->next;
	return c;
}

/* From the beginning each time: an answer may make others leave the list. */
static void answer_all(struct engine *e, const struct reload *r)
{
	struct client *c;

	while ((c = find_waiting(e, r->asked)))
		answer(e, c, r);
}

void reload_stop(struct engine *e)
{
	const struct reload none = { .asked = UINT64_MAX, .text = "the engine ends" };

	answer_all(e, &none);
}

/* ---- what was read ------------------------------------------------------ */

static void arrive(struct engine *e, struct inbox_item *item)
{
	struct reload *r = (struct reload *)item;

	if (e->stopping) {
		grace_discard(r->set);
	} else {
		if (r->good && contracts_replace(e, r->set) < 0) {
			r->good = false;
			snprintf(r->text, sizeof(r->text), "out of memory");
		}
		answer_all(e, r);
	}
	free(r);
}

static int post(struct engine *e, struct contract_set *set, bool good, const char *text,
		uint64_t asked)
{
	struct reload *r = calloc(1, sizeof(*r));

	if (!r) {
		grace_discard(set);
		return TENT_ERR_RUNTIME;
	}
	*r = (struct reload){ .set = set, .good = good, .asked = asked };
	snprintf(r->text, sizeof(r->text), "%s", text);
	r->item.arrive = arrive;
	control_post(e, &r->item);
	return 0;
}

/* Connections are made by the pools that there were then, and policies name them by place. */
static bool has_same_pools(const struct contract_config *a, const struct contract_config *b)
{
	if (a->nr_pools != b->nr_pools)
		return false;
	for (uint8_t i = 0; i < a->nr_pools; i++)
		if (strcmp(a->pools[i].name, b->pools[i].name) != 0 ||
		    a->pools[i].service_level != b->pools[i].service_level ||
		    a->pools[i].traffic_class != b->pools[i].traffic_class)
			return false;
	return true;
}

int engine_reload(struct engine *e, const struct engine_config *c, const char *later,
		  uint64_t asked)
{
	struct contract_set *set;
	int rc;

	if (e->config.rdma_enable && !has_same_pools(&e->config.contracts, &c->contracts)) {
		engine_refuse_reload(e, "transports/rdma/endpoint/qp_pools has changed: that "
				     "takes a new start, and so does all that came with it", asked);
		return 0;
	}
	set = contracts_compile(e, &c->contracts, &rc);
	if (rc == 0)
		return post(e, set, true, later, asked);
	engine_refuse_reload(e, "out of memory", asked);
	return TENT_ERR_RUNTIME;
}

/* Without memory to say so, whoever asked is answered with the next one. */
void engine_refuse_reload(struct engine *e, const char *why, uint64_t asked)
{
	post(e, NULL, false, why, asked);
}

void engine_on_reload(struct engine *e, void (*ask)(void *context), void *context)
{
	e->reloads.ask = ask;
	e->reloads.context = context;
}
