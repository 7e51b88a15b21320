/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_hints.h - where requests went lately, so that most need no search.
 *
 * A range in a hint's window lies in the hint's region, as region_find() in that table
 * would say; the region is mapped here, or another engine's. Whoever asks may read and
 * write it: a hint for sources belongs to the owner of the table, a hint for targets is only
 * made for a region that everyone may read and write, because a poller's hints serve all
 * clients.
 *
 * Tables are immutable and each has its own address until it is freed, and none is freed
 * before every poller had a POLLER_DROP_REGION: whoever keeps hints empties them then.
 */
#ifndef TENT_ENGINE_REGION_HINTS_H
#define TENT_ENGINE_REGION_HINTS_H

#include "engine/hot.h"
#include "engine/mem.h"

#define REGION_HINTS 128

struct region_hint {
	const struct region_table *table;
	struct region *region;
	uint64_t base, size;	/* the window: no other region begins in it */
};

/* How the addresses of a table's regions are spread over the hints. */
#define HINT_SPREADS 16
struct hint_spread {
	const struct region_table *table;
	int shift;		/* address >> shift names a hint by its offset in bytes */
};

/* Whom the planner chose for requests of this kind between these two regions, of which the
 * remote one is another engine's. It stands while nothing has changed. */
struct region_way {
	const struct region *local, *remote;
	uint64_t kind;		/* its contract's serial, its place among kinds */
	struct backend_queue *queue;
	uint32_t changes;	/* planner_changes() of then */
	uint8_t pool;		/* as in a transfer; 0: none */
};
#define REGION_WAYS_LOG2 9
#define REGION_WAYS_BESIDE 4u	/* a batch whose ways are no more at one place finds them all */

struct region_hints {
	struct region_hint source[REGION_HINTS];
	struct region_hint target[REGION_HINTS]; /* mapped here */
	struct region_hint far[REGION_HINTS];	/* targets that are another engine's */
	struct hint_spread spreads[HINT_SPREADS]; /* of tables used lately */
	struct region_way ways[1u << REGION_WAYS_LOG2];
};

#define HINT_BYTES (sizeof(struct region_hint) * REGION_HINTS)
#define HINT_BITS 5	/* log2 of a hint's size */
_Static_assert((HINT_BYTES & (HINT_BYTES - 1)) == 0 &&
	       sizeof(struct region_hint) == 1 << HINT_BITS, "hint_of() masks");

/* Neighbours get hints of their own, and a region's parts few. Returns the shift. */
int hint_spread_make(struct hint_spread *spread, const struct region_table *t);

static inline int hint_shift(struct region_hints *h, const struct region_table *t)
{
	struct hint_spread *s = &h->spreads[(uintptr_t)t / 64 % HINT_SPREADS];

	return likely(s->table == t) ? s->shift : hint_spread_make(s, t);
}

/* Where each kind of hints begins. */
#define HINTS_SOURCE	offsetof(struct region_hints, source)
#define HINTS_TARGET	offsetof(struct region_hints, target)
#define HINTS_FAR	offsetof(struct region_hints, far)

static inline __attribute__((always_inline)) struct region_hint *
hint_of(struct region_hints *hints, size_t where, uint64_t addr, int shift)
{
	uint64_t at = (addr >> shift) & (HINT_BYTES - sizeof(struct region_hint));

	return (struct region_hint *)((uint8_t *)hints + where + at);
}

/* Does the hint know the range [addr, addr + last]? None knows an empty range, which
 * may lie between two windows: its last is UINT64_MAX. */
static inline __attribute__((always_inline)) bool
hint_holds(const struct region_hint *hint, const struct region_table *t, uint64_t addr,
	   uint64_t last)
{
	return likely(hint->table == t) && likely(last < hint->size) &&
	       likely(addr - hint->base < hint->size - last);
}

/* region_find(), which leaves a hint (NULL: none) where it may. is_source: the caller
 * owns the table. The range does not wrap. */
struct region *hint_search(const struct region_table *t, uint64_t addr, uint64_t length,
			   struct region_hint *hint, bool is_source);

/* The place of a way; others that belong there have those beside it. */
static inline struct region_way *way_at(struct region_hints *h, const struct region *local,
					const struct region *remote, uint64_t kind)
{
	uint64_t mixed = (uintptr_t)local * 0x9e3779b97f4a7c15ull ^
			 (uintptr_t)remote * 0xc2b2ae3d27d4eb4full ^
			 kind * 0x165667b19e3779f9ull;

	return &h->ways[mixed >> (64 - REGION_WAYS_LOG2)];
}

static inline bool way_is(const struct region_way *w, const struct region *local,
			  const struct region *remote, uint64_t kind, uint32_t changes)
{
	return w->local == local && w->remote == remote && w->kind == kind &&
	       w->changes == changes;
}

/* In the places beside its own. */
struct region_way *way_find_beside(struct region_hints *h, struct region_way *w,
				   const struct region *local, const struct region *remote,
				   uint64_t kind, uint32_t changes);

/* NULL: nobody has been asked. */
static inline struct region_way *way_find(struct region_hints *h, const struct region *local,
					  const struct region *remote, uint64_t kind,
					  uint32_t changes)
{
	struct region_way *w = way_at(h, local, remote, kind);

	if (likely(way_is(w, local, remote, kind, changes)))
		return w;
	return way_find_beside(h, w, local, remote, kind, changes);
}

/* The others move on; one that does not stand any more goes, else the last. */
void way_keep(struct region_hints *h, const struct region_way *new);

#endif /* TENT_ENGINE_REGION_HINTS_H */
