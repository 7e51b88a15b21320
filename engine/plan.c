/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - the one planner; intake and explain both come here through the judge. */
#include "engine/plan.h"
#include "ring/clock.h"

static void choose(struct backend_queue *q, struct transfer *t)
{
	t->queue = q;
	t->transport = q->ops->transport;
}

static bool may_move(const struct plan_list *list, const struct backend_queue *q,
		     const struct transfer *t)
{
	return (!list || plan_lists(list, q->ops->transport)) &&
	       q->ops->reaches(q->inst, t->local, t->remote);
}

/* A search that takes every way, or those that are not paused. */
struct search {
	const struct planner *planner;
	const struct plan_list *list;
	bool avoid;
};

static bool take(const struct search *s, struct backend_queue *q, struct transfer *t)
{
	if (!may_move(s->list, q, t))
		return false;
	if (s->avoid && !paths_admit(s->planner->paths, q->ops->transport, t, ticks_now()))
		return false;
	choose(q, t);
	return true;
}

/* The first of this transport (UNSPEC: of all) that is allowed and reaches both ends. */
static bool take_first(const struct search *s, int32_t transport, struct transfer *t)
{
	const struct planner *p = s->planner;

	for (uint32_t i = 0; i < p->nr_queues; i++) {
		struct backend_queue *q = p->queues[i];

		if (transport != TENT_TRANSPORT_UNSPEC && transport != q->ops->transport)
			continue;
		if (take(s, q, t))
			return true;
	}
	return false;
}

static bool take_any(const struct search *s, struct transfer *t)
{
	const struct plan_list *list = s->list;

	if (!list || !list->nr)
		return take_first(s, TENT_TRANSPORT_UNSPEC, t);
	for (uint32_t i = 0; i < list->nr; i++)
		if (take_first(s, list->order[i], t))
			return true;
	return false;
}

/* A hint is for one transport, and names what stands in its way. */
static uint16_t hint_rule(const struct planner *p, const struct plan_list *list, int32_t hint)
{
	uint32_t i = 0;

	while (i < p->nr_queues && p->queues[i]->ops->transport != hint)
		i++;
	if (i == p->nr_queues || (p->queues[i]->ops->is_absent &&
				  p->queues[i]->ops->is_absent(p->queues[i]->inst)))
		return TENT_RULE_TRANSPORT_BUILD;
	return list && !plan_lists(list, (uint8_t)hint) ? TENT_RULE_TRANSPORT_DENIED :
							  TENT_RULE_TRANSPORT_REACH;
}

uint16_t plan_search(const struct planner *p, const struct plan_list *list, int32_t hint,
		     struct transfer *t)
{
	const struct search all = { .planner = p, .list = list };
	const struct search open = { .planner = p, .list = list, .avoid = true };

	if (hint != TENT_TRANSPORT_UNSPEC)
		return take_first(&all, hint, t) ? 0 : hint_rule(p, list, hint);
	if (planner_avoids(p) && take_any(&open, t))
		return 0;
	return take_any(&all, t) ? 0 : TENT_RULE_NO_TRANSPORT;
}

/* ---- when that fails --------------------------------------------------- */

/* The first of its queues that reaches both ends; else the first. */
static struct backend_queue *queue_of(const struct planner *p, uint8_t transport,
				      const struct transfer *t)
{
	struct backend_queue *first = NULL;

	for (uint32_t i = 0; i < p->nr_queues; i++) {
		struct backend_queue *q = p->queues[i];

		if (transport != q->ops->transport)
			continue;
		if (q->ops->reaches(q->inst, t->local, t->remote))
			return q;
		first = first ? first : q;
	}
	return first;
}

static void add_rest(const struct planner *p, const struct plan_list *list, uint8_t transport,
		     struct transfer *t)
{
	const struct backend_queue *q = queue_of(p, transport, t);
	uint32_t at = 0;

	if (!q || transport == t->transport || !may_move(list, q, t))
		return;
	while (at < TRANSFER_WAYS && t->rest[at] && t->rest[at] != transport)
		at++;
	if (at < TRANSFER_WAYS)
		t->rest[at] = transport;
}

void plan_rest(const struct planner *p, const struct plan_list *list, struct transfer *t)
{
	memset(t->rest, 0, sizeof(t->rest));
	for (uint32_t i = 0; i < list->nr; i++)
		add_rest(p, list, list->order[i], t);
	for (uint32_t i = 0; !list->nr && i < p->nr_queues; i++)
		add_rest(p, list, p->queues[i]->ops->transport, t);
	t->intent |= TRANSFER_HAS_REST;
}

/* The place of the first that may be taken; TRANSFER_WAYS: there is none. */
static uint32_t next_place(const struct planner *p, uint32_t allowed, bool avoid,
			   struct transfer *t)
{
	uint32_t at = 0;

	for (; at < TRANSFER_WAYS && t->rest[at]; at++) {
		if (!(allowed & 1u << t->rest[at]))
			continue;
		if (!avoid || paths_admit(p->paths, t->rest[at], t, ticks_now()))
			return at;
	}
	return TRANSFER_WAYS;
}

bool plan_next(const struct planner *p, uint32_t allowed, struct transfer *t)
{
	uint32_t at = planner_avoids(p) ? next_place(p, allowed, true, t) : TRANSFER_WAYS;

	if (at == TRANSFER_WAYS)
		at = next_place(p, allowed, false, t);
	if (at == TRANSFER_WAYS)
		return false;
	choose(queue_of(p, t->rest[at], t), t);
	memmove(&t->rest[at], &t->rest[at + 1], TRANSFER_WAYS - at - 1);
	t->rest[TRANSFER_WAYS - 1] = TENT_TRANSPORT_UNSPEC;
	return true;
}
