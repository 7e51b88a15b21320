/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_flight.c - descriptors that were sent to a client and that it has not received.
 * The kernel counts them as ours, and allows one user so many in all sockets together: a
 * client that asks and never reads would use them up for everybody. So they count as its
 * tenant's, and it keeps its place until it has received them or closed its end.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "engine/client.h"

/* It has received all that we sent, or is gone. */
static bool has_received(const struct client *c)
{
	int unread = 0;

	return ioctl(c->sock, SIOCOUTQ, &unread) < 0 || !unread;
}

bool client_flight_over(struct engine *e, struct client *c)
{
	if (!c->in_flight)
		return true;
	if (!has_received(c))
		return false;
	client_refund(e, c, RESOURCE_FDS, c->in_flight);
	c->in_flight = 0;
	return true;
}

/* What clients received since they asked last is known only when it is looked for. Who
 * has us look at many pays for it. */
static void look_at_all(struct engine *e, struct client *asks)
{
	uint64_t before = clock_thread_cpu_ns();

	for (struct client *c = e->clients; c; c = c->next) {
		if (c->tenant == asks->tenant)
			client_flight_over(e, c);
	}
	client_pays(asks, clock_thread_cpu_ns() - before);
}

bool client_may_reply(struct engine *e, struct client *c, uint32_t nr_fds)
{
	if (c->local)
		return true;
	client_flight_over(e, c);
	if (!client_charge(e, c, RESOURCE_FDS, nr_fds)) {
		look_at_all(e, c);
		if (!client_charge(e, c, RESOURCE_FDS, nr_fds)) {
			client_refuse_text(e, c, TENT_RULE_CLIENT_LIMIT,
					   c->tenant->used[RESOURCE_FDS],
					   "this user has %u descriptors, unread replies' too; "
					   "allowed: within the engine's limits",
					   c->tenant->used[RESOURCE_FDS]);
			return false;
		}
	}
	c->in_flight += nr_fds;
	return true;
}

bool client_linger(struct engine *e, struct client *c)
{
	bool lingers = !e->stopping && !client_flight_over(e, c);

	if (lingers && !c->lingers)
		shutdown(c->sock, SHUT_RDWR);	/* it reads on, up to the end */
	e->nr_lingering += (uint32_t)lingers - (uint32_t)c->lingers;
	c->lingers = lingers;
	return lingers;
}
