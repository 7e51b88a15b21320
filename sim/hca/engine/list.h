/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h - circular lists threaded through the objects that they hold.
 */
#ifndef TENT_SIM_HCA_LIST_H
#define TENT_SIM_HCA_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next, *prev;
};

#define list_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))

static inline void list_init(struct list *l)
{
	l->next = l;
	l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_append(struct list *l, struct list *node)
{
	node->next = l;
	node->prev = l->prev;
	l->prev->next = node;
	l->prev = node;
}

/* The node is a list of its own afterwards, so removing it twice does no harm. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

#endif /* TENT_SIM_HCA_LIST_H */
