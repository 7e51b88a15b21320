/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_hints.h - where requests went lately, so that most need no search.
 *
 * A range in a hint's window lies in the hint's region, as region_find() in that table
 * would say; the region is mapped here. Whoever asks may read and write it: a hint for
 * sources belongs to the owner of the table, a hint for targets is only made for a
 * region that everyone may read and write, because a poller's hints serve all clients.
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

struct region_hints {
	struct region_hint source[REGION_HINTS];
	struct region_hint target[REGION_HINTS];
	struct hint_spread spreads[HINT_SPREADS]; /* of tables used lately */
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

/* hints: those of the sources, or of the targets. */
static inline __attribute__((always_inline)) struct region_hint *
hint_of(struct region_hint *hints, uint64_t addr, int shift)
{
	uint64_t at = (addr >> shift) & (HINT_BYTES - sizeof(struct region_hint));

	return (struct region_hint *)((uint8_t *)hints + at);
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

#endif /* TENT_ENGINE_REGION_HINTS_H */
