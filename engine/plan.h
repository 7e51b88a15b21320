/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - who moves a request, and who does when that fails. Planned for each request by
 * itself: neighbours in a batch may go different ways.
 */
#ifndef TENT_ENGINE_PLAN_H
#define TENT_ENGINE_PLAN_H

#include <string.h>

#include "engine/hot.h"
#include "engine/paths.h"

struct planner {
	struct backend_queue *const *queues;
	uint32_t nr_queues;
	struct paths *paths;		/* or NULL: all are used */
	uint8_t transport;		/* of mapped */
	uint32_t end;			/* transport << 24, as it lies in a transfer */
	struct backend_queue *mapped;	/* the first, if it reaches all mapped memory, and is
					 * not paused */
};

static inline void planner_init(struct planner *p, struct backend_queue *const *queues,
				uint32_t nr_queues, struct paths *paths)
{
	uint32_t at = 0;	/* of the first; those for files are none for memory */
	bool mapped;

	while (at < nr_queues && queues[at]->ops->file_open)
		at++;
	mapped = at < nr_queues && queues[at]->ops->reaches_mapped &&
		 !(paths && paths_is_paused(paths, queues[at]->ops->transport, 0));
	p->queues = queues;
	p->nr_queues = nr_queues;
	p->paths = paths;
	p->mapped = mapped ? queues[at] : NULL;
	p->transport = mapped ? p->mapped->ops->transport : TENT_TRANSPORT_UNSPEC;
	p->end = (uint32_t)p->transport << 24;
}

/* Is any way paused? Then those are taken only when all are. */
static inline bool planner_avoids(const struct planner *p)
{
	return p->paths && unlikely(load_relaxed(&p->paths->nr_paused));
}

/* Another number: what was chosen may not be what would be chosen now. */
static inline uint32_t planner_changes(const struct planner *p)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < p->nr_queues; i++)
		sum += load_acquire(&p->queues[i]->inst->changes); /* A19, pairs with R19 */
	return sum;
}

/* What a policy and a tenant leave to choose from. */
struct plan_list {
	uint32_t allowed;	/* bit per enum tent_transport */
	uint32_t nr;		/* 0: in the order of queues */
	const uint8_t *order;	/* nr enum tent_transport, the rest is not allowed */
};

static inline bool plan_lists(const struct plan_list *list, uint8_t transport)
{
	if (!(list->allowed & 1u << transport))
		return false;
	return !list->nr || memchr(list->order, transport, list->nr);
}

/* plan_transfer() where the answer is not known beforehand. list: NULL, everything. */
uint16_t plan_search(const struct planner *p, const struct plan_list *list, int32_t hint,
		     struct transfer *t);

/* Fills t->rest: who may move it after the one that was chosen, in this order. */
void plan_rest(const struct planner *p, const struct plan_list *list, struct transfer *t);
/* The next of them that allowed, a bit per enum tent_transport, has: takes it out of rest,
 * and chooses it. False: there is none. */
bool plan_next(const struct planner *p, uint32_t allowed, struct transfer *t);

/*
 * Chooses t->queue: the first queue whose backend reaches both ends, and if there is one,
 * by a way that is not paused; a hint narrows the choice to one transport and never widens
 * it. 0, or the enum tent_rule that stands in the way.
 */
static inline uint16_t plan_transfer(const struct planner *p, int32_t hint,
				     struct transfer *t)
{
	if (likely(p->mapped && (hint == TENT_TRANSPORT_UNSPEC || hint == p->transport)) &&
	    likely(t->local->addr && t->remote->addr)) {
		t->queue = p->mapped;
		t->transport = p->transport;
		return 0;
	}
	return plan_search(p, NULL, hint, t);
}

#endif /* TENT_ENGINE_PLAN_H */
