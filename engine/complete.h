/* SPDX-License-Identifier: Apache-2.0 */
/* complete.h - every way a completion comes to be written. The poller's thread only. */
#ifndef TENT_ENGINE_COMPLETE_H
#define TENT_ENGINE_COMPLETE_H

#include "engine/poller_state.h"
#include "engine/wakes.h"

struct notice;

/*
 * Ends n transfers of one ring that are in nobody's list any more: their completion,
 * or their part of their batch's; then their records are free. device_ticks: when the
 * transport finished. At most n completions, each exactly once per request.
 */
void complete_run(struct poller *p, struct ring_state *r, struct transfer *const *ended,
		  uint32_t n, uint64_t device_ticks);

/* The same for one transfer that finished now: published is the same moment. */
void complete_one(struct poller *p, struct transfer *t);

/* Ends a transfer that has not, with a rule, and completes it. */
void complete_with(struct poller *p, struct transfer *t, uint16_t rule);

/* The one completion of a refused batch, with all its credits. */
void complete_refusal(struct poller *p, struct ring_state *r);

/* Op NOTIFY: it is back, with how it ended. */
void complete_notice(struct poller *p, struct ring_state *r, const struct notice *n);

/* The completion of a slot that moves nothing: NOP, CANCEL. rule 0: it did its work. */
void complete_slot(struct poller *p, struct ring_state *r, uint16_t rule);

/* Wakes a ring's client, if it sleeps. F5: the completions were stored before want_wake
 * is looked at. */
static inline void complete_wake_one(struct ring_state *r)
{
	if (likely(!ring_host_client_waits(&r->host)))
		return;
	if (wake_client(r->poller, r))
		r->woken_tail = r->host.cq_tail;
}

/* The late look: a client that waits for what lies there already was missed (order.h
 * says when) or had to wait for its wake, and nobody else would ever wake it. */
void complete_wake_missed(struct ring_state *r);

/* Wakes the clients of rings that were published into in this turn. */
static inline void complete_wake(struct poller *p)
{
	struct ring_state *r;

	while ((r = p->touched)) {
		p->touched = r->next_touched;
		r->touched = false;
		complete_wake_one(r);
	}
}

#endif /* TENT_ENGINE_COMPLETE_H */
