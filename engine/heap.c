/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - see heap.h. */
#include <stddef.h>

#include "engine/heap.h"

/* The high bits of a linear congruence last longest. */
static bool coin(struct heap *h)
{
	h->coins = h->coins * 1664525u + 1013904223u;
	return h->coins >> 31;
}

/* One heap of two; either may be NULL. Where it goes on is where the lower one goes. */
static struct heap_link *meld(struct heap *h, struct heap_link *a, struct heap_link *b)
{
	struct heap_link *top = NULL, *parent = NULL, **at = &top;

	while (a && b) {
		if (h->before(b, a)) {
			struct heap_link *other = a;

			a = b;
			b = other;
		}
		*at = a;
		a->parent = parent;
		parent = a;
		at = coin(h) ? &a->left : &a->right;
		a = *at;
	}
	*at = a ? a : b;
	if (*at)
		(*at)->parent = parent;
	return top;
}

void heap_add(struct heap *h, struct heap_link *l)
{
	*l = (struct heap_link){ NULL, NULL, NULL };
	h->top = h->top ? meld(h, h->top, l) : l;
}

void heap_remove(struct heap *h, struct heap_link *l)
{
	struct heap_link *below = l->left, *parent = l->parent;

	if (l->right)
		below = meld(h, l->left, l->right);
	if (below)
		below->parent = parent;
	if (!parent)
		h->top = below;
	else if (parent->left == l)
		parent->left = below;
	else
		parent->right = below;
}
