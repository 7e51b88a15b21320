/* SPDX-License-Identifier: Apache-2.0 */
/*
 * intake.h - takes batches out of a ring. The poller's thread only.
 *
 * A turn takes at most turn_slots slots of a ring. A batch that is longer is copied
 * and judged over several turns; none of it starts before all of it passed. intake.c
 * has what every batch goes through, intake_slow.c the rest.
 */
#ifndef TENT_ENGINE_INTAKE_H
#define TENT_ENGINE_INTAKE_H

#include "engine/poller_state.h"


/* A turn's worth of it, for a ring that has a batch and needs no attention. True: it
 * did something. */
bool intake_ring(struct poller *p, struct ring_state *r);

/* The same for one that needs attention and does not end. */
bool intake_attend(struct poller *p, struct ring_state *r);

/* Is a batch published, or half taken? */
static inline bool intake_has_batch(const struct ring_state *r)
{
	uint32_t nr;

	return r->intake.step != INTAKE_IDLE || ring_host_peek(&r->host, &nr);
}

/* ---- between intake.c, intake_slow.c and indirect.c --------------------- */

/* Loads what the judge needs for the next piece of the batch at the head. */
void intake_prepare(struct poller *p, struct ring_state *r, uint32_t first_index,
		    bool is_plain);

/* The batch at the head breaks a rule. Of several refusals the first in the order of
 * checks stays. The batch ends once its records are back (INTAKE_RELEASE). */
void intake_refuse(struct ring_state *r, const struct refusal *why);

/* It passed: its slots may be reused, and each of its requests will end. */
void intake_accept(struct poller *p, struct ring_state *r);

/* The verdict is given: the slots may be reused, the next batch may come. */
void intake_finish(struct ring_state *r);

/* Accepted requests enter the scheduler, but for those that have ended already. list
 * may lie on top of the free stack. */
void intake_admit(struct poller *p, struct ring_state *r, struct transfer **list,
		  uint32_t n, uint64_t now);

/* A well-formed slot that is no REQUEST. */
void intake_begin_other(struct poller *p, struct ring_state *r, struct tent_slot *s);

/* A piece of a long batch passed: its requests wait for the others' verdict. */
void intake_park(struct ring_state *r, struct transfer **records, uint32_t n);

/* One piece of INTAKE_ADMIT, INTAKE_RELEASE or INTAKE_CANCEL; how many slots' worth, at
 * most left. */
uint32_t intake_slow_step(struct poller *p, struct ring_state *r, uint32_t left);

/* Gets an ending ring's intake out of the way, a bounded step at a time: what was not
 * judged is forgotten, what was accepted enters the scheduler. True: more is left. */
bool intake_abandon(struct poller *p, struct ring_state *r);

#endif /* TENT_ENGINE_INTAKE_H */
