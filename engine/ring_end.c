/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_end.c - how a ring ends: its client closed it, died, broke the protocol or took
 * its memory away, or the engine stops. Everything it has in flight is ended with the
 * ring's rule, a bounded step per turn; only then is the client told, so that an ended
 * ring means that nothing of it moves any more.
 */

#include "engine/complete.h"
#include "engine/intake.h"
#include "engine/sched.h"

#define END_ENTRIES 256u	/* queued requests ended per turn */
#define END_RECORDS 1024u	/* records looked at per turn for others */

/* How many more may be. */
static uint32_t end_queue(struct poller *p, struct ring_state *r,
			  const struct transfer_queue *q, uint32_t left)
{
	struct transfer *t;

	for (; left && (t = q->head); left--) {
		sched_remove(r, t);
		complete_with(p, t, r->end_rule);
	}
	return left;
}

static bool end_queued(struct poller *p, struct ring_state *r)
{
	uint32_t left = END_ENTRIES;

	for (uint32_t line = 0; line < RING_LINES; line++)
		left = end_queue(p, r, &r->lines[line].queue, left);
	for (uint32_t level = 0; level < LEVELS; level++)
		left = end_queue(p, r, &r->due[level].early, left);
	return left < END_ENTRIES;
}

static void end_one(struct poller *p, struct ring_state *r, struct transfer *t)
{
	if (t->state == TRANSFER_POSTED) {
		sched_call_back(p, t, r->end_rule);
	} else if (t->state == TRANSFER_HELD) {
		sched_remove(r, t);
		complete_with(p, t, r->end_rule);
	}
}

/* Posted ones, and held ones: they stand in queues of their tenant. */
static void end_others(struct poller *p, struct ring_state *r)
{
	for (uint32_t i = 0; i < END_RECORDS && r->nr_posted + r->nr_held; i++) {
		struct transfer *t = ring_record(r, r->end_cursor++);

		if (t)
			end_one(p, r, t);
		else
			r->end_cursor = 0;
	}
}

bool ring_end_step(struct poller *p, struct ring_state *r)
{
	if (r->ended)
		return false;
	if (intake_abandon(p, r) || end_queued(p, r))
		return true;	/* attention stays: the ring is not looked at otherwise */
	if (r->in_flight || r->notices_out) {
		end_others(p, r);
		return false;	/* what is left is up to the backends, and the control thread */
	}
	ring_host_end(&r->host, r->end_rule);
	r->ended = true;
	return true;
}
