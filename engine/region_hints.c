/* SPDX-License-Identifier: Apache-2.0 */
/* region_hints.c - what is done when a hint is missing. */
#include <string.h>

#include "engine/region_hints.h"

#define GAPS 15		/* looked at, whatever the size of the table */

/* The median distance between neighbours' bases, of those that are looked at: one far
 * region does not spoil it. */
static uint64_t median_gap(const struct region_table *t)
{
	uint32_t n = t->nr - 1 < GAPS ? t->nr - 1 : GAPS;
	uint64_t gaps[GAPS];

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = (uint32_t)((uint64_t)i * (t->nr - 1) / n), k = i;
		uint64_t gap = t->entries[at + 1].base - t->entries[at].base;

		for (; k > 0 && gaps[k - 1] > gap; k--)
			gaps[k] = gaps[k - 1];
		gaps[k] = gap;
	}
	return gaps[n / 2];
}

int hint_spread_make(struct hint_spread *spread, const struct region_table *t)
{
	uint64_t step = t->nr > 1 ? median_gap(t) :
			t->nr ? t->entries[0].end - t->entries[0].base : 0;
	int bits = 63 - __builtin_clzll(step | 1 << HINT_BITS);

	*spread = (struct hint_spread){ .table = t, .shift = bits - HINT_BITS };
	return spread->shift;
}

/* The window of entry at: as much of it as one can be sure of without the others. */
static void set_window(struct region_hint *hint, const struct region_table *t, uint32_t at)
{
	const struct region_entry *e = &t->entries[at];
	uint64_t end = at + 1 < t->nr && e[1].base < e->end ? e[1].base : e->end;

	*hint = (struct region_hint){ t, e->region, e->base, end - e->base };
}

struct region *hint_search(const struct region_table *t, uint64_t addr, uint64_t length,
			   struct region_hint *hint, bool is_source)
{
	struct region *found, *holder;
	uint32_t at;

	found = region_find_at(t, addr, length, &at);
	if (!found || !hint)
		return found;
	holder = t->entries[at].region;
	if ((holder->addr || holder->far) &&
	    (is_source || holder->permission == TENT_PERM_GLOBAL_READ_WRITE))
		set_window(hint, t, at);
	return found;
}

/* ---- ways -------------------------------------------------------------- */

static struct region_way *beside(struct region_hints *h, const struct region_way *w, uint32_t i)
{
	return &h->ways[(uint32_t)(w - h->ways) ^ i];
}

__attribute__((noinline)) struct region_way *
way_find_beside(struct region_hints *h, struct region_way *w, const struct region *local,
		const struct region *remote, uint64_t kind, uint32_t changes)
{
	for (uint32_t i = 1; i < REGION_WAYS_BESIDE; i++)
		if (way_is(beside(h, w, i), local, remote, kind, changes))
			return beside(h, w, i);
	return NULL;
}

void way_keep(struct region_hints *h, const struct region_way *new)
{
	struct region_way *w = way_at(h, new->local, new->remote, new->kind);
	uint32_t last = 0;

	while (last < REGION_WAYS_BESIDE - 1 && beside(h, w, last)->local &&
	       beside(h, w, last)->changes == new->changes)
		last++;
	for (; last; last--)
		*beside(h, w, last) = *beside(h, w, last - 1);
	*w = *new;
}
