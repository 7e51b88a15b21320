/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - linear probing, at most half full. */
#include <stdio.h>
#include <stdlib.h>

#include "perf/replay/map.h"

static size_t slot_of(const struct map *m, uint64_t key)
{
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15ull >> 20) & m->mask;

	while (m->entries[i].used && m->entries[i].key != key)
		i = (i + 1) & m->mask;
	return i;
}

static void allocate(struct map *m, size_t size)
{
	m->entries = calloc(size, sizeof(*m->entries));
	m->mask = size - 1;
	m->nr = 0;
	if (!m->entries) {
		fprintf(stderr, "out of memory for a table of %zu keys\n", size);
		exit(1);
	}
}

void map_init(struct map *m, size_t room)
{
	size_t size = 16;

	while (size < room * 2)
		size *= 2;
	allocate(m, size);
}

void map_free(struct map *m)
{
	free(m->entries);
	m->entries = NULL;
}

static void enlarge(struct map *m)
{
	struct map old = *m;

	allocate(m, (old.mask + 1) * 2);
	for (size_t i = 0; i <= old.mask; i++)
		if (old.entries[i].used)
			map_put(m, old.entries[i].key, old.entries[i].value);
	map_free(&old);
}

uint64_t *map_get(const struct map *m, uint64_t key)
{
	struct map_entry *e = &m->entries[slot_of(m, key)];

	return e->used ? &e->value : NULL;
}

void map_put(struct map *m, uint64_t key, uint64_t value)
{
	struct map_entry *e;

	if (m->nr * 2 > m->mask)
		enlarge(m);
	e = &m->entries[slot_of(m, key)];
	m->nr += !e->used;
	*e = (struct map_entry) { .key = key, .value = value, .used = true };
}
