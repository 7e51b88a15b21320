/* SPDX-License-Identifier: Apache-2.0 */
/* client_hello.c - who a client is, which version it speaks, what its segment is called. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "engine/contracts.h"
#include "engine/errand.h"
#include "engine/segments.h"
#include "ring/rules.h"

#define FEATURES_ALL (TENT_CTL_HELLO_MEMBARRIER | TENT_CTL_HELLO_OBSERVER)
#define PEER_FDS 2	/* pidfd, /proc/PID/mem */

/* Finds out who it is, once a connection, however often it says hello. What opens
 * /proc/PID/mem waits for an exec in progress, and its process decides how long that
 * takes. */
static void identify(struct engine *e, struct client *c, const struct ctl_message *hello)
{
	if (!client_charge(e, c, RESOURCE_FDS, PEER_FDS)) {
		client_refuse(e, c, TENT_RULE_CLIENT_LIMIT, e->nr_clients);
		return;
	}
	c->fds += PEER_FDS;
	if (errand_identify(e, c, hello) < 0)
		client_end(e, c, TENT_RULE_RING_CLOSED);
}

static void fill_space(const struct engine *e, struct client *c)
{
	c->space.client_id = c->id;
	c->space.tenant_uid = c->peer.uid;
	c->space.wakes = &c->tenant->wakes;
	c->space.compat = e->config.compat;
	c->space.default_priority = (uint8_t)e->config.default_priority;
	c->space.deadlines_refused = c->peer.other_clock;
	c->space.contract = contracts_find(e, c);
}

/* The name's part after host:port/. A program's own engine is host:port itself, as long
 * as nobody else in it is. */
static void pick_text(struct engine *e, const struct client *c, const char *asked,
		      char text[NAME_SIZE])
{
	if (*asked)
		memcpy(text, asked, strlen(asked) + 1);	/* plain: it fits */
	else if (c->local && !name_find(&e->names, ""))
		text[0] = '\0';
	else
		snprintf(text, NAME_SIZE, "~%u", c->id);
}

/* 0, or the rule that stands in the way. */
static uint16_t take_segment(struct engine *e, struct client *c, const char *asked)
{
	char text[NAME_SIZE], full[TENT_CTL_NAME_SIZE];
	uint16_t rule;

	if (*asked && !name_is_plain(asked))
		return TENT_RULE_NAME_FORM;
	pick_text(e, c, asked, text);
	if (!segment_full_name(e, text, full))
		return TENT_RULE_NAME_FORM;
	if (segment_create(e, c, full) < 0)
		return TENT_RULE_SYSTEM;
	rule = name_claim(&e->names, c->tenant, text, *asked, c->segment, &c->name);
	if (rule)
		segments_leave(e, c);
	else
		directory_publish(e, text);
	return rule;
}

static void refuse_name(struct engine *e, struct client *c, uint16_t rule, const char *name)
{
	if (rule == TENT_RULE_NAME_TAKEN || rule == TENT_RULE_NAME_OTHER_TENANT)
		client_refuse_text(e, c, rule, 0, "name is %s; allowed: %s", name,
				   rule_allowed(rule));
	else if (rule == TENT_RULE_NAME_FORM)
		client_refuse_text(e, c, rule, 0, "name is not of that form; allowed: 1..63 of "
				   "[A-Za-z0-9._-], and short enough behind this host's name");
	else if (rule == TENT_RULE_CLIENT_LIMIT)
		client_refuse_text(e, c, rule, c->tenant->nr_names, "this user has %u names, "
				   "dead clients' too; allowed: within the engine's limits",
				   c->tenant->nr_names);
	else
		client_refuse(e, c, rule, ENOMEM);
}

static void reply_hello(struct engine *e, struct client *c)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_hello_reply *r = (void *)m.bytes;

	r->abi_major = TENT_RING_ABI_MAJOR;
	r->abi_minor = TENT_RING_ABI_MINOR;
	r->client_id = c->id;
	r->epoch = e->epoch;
	r->rings_max = e->config.rings_max;
	r->slots_max = TENT_SLOTS_MAX;
	if (c->segment)
		memcpy(r->segment, c->segment->name, sizeof(r->segment));
	client_reply(e, c, &m, sizeof(*r));
}

void client_hello(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_hello *q = (const void *)m->bytes;

	if (c->said_hello || q->features & ~FEATURES_ALL) {
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, q->features,
				   c->said_hello ? "HELLO comes once" :
				   "features has bits that this version does not know");
		return;
	}
	if (q->abi_major != TENT_RING_ABI_MAJOR) {
		client_refuse(e, c, TENT_RULE_CTL_VERSION, q->abi_major);
		return;
	}
	if (c->identified || c->local)
		client_welcome(e, c, q);
	else
		identify(e, c, m);
}

void client_welcome(struct engine *e, struct client *c, const struct tent_ctl_hello *q)
{
	bool observer = q->features & TENT_CTL_HELLO_OBSERVER;
	uint16_t rule;

	fill_space(e, c);
	rule = !observer ? take_segment(e, c, q->name) : *q->name ? TENT_RULE_NAME_FORM : 0;
	if (rule) {
		refuse_name(e, c, rule, q->name);
		return;
	}
	c->observer = observer;
	c->membarrier = q->features & TENT_CTL_HELLO_MEMBARRIER;
	c->said_hello = true;
	reply_hello(e, c);
}
