/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the one planner; intake and explain both come here through the judge. */
#include "engine/plan.h"

static bool take(const struct plan_list *list, struct backend_queue *q, struct transfer *t)
{
	if ((list && !plan_lists(list, q->ops->transport)) ||
	    !q->ops->reaches(q->inst, t->local, t->remote))
		return false;
	t->queue = q;
	t->transport = q->ops->transport;
	return true;
}

/* The first of this transport (UNSPEC: of all) that is allowed and reaches both ends. */
static bool take_first(const struct planner *p, const struct plan_list *list,
		       int32_t transport, struct transfer *t)
{
	for (uint32_t i = 0; i < p->nr_queues; i++) {
		struct backend_queue *q = p->queues[i];

		if (transport != TENT_TRANSPORT_UNSPEC && transport != q->ops->transport)
			continue;
		if (take(list, q, t))
			return true;
	}
	return false;
}

/* A hint is for one transport, and names what stands in its way. */
static uint16_t hint_rule(const struct planner *p, const struct plan_list *list, int32_t hint)
{
	uint32_t i = 0;

	while (i < p->nr_queues && p->queues[i]->ops->transport != hint)
		i++;
	if (i == p->nr_queues)
		return TENT_RULE_TRANSPORT_BUILD;
	return list && !plan_lists(list, (uint8_t)hint) ? TENT_RULE_TRANSPORT_DENIED :
							  TENT_RULE_TRANSPORT_REACH;
}

uint16_t plan_search(const struct planner *p, const struct plan_list *list, int32_t hint,
		     struct transfer *t)
{
	if (hint != TENT_TRANSPORT_UNSPEC)
		return take_first(p, list, hint, t) ? 0 : hint_rule(p, list, hint);
	if (!list || !list->nr)
		return take_first(p, list, TENT_TRANSPORT_UNSPEC, t) ? 0 :
								       TENT_RULE_NO_TRANSPORT;
	for (uint32_t i = 0; i < list->nr; i++)
		if (take_first(p, list, list->order[i], t))
			return 0;
	return TENT_RULE_NO_TRANSPORT;
}
