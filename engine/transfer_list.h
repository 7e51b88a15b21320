/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_list.h - a FIFO of transfers with removal from the middle in constant
 * time, without memory of its own, for backends: it uses next, and backend_data for
 * the way back. A transfer is in at most one list. One thread.
 */
#ifndef TENT_ENGINE_TRANSFER_LIST_H
#define TENT_ENGINE_TRANSFER_LIST_H

#include <stddef.h>

#include "engine/backend.h"

struct transfer_list {
	struct transfer *first;
	struct transfer **end;	/* where the next one is linked in */
};

static inline void transfer_list_init(struct transfer_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static inline void transfer_list_push(struct transfer_list *l, struct transfer *t)
{
	t->next = NULL;
	t->backend_data = l->end;
	*l->end = t;
	l->end = &t->next;
}

/* t is in l; or anywhere but last in a list that the caller need not know. */
static inline void transfer_list_remove(struct transfer_list *l, struct transfer *t)
{
	struct transfer **link = t->backend_data;

	*link = t->next;
	if (t->next)
		t->next->backend_data = link;
	else
		l->end = link;
	t->next = NULL;
	t->backend_data = NULL;
}

static inline struct transfer *transfer_list_pop(struct transfer_list *l)
{
	struct transfer *t = l->first;

	if (t)
		transfer_list_remove(l, t);
	return t;
}

/* Empties it: the first of what it held, linked by next. */
static inline struct transfer *transfer_list_take(struct transfer_list *l)
{
	struct transfer *first = l->first;

	transfer_list_init(l);
	return first;
}

#endif /* TENT_ENGINE_TRANSFER_LIST_H */
