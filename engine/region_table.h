/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_table.h - makes the immutable tables of mem.h: each change is a new table.
 * They are allocated with grace_alloc(); an empty one is shared by all.
 */
#ifndef TENT_ENGINE_REGION_TABLE_H
#define TENT_ENGINE_REGION_TABLE_H

#include "engine/mem.h"

struct engine;

struct region_table *region_table_empty(void);
/* A new table: t and one more region. NULL: no memory. */
struct region_table *region_table_with(const struct region_table *t, struct region *r);
/* A new table: t without the regions that leaves() picks. NULL: no memory. */
struct region_table *region_table_without(const struct region_table *t,
					  bool (*leaves)(const struct region *r,
							 const void *context),
					  const void *context);
/* A new table of these, which are sorted by base, then end. NULL: no memory. */
struct region_table *region_table_of(struct region *const *regions, uint32_t nr);
/* A region of exactly [base, end); end 0: the first that begins at base. Or NULL. */
struct region *region_table_exact(const struct region_table *t, uint64_t base, uint64_t end);

/* R7: pollers find the new table from now on; the old one goes a grace period later. */
void region_table_publish(struct engine *e, struct segment *s, struct region_table *t);

#endif /* TENT_ENGINE_REGION_TABLE_H */
