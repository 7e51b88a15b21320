/* SPDX-License-Identifier: Apache-2.0 */
/* region_table.c - sorted tables of regions, by base, then end. */
#include <string.h>

#include "engine/control.h"
#include "engine/region_table.h"
#include "engine/round.h"

static struct region_table empty;	/* constant, but for its type */

struct region_table *region_table_empty(void)
{
	return &empty;
}

static struct region_table *table_alloc(uint32_t nr)
{
	return grace_alloc(sizeof(struct region_table) +
			   (size_t)nr * sizeof(struct region_entry));
}

/* The first entry that does not come before (base, end). */
static uint32_t lower_bound(const struct region_table *t, uint64_t base, uint64_t end)
{
	uint32_t low = 0, high = t->nr;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct region_entry *e = &t->entries[middle];

		if (e->base < base || (e->base == base && e->end < end))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void set_max_ends(struct region_table *t, uint32_t from)
{
	for (uint32_t i = from; i < t->nr; i++) {
		struct region_entry *e = &t->entries[i];
		uint64_t before = i ? t->entries[i - 1].max_end : 0;

		e->max_end = before > e->end ? before : e->end;
	}
}

struct region_table *region_table_with(const struct region_table *t, struct region *r)
{
	struct region_table *new = table_alloc(t->nr + 1);
	uint32_t at = lower_bound(t, r->base, r->end);

	if (!new)
		return NULL;
	new->nr = t->nr + 1;
	memcpy(new->entries, t->entries, at * sizeof(t->entries[0]));
	new->entries[at] = (struct region_entry){ .base = r->base, .end = r->end, .region = r };
	memcpy(new->entries + at + 1, t->entries + at, (t->nr - at) * sizeof(t->entries[0]));
	set_max_ends(new, at);
	return new;
}

struct region_table *region_table_without(const struct region_table *t,
					  bool (*leaves)(const struct region *r,
							 const void *context),
					  const void *context)
{
	struct region_table *new = table_alloc(t->nr);

	if (!new)
		return NULL;
	for (uint32_t i = 0; i < t->nr; i++) {
		if (!leaves(t->entries[i].region, context))
			new->entries[new->nr++] = t->entries[i];
	}
	set_max_ends(new, 0);
	return new;
}

struct region_table *region_table_of(struct region *const *regions, uint32_t nr)
{
	struct region_table *new = table_alloc(nr);

	if (!new)
		return NULL;
	new->nr = nr;
	for (uint32_t i = 0; i < nr; i++)
		new->entries[i] = (struct region_entry){
			.base = regions[i]->base, .end = regions[i]->end, .region = regions[i],
		};
	set_max_ends(new, 0);
	return new;
}

struct region *region_table_exact(const struct region_table *t, uint64_t base, uint64_t end)
{
	uint32_t at = lower_bound(t, base, end);

	if (at == t->nr || t->entries[at].base != base)
		return NULL;
	return !end || t->entries[at].end == end ? t->entries[at].region : NULL;
}

void region_table_publish(struct engine *e, struct segment *s, struct region_table *t)
{
	struct region_table *old = s->table;

	store_release(&s->table, t);	/* R7, pairs with A7 in segment_table() */
	if (old != &empty)
		grace_free(e, old);
	s->version++;
	links_segment_changed(e, s);
}
