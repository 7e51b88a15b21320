/* SPDX-License-Identifier: Apache-2.0 */
/* client_ring.c - opening and closing rings, and which poller serves them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/client.h"
#include "engine/stats.h"
#include "ring/sigbus.h"
#include "ring/spin.h"

#define RING_FDS 3	/* those that stay open here: one eventfd, two ends of a socket */
#define RING_REPLY_FDS 4
#define RING_MAPS 2

/* ---- opening ----------------------------------------------------------- */

/* A tenant's rings share a poller; a new tenant gets the one with fewest. */
static uint32_t choose_poller(const struct engine *e, const struct tenant *t)
{
	uint32_t best = 0;

	if (t->nr_rings)
		return t->poller;
	for (uint32_t i = 1; i < e->nr_pollers; i++) {
		if (e->pollers[i].nr_rings < e->pollers[best].nr_rings)
			best = i;
	}
	return best;
}

static bool ring_charge(struct engine *e, struct client *c)
{
	if (!client_charge(e, c, RESOURCE_FDS, RING_FDS))
		return false;
	if (client_charge(e, c, RESOURCE_MAPS, RING_MAPS))
		return true;
	client_refund(e, c, RESOURCE_FDS, RING_FDS);
	return false;
}

static void ring_refund(struct engine *e, struct client *c)
{
	client_refund(e, c, RESOURCE_FDS, RING_FDS);
	client_refund(e, c, RESOURCE_MAPS, RING_MAPS);
}

static struct ring_geometry geometry_of(struct engine *e, const struct client *c,
					uint32_t slots, uint32_t completions)
{
	bool sleeps = e->config.adaptive && !e->config.caller_mode;

	tick_clock_resync(&e->clock);
	return (struct ring_geometry){
		.slot_count = slots, .completion_count = completions,
		.epoch = e->epoch, .clock = e->clock,
		.features = (sleeps ? TENT_RING_F_ADAPTIVE : 0) |
			    (sleeps && !c->membarrier ? TENT_RING_F_CLIENT_FENCE : 0),
	};
}

/* A chore: every page of it is touched. */
static void ring_make(struct client *c)
{
	struct client_ring *r = c->ring_pending;

	r->error = ring_state_create(&r->state, &r->geometry, &c->space);
}

/* Only what the client may write can have holes punched into it. */
static int ring_guard(const struct engine *e, struct client *c, struct client_ring *r)
{
	int rc;

	if (!e->guards)
		return 0;
	rc = sigbus_guard_mem(&ring_state_host(r->state)->client_mem, &c->space.condemned);
	if (rc < 0)
		ring_state_destroy(r->state);
	return rc;
}

static void ring_adopt(struct engine *e, struct client *c, struct client_ring *r)
{
	const struct ring_host *h = ring_state_host(r->state);

	r->bytes = h->client_mem.size + h->engine_mem.size;
	r->id = ++c->last_ring_id;
	r->poller = choose_poller(e, c->tenant);
	r->next = c->rings;
	c->rings = r;
	c->nr_rings++;
	c->allocated += r->bytes;
	c->tenant->poller = r->poller;
	c->tenant->nr_rings++;
	e->pollers[r->poller].nr_rings++;
}

/* The mappings hold the memory. */
static void close_memfds(struct ring_host *h)
{
	close(h->client_mem.fd);
	close(h->engine_mem.fd);
	h->client_mem.fd = h->engine_mem.fd = -1;
}

static void ring_served(struct engine *e, void *client)
{
	struct client *c = client;
	struct client_ring *ring = c->ring_pending;
	struct ring_host *h = ring_state_host(ring->state);
	struct ctl_message m = {
		.nr_fds = RING_REPLY_FDS,
		.fds = { h->client_mem.fd, h->engine_mem.fd, h->event_fd, h->completion_fd },
	};
	struct tent_ctl_ring_open_reply *r = (void *)m.bytes;

	r->ring_id = ring->id;
	r->poller = ring->poller;
	r->client_size = h->client_mem.size;
	r->engine_size = h->engine_mem.size;
	c->ring_pending = NULL;
	client_rings_spin(e);
	client_reply(e, c, &m, sizeof(*r));
	close_memfds(h);
	client_idle(e, c);
}

static void send_one(struct engine *e, struct client *c, struct client_ring *r,
		     enum poller_command_type type, uint16_t rule,
		     void (*done)(struct engine *e, void *client))
{
	const struct poller_command order = { .type = type, .rule = rule, .ring = r->state };

	c->ring_pending = r;
	round_begin(c->round);
	round_add(c->round, e->pollers[r->poller].poller, &order);
	client_await(e, c, done);
}

static void refuse_system(struct engine *e, struct client *c, const struct ring_geometry *g,
			  int rc)
{
	ring_refund(e, c);
	client_refuse_text(e, c, TENT_RULE_SYSTEM, (uint64_t)-rc,
			   "no ring of %u slots and %u completions: %s", g->slot_count,
			   g->completion_count, strerror(-rc));
}

static void ring_made(struct engine *e, struct client *c)
{
	struct client_ring *r = c->ring_pending;
	int rc = r->error < 0 ? r->error : ring_guard(e, c, r);

	if (rc == 0) {
		ring_adopt(e, c, r);
		send_one(e, c, r, POLLER_ADD_RING, 0, ring_served);
		return;
	}
	refuse_system(e, c, &r->geometry, rc);
	free(r);
	c->ring_pending = NULL;
	client_idle(e, c);
}

