/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - memory that only the engine's own process touches: records, staging.
 * Huge pages by libhugetlbfs where it is there and has some, plain mmap otherwise.
 * Memory that a client maps comes from ring/mem.h: it must be sealable.
 */
#ifndef TENT_ENGINE_PAGES_H
#define TENT_ENGINE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* What libhugetlbfs is asked for. A failed load names what was missing. */
#define HUGETLBFS_SYMBOLS(X)						\
	X(void *, get_huge_pages, (size_t len, unsigned long flags))	\
	X(void, free_huge_pages, (void *addr))

struct hugetlbfs_api {
#define HUGETLBFS_MEMBER(type, name, args) type (*name) args;
	HUGETLBFS_SYMBOLS(HUGETLBFS_MEMBER)
#undef HUGETLBFS_MEMBER
};

/* 0, or -ENOENT with *missing naming the library or the symbol. Never unloaded. */
int hugetlbfs_load(struct hugetlbfs_api *api, const char *library, const char **missing);

/* How a piece of memory came to be. reason and missing say why it is not huge. */
struct pages_info {
	size_t size;		/* bytes taken, whole pages */
	uint32_t kind;		/* enum tent_page_kind */
	int32_t reason;		/* errno that ruled huge pages out, or 0 */
	const char *missing;	/* library or symbol that was not there, or NULL */
	const struct hugetlbfs_api *api; /* frees it, when it is huge */
};

/* Zeroed memory of at least size bytes, not inherited by fork(), or NULL with
 * info->reason set. Any thread; may block. */
void *pages_alloc(size_t size, struct pages_info *info);
void pages_free(void *addr, const struct pages_info *info);

/* What all of pages_alloc() in this process holds now, and why the last one that is
 * not huge is not. */
struct pages_totals {
	uint64_t huge_bytes, base_bytes;
	int32_t reason;
	const char *missing;
};
void pages_totals_read(struct pages_totals *out);

/* pages_alloc() with a given table, NULL: none was loaded. For tests. */
void *pages_alloc_with(const struct hugetlbfs_api *api, size_t size, struct pages_info *info);

#endif /* TENT_ENGINE_PAGES_H */
