/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake.h - takes batches out of a ring. The poller's thread only.
 *
 * A turn takes at most turn_slots slots of a ring. A batch that is longer is copied
 * and judged over several turns; none of it starts before all of it passed.
 */
#ifndef TENT_ENGINE_INTAKE_H
#define TENT_ENGINE_INTAKE_H

#include "engine/poller_state.h"

#define INTAKE_RECORDS 1024u	/* records a turn of a CANCEL looks at */

/* Is there anything to do for this ring? */
static inline bool intake_waits(const struct ring_state *r)
{
	uint32_t nr;

	return r->intake.step != INTAKE_IDLE || r->indirect.admitting ||
	       ring_host_peek(&r->host, &nr);
}

/* A turn's worth of it. True: it did something. */
bool intake_ring(struct poller *p, struct ring_state *r);

/* Gets an ending ring's intake out of the way, a bounded step at a time: what was not
 * judged is forgotten, what was accepted enters the scheduler. True: more is left. */
bool intake_abandon(struct poller *p, struct ring_state *r);

/* Sets p->judge up for the next piece of the batch at the head. */
void intake_prepare(struct poller *p, struct ring_state *r);

/* The verdict on the batch at the head, for indirect.c too. A refusal ends it with one
 * completion once its records are back; once accepted, each of its requests will end. */
void intake_refuse(struct ring_state *r, const struct refusal *why);
void intake_accept(struct poller *p, struct ring_state *r);

/* Accepted requests enter the scheduler, but for those that have ended already. */
void intake_admit(struct poller *p, struct ring_state *r, struct transfer **list,
		  uint32_t n, uint64_t now);

#endif /* TENT_ENGINE_INTAKE_H */
