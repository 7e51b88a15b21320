/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.h - who moves a request. Planned for each request by itself: neighbours in
 * a batch may go different ways.
 */
#ifndef TENT_ENGINE_PLAN_H
#define TENT_ENGINE_PLAN_H

#include "engine/backend.h"

/*
 * Chooses t->queue: the first queue whose backend reaches both ends; a hint narrows
 * the choice to one transport and never widens it. 0, or the enum tent_rule that
 * stands in the way.
 */
uint16_t plan_transfer(struct backend_queue *const *queues, uint32_t nr_queues,
		       int32_t hint, struct transfer *t);

#endif /* TENT_ENGINE_PLAN_H */
