/* SPDX-License-Identifier: Apache-2.0 */
/* notices.c - to whom notifications go, see notices.h. */
#include <stddef.h>

#include "engine/peers.h"
#include "engine/ring_state.h"

#define TARGETS_PER_TURN 64u

void notices_start(struct engine *e)
{
	e->notices.last = &e->notices.first;
}

struct client *notice_sender(const struct notice *n)
{
	return (struct client *)((char *)n->ring->space - offsetof(struct client, space));
}

void notice_return(struct notice *n, uint16_t rule)
{
	n->rule = rule;
	n->back = (struct poller_command){ .type = POLLER_NOTICE_BACK, .notice = n };
	poller_send(n->ring->poller, &n->back);
}

/* ---- one of them ----------------------------------------------------------- */

uint16_t notice_deliver(struct engine *e, const struct segment *s, const char *name,
			uint32_t name_length, const char *message, uint32_t message_length)
{
	uint16_t rule = TENT_RULE_TARGET_GONE;

	if (s->owner)
		rule = inbox_put(e, s->owner, name, name_length, message, message_length);
	e->notices.delivered += !rule;
	return rule;
}

/* To the owner of one of the sender's segments. A file is the sender's own, and has
 * nobody else to be notified. */
static uint16_t send_to(struct engine *e, struct client *c, uint32_t handle, struct notice *n)
{
	const struct handle_table *t = c->space.handles;
	struct segment *s = handle < t->nr ? t->segments[handle] : NULL;

	if (!s)
		return TENT_RULE_SEGMENT;
	if (s->is_far)
		return far_notice_send(e, far_of(s), n);
	return notice_deliver(e, s, n->name, n->name_length, n->message, n->message_length);
}

/* Has an earlier target the same owner? Own handles, 0 and files, have. */
static bool is_told(const struct client *c, const struct notice *n, uint32_t i)
{
	const struct handle_table *t = c->space.handles;
	const struct segment *s = n->targets[i] < t->nr ? t->segments[n->targets[i]] : NULL;

	for (uint32_t k = 0; s && s->owner && k < i; k++) {
		const struct segment *other = n->targets[k] < t->nr ?
					      t->segments[n->targets[k]] : NULL;

		if (other && other->owner == s->owner)
			return true;
	}
	return false;
}

static bool is_answered_later(const struct client *c, const struct notice *n)
{
	const struct segment *s = c->space.handles->segments[n->targets[0]];

	return n->alone && s && s->is_far;
}

/* How many targets it had. */
static uint32_t see_to(struct engine *e, struct notice *n)
{
	struct client *c = notice_sender(n);
	bool waits = !c->ending && is_answered_later(c, n);
	uint32_t nr = n->nr_targets;
	uint16_t rule = 0;

	if (c->ending)
		rule = c->end_rule;
	for (uint32_t i = 0; i < nr && !c->ending; i++) {
		if (is_told(c, n, i))
			continue;
		rule = send_to(e, c, n->targets[i], n);
		e->notices.refused += rule != 0;
	}
	if (!waits || rule)
		notice_return(n, rule);
	return nr;
}

/* ---- all of them -------------------------------------------------------------- */

static void collect(struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_pollers; i++) {
		struct notice *n = notices_take(e->pollers[i].poller);

		*e->notices.last = n;
		for (; n; n = n->next)
			e->notices.last = &n->next;
	}
}

static struct notice *pop(struct engine *e, struct notice **at)
{
	struct notice *n = *at;

	*at = n->next;
	if (e->notices.last == &n->next)
		e->notices.last = at;
	return n;
}

bool notices_serve(struct engine *e)
{
	uint32_t left = TARGETS_PER_TURN;

	collect(e);
	while (e->notices.first && left) {
		uint32_t used = see_to(e, pop(e, &e->notices.first));

		left -= used < left ? used : left;
	}
	return e->notices.first;
}

void notices_serve_client(struct engine *e, struct client *c)
{
	uint32_t left = TARGETS_PER_TURN;

	collect(e);
	for (struct notice **at = &e->notices.first; *at && left; ) {
		uint32_t used;

		if (notice_sender(*at) != c) {
			at = &(*at)->next;
			continue;
		}
		used = see_to(e, pop(e, at));
		left -= used < left ? used : left;
		at = &e->notices.first;	/* a link that ended may have ended clients */
	}
}
