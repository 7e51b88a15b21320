/* SPDX-License-Identifier: Apache-2.0 */
/*
 * indirect.h - batches too long for a ring. One slot names an array of entries in the
 * client's memory; it is copied once, in pieces, and judged as one batch. How each
 * entry ended is written beside it; the ring gets one completion. Poller's thread only.
 */
#ifndef TENT_ENGINE_INDIRECT_H
#define TENT_ENGINE_INDIRECT_H

#include "engine/poller_state.h"

/* Entries that all INDIRECT batches of a poller may hold: their memory is ours. */
#define INDIRECT_POLLER_MAX (2u * TENT_INDIRECT_MAX)

/* Must it stay in its ring for now? Until the memory of the one before is returned, or
 * the poller's other INDIRECT batches have ended. */
bool indirect_must_wait(const struct poller *p, const struct ring_state *r,
			const struct tent_slot *s);

/* Judges the slot's request area: goes on as INTAKE_TAKE, or is refused. */
void indirect_begin(struct poller *p, struct ring_state *r, const struct tent_slot *s);

/* Copies and judges the next piece, at most left entries; how many. */
uint32_t indirect_take(struct poller *p, struct ring_state *r, uint32_t left);

/* Its batch passed: admits the next of its requests, at most max, up to turn_slots. Batches
 * that come after it in the ring run beside it. */
void indirect_admit(struct poller *p, struct ring_state *r, uint32_t max);

/* It was refused, or its ring ends: forgets it. */
void indirect_discard(struct poller *p, struct ring_state *r);

/* One of its requests ended: writes its result. */
void indirect_end(struct indirect *ind, struct transfer *t);

/* Its last request ended and its completion is published. */
void indirect_done(struct poller *p, struct ring_state *r);

/* Returns the memory of ended batches, a bounded piece per turn. True: there was one. */
bool indirect_reclaim(struct poller *p);

/* region goes away: if it holds the arrays, nothing reads or writes them any more, and
 * a batch that is still being judged is refused. */
void indirect_drop(struct ring_state *r, const struct region *region);

#endif /* TENT_ENGINE_INDIRECT_H */