/* Charged. */
static void ring_begin(struct engine *e, struct client *c, uint32_t slots, uint32_t completions)
{
	struct ring_geometry g = geometry_of(e, c, slots, completions);
	struct client_ring *r = calloc(1, sizeof(*r));

	if (!r) {
		refuse_system(e, c, &g, -ENOMEM);
		return;
	}
	r->geometry = g;
	c->ring_pending = r;
	chore_send(e, c, ring_make, ring_made);
}

void client_ring_open(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_ring_open *q = (const void *)m->bytes;
	uint32_t slots = q->slot_count ? q->slot_count : TENT_SLOTS_DEFAULT;
	uint32_t completions = q->completion_count ? q->completion_count : slots;

	if (!is_ring_size(slots) || !is_ring_size(completions)) {
		client_refuse(e, c, TENT_RULE_RING_SIZE,
			      is_ring_size(slots) ? completions : slots);
		return;
	}
	if (!client_may_reply(e, c, RING_REPLY_FDS))
		return;
	if (c->nr_rings >= e->config.rings_max || c->allocated > e->config.memory_max ||
	    !ring_charge(e, c))
		client_refuse(e, c, TENT_RULE_RING_LIMIT, c->nr_rings);
	else
		ring_begin(e, c, slots, completions);
}

/* ---- closing ----------------------------------------------------------- */

/* Its poller has let go of it: to be freed by the next rings_free(). */
static void ring_leave(struct engine *e, struct client *c, struct client_ring *r)
{
	struct client_ring **at = &c->rings;
	struct poller_stats s;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	r->next = c->rings_leaving;
	c->rings_leaving = r;
	ring_stats_read(r->state, &s);
	stats_add(&c->closed, &s);
	c->nr_rings--;
	c->tenant->nr_rings--;
	e->pollers[r->poller].nr_rings--;
	if (e->guards)
		sigbus_unguard(ring_state_host(r->state)->client_mem.addr);
}

/* A chore. */
static void destroy_leaving(struct client *c)
{
	for (struct client_ring *r = c->rings_leaving; r; r = r->next)
		ring_state_destroy(r->state);
}

static void leaving_destroyed(struct engine *e, struct client *c)
{
	struct client_ring *r;

	while ((r = c->rings_leaving)) {
		c->rings_leaving = r->next;
		c->allocated -= r->bytes;
		ring_refund(e, c);
		free(r);
	}
	c->resume(e, c);
}

/* Gives back those that left, then calls after. */
static void rings_free(struct engine *e, struct client *c,
		       void (*after)(struct engine *e, struct client *c))
{
	c->resume = after;
	chore_send(e, c, destroy_leaving, leaving_destroyed);
}

static void reply_closed(struct engine *e, struct client *c)
{
	client_rings_spin(e);
	client_reply_plain(e, c);
	client_idle(e, c);
}

static void ring_closed(struct engine *e, void *client)
{
	struct client *c = client;

	ring_leave(e, c, c->ring_pending);
	c->ring_pending = NULL;
	rings_free(e, c, reply_closed);
}

void client_ring_close(struct engine *e, struct client *c, struct ctl_message *m)
{
	uint64_t id = ((const struct tent_ctl_id *)m->bytes)->id;
	struct client_ring *r;

	for (r = c->rings; r && r->id != id;)
		r = r->next;
	if (r)
		send_one(e, c, r, POLLER_CLOSE_RING, TENT_RULE_RING_CLOSED, ring_closed);
	else
		client_refuse(e, c, TENT_RULE_RING_CLOSED, id);
}

static void end_some(struct engine *e, struct client *c);

/* Those of the round are the first ones of the list, and closed. */
static void some_ended(struct engine *e, void *client)
{
	struct client *c = client;

	for (uint32_t i = c->round->nr; i > 0; i--)
		ring_leave(e, c, c->rings);
	if (c->rings)
		end_some(e, c);
	else if (c->rings_leaving)
		rings_free(e, c, c->resume);
	else
		c->resume(e, c);
}

static void end_some(struct engine *e, struct client *c)
{
	struct poller_command order = {
		.type = POLLER_CLOSE_RING, .rule = c->end_rule,
	};

	round_begin(c->round);
	for (struct client_ring *r = c->rings; r && round_has_room(c->round, 1); r = r->next) {
		order.ring = r->state;
		round_add(c->round, e->pollers[r->poller].poller, &order);
	}
	client_await(e, c, some_ended);
}

static void rings_ended(struct engine *e, struct client *c)
{
	client_rings_spin(e);
	c->after_end(e, c);
}

void client_rings_end(struct engine *e, struct client *c,
		      void (*after)(struct engine *e, struct client *c))
{
	c->after_end = after;
	c->resume = rings_ended;
	end_some(e, c);
}

/* Every ring may have a thread that spins on its completions. */
void client_rings_spin(struct engine *e)
{
	uint32_t spinners = e->config.caller_mode ? 0 : e->nr_pollers;
	bool yield;

	for (uint32_t i = 0; i < e->nr_pollers; i++)
		spinners += e->pollers[i].nr_rings;
	yield = spinners > spin_usable_cores();
	for (uint32_t i = 0; i < e->nr_pollers; i++)
		poller_set_yield(e->pollers[i].poller, yield);
}
