/* SPDX-License-Identifier: Apache-2.0 */
/* consume.c - reaps completions and gives their credits back. */
#include <string.h>

#include "ring/client_ring.h"

/* client_line->cq_head is for observers (the engine is told in slot 1 of each batch),
 * so its line is dirtied only every quarter of the ring. */
static inline void tell_observers(struct tent_ring *r)
{
	if (r->cq_head - r->cq_told < (r->completion_count + 3) / 4)
		return;
	r->cq_told = r->cq_head;
	store_relaxed(&r->client_line->cq_head, r->cq_head);
}

/* What an armed fd promised has come. */
static __attribute__((noinline)) void disarm(struct tent_ring *r)
{
	ring_want_wake(r, 0, TENT_WAKE_EVENTFD);
}

uint32_t tent_ring_poll(struct tent_ring *ring, struct tent_completion *out, uint32_t max)
{
	uint32_t nr = 0, credits = 0;

	if (!ring->completions)
		return 0;
	while (nr < max && ring_has_completion(ring)) {
		memcpy(&out[nr], ring_completion_at(ring, ring->cq_head), sizeof(*out));
		credits += out[nr++].credits;
		ring->cq_head++;	/* R4: travels in the next batch's first slot */
	}
	if (!nr)
		return 0;
	ring->owed -= credits <= ring->owed ? credits : ring->owed;
	if (ring->want_wake & TENT_WAKE_EVENTFD)
		disarm(ring);
	tell_observers(ring);
	return nr;
}

uint64_t tent_ring_ticks_to_ns(const struct tent_ring *ring, uint64_t ticks)
{
	return ticks_to_ns(&ring->clock, ticks);
}

uint64_t tent_ring_now_ticks(void)
{
	return ticks_now();
}
