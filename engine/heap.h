/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap.h - a meldable heap whose links lie in what it orders. A coin decides which way a
 * walk goes, so that each operation takes as many steps as a balanced tree is deep,
 * whatever the order in which things come and go; no heap memory, no rank, no rebuild.
 */
#ifndef TENT_ENGINE_HEAP_H
#define TENT_ENGINE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct heap_link {
	struct heap_link *left, *right, *parent;
};

struct heap {
	struct heap_link *top;		/* before all others; NULL: empty */
	uint32_t coins;			/* anything; what nobody outside can tell */
	bool (*before)(const struct heap_link *a, const struct heap_link *b);
};

/* Behind those that it is not before. */
void heap_add(struct heap *h, struct heap_link *l);

/* From anywhere in it. What l is ordered by may have changed. */
void heap_remove(struct heap *h, struct heap_link *l);

#endif /* TENT_ENGINE_HEAP_H */
