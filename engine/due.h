/* SPDX-License-Identifier: Apache-2.0 */
/*
 * due.h - requests whose deadline is ahead and near, in the order of their deadlines,
 * over all rings of a level. The poller's thread only.
 *
 * Most come in that order: they stand in the ring's run, one of its lines. Who comes
 * after a later deadline than his own stands in a heap beside it, and the rings that
 * have either in a heap of the poller's. What came with its deadline passed, or far
 * ahead, is loose: it waits in its level like a request without one.
 */
#ifndef TENT_ENGINE_DUE_H
#define TENT_ENGINE_DUE_H

#include "engine/poller_state.h"

/* sched_push() for transfers that may have deadlines, up to one that may not enter; how
 * many. The first one may. */
uint32_t due_push(struct poller *p, struct ring_state *r, struct transfer *const *list,
		  uint32_t n, uint64_t ticks);

/* Takes one that waits here out. */
void due_remove(struct ring_state *r, struct transfer *t);

/* Does anything wait in a level, in a ring that was not set aside? */
static inline bool due_waits(const struct poller *p, uint32_t level)
{
	return p->due[level].top != NULL;
}

/* The ring with the first deadline has a go. Returns the bytes it cost. A ring that found
 * no room is set aside, */
int64_t due_go(struct poller *p, uint32_t level, int64_t quantum);
/* until this is called. */
void due_restore(struct poller *p, uint32_t level);

/* The first of a ring's level, or NULL. */
struct transfer *due_first(const struct ring_due *d);

void due_open(struct poller *p);
void due_open_ring(struct ring_state *r);

#endif /* TENT_ENGINE_DUE_H */
