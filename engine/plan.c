/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the one planner; intake and explain both come here through the judge. */
#include "engine/plan.h"

uint16_t plan_search(const struct planner *p, int32_t hint, struct transfer *t)
{
	bool built = false;

	for (uint32_t i = 0; i < p->nr_queues; i++) {
		struct backend_queue *q = p->queues[i];

		if (hint != TENT_TRANSPORT_UNSPEC && hint != q->ops->transport)
			continue;
		built = true;
		if (!q->ops->reaches(q->inst, t->local, t->remote))
			continue;
		t->queue = q;
		t->transport = q->ops->transport;
		return 0;
	}
	if (hint == TENT_TRANSPORT_UNSPEC)
		return TENT_RULE_NO_TRANSPORT;
	return built ? TENT_RULE_TRANSPORT_REACH : TENT_RULE_TRANSPORT_BUILD;
}
