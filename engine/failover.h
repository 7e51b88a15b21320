/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failover.h - a request that one transport failed is given to the next one that it may
 * go by. The poller's thread, where nothing else is said.
 *
 * Only what a path can do to a request counts: its memory, its rights, its time and its
 * owner's wish are the same on every path. It begins anew, and only when no byte of it
 * moves any more: what ended TARGET_UNFENCED is not tried again, and neither is what was
 * under way to an engine whose link was lost, which took all paths to it along.
 */
#ifndef TENT_ENGINE_FAILOVER_H
#define TENT_ENGINE_FAILOVER_H

#include "engine/poller_state.h"

/* t FAILED after it was posted, and is in nobody's list. True: it waits in its level
 * again; else its end stands. */
bool failover(struct poller *p, struct transfer *t);

/* Before its completion, for one that failed over or tries a path: what the completion
 * says of that, and whether the path is used again. */
void failover_told(struct poller *p, struct transfer *t);

/* Any thread. Where t would go, one after the other, should each fail it: up to attempts
 * transports, in ways, which has TRANSFER_WAYS places. How many. t has its ends, and
 * seen_ticks 0: it only asks. */
uint32_t failover_ways(const struct planner *p, const struct contract *c, uint32_t attempts,
		       const struct transfer *t, uint8_t *ways);

#endif /* TENT_ENGINE_FAILOVER_H */
