/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_rest.c - who makes the control thread's system calls costly waits for it.
 *
 * Sending to a client, and receiving from it, wakes everyone who polls its end of the
 * socket; wakes.h says why that is the client's choice, and that its tenant pays. The
 * control thread's way to charge for it: the tenant's clients are not listened to until
 * WAKE_PART times what it cost have passed.
 */
#include "engine/client.h"

void client_pays(struct client *c, uint64_t cpu_ns)
{
	if (!c->local && cpu_ns > WAKE_CHEAP_NS)
		c->tenant->rest_until_ns = clock_monotonic_ns() + cpu_ns * WAKE_PART;
}

static void set_rest(struct engine *e, struct client *c, bool rests)
{
	e->nr_resting += (uint32_t)rests - (uint32_t)c->rests;
	c->rests = rests;
}

void client_listen(struct engine *e, struct client *c)
{
	set_rest(e, c, !c->local && !c->ending &&
		 c->tenant->rest_until_ns > clock_monotonic_ns());
	if (!c->rests)
		control_rearm(e, &c->socket);	/* nothing, if it ended */
}

void client_wake_up(struct engine *e, struct client *c)
{
	if (c->rests)
		client_listen(e, c);
}

void client_rest_ends(struct engine *e, struct client *c)
{
	set_rest(e, c, false);
}
